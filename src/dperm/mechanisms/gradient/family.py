"""Gradient perturbation: every gradient passes the gate, and all that follows is arithmetic on public numbers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dperm.mechanisms.base import Job, Mechanism, Plan, alike, tolerant, weights_shape
from dperm.planning.pricing import shortfall
from dperm.planning.rules import AUTO, check_count, check_positive, check_share, setting, within
from dperm.planning.sampling import FixedSizeSampling, PoissonSampling
from dperm.planning.sensitivity import SMALLEST_TERM, curvature, sum_error
from dperm.privacy import Budget, Gate, GaussianNoise, grid_exponent, padded
from dperm.privacy.cost import Cost
from dperm.privacy.events import FixedSizeSteps, Gaussian, PoissonSteps, PrivacyEvent
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows
    from dperm.engine.base.draws import Members


TRAJECTORY = "All noisy gradients together are priced, so every intermediate weight might be published."

# The public rule for what the user leaves open; docs/results/rules.md holds it against a grid on every table.
NOISE_MARGIN = 1.0  # by how much noise alone would move the margin of a row of full norm
MOST_STEPS, FEWEST_STEPS = 150, 5
CLIP, CLIP_OF_NUMBERS = 0.5, 0.35  # of the bound on a row's gradient


def check_clip(name: str, value: object) -> None:
    if not (isinstance(value, str) and value == AUTO):
        check_positive(name, value)


@dataclass(frozen=True, eq=False, kw_only=True)
class Descent:
    """How public gradients become weights; one step size per step, the mean of the last ``tail`` iterates.

    ``divisor`` is the public number that turns a noisy sum into a mean, ``radius`` the ball that weights are
    projected on.
    """

    step_sizes: Floats
    divisor: float
    l2: float
    momentum: float = 0.0
    tail: int = 1
    clip: float | None = None
    radius: float = math.inf


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientPlan(Plan):
    """A plan whose released gradients move weights along a descent."""

    descent: Descent


def row_bound(problem: Problem, clip: float | None) -> float:
    """Bound on the norm of what one row adds to a gradient sum, rounding apart."""
    return problem.gradient_bound if clip is None else min(clip, problem.gradient_bound)


def gap(problem: Problem, clip: float | None) -> float:
    """How far a gradient sum over all rows moves between neighbours, rounding apart."""
    return problem.neighbours.rows_changed * row_bound(problem, clip)


@dataclass(frozen=True)
class GradientMechanism(Mechanism):
    """Noisy gradient descent from zero for a batch of models side by side.

    A subclass chooses the rows of each step and the noise of their gradient sum. ``clip`` scales longer gradients of
    rows down to this norm. "auto" is half of the bound that follows from the loss and the declared norm of the rows,
    for numbers 0.35 of it, and none with the accounting of the paper; None never clips.
    """

    steps: int | None = setting(None, check_count)
    step_size: float | None = setting(None, check_positive)
    momentum: float = setting(0.5, check_share)
    clip: float | str | None = setting(AUTO, check_clip, optional=True)
    tail_average: float = setting(0.25, check_share, one=True)

    longest_step: ClassVar[float] = 4.0
    """Over 1 - momentum, in units of 1 / curvature; noisy gradients know no largest step."""
    family: ClassVar[str] = "gradient"
    released: ClassVar[str] = "noise at every step"

    def clip_norm(self, problem: Problem) -> float | None:
        """The norm to which the gradient of a row is scaled down; None where it is left as it is."""
        if not isinstance(self.clip, str):
            return self.clip
        norm = (CLIP_OF_NUMBERS if problem.loss.labels == "real" else CLIP) * problem.gradient_bound
        return norm if self.accounting == "tight" and norm >= SMALLEST_TERM else None

    def as_planned(self, plan: Plan) -> Self:
        clip: Any = plan.settings["clip"]
        return replace(super().as_planned(plan), clip=clip)

    def rule(self, problem: Problem, mu: float) -> tuple[int, float]:
        r"""Steps and step size, from public facts where the user gave none.

        T steps of size :math:`\eta` with noise of scale :math:`\sqrt T g/\mu` on a sum of gradients add noise of
        scale :math:`\eta T g/(n \mu)` to a weight, and move the margin of a row of norm r by r times that. The path
        :math:`\eta T` is as long as makes it ``NOISE_MARGIN``.
        """
        path = NOISE_MARGIN * problem.n_rows * mu / (gap(problem, self.clip_norm(problem)) * problem.row_norm)
        # A step beyond 1 / l2 would make the regulariser throw the weights back and forth.
        largest = min(self.longest_step / curvature(problem), 1 / problem.l2 if problem.l2 else math.inf)
        step = self.step_size or (1 - self.momentum) * largest
        reach = step / (1 - self.momentum)
        steps = self.steps or within(path / reach, FEWEST_STEPS, MOST_STEPS)
        return steps, step

    def descent(
        self, problem: Problem, step_sizes: Floats, divisor: float, radius: float = math.inf
    ) -> Descent:
        return Descent(
            step_sizes=step_sizes,
            divisor=divisor,
            l2=problem.l2,
            momentum=self.momentum,
            tail=max(1, round(self.tail_average * len(step_sizes))),
            clip=self.clip_norm(problem),
            radius=radius,
        )

    def settings_used(self, descent: Descent) -> dict[str, object]:
        """The settings with the rule's values filled in."""
        return {
            **self.settings,
            "clip": descent.clip,
            "steps": len(descent.step_sizes),
            "step_size": float(descent.step_sizes[0]),
            "l2_used": descent.l2,
        }

    @abstractmethod
    def _noise(self, plan: Any, weight_norm: float) -> GaussianNoise:
        """The noise of one gradient sum at public weights of this norm."""

    def _batch(self, engine: Engine, members: Members | None, plans: Sequence[Any], gate: Gate) -> Engine:
        """The rows of one step: all of them unless a subclass draws some; with ``members`` it draws persons."""
        return engine

    def _prepare(self, engine: Engine, plans: Sequence[Any], gate: Gate) -> Floats | None:
        """A part of every gradient sum that is released before the first step, exact and as released; or None."""
        return None

    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Floats]:
        engine = rows.select([job.model for job in jobs]).open(precise=not tolerant(jobs))
        weights: dict[int, Floats] = {}
        descents = [job.plan.descent for job in jobs]
        for columns in alike([(len(one.step_sizes), one.clip is None) for one in descents]):
            part = engine if len(columns) == len(jobs) else engine.select(columns)
            found = self._descend([jobs[k].plan for k in columns], part, rows.members, gate.part(columns))
            weights.update(zip(columns, found, strict=True))
        return [weights[k] for k in range(len(jobs))]

    def _descend(
        self, plans: Sequence[Any], engine: Engine, members: Members | None, gate: Gate
    ) -> list[Floats]:
        loss, descents = plans[0].problem.loss, [plan.descent for plan in plans]
        weights = np.zeros(weights_shape(engine.n_columns, plans))
        velocity, tail_sum = np.zeros_like(weights), np.zeros_like(weights)
        each = (slice(None),) + (None,) * (weights.ndim - 2)  # one number per model against the weights
        steps = np.array([descent.step_sizes for descent in descents]).T
        divisor, l2, momentum, tail = (
            np.array([getattr(descent, name) for descent in descents])
            for name in ("divisor", "l2", "momentum", "tail")
        )
        known = self._prepare(engine, plans, gate)
        clips = [descent.clip for descent in descents if descent.clip is not None]
        clip = clips if len(clips) == len(descents) else None
        for t, step in enumerate(steps):
            sums = self._batch(engine, members, plans, gate).gradient_sum(loss, weights, clip=clip)
            if known is not None:
                sums -= known[0]
            noises = [self._noise(plan, float(np.linalg.norm(weights[:, k]))) for k, plan in enumerate(plans)]
            noisy = gate.release_weights(sums, noises, f"{self.name} gradient")
            if known is not None:
                noisy += known[1]
            velocity = momentum[each] * velocity + noisy / divisor[each] + l2[each] * weights
            weights = weights - step[each] * velocity
            for k, descent in enumerate(descents):
                norm = float(np.linalg.norm(weights[:, k]))
                if norm > descent.radius:
                    weights[:, k] *= descent.radius / norm
            tail_sum += np.where(len(steps) - t <= tail, 1.0, 0.0)[each] * weights
        final = tail_sum / tail[each]
        return [np.ascontiguousarray(final[:, k]) for k in range(len(plans))]


