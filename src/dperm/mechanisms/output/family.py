"""Output perturbation: train without noise, release the weights once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.mechanisms.base import Job, Mechanism, Outcome, Plan
from dperm.privacy import GaussianNoise, release_batch
from dperm.privacy.entropy import Entropy

if TYPE_CHECKING:
    from dperm.engine import Table


@dataclass(frozen=True)
class OutputMechanism(Mechanism):
    """Jobs on the same rows share one training; each then gets noise of its own at the gate."""

    family: ClassVar[str] = "output"

    def _run(self, jobs: Sequence[Job], table: Table, entropy: Entropy) -> list[Outcome]:
        plan_of = {job.model: job.plan for job in jobs}
        if any(job.plan.problem != plan_of[job.model].problem for job in jobs):
            raise InvalidInput(
                "jobs on the same rows share one training: they may differ in their budget alone."
            )
        models = sorted(plan_of)
        points, certified = self._train([plan_of[model] for model in models], table.select(models), entropy)
        column = {model: k for k, model in enumerate(models)}
        values = np.moveaxis(points[:, [column[job.model] for job in jobs]], 1, -1)
        noises = [job.plan.noise for job in jobs if isinstance(job.plan.noise, GaussianNoise)]
        flat = values.reshape(-1, len(jobs))
        released, records = release_batch(flat, noises, entropy, name=f"{self.name} weights")
        released = released.reshape(values.shape)
        return [
            Outcome(weights=released[..., k], records=(record,), certified=certified)
            for k, record in enumerate(records)
        ]

    @abstractmethod
    def _train(
        self, plans: Sequence[Plan], table: Table, entropy: Entropy
    ) -> tuple[NDArray[np.float64], bool]:
        """Weights before noise, one column per plan, and whether the arithmetic was the certified one."""


def weights_shape(n_columns: int, plans: Sequence[Plan]) -> tuple[int, ...]:
    """Shape of the weights of a batch: (p, K), or (p, K, C) for a loss with C outputs."""
    outputs = plans[0].problem.loss.outputs
    return (n_columns, len(plans)) if outputs == 1 else (n_columns, len(plans), outputs)
