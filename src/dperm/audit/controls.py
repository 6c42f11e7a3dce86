"""Mechanisms that are broken on purpose: what a replay or an audit must catch, or it is worth nothing.

Most are mistakes of published code. None is registered, and none must ever be used to train.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.audit.neighbours import Pair, cancelling_pair, outlier_pair
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
    Outcome,
    Output,
    OutputGD,
    Plan,
)
from dperm.mechanisms.minimiser import minimise
from dperm.mechanisms.output.descent import descend
from dperm.neighbours import Neighbours
from dperm.planning.pricing import price_branches
from dperm.planning.schedule import Schedule, branch_sensitivities
from dperm.privacy import Budget, GaussianNoise, ReleaseRecord, SeededEntropy, add_noise, release
from dperm.privacy.entropy import Entropy
from dperm.privacy.gamma_norm import uniforms
from dperm.privacy.noisy_min import NoisyMin
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Engine, Table

Matrix = NDArray[np.float64]

BUDGET = Budget(1.0, 1e-6)


@dataclass(frozen=True, eq=False, kw_only=True)
class Control:
    """A broken mechanism and what has to notice it.

    Parameters
    ----------
    name, what_is_wrong : str
    mechanism : Mechanism
        Not private as it claims. ``healthy`` is what it was broken from.
    problem : Problem
        On which the fault shows.
    caught_by : "replay" or "audit"
        Which of the two must find it. Where a replay must, ``check`` is its check that must fail.
    budget : Budget
    pair : Pair, optional
        Neighbours that show the fault, where the usual ones might not.
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


def _gaussian(plan: Plan) -> GaussianNoise:
    assert isinstance(plan.noise, GaussianNoise)
    return plan.noise


# The value that meets the noise moves further than declared.


class _NormalisedGradient(NSGD):
    """Divides the gradient of a batch by its own norm, with the sensitivity of the plain gradient."""

    name: ClassVar[str] = "broken: normalised gradient"

    def _train(self, plans: Sequence[Plan], table: Table, entropy: Entropy) -> tuple[Matrix, bool]:
        engine, schedule, problem = table.open(storage=np.float64), plans[0].detail, plans[0].problem
        edges = np.concatenate([[0], np.cumsum(schedule.batch_sizes)])
        weights = np.zeros((engine.n_columns, 1))
        for steps in schedule.step_sizes:
            for j, step in enumerate(steps):
                gradient = engine.gradient_sum(problem.loss, weights, [edges[j]], [edges[j + 1]])
                length = float(np.linalg.norm(gradient))
                weights = weights - step * (gradient / max(length, 1e-12) + problem.l2 * weights)
        return weights, True


@dataclass(frozen=True, kw_only=True)
class _FeaturesOnly(Problem):
    @property
    def row_norm(self) -> float:
        return self.x_norm


class _InterceptOutside(OutputGD):
    """Counts the norm of the features alone, though rows carry an intercept column."""

    name: ClassVar[str] = "broken: intercept outside the norm"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        narrow = _FeaturesOnly(**{part.name: getattr(problem, part.name) for part in fields(problem)})
        return replace(super()._plan(narrow, budget, mu_spent), problem=problem)


class _NoStepReset(RSGDAR):
    """Restarts its steps, but its sensitivity is that of steps that go on falling."""

    name: ClassVar[str] = "broken: sensitivity without the restarts"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        plan = super()._plan(problem, budget, mu_spent)
        run: Schedule = plan.detail
        falling = run.step_sizes[0] / np.arange(1, self.epochs + 1)[:, None]
        assumed = Schedule(batch_sizes=run.batch_sizes, step_sizes=falling, averaged=run.averaged)
        sensitivities = branch_sensitivities(assumed, problem)
        share = np.array(run.batch_sizes) / problem.n_rows
        noise, profile = price_branches(problem, budget, share, sensitivities, mu_spent)
        return replace(plan, noise=noise, profile=profile, sensitivities=sensitivities)


class _HalfGap(OutputGD):
    """Replaces a row, but takes the sensitivity of removing one."""

    name: ClassVar[str] = "broken: sensitivity of the other relation"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        removing = replace(problem, neighbours=Neighbours.ADD_REMOVE)
        return replace(super()._plan(removing, budget, mu_spent), problem=problem)


