"""Noisy SGD of which only the last iterate is seen (Feldman, Mironov, Talwar & Thakurta 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import NotCertified
from dperm.mechanisms.base import Job, Plan, alike, weights_shape
from dperm.mechanisms.clipped_loss import LossClippingMechanism
from dperm.mechanisms.output.family import PUBLIC_ORDER, SECRET_ORDER
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.rules import (
    MOST_ROWS,
    check_count,
    check_flag,
    check_positive,
    path_length,
    setting,
    within,
)
from dperm.planning.schedule import Schedule, default_step, split_rows
from dperm.privacy import (
    Budget,
    Gate,
    GaussianNoise,
    GaussianProfile,
    calibrate,
    gaussian_mu,
    grid_exponent,
)
from dperm.privacy.hidden_state import noisy_cyclic_mu
from dperm.privacy.noise import GRID_FRACTION, ROUNDING_ALLOWANCE
from dperm.privacy.renyi import calibrate_rdp
from dperm.problem import Problem
from dperm.typing import Floats
from dperm.unit import Neighbours

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows
    from dperm.engine.base.draws import OrderOfPersons


NOISE_MARGIN = 10.0
HIDDEN = "No iterate but the last is stored, shown or used to decide anything."


@dataclass(frozen=True, eq=False, kw_only=True)
class HiddenPlan(Plan):
    """A schedule whose every iterate is noised and then projected on a ball of this radius."""

    schedule: Schedule
    radius: float

    @property
    def secret_batches(self) -> tuple[int, ...]:
        secret = isinstance(self.mechanism, NoisySGD) and self.mechanism.secret_order
        return self.schedule.batch_sizes if secret else ()

    @property
    def hidden_noises(self) -> int:
        return int(self.schedule.step_sizes.size) - 1


@register
@dataclass(frozen=True)
class NoisySGD(LossClippingMechanism):
    """Passes over fixed batches with noise at every step, all of it hidden but the last iterate.

    Parameters
    ----------
    epochs : int, optional
        None goes on until the noise moves margins by about 10, at most 50 epochs.
    batch_size : int
    step_size : float, optional
        None is 8 over the squared norm of a row, or 2/L where that is less. At most 2/L.
    secret_order : bool
        Put the rows in a secret random order first. Then the batch of the differing row is hidden too.
    radius : float, optional
        Iterates are projected on this ball. None is a radius that noise practically never reaches.

    Guarantee
    ---------
    The last iterate meets the budget, float64 errors and the grid of the noise included
    (docs/proofs/noisy-sgd.md). Gradients are never clipped.
    """

    epochs: int | None = setting(None, check_count)
    batch_size: int = setting(4000, check_count, most=MOST_ROWS)
    step_size: float | None = setting(None, check_positive)
    secret_order: bool = setting(True, check_flag)
    radius: float | None = setting(None, check_positive)

    in_order: ClassVar[bool] = True
    name: ClassVar[str] = "noisy-sgd"
    family: ClassVar[str] = "gradient"
    title: ClassVar[str] = "noise at every step, only the last iterate is seen"
    source: ClassVar[str] = "Feldman, Mironov, Talwar & Thakurta (2018); Bok, Su & Altschuler (2024)"
    route: ClassVar[str] = "last-iterate"
    released: ClassVar[str] = "last iterate only"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"epochs": 2, "batch_size": 8}, share=0.7),  # one batch
        WorstCase(name="label, several hidden batches", settings={"batch_size": 2}),
    )

    def misfit(self, problem: Problem) -> str | None:
        public_batches = not self.secret_order and self.batch_size < problem.n_rows
        if public_batches and problem.neighbours is Neighbours.ADD_REMOVE:
            return "in a public order a removed row moves others between batches; use secret_order=True"
        return super().misfit(problem)

    def schedule(self, problem: Problem, budget: Budget) -> Schedule:
        sizes = split_rows(problem.n_rows, self.batch_size)
        step = self.step_size
        if step is None:
            step = min(2 * default_step(problem), 2 / problem.smoothness)
        updates = path_length(problem, gaussian_mu(budget), NOISE_MARGIN) / step
        epochs = within(updates / len(sizes), 1, 50) if self.epochs is None else self.epochs
        return Schedule(
            batch_sizes=sizes,
            step_sizes=np.full((epochs, len(sizes)), step),
            averaged=(False,) * epochs,
        )

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> HiddenPlan:
        budget.check_gaussian()
        schedule = self.schedule(problem, budget)
        schedule.check_steps(problem)
        radius = self.radius or self._far_away(problem, schedule, budget)
        steps = _Steps.of(problem, schedule, radius)
        sensitivity = steps.sensitivity()
        grid = math.ldexp(1.0, grid_exponent(sensitivity, problem.dimension))
        # A value and a pull are rounded to the grid in every step.
        rounding = steps.error + 2 * math.sqrt(problem.dimension) * grid
        diameter = math.inf if self.radius is None else 2 * radius * (1 + ROUNDING_ALLOWANCE)
        unit_noise = np.ones_like(schedule.step_sizes)
        reach = noisy_cyclic_mu(steps.contraction, steps.shift, unit_noise, diameter, rounding)
        reach = reach * (1 + ROUNDING_ALLOWANCE)
        share = np.array(schedule.batch_sizes) / problem.n_rows
        if not self.secret_order:
            share, reach = np.ones(1), reach.max(keepdims=True)

        def profile(scale: float) -> GaussianProfile:
            return GaussianProfile.mixture(share, reach / scale).compose_gaussian(mu_spent)

        start = float(reach.max()) / gaussian_mu(budget)
        tight = calibrate(profile, budget, start=start)
        scale = tight
        if self.accounting == "paper":
            scale = calibrate_rdp(np.ones(1), reach.max(keepdims=True), budget, "mironov")
        missed = profile(scale).delta(budget.epsilon) > budget.delta
        return HiddenPlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings={
                **self.settings,
                "epochs": len(schedule.averaged),
                "batches": len(schedule.batch_sizes),
                "batch_size": max(schedule.batch_sizes),
                "step_size": float(schedule.step_sizes.max()),
                "radius": radius,
            },
            accountant=(
                "hidden state, Rényi divergence of the worst batch, converted as in Mironov (2017)"
                if self.accounting == "paper"
                else "hidden state, exact Gaussian profile"
                + (", averaged over the hidden batch of the differing row" if self.secret_order else "")
            ),
            noise=GaussianNoise(sensitivity=sensitivity, scale=scale, dimension=problem.dimension),
            profile=profile(scale),
            sensitivities=reach,
            assumptions=(SECRET_ORDER if self.secret_order else PUBLIC_ORDER, HIDDEN),
            not_certified=f"the paper's noise scale {scale:.6g} is below the {tight:.6g} needed."
            if missed
            else None,
            schedule=schedule,
            radius=radius,
        )

    def _far_away(self, problem: Problem, schedule: Schedule, budget: Budget) -> float:
        """Where steps cannot lead, plus ten standard deviations more than noise adds on average."""
        reach = noisy_cyclic_mu(
            np.vectorize(problem.contraction)(schedule.step_sizes),
            schedule.step_sizes * problem.gradient_gap / np.array(schedule.batch_sizes),
            np.ones_like(schedule.step_sizes),
        )
        noise = float(reach.max()) / gaussian_mu(budget) * math.sqrt(schedule.step_sizes.size)
        walked = problem.gradient_bound * float(schedule.step_sizes.sum())
        return walked + noise * (math.sqrt(problem.dimension) + 10)

    def _run(self, jobs: Sequence[Job[HiddenPlan]], rows: Rows, gate: Gate) -> list[Floats]:
        own = rows.select([job.model for job in jobs])
        order = gate.order() if self.secret_order else None
        persons = None if rows.members is None else rows.members.ordered(order)
        engine = own.open(order if persons is None else persons, precise=len(jobs) == 1)
        weights: dict[int, Floats] = {}
        for columns in alike([job.plan.schedule.shape for job in jobs]):
            found = descend_hidden(
                engine.select(columns), [jobs[k].plan for k in columns], gate.part(columns), persons
            )
            weights.update(zip(columns, found, strict=True))
        return [weights[k] for k in range(len(jobs))]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Steps:
    """What every update does to the distance of two runs; arrays of shape (epochs, batches)."""

    contraction: Floats
    shift: Floats
    error: Floats

    @classmethod
    def of(cls, problem: Problem, schedule: Schedule, radius: float) -> _Steps:
        steps, sizes = schedule.step_sizes, np.array(schedule.batch_sizes)
        gradient = np.array([problem.gradient_error(size, 1.01 * radius) for size in sizes])
        # The update (descent.md, Lemma 6), then the projection and the rounding of noisy values to floats.
        update = 8 * (1.01 * radius + steps * problem.gradient_bound)
        projection = (problem.dimension + 16) * 1.01 * radius
        return cls(
            contraction=np.vectorize(problem.contraction)(steps),
            shift=steps * problem.gradient_gap / sizes,
            error=2 * (steps * gradient + UNIT_ROUNDOFF * (update + projection)),
        )

    def sensitivity(self) -> float:
        """How far apart two runs with the same noise can come, rounding to the grid included.

        The grid is at most 1e-7 of the sensitivity over the root of the dimension, so each update adds at most
        2e-7 of the sensitivity itself: solve for it.
        """
        distance, own, per_rounding = np.zeros(self.shift.shape[1]), self.shift, 0.0
        for epoch in range(len(own)):
            for batch in range(own.shape[1]):
                distance = self.contraction[epoch, batch] * distance + self.error[epoch, batch]
                distance[batch] += own[epoch, batch]
                per_rounding = self.contraction[epoch, batch] * per_rounding + 1
        left = 1 - 2 * GRID_FRACTION * per_rounding
        if left < 0.5:
            raise NotCertified(
                "so many steps round too often to the grid of the noise; use fewer epochs or larger batches."
            )
        return float(distance.max()) / left


def descend_hidden(
    engine: Engine, plans: Sequence[HiddenPlan], gate: Gate, order: OrderOfPersons | None = None
) -> list[Floats]:
    """Run plans of one shape side by side. Noise of all steps but the last stays in here. ``order`` is of persons."""
    loss = plans[0].problem.loss
    l2 = np.array([plan.problem.l2 for plan in plans])
    radius = np.array([plan.radius for plan in plans])
    noises = [plan.noise for plan in plans if isinstance(plan.noise, GaussianNoise)]
    sizes = np.array([plan.schedule.batch_sizes for plan in plans]).T
    batches = engine.batches(sizes) if order is None else order.batches(engine, sizes)
    steps = np.stack([plan.schedule.step_sizes for plan in plans], axis=-1)
    weights = np.zeros(weights_shape(engine.n_columns, plans))
    shape = np.moveaxis(weights, 1, -1).shape
    updates = [(epoch, batch) for epoch in range(len(steps)) for batch in range(len(batches))]
    for epoch, batch in updates:
        engine.descend(loss, weights, batches.only(batch), steps[epoch, batch : batch + 1], l2)
        if (epoch, batch) == updates[-1]:
            break
        flat = np.moveaxis(weights, 1, -1).reshape(-1, len(plans))
        flat = _project(gate.hide(flat, noises), radius)
        weights = np.ascontiguousarray(np.moveaxis(flat.reshape(shape), -1, 1))
    released = gate.release_weights(weights, noises, f"{NoisySGD.name} last iterate")
    return [np.ascontiguousarray(released[:, k]) for k in range(len(plans))]


def _project(points: Floats, radius: Floats) -> Floats:
    """The nearest point of each column's ball."""
    norms = np.sqrt(np.sum(points * points, axis=0))
    return np.asarray(points * (radius / np.maximum(norms, radius)))
