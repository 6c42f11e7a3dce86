"""SGD over fixed batches with noise on the result (Chen, Lee & Kifer 2019): RSGD-AR, RSGD and NSGD."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.mechanisms.output.family import DescentMechanism
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.rules import MOST_ROWS, check_count, check_positive, setting
from dperm.planning.schedule import Schedule, default_step, split_rows
from dperm.privacy import Budget
from dperm.privacy.renyi import calibrate_rdp
from dperm.problem import Problem
from dperm.typing import Floats, Integers
from dperm.unit import Neighbours


@dataclass(frozen=True)
class _BatchSGD(DescentMechanism):
    epochs: int = setting(20, check_count)
    batch_size: int = setting(4000, check_count, most=MOST_ROWS)
    step_size: float | None = setting(None, check_positive)

    source: ClassVar[str] = "Chen, Lee & Kifer (2019)"
    paper_accountant: ClassVar[str] = "Rényi divergence over the batches, converted as in Mironov (2017)"

    def _epochs_since_restart(self) -> Integers:
        """The epoch's number since the last restart, from 1: steps are the first step over this."""
        return np.arange(1, self.epochs + 1)

    def _averaged(self) -> tuple[bool, ...]:
        return (False,) * self.epochs

    def schedule(self, problem: Problem) -> Schedule:
        sizes = split_rows(problem.n_rows, self.batch_size)
        first = default_step(problem) if self.step_size is None else self.step_size
        steps = first / self._epochs_since_restart()
        return Schedule(
            batch_sizes=sizes,
            step_sizes=np.repeat(steps[:, None], len(sizes), axis=1),
            averaged=self._averaged(),
        )

    def paper_scale(self, problem: Problem, budget: Budget, share: Floats, sensitivities: Floats) -> float:
        return calibrate_rdp(share, sensitivities, budget, "mironov")


@register
@dataclass(frozen=True)
class NSGD(_BatchSGD):
    """SGD over the batches in their public order, step size ``step_size / epoch``."""

    name: ClassVar[str] = "nsgd"
    title: ClassVar[str] = "SGD in public order, noise on the result"
    permuted: ClassVar[bool] = False
    # Taking a row out of a public order moves all later rows to other places, and some to other batches.
    relations: ClassVar[tuple[Neighbours, ...]] = (Neighbours.REPLACE_ONE,)
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"epochs": 3, "batch_size": 4}, share=2.0),
    )


@register
@dataclass(frozen=True)
class RSGD(_BatchSGD):
    """NSGD after one secret random permutation of the rows."""

    name: ClassVar[str] = "rsgd"
    title: ClassVar[str] = "SGD in secret order, noise on the result"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (WorstCase(settings={"epochs": 3, "batch_size": 4}),)


@register
@dataclass(frozen=True)
class RSGDAR(_BatchSGD):
    """RSGD that every ``average_every`` epochs moves to the mean of its iterates and restarts its steps."""

    average_every: int = setting(10, check_count)

    name: ClassVar[str] = "rsgd-ar"
    title: ClassVar[str] = "SGD in secret order with averaging and restarts, noise on the result"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (WorstCase(settings={"batch_size": 4}),)

    def _epochs_since_restart(self) -> Integers:
        return np.arange(self.epochs) % self.average_every + 1

    def _averaged(self) -> tuple[bool, ...]:
        return tuple(epoch % self.average_every == 0 for epoch in range(1, self.epochs + 1))