class _TreatedAsExact(Output):
    """Stops the solver early and takes the sensitivity of the exact minimiser."""

    name: ClassVar[str] = "broken: approximate minimiser taken as exact"

    def minimiser_sensitivity(self, problem: Problem) -> float:
        return problem.gradient_gap / (problem.n_rows * problem.l2)

    def _train(self, plans: Sequence[Plan], table: Table, entropy: Entropy) -> tuple[Matrix, bool]:
        problems = [plan.problem for plan in plans]
        limit = min(self.residual(problem) for problem in problems)
        return minimise(table.open(storage=np.float64), problems, limit).points, True


class _ClippedTooLate(DPGD):
    """Adds noise for clipped gradients to gradients that are clipped only afterwards."""

    name: ClassVar[str] = "broken: clipped after the noise"

    def _descend(self, plans: Sequence[Plan], engine: Engine, entropy: Entropy) -> list[Outcome]:
        (plan,), descent = plans, plans[0].detail.descent
        weights, records = np.zeros((engine.n_columns, 1)), []
        for step in descent.step_sizes:
            exact = engine.gradient_sum(plan.problem.loss, weights)[:, 0]
            noisy, record = release(exact, self._noise(plan, float(np.linalg.norm(weights))), entropy, "sum")
            records.append(record)
            noisy = noisy * min(1.0, descent.divisor * descent.clip / np.linalg.norm(noisy))
            weights = weights - step * (noisy[:, None] / descent.divisor + descent.l2 * weights)
        return [Outcome(weights=weights[:, 0], records=tuple(records), certified=True)]


class _ShiftedBatches(NSGD):
    """Claims add-remove in a public order, where a removed row moves all later ones to other batches."""

    name: ClassVar[str] = "broken: a removed row shifts the batches"
    relations: ClassVar[tuple[Neighbours, ...]] = tuple(Neighbours)


