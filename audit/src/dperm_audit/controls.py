"""Mechanisms that are broken on purpose, each with what must notice it: a replay or an audit is worth no more.

Most are mistakes of published code. None is registered, and none must ever be used to train.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.losses import Linear, Softmax
from dperm.mechanisms import (
    DPGD,
    DPSGD,
    NSGD,
    RSGD,
    RSGDAR,
    FrankWolfe,
    Job,
    Mechanism,
    Output,
    OutputGD,
    Plan,
)
from dperm.mechanisms.gradient.dp_gd import DPGDPlan
from dperm.mechanisms.gradient.family import SampledPlan
from dperm.mechanisms.gradient.frank_wolfe import CornersPlan
from dperm.mechanisms.minimiser import minimise
from dperm.mechanisms.output.family import DescentPlan, OutputMechanism, descend
from dperm.planning.pricing import price_branches
from dperm.planning.schedule import Schedule, branch_sensitivities
from dperm.privacy import Budget, Gate, GaussianNoise
from dperm.privacy.noise import uniforms
from dperm.privacy.secrets import LocalSample, cut_sample
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.neighbours import Pair, cancelling_pair, outlier_pair
from dperm_audit.replay_cases import plain

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows
    from dperm.engine.base.draws import Members

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def _gaussian(plan: Plan) -> GaussianNoise:
    assert isinstance(plan.noise, GaussianNoise)
    return plan.noise


def _exact(mechanism: OutputMechanism, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> Matrix:
    """Weights before noise, one column for each job; jobs on the same rows share a training."""
    plan_of = {job.model: job.plan for job in jobs}
    models = sorted(plan_of)
    points = mechanism._train([plan_of[model] for model in models], rows.select(models), gate)
    return points[:, [models.index(job.model) for job in jobs]]


# The value that meets the noise moves further than declared.


class NormalisedGradient(NSGD):
    """Divides the gradient of a batch by its own norm, with the sensitivity of the plain gradient."""

    name: ClassVar[str] = "broken: normalised gradient"

    def _train(self, plans: Sequence[DescentPlan], rows: Rows, gate: Gate) -> Matrix:
        engine, schedule, problem = rows.open(precise=True), plans[0].schedule, plans[0].problem
        batches = engine.batches(np.array([plan.schedule.batch_sizes for plan in plans]).T)
        weights = np.zeros((engine.n_columns, len(plans)))
        for steps in schedule.step_sizes:
            for j, step in enumerate(steps):
                gradient = engine.gradient_sum(problem.loss, weights, batch=batches.only(j))
                length = np.maximum(np.linalg.norm(gradient, axis=0), 1e-12)
                weights = weights - step * (gradient / length + problem.l2 * weights)
        return weights


@dataclass(frozen=True, kw_only=True)
class FeaturesOnly(Problem):
    @property
    def row_norm(self) -> float:
        return self.x_norm


class InterceptOutside(OutputGD):
    """Counts the norm of the features alone, though rows carry an intercept column."""

    name: ClassVar[str] = "broken: intercept outside the norm"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> DescentPlan:
        narrow = FeaturesOnly(**{part.name: getattr(problem, part.name) for part in fields(problem)})
        return replace(super()._plan(narrow, budget, mu_spent), problem=problem)


class NoStepReset(RSGDAR):
    """Restarts its steps, but its sensitivity is that of steps that go on falling."""

    name: ClassVar[str] = "broken: sensitivity without the restarts"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> DescentPlan:
        plan = super()._plan(problem, budget, mu_spent)
        run = plan.schedule
        falling = run.step_sizes[0] / np.arange(1, len(run.step_sizes) + 1)[:, None]
        assumed = Schedule(batch_sizes=run.batch_sizes, step_sizes=falling, averaged=run.averaged)
        sensitivities = branch_sensitivities(assumed, problem)
        share = np.array(run.batch_sizes) / problem.n_rows
        noise, profile = price_branches(problem, budget, share, sensitivities, mu_spent)
        return replace(plan, noise=noise, profile=profile, sensitivities=sensitivities)


class HalfGap(OutputGD):
    """Replaces a row, but takes the sensitivity of removing one."""

    name: ClassVar[str] = "broken: sensitivity of the other relation"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> DescentPlan:
        removing = replace(problem, neighbours=Neighbours.ADD_REMOVE)
        return replace(super()._plan(removing, budget, mu_spent), problem=problem)


class TreatedAsExact(Output):
    """Stops the solver early and takes the sensitivity of the exact minimiser."""

    name: ClassVar[str] = "broken: approximate minimiser taken as exact"

    def minimiser_sensitivity(self, problem: Problem) -> float:
        return problem.gradient_gap / (problem.n_rows * problem.l2)

    def _train(self, plans: Sequence[Plan], rows: Rows, gate: Gate) -> Matrix:
        problems = [plan.problem for plan in plans]
        limit = min(self.residual(problem) for problem in problems)
        return minimise(rows.open(precise=True), problems, limit).points


class ClippedTooLate(DPGD):
    """Adds noise for clipped gradients to gradients that are clipped only afterwards."""

    name: ClassVar[str] = "broken: clipped after the noise"

    def _descend(
        self, plans: Sequence[DPGDPlan], engine: Engine, members: Members | None, gate: Gate
    ) -> list[Vector]:
        descent = plans[0].descent
        assert descent.clip is not None
        weights = np.zeros((engine.n_columns, len(plans)))
        for step in descent.step_sizes:
            exact = engine.gradient_sum(plans[0].problem.loss, weights)
            noises = [
                self._noise(plan, float(np.linalg.norm(w))) for plan, w in zip(plans, weights.T, strict=True)
            ]
            noisy = gate.release(exact, noises, "sum")
            noisy *= np.minimum(1.0, descent.divisor * descent.clip / np.linalg.norm(noisy, axis=0))
            weights = weights - step * (noisy / descent.divisor + descent.l2 * weights)
        return list(weights.T.copy())


class ShiftedBatches(NSGD):
    """Claims add-remove in a public order, where a removed row moves all later ones to other batches."""

    name: ClassVar[str] = "broken: a removed row shifts the batches"
    relations: ClassVar[tuple[Neighbours, ...]] = tuple(Neighbours)


class MiniBatchVertices(FrankWolfe):
    """Scores the vertices on a few rows with noise for the mean over all of them."""

    name: ClassVar[str] = "broken: scores of a mini-batch, noise for all rows"

    def _walk(self, plans: Sequence[CornersPlan], engine: Engine, gate: Gate) -> list[Vector]:
        few = PublicBatch(engine.n_rows // 4)
        mean = [replace(plan, problem=replace(plan.problem, n_rows=few.size)) for plan in plans]
        return super()._walk(mean, engine.sample([few] * len(plans)), gate)


@dataclass(frozen=True)
class PublicBatch:
    """The first rows, which everybody knows."""

    size: int

    def positions(self, n_rows: int) -> NDArray[np.int64]:
        return np.arange(self.size)

    def split(self, counts: Sequence[int]) -> list[LocalSample]:
        return cut_sample(self.positions(sum(counts)), counts)


# Something besides what passed the gate comes out.


class BoundFromRows(OutputGD):
    """Takes the bound on the rows from the rows, and the noise from that bound."""

    name: ClassVar[str] = "broken: bound taken from the rows"

    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Vector]:
        problem, budget = jobs[0].plan.problem, jobs[0].plan.budget
        engine = rows.open(precise=True)
        found = float(np.linalg.norm(engine.margins(np.eye(engine.n_columns)), axis=1).max())
        narrow = replace(problem, x_norm=math.sqrt(found**2 - problem.intercept**2))
        noise = _gaussian(super()._plan(narrow, budget, 0.0))
        return super()._run([replace(job, plan=replace(job.plan, noise=noise)) for job in jobs], rows, gate)


class LengthOfExact(OutputGD):
    """Gives the released weights the length of the exact ones."""

    name: ClassVar[str] = "broken: scaled by an exact norm after the release"

    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Vector]:
        lengths = np.linalg.norm(_exact(self, jobs, rows, gate), axis=0)
        released = super()._run(jobs, rows, gate)
        return [w * (length / np.linalg.norm(w)) for w, length in zip(released, lengths, strict=True)]


class OwnNoise(OutputGD):
    """Adds noise of the right size by itself, beside the gate."""

    name: ClassVar[str] = "broken: noise beside the gate"

    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Vector]:
        points = _exact(self, jobs, rows, gate)
        noises = [_gaussian(job.plan) for job in jobs]
        gate.draw(noises, "weights")
        own = np.random.default_rng()
        return [points[:, k] + own.normal(scale=n.scale, size=n.dimension) for k, n in enumerate(noises)]


class StopsByExactGradient(DPGD):
    """Stops when the exact gradient is small, so the number of releases tells of the rows."""

    name: ClassVar[str] = "broken: number of steps from the exact gradient"

    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Vector]:
        problem = jobs[0].plan.problem
        engine = rows.open(precise=True)
        exact = engine.select([0]).gradient_sum(problem.loss, np.zeros((engine.n_columns, 1)))
        kept = 1 if np.linalg.norm(exact) < problem.gradient_bound else None
        shortened = []
        for job in jobs:
            descent = job.plan.descent
            shorter = replace(descent, step_sizes=descent.step_sizes[:kept], tail=1)
            shortened.append(replace(job, plan=replace(job.plan, descent=shorter)))
        return super()._run(shortened, rows, gate)


# What was done costs more than was charged.


class LastStepFree(DPGD):
    """Charges one step less than it takes."""

    name: ClassVar[str] = "broken: the last step is not charged"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> DPGDPlan:
        assert self.steps is not None
        charged = replace(self, steps=self.steps - 1)
        plan = super(LastStepFree, charged)._plan(problem, budget, mu_spent)
        descent = plan.descent
        longer = replace(descent, step_sizes=np.append(descent.step_sizes, descent.step_sizes[-1]))
        return replace(plan, mechanism=self, descent=longer)


class AlwaysTheSameBatch(DPSGD):
    """Uses one public batch in every step and the price of fresh secret ones."""

    name: ClassVar[str] = "broken: a fixed batch priced as a Poisson sample"

    def _batch(
        self, engine: Engine, members: Members | None, plans: Sequence[SampledPlan], gate: Gate
    ) -> Engine:
        return engine.sample([PublicBatch(round(self.rate * engine.n_rows))] * len(plans))


class RoundingForgotten(DPSGD):
    """Prices steps by a Fourier transform whose rounding error, 2.5e-17 a step, it does not set aside."""

    name: ClassVar[str] = "broken: the error of the transform is not set aside"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> SampledPlan:
        assert self.steps is not None
        more = Budget(budget.epsilon, budget.delta + self.steps * 2.5e-17)
        return replace(super()._plan(problem, more, mu_spent), budget=budget)


class OrderNeverShuffled(RSGD):
    """Has the price of a secret order and keeps the public one."""

    name: ClassVar[str] = "broken: the secret order is never drawn"

    def _train(self, plans: Sequence[DescentPlan], rows: Rows, gate: Gate) -> Matrix:
        return descend(rows.open(), plans)


# The noise is not what was declared: to be seen in its distribution.


class NoiseOverRootTwo(OutputGD):
    """Confuses a variance with its half: noise too small by the root of two."""

    name: ClassVar[str] = "broken: noise too small by the root of two"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> DescentPlan:
        plan = super()._plan(problem, budget, mu_spent)
        noise = _gaussian(plan)
        return replace(plan, noise=replace(noise, scale=noise.scale / math.sqrt(2)))


class OneByteSeed(OutputGD):
    """Seeds the noise with one byte: 256 noise vectors in all."""

    name: ClassVar[str] = "broken: noise from a seed of one byte"

    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Vector]:
        points = _exact(self, jobs, rows, gate)
        noises = [_gaussian(job.plan) for job in jobs]
        gate.draw(noises, "weights")
        return [
            Gate.seeded(gate.integer(1) % 256).release_one(points[:, k], noise, "weights")
            for k, noise in enumerate(noises)
        ]


class SharedNoise(OutputGD):
    """Draws noise for one class and adds it to all of them: differences of classes have none."""

    name: ClassVar[str] = "broken: all classes share their noise"

    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Vector]:
        exact = _exact(self, jobs, rows, gate)
        drawn = gate.draw([replace(_gaussian(job.plan), dimension=len(exact)) for job in jobs], "weights")
        return [exact[:, k] + drawn[:, [k]] for k in range(len(jobs))]


class WrongSign(FrankWolfe):
    """Adds one-sided noise to scores of which the smallest wins, where it must be subtracted."""

    name: ClassVar[str] = "broken: noisy minimum with the wrong sign"

    def _walk(self, plans: Sequence[CornersPlan], engine: Engine, gate: Gate) -> list[Vector]:
        weights = np.zeros((engine.n_columns, len(plans)))
        for t in range(1, plans[0].releases + 1):
            sums = engine.gradient_sum(plans[0].problem.loss, weights)
            share = 2 / (t + 2)
            for k, plan in enumerate(plans):
                towards = plan.radius * (sums[:, k] / plan.problem.n_rows + plan.problem.l2 * weights[:, k])
                scores = np.concatenate([towards, -towards])
                waiting = -plan.choice.scale * np.log(uniforms(len(scores), gate.source))
                vertex = int(np.argmin(scores + waiting))
                sign, j = (1, vertex) if vertex < len(towards) else (-1, vertex - len(towards))
                weights[:, k] *= 1 - share
                weights[j, k] += share * sign * plan.radius
        return [weights[:, k].copy() for k in range(len(plans))]


BUDGET = Budget(1.0, 1e-6)


@dataclass(frozen=True, eq=False, kw_only=True)
class Control:
    """A mechanism that is not private as it claims, ``healthy``, what it was broken from, and what has to notice it.

    ``caught_by`` is "replay" or "audit"; where a replay must catch it, ``check`` is its check that must fail. The fault
    shows on ``problem``, and between the neighbours of ``pair`` where the usual ones might not show it.
    """

    name: str
    what_is_wrong: str
    mechanism: Mechanism
    healthy: Mechanism
    problem: Problem
    caught_by: str
    check: str = ""
    budget: Budget = BUDGET
    pair: Pair | None = field(default=None, repr=False)

    @classmethod
    def of(cls, kind: Any, healthy: Mechanism, problem: Problem, check: str = "", **more: Any) -> Control:
        """By a class that says of itself what is wrong. Without a check the audit must catch it."""
        healthy = plain(healthy)
        return cls(
            name=kind.name.removeprefix("broken: "),
            what_is_wrong=(kind.__doc__ or "").strip(),
            mechanism=kind(**healthy.settings),
            healthy=healthy,
            problem=problem,
            caught_by="replay" if check else "audit",
            check=check,
            **more,
        )


def _controls() -> tuple[Control, ...]:
    linear = Problem(loss=Linear(), l2=0.3, x_norm=1.0, n_rows=24, n_features=3, intercept=0.5)
    removing = replace(linear, neighbours=Neighbours.ADD_REMOVE)
    classes, wide = replace(linear, loss=Softmax(3)), replace(linear, n_features=10, intercept=0.0, l2=0.0)
    cancelling, two, four = (cancelling_pair(linear, 0, surplus) for surplus in (0, 2, 4))
    sgd: dict[str, Any] = {"epochs": 3, "batch_size": 6}
    of = Control.of
    averaging = RSGDAR(epochs=6, average_every=2, batch_size=6, step_size=1.0)
    descent, steps = OutputGD(iterations=4, step_size=1.0), DPGD(steps=4)
    return (
        of(NormalisedGradient, NSGD(**sgd), linear, "distance", pair=two),
        of(InterceptOutside, descent, linear, "distance"),
        of(NoStepReset, averaging, linear, "distance"),
        of(HalfGap, descent, linear, "distance"),
        of(TreatedAsExact, Output(tolerance=3.0), linear, "distance", pair=four),
        of(ClippedTooLate, DPGD(steps=4, clip=0.2), linear, "distance"),
        of(ShiftedBatches, RSGD(**sgd), removing, "distance"),
        of(MiniBatchVertices, FrankWolfe(steps=4), linear, "distance", pair=cancelling),
        of(BoundFromRows, descent, linear, "noise", pair=outlier_pair(linear)),
        of(LengthOfExact, descent, linear, "outcome"),
        of(OwnNoise, descent, linear, "outcome"),
        of(StopsByExactGradient, steps, linear, "events", pair=two),
        of(LastStepFree, steps, linear, "price"),
        of(AlwaysTheSameBatch, DPSGD(steps=4, rate=0.5), linear, "price", budget=Budget(0.2, 1e-6)),
        of(RoundingForgotten, DPSGD(steps=40, rate=1.0), linear, "price", budget=Budget(1.0, 1e-15)),
        of(OrderNeverShuffled, RSGD(**sgd), linear, "price"),
        of(NoiseOverRootTwo, descent, linear),
        of(OneByteSeed, descent, linear),
        of(SharedNoise, descent, classes),
        of(WrongSign, FrankWolfe(steps=1), wide, pair=cancelling_pair(wide, 0)),
    )


CONTROLS: tuple[Control, ...] = _controls()
