"""Output perturbation: train without noise, release the weights once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dperm.errors import InvalidInput
from dperm.mechanisms.base import Job, Plan, alike, weights_shape
from dperm.mechanisms.clipped_loss import LossClippingMechanism
from dperm.mechanisms.inference import WeightNoise, on_weights
from dperm.planning.pricing import TIGHT, TIGHT_MIXTURE, mu_left, price_branches
from dperm.planning.rules import NOISY_RESULT, against_descent_noise
from dperm.planning.schedule import Schedule, branch_sensitivities
from dperm.privacy import Budget, Gate, GaussianNoise
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows
    from dperm.engine.base.draws import OrderOfPersons


@dataclass(frozen=True)
class OutputMechanism(LossClippingMechanism):
    """Jobs with the same rows, problem and schedule share one training; each then gets noise of its own at the gate."""

    family: ClassVar[str] = "output"
    released: ClassVar[str] = "weights, once"

    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Floats]:
        plan_of = {
            (job.model, _training(job.plan)): job.plan for job in sorted(jobs, key=lambda job: job.model)
        }
        points = self._train(list(plan_of.values()), rows.select([model for model, _ in plan_of]), gate)
        column = {training: k for k, training in enumerate(plan_of)}
        noises = [job.plan.noise for job in jobs if isinstance(job.plan.noise, GaussianNoise)]
        trained = points[:, [column[job.model, _training(job.plan)] for job in jobs]]
        released = gate.release_weights(trained, noises, f"{self.name} weights")
        return [np.ascontiguousarray(released[:, k]) for k in range(len(jobs))]

    def weight_noise(self, problem: Problem, used: Mapping[str, Any], noise_scale: float) -> WeightNoise:
        return on_weights(noise_scale)

    @abstractmethod
    def _train(self, plans: Sequence[Any], rows: Rows, gate: Gate) -> Floats:
        """Weights before noise, one column per plan."""


def _training(plan: Plan) -> tuple[object, ...]:
    """What two plans must share to share their weights before noise."""
    schedule = plan.schedule if isinstance(plan, DescentPlan) else None
    return (plan.problem, *(() if schedule is None else (schedule.shape, schedule.step_sizes.tobytes())))


SECRET_ORDER = "The random order of the rows, the batches and every intermediate weight stay secret."
PUBLIC_ORDER = "The order of the rows says nothing of their content; every intermediate weight stays secret."


@dataclass(frozen=True, eq=False, kw_only=True)
class DescentPlan(Plan):
    """A plan that trains along a schedule."""

    schedule: Schedule

    @property
    def secret_batches(self) -> tuple[int, ...]:
        mechanism = self.mechanism
        secret = isinstance(mechanism, DescentMechanism) and mechanism.permuted
        return self.schedule.batch_sizes if secret else ()


@dataclass(frozen=True)
class DescentMechanism(OutputMechanism):
    """Batched gradient descent from zero along a schedule, rows in secret order if ``permuted``.

    A subclass is its schedule and its paper's price. The sensitivities include the rounding of the passes.
    """

    permuted: ClassVar[bool] = True
    in_order: ClassVar[bool] = True
    route: ClassVar[str] = "descent"
    paper_accountant: ClassVar[str]

    @abstractmethod
    def schedule(self, problem: Problem) -> Schedule:
        """The batches and step sizes, from public facts alone."""

    @abstractmethod
    def paper_scale(self, problem: Problem, budget: Budget, share: Floats, sensitivities: Floats) -> float:
        """The noise scale that the paper's own calculation gives."""

    def settled(self, problem: Problem, mu: float) -> Self:
        """The mechanism with every open setting filled in, by a public rule of problem and Gaussian parameter."""
        return self

    def as_planned(self, plan: Plan) -> Self:
        spent = 0.0 if plan.standardisation is None else plan.standardisation.mu
        return super().as_planned(plan).settled(plan.problem, mu_left(plan.budget, spent))

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> DescentPlan:
        budget.check_gaussian()
        settled = self.settled(problem, mu_left(budget, mu_spent))
        schedule = settled.schedule(problem)
        schedule.check_steps(problem)
        sensitivities = branch_sensitivities(schedule, problem)
        if self.permuted:
            share, branches = np.array(schedule.batch_sizes) / problem.n_rows, sensitivities
        else:
            share, branches = np.ones(1), sensitivities.max(keepdims=True)
        paper = partial(settled.paper_scale, problem, budget, share, branches)
        noise, profile = price_branches(
            problem, budget, share, branches, mu_spent, paper if self.accounting == "paper" else None
        )
        tight = TIGHT_MIXTURE if self.permuted else TIGHT
        return DescentPlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings={
                **settled.settings,
                "batches": len(schedule.batch_sizes),
                "batch_size": max(schedule.batch_sizes),
                "step_size": float(schedule.step_sizes.max()),
            },
            accountant=self.paper_accountant if self.accounting == "paper" else tight,
            noise=noise,
            profile=profile,
            sensitivities=sensitivities,
            assumptions=(SECRET_ORDER if self.permuted else PUBLIC_ORDER,),
            schedule=schedule,
        )

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        return against_descent_noise(problem, budget, NOISY_RESULT)

    def _train(self, plans: Sequence[DescentPlan], rows: Rows, gate: Gate) -> Floats:
        # Several models are an evaluation: they may be coarse, and are then not certified.
        order = gate.order() if self.permuted else None
        if rows.members is not None:
            return by_person(rows, rows.members.ordered(order), plans)
        engine = rows.open(order, precise=len(plans) == 1)
        weights = np.zeros(weights_shape(engine.n_columns, plans))
        for columns in alike([plan.schedule.shape for plan in plans]):
            part = engine if len(columns) == len(plans) else engine.select(columns)
            weights[:, columns] = descend(part, [plans[k] for k in columns])
        return weights


def by_person(rows: Rows, order: OrderOfPersons, plans: Sequence[DescentPlan]) -> Floats:
    """One model on batches of persons, each with all rows."""
    if len(plans) != 1:
        raise InvalidInput("rows of persons train one model at a time.")
    return descend(rows.open(order, precise=True), plans, order)


def descend(engine: Engine, plans: Sequence[DescentPlan], order: OrderOfPersons | None = None) -> Floats:
    """Run the schedules of all plans side by side; they have one shape and one loss. ``order`` is one of persons."""
    schedules = [plan.schedule for plan in plans]
    loss = plans[0].problem.loss
    l2 = np.array([plan.problem.l2 for plan in plans])
    sizes = np.array([schedule.batch_sizes for schedule in schedules]).T
    steps = np.stack([schedule.step_sizes for schedule in schedules], axis=-1)
    batches = engine.batches(sizes) if order is None else order.batches(engine, sizes)
    weights = np.zeros(weights_shape(engine.n_columns, plans))
    iterate_sum = np.zeros_like(weights)
    n_iterates = 0
    for epoch_steps, averaged in zip(steps, schedules[0].averaged, strict=True):
        engine.descend(loss, weights, batches, epoch_steps, l2, iterate_sum)
        n_iterates += len(batches)
        if averaged:
            weights = iterate_sum / n_iterates
            iterate_sum = np.zeros_like(weights)
            n_iterates = 0
    return weights