class _MiniBatchCorners(FrankWolfe):
    """Scores the corners on a few rows with noise for the mean over all of them."""

    name: ClassVar[str] = "broken: scores of a mini-batch, noise for all rows"

    def _walk(self, plans: Sequence[Plan], engine: Engine, entropy: Entropy) -> list[Outcome]:
        few = range(engine.n_rows // 4)
        mean = [replace(plan, problem=replace(plan.problem, n_rows=len(few))) for plan in plans]
        return super()._walk(mean, engine.sample([few] * len(plans)), entropy)


# Something besides what passed the gate comes out.


class _BoundFromRows(OutputGD):
    """Takes the bound on the rows from the rows, and the noise from that bound."""

    name: ClassVar[str] = "broken: bound taken from the rows"

    def _run(self, jobs: Sequence[Job], table: Table, entropy: Entropy) -> list[Outcome]:
        problem, budget = jobs[0].plan.problem, jobs[0].plan.budget
        found = float(np.linalg.norm(table.open(storage=np.float64)._rows.X, axis=1).max())
        narrow = replace(problem, x_norm=math.sqrt(found**2 - problem.intercept**2))
        noise = _gaussian(super()._plan(narrow, budget, 0.0))
        return super()._run(
            [replace(job, plan=replace(job.plan, noise=noise)) for job in jobs], table, entropy
        )


class _LengthOfExact(OutputGD):
    """Gives the released weights the length of the exact ones."""

    name: ClassVar[str] = "broken: scaled by an exact norm after the release"

    def _run(self, jobs: Sequence[Job], table: Table, entropy: Entropy) -> list[Outcome]:
        exact = np.linalg.norm(self._train([jobs[0].plan], table, entropy)[0])
        return [
            replace(found, weights=found.weights * (exact / np.linalg.norm(found.weights)))
            for found in super()._run(jobs, table, entropy)
        ]


class _OwnNoise(OutputGD):
    """Adds noise of the right size by itself, beside the gate."""

    name: ClassVar[str] = "broken: noise beside the gate"

    def _run(self, jobs: Sequence[Job], table: Table, entropy: Entropy) -> list[Outcome]:
        points, certified = self._train([jobs[0].plan], table, entropy)
        outcomes = []
        for job in jobs:
            noise = _gaussian(job.plan)
            _, record = release(np.zeros(noise.dimension), noise, SeededEntropy(0), "weights")
            drawn = np.random.default_rng().normal(scale=noise.scale, size=noise.dimension)
            outcomes.append(Outcome(weights=points[:, 0] + drawn, records=(record,), certified=certified))
        return outcomes


class _StopsByExactGradient(DPGD):
    """Stops when the exact gradient is small, so the number of releases tells of the rows."""

    name: ClassVar[str] = "broken: number of steps from the exact gradient"

    def _run(self, jobs: Sequence[Job], table: Table, entropy: Entropy) -> list[Outcome]:
        problem = jobs[0].plan.problem
        engine = table.open(storage=np.float64)
        exact = engine.gradient_sum(problem.loss, np.zeros((engine.n_columns, 1)))
        kept = 1 if np.linalg.norm(exact) < problem.gradient_bound else None
        shortened = []
        for job in jobs:
            spending = job.plan.detail
            steps = spending.descent.step_sizes[:kept]
            detail = replace(spending, descent=replace(spending.descent, step_sizes=steps, tail=1))
            shortened.append(replace(job, plan=replace(job.plan, detail=detail)))
        return super()._run(shortened, table, entropy)


# What was done costs more than was charged.


class _LastStepFree(DPGD):
    """Charges one step less than it takes."""

    name: ClassVar[str] = "broken: the last step is not charged"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        assert self.steps is not None
        charged = replace(self, steps=self.steps - 1)
        plan = super(_LastStepFree, charged)._plan(problem, budget, mu_spent)
        descent = plan.detail.descent
        longer = replace(descent, step_sizes=np.append(descent.step_sizes, descent.step_sizes[-1]))
        return replace(plan, mechanism=self, detail=replace(plan.detail, descent=longer))


class _AlwaysTheSameBatch(DPSGD):
    """Uses one public batch in every step and the price of fresh secret ones."""

    name: ClassVar[str] = "broken: a fixed batch priced as a Poisson sample"

    def _rows(self, engine: Engine, plans: Sequence[Plan], entropy: Entropy) -> Engine:
        return engine.sample([np.arange(round(self.rate * engine.n_rows))] * len(plans))


class _RoundingForgotten(DPSGD):
    """Prices steps by a Fourier transform whose rounding error, 2.5e-17 a step, it does not set aside."""

    name: ClassVar[str] = "broken: the error of the transform is not set aside"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        assert self.steps is not None
        more = Budget(budget.epsilon, budget.delta + self.steps * 2.5e-17)
        return replace(super()._plan(problem, more, mu_spent), budget=budget)


class _OrderNeverShuffled(RSGD):
    """Has the price of a secret order and keeps the public one."""

    name: ClassVar[str] = "broken: the secret order is never drawn"

    def _train(self, plans: Sequence[Plan], table: Table, entropy: Entropy) -> tuple[Matrix, bool]:
        return descend(table.open(storage=np.float32), plans), True


# The noise is not what was declared: to be seen in its distribution.


class _NoiseOverRootTwo(OutputGD):
    """Confuses a variance with its half: noise too small by the root of two."""

    name: ClassVar[str] = "broken: noise too small by the root of two"

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        plan = super()._plan(problem, budget, mu_spent)
        noise = _gaussian(plan)
        return replace(plan, noise=replace(noise, scale=noise.scale / math.sqrt(2)))


class _OneByteSeed(OutputGD):
    """Seeds the noise with one byte: 256 noise vectors in all."""

    name: ClassVar[str] = "broken: noise from a seed of one byte"

    def _run(self, jobs: Sequence[Job], table: Table, entropy: Entropy) -> list[Outcome]:
        points, certified = self._train([jobs[0].plan], table, entropy)
        outcomes = []
        for job in jobs:
            seed = entropy.generator.integers(256) if isinstance(entropy, SeededEntropy) else os.urandom(1)[0]
            weights, record = release(points[:, 0], _gaussian(job.plan), SeededEntropy(int(seed)), "weights")
            outcomes.append(Outcome(weights=weights, records=(record,), certified=certified))
        return outcomes


class _SharedNoise(OutputGD):
    """Draws noise for one class and adds it to all of them: differences of classes have none."""

    name: ClassVar[str] = "broken: all classes share their noise"

    def _run(self, jobs: Sequence[Job], table: Table, entropy: Entropy) -> list[Outcome]:
        points, certified = self._train([jobs[0].plan], table, entropy)
        exact = points[:, 0]
        outcomes = []
        for job in jobs:
            noise = replace(_gaussian(job.plan), dimension=len(exact))
            drawn = add_noise(np.zeros(len(exact)), noise, entropy)
            record = ReleaseRecord(
                name="weights",
                sensitivity=noise.sensitivity,
                padded_sensitivity=noise.padded(noise.sensitivity),
                noise_scale=noise.scale,
                grid_exponent=noise.grid_exponent,
                dimension=job.plan.problem.dimension,
                entropy=entropy.name,
                secure=entropy.secure,
            )
            outcomes.append(Outcome(weights=exact + drawn[:, None], records=(record,), certified=certified))
        return outcomes


class _WrongSign(FrankWolfe):
    """Adds one-sided noise to scores of which the smallest wins, where it must be subtracted."""

    name: ClassVar[str] = "broken: noisy minimum with the wrong sign"

    def _walk(self, plans: Sequence[Plan], engine: Engine, entropy: Entropy) -> list[Outcome]:
        weights = np.zeros((engine.n_columns, len(plans)))
        for t in range(1, plans[0].releases + 1):
            sums = engine.gradient_sum(plans[0].problem.loss, weights)
            share = 2 / (t + 2)
            for k, plan in enumerate(plans):
                assert isinstance(plan.noise, NoisyMin)
                towards = plan.detail * (sums[:, k] / plan.problem.n_rows + plan.problem.l2 * weights[:, k])
                scores = np.concatenate([towards, -towards])
                waiting = -plan.noise.scale * np.log(uniforms(len(scores), entropy))
                corner = int(np.argmin(scores + waiting))
                sign, j = (1, corner) if corner < len(towards) else (-1, corner - len(towards))
                weights[:, k] *= 1 - share
                weights[j, k] += share * sign * plan.detail
        return [Outcome(weights=weights[:, k].copy(), records=(), certified=True) for k in range(len(plans))]


def _problem(**changes: Any) -> Problem:
    facts: dict[str, Any] = {
        "loss": Linear(),
        "l2": 0.3,
        "x_norm": 1.0,
        "n_rows": 24,
        "n_features": 3,
        "intercept": 0.5,
    }
    return Problem(**{**facts, **changes})


def _controls() -> tuple[Control, ...]:
    linear, removing = _problem(), _problem(neighbours=Neighbours.ADD_REMOVE)
    classes, wide = _problem(loss=Softmax(3)), _problem(n_features=10, intercept=0.0, l2=0.0)
    sgd: dict[str, Any] = {"epochs": 3, "batch_size": 6}
    averaging: dict[str, Any] = {"epochs": 6, "average_every": 2, "batch_size": 6, "step_size": 1.0}
    made: list[Control] = []

    def add(broken: Any, healthy: Mechanism, problem: Problem, check: str, **more: Any) -> None:
        made.append(
            Control(
                name=broken.name.removeprefix("broken: "),
                what_is_wrong=(broken.__doc__ or "").strip(),
                mechanism=broken(**healthy.settings),
                healthy=healthy,
                problem=problem,
                caught_by="replay" if check else "audit",
                check=check,
                **more,
            )
        )

    descent = OutputGD(iterations=4, step_size=1.0)
    add(_NormalisedGradient, NSGD(**sgd), linear, "distance", pair=cancelling_pair(linear, 0, surplus=2))
    add(_InterceptOutside, descent, linear, "distance")
    add(_NoStepReset, RSGDAR(**averaging), linear, "distance")
    add(_HalfGap, descent, linear, "distance")
    add(
        _TreatedAsExact, Output(tolerance=3.0), linear, "distance", pair=cancelling_pair(linear, 0, surplus=4)
    )
    add(_ClippedTooLate, DPGD(steps=4, clip=0.2), linear, "distance")
    add(_ShiftedBatches, RSGD(**sgd), removing, "distance")
    add(_MiniBatchCorners, FrankWolfe(steps=4), linear, "distance", pair=cancelling_pair(linear, 0))
    add(_BoundFromRows, descent, linear, "noise", pair=outlier_pair(linear))
    add(_LengthOfExact, descent, linear, "outcome")
    add(_OwnNoise, descent, linear, "outcome")
    add(_StopsByExactGradient, DPGD(steps=4), linear, "passages", pair=cancelling_pair(linear, 0, surplus=2))
    add(_LastStepFree, DPGD(steps=4), linear, "price")
    add(_AlwaysTheSameBatch, DPSGD(steps=4, rate=0.5), linear, "price", budget=Budget(0.2, 1e-6))
    add(_RoundingForgotten, DPSGD(steps=40, rate=1.0), linear, "price", budget=Budget(1.0, 1e-15))
    add(_OrderNeverShuffled, RSGD(**sgd), linear, "price")
    add(_NoiseOverRootTwo, descent, linear, "")
    add(_OneByteSeed, descent, linear, "")
    add(_SharedNoise, descent, classes, "")
    add(_WrongSign, FrankWolfe(steps=1), wide, "", pair=cancelling_pair(wide, 0))
    return tuple(made)


CONTROLS: tuple[Control, ...] = _controls()