SECRET_BATCHES = "The random batches stay secret."


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledPlan(GradientPlan):
    """A descent on random batches, with noise in units of what one row adds."""

    sampling: PoissonSampling | FixedSizeSampling
    noise_multiplier: float


@dataclass(frozen=True)
class SampledGradientMechanism(GradientMechanism):
    """One gradient sum over a fresh secret batch per step, divided by the public expected size of a batch."""

    def row_unit(self, problem: Problem, weight_norm: float = 0.0) -> float:
        """What one row adds to a computed sum at most: the unit of the noise multiplier, grid apart."""
        return row_bound(problem, self.clip_norm(problem)) + sum_error(problem, weight_norm)

    def sampled_noise(
        self,
        problem: Problem,
        sampling: PoissonSampling | FixedSizeSampling,
        noise_multiplier: float,
        weight_norm: float = 0.0,
    ) -> GaussianNoise:
        """Noise whose scale is the multiplier times the unit of one row, after rounding to the grid.

        In a batch of a fixed size a row that leaves makes room for another, so two rows differ under both relations.
        """
        unit, dimension = self.row_unit(problem, weight_norm), problem.dimension
        rows = 2 if isinstance(sampling, FixedSizeSampling) else problem.neighbours.rows_changed
        sensitivity = rows * unit
        scale = noise_multiplier * padded(unit, dimension, grid_exponent(sensitivity, dimension))
        return GaussianNoise(sensitivity=sensitivity, scale=scale, dimension=dimension)

    def sampled_plan(
        self,
        problem: Problem,
        budget: Budget,
        descent: Descent,
        sampling: PoissonSampling | FixedSizeSampling,
        noise_multiplier: float,
        accountant: str,
        reached: float | None,
        **used: object,
    ) -> SampledPlan:
        """The plan; ``reached`` is the exact epsilon of a noise that was not calibrated by the exact price."""
        short = reached is not None and reached > budget.epsilon
        return SampledPlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings={**self.settings_used(descent), "noise_multiplier": noise_multiplier, **used},
            accountant=accountant,
            noise=self.sampled_noise(problem, sampling, noise_multiplier),
            releases=len(descent.step_sizes),
            assumptions=(TRAJECTORY, SECRET_BATCHES),
            not_certified=shortfall(reached, budget, "the paper's noise") if short and reached else None,
            descent=descent,
            sampling=sampling,
            noise_multiplier=noise_multiplier,
        )

    def _cost(self, plan: SampledPlan) -> Cost | None:
        count, z, sampling = len(plan.descent.step_sizes), plan.noise_multiplier, plan.sampling
        if isinstance(sampling, PoissonSampling):
            sampled: PrivacyEvent = PoissonSteps(z, sampling.rate, count, plan.problem.neighbours.value)
        else:
            sampled = FixedSizeSteps(z, sampling.size, plan.problem.n_rows, count)
        first = plan.standardisation
        return Cost((sampled,) if first is None else (sampled, Gaussian(first.mu)))

    def _noise(self, plan: SampledPlan, weight_norm: float) -> GaussianNoise:
        return self.sampled_noise(plan.problem, plan.sampling, plan.noise_multiplier, weight_norm)

    def _batch(
        self, engine: Engine, members: Members | None, plans: Sequence[SampledPlan], gate: Gate
    ) -> Engine:
        draws = [plan.sampling.batch(gate) for plan in plans]
        return engine.sample(draws if members is None else [members.drawn(draw) for draw in draws])
