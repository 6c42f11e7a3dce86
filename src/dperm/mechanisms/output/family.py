"""Output perturbation: train without noise, release the weights once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms.base import Job, Mechanism
from dperm.mechanisms.weight_noise import WeightNoise, on_weights
from dperm.privacy import Gate, GaussianNoise
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Rows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class OutputMechanism(Mechanism):
    """Jobs on the same rows for the same problem share one training; each then gets noise of its own at the gate."""

    family: ClassVar[str] = "output"
    released: ClassVar[str] = "weights, once"

    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Vector]:
        plan_of = {(job.model, job.plan.problem): job.plan for job in sorted(jobs, key=lambda job: job.model)}
        points = self._train(list(plan_of.values()), rows.select([model for model, _ in plan_of]), gate)
        column = {training: k for k, training in enumerate(plan_of)}
        noises = [job.plan.noise for job in jobs if isinstance(job.plan.noise, GaussianNoise)]
        trained = points[:, [column[job.model, job.plan.problem] for job in jobs]]
        released = gate.release_weights(trained, noises, f"{self.name} weights")
        return [np.ascontiguousarray(released[:, k]) for k in range(len(jobs))]

    def weight_noise(self, problem: Problem, used: Mapping[str, Any], noise_scale: float) -> WeightNoise:
        return on_weights(noise_scale)

    @abstractmethod
    def _train(self, plans: Sequence[Any], rows: Rows, gate: Gate) -> Matrix:
        """Weights before noise, one column per plan."""
