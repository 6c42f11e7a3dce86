"""Gradient descent over batches with noise on the result: what the descent mechanisms share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms.base import Plan
from dperm.mechanisms.output.family import OutputMechanism, weights_shape
from dperm.planning.pricing import TIGHT, TIGHT_MIXTURE, price_branches
from dperm.planning.schedule import Schedule, branch_sensitivities
from dperm.privacy import Budget
from dperm.privacy.entropy import Entropy
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Engine, Table

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SECRET_ORDER = "The random order of the rows, the batches and every intermediate weight stay secret."
PUBLIC_ORDER = "The order of the rows says nothing of their content; every intermediate weight stays secret."


@dataclass(frozen=True)
class DescentMechanism(OutputMechanism):
    """Batched gradient descent from zero along a schedule, rows in secret order if ``permuted``.

    A subclass is its schedule and its paper's price. Rows are stored in float32 (rounding a row changes
    that row alone, so it costs no privacy); a single model is trained in float64 arithmetic, whose error
    the sensitivities include.
    """

    permuted: ClassVar[bool] = True
    paper_accountant: ClassVar[str]

    @abstractmethod
    def schedule(self, problem: Problem) -> Schedule:
        """The batches and step sizes, from public facts alone."""

    @abstractmethod
    def paper_scale(self, problem: Problem, budget: Budget, share: Vector, sensitivities: Vector) -> float:
        """The noise scale that the paper's own calculation gives."""

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        schedule = self.schedule(problem)
        schedule.check_steps(problem)
        sensitivities = branch_sensitivities(schedule, problem)
        if self.permuted:
            share, branches = np.array(schedule.batch_sizes) / problem.n_rows, sensitivities
        else:
            share, branches = np.ones(1), sensitivities.max(keepdims=True)
        paper = partial(self.paper_scale, problem, budget, share, branches)
        noise, profile = price_branches(
            problem, budget, share, branches, mu_spent, paper if self.accounting == "paper" else None
        )
        tight = TIGHT_MIXTURE if self.permuted else TIGHT
        return Plan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings={
                **self.settings,
                "batches": len(schedule.batch_sizes),
                "batch_size": max(schedule.batch_sizes),
                "step_size": float(schedule.step_sizes.max()),
            },
            accountant=self.paper_accountant if self.accounting == "paper" else tight,
            noise=noise,
            profile=profile,
            sensitivities=sensitivities,
            assumptions=(SECRET_ORDER if self.permuted else PUBLIC_ORDER,),
            detail=schedule,
        )

    def _train(self, plans: Sequence[Plan], table: Table, entropy: Entropy) -> tuple[Matrix, bool]:
        order = entropy.permutation(table.n_rows) if self.permuted else None
        engine = table.open(order=order, storage=np.float32)
        weights = np.zeros(weights_shape(engine.n_columns, plans))
        certified = True
        by_shape = sorted(range(len(plans)), key=lambda k: plans[k].detail.shape)
        for _, group in groupby(by_shape, key=lambda k: plans[k].detail.shape):
            columns = list(group)
            part = engine if len(columns) == len(plans) else engine.select(columns)
            weights[:, columns] = descend(part, [plans[k] for k in columns])
            certified &= part.arithmetic(len(columns)) == np.float64
        return weights, certified


def descend(engine: Engine, plans: Sequence[Plan]) -> Matrix:
    """Run the schedules of all plans side by side; they have one shape and one loss."""
    schedules: list[Schedule] = [plan.detail for plan in plans]
    loss = plans[0].problem.loss
    l2 = np.array([plan.problem.l2 for plan in plans])
    sizes = np.array([schedule.batch_sizes for schedule in schedules]).T
    steps = np.stack([schedule.step_sizes for schedule in schedules], axis=-1)
    edges = engine.edges(sizes)
    weights = np.zeros(weights_shape(engine.n_columns, plans))
    iterate_sum = np.zeros_like(weights)
    n_iterates = 0
    for epoch_steps, averaged in zip(steps, schedules[0].averaged, strict=True):
        engine.descend(loss, weights, edges, sizes, epoch_steps, l2, iterate_sum)
        n_iterates += len(sizes)
        if averaged:
            weights = iterate_sum / n_iterates
            iterate_sum = np.zeros_like(weights)
            n_iterates = 0
    return weights
