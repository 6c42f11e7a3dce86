"""Noisy gradient descent on random batches: what the sampling mechanisms share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dperm.mechanisms.gradient.family import TRAJECTORY, Descent, GradientMechanism, GradientPlan
from dperm.planning.gaussian import shortfall
from dperm.planning.sampling import FixedSizeSampling, PoissonSampling
from dperm.planning.sensitivity import sum_error
from dperm.privacy import Budget, Gate, GaussianNoise, grid_exponent, padded
from dperm.privacy.cost import Cost
from dperm.privacy.events import FixedSizeSteps, Gaussian, PoissonSteps, PrivacyEvent
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Engine
    from dperm.engine.base.draws import Members

SECRET_BATCHES = "The random batches stay secret."


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledSteps:
    """Batches, their noise in units of what one row adds, and what is done with the released gradients."""

    descent: Descent
    sampling: PoissonSampling | FixedSizeSampling
    noise_multiplier: float


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledPlan(GradientPlan):
    """A descent on random batches."""

    steps: SampledSteps

    @property
    def sampling(self) -> PoissonSampling | FixedSizeSampling:
        return self.steps.sampling


@dataclass(frozen=True)
class SampledGradientMechanism(GradientMechanism):
    """One gradient sum over a fresh secret batch per step, divided by the public expected size of a batch."""

    def row_unit(self, problem: Problem, weight_norm: float = 0.0) -> float:
        """What one row adds to a computed sum at most: the unit of the noise multiplier, grid apart."""
        return self.row_bound(problem) + sum_error(problem, weight_norm)

    def sampled_noise(self, problem: Problem, steps: SampledSteps, weight_norm: float = 0.0) -> GaussianNoise:
        """Noise whose scale is the multiplier times the unit of one row, after rounding to the grid.

        In a batch of a fixed size a row that leaves makes room for another, so two rows differ under both relations.
        """
        unit, dimension = self.row_unit(problem, weight_norm), problem.dimension
        rows = 2 if isinstance(steps.sampling, FixedSizeSampling) else problem.neighbours.rows_changed
        sensitivity = rows * unit
        scale = steps.noise_multiplier * padded(unit, dimension, grid_exponent(sensitivity, dimension))
        return GaussianNoise(sensitivity=sensitivity, scale=scale, dimension=dimension)

    def steps_used(self, steps: SampledSteps) -> dict[str, object]:
        return {**self.settings_used(steps.descent), "noise_multiplier": steps.noise_multiplier}

    def sampled_plan(
        self,
        problem: Problem,
        budget: Budget,
        steps: SampledSteps,
        accountant: str,
        reached: float | None,
    ) -> SampledPlan:
        """The plan; ``reached`` is the exact epsilon of a noise that was not calibrated by the exact price."""
        short = reached is not None and reached > budget.epsilon
        return SampledPlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings=self.steps_used(steps),
            accountant=accountant,
            noise=self.sampled_noise(problem, steps),
            releases=len(steps.descent.step_sizes),
            assumptions=(TRAJECTORY, SECRET_BATCHES),
            not_certified=shortfall(reached, budget, "the paper's noise") if short and reached else None,
            descent=steps.descent,
            steps=steps,
        )

    def _cost(self, plan: SampledPlan) -> Cost | None:
        steps = plan.steps
        count, z = len(steps.descent.step_sizes), steps.noise_multiplier
        if isinstance(steps.sampling, PoissonSampling):
            sampled: PrivacyEvent = PoissonSteps(z, steps.sampling.rate, count, plan.problem.neighbours.value)
        else:
            sampled = FixedSizeSteps(z, steps.sampling.size, plan.problem.n_rows, count)
        first = plan.standardisation
        return Cost((sampled,) if first is None else (sampled, Gaussian(first.mu)))

    def _noise(self, plan: SampledPlan, weight_norm: float) -> GaussianNoise:
        return self.sampled_noise(plan.problem, plan.steps, weight_norm)

    def _batch(
        self, engine: Engine, members: Members | None, plans: Sequence[SampledPlan], gate: Gate
    ) -> Engine:
        draws = [plan.steps.sampling.batch(gate) for plan in plans]
        return engine.sample(draws if members is None else [members.drawn(draw) for draw in draws])
