"""SGD over fixed batches with noise on the result (Chen, Lee & Kifer 2019): RSGD-AR, RSGD and NSGD."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from dperm.mechanisms.output.family import DescentMechanism
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.excess import Schedules, batch_size_for, steps_to_try
from dperm.planning.rules import MOST_ROWS, check_count, check_positive, setting
from dperm.planning.schedule import Schedule, split_rows
from dperm.privacy import Budget
from dperm.privacy.renyi import calibrate_rdp
from dperm.problem import Problem
from dperm.typing import Floats
from dperm.unit import Neighbours

EPOCHS, RESTARTS = (5, 10, 20, 40, 80, 160), (1, 2, 4, 10)
"""What is tried where it is left open: epochs, and how often they restart."""
MOST_UPDATES = 3200  # of a schedule by rule: small batches take few epochs, large ones many


@dataclass(frozen=True)
class _BatchSGD(DescentMechanism):
    """Of the settings that are left open those are taken for which ``planning/excess.py`` predicts the least excess."""

    epochs: int | None = setting(None, check_count)
    batch_size: int | None = setting(None, check_count, most=MOST_ROWS)
    step_size: float | None = setting(None, check_positive)

    source: ClassVar[str] = "Chen, Lee & Kifer (2019)"
    paper_accountant: ClassVar[str] = "Rényi divergence over the batches, converted as in Mironov (2017)"

    def settled(self, problem: Problem, mu: float) -> Self:
        batch = self.batch_size or batch_size_for(problem)
        batches = len(split_rows(problem.n_rows, batch))
        affordable = [epochs for epochs in EPOCHS if epochs * batches <= MOST_UPDATES]
        tried = [
            (step, epochs, every)
            for step in steps_to_try(problem, self.step_size)
            for epochs in ((self.epochs,) if self.epochs else affordable or EPOCHS[:1])
            for every in self._restarts(epochs)
        ]
        best = Schedules.of(tried, batches).best(problem, mu)
        return self._with(*tried[best], batch)

    def _restarts(self, epochs: int) -> tuple[int, ...]:
        """After how many epochs iterates may be averaged and steps restart; more than there are is never."""
        return (epochs + 1,)

    def _with(self, step_size: float, epochs: int, every: int, batch_size: int) -> Self:
        return replace(self, step_size=step_size, epochs=epochs, batch_size=batch_size)

    def schedule(self, problem: Problem) -> Schedule:
        """Of settled settings."""
        assert self.epochs is not None
        assert self.batch_size is not None
        assert self.step_size is not None
        sizes, (every, *_) = split_rows(problem.n_rows, self.batch_size), self._restarts(self.epochs)
        since = np.arange(self.epochs) % every + 1
        return Schedule(
            batch_sizes=sizes,
            step_sizes=np.repeat((self.step_size / since)[:, None], len(sizes), axis=1),
            averaged=tuple((since == every).tolist()),
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

    average_every: int | None = setting(None, check_count)

    name: ClassVar[str] = "rsgd-ar"
    title: ClassVar[str] = "SGD in secret order with averaging and restarts, noise on the result"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"batch_size": 4, "epochs": 20, "average_every": 10}),
    )

    def _restarts(self, epochs: int) -> tuple[int, ...]:
        if self.average_every is not None:
            return (self.average_every,)
        return (epochs + 1, *(epochs // restarts for restarts in RESTARTS if epochs % restarts == 0))

    def _with(self, step_size: float, epochs: int, every: int, batch_size: int) -> Self:
        return replace(super()._with(step_size, epochs, every, batch_size), average_every=every)
