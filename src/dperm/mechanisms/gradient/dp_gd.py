"""Full-batch gradient descent with noise on every gradient, priced as one Gaussian release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dperm.errors import InvalidInput, NotCertified
from dperm.losses import Logistic
from dperm.mechanisms.base import Plan
from dperm.mechanisms.gradient.family import TRAJECTORY, GradientMechanism, GradientPlan, gap, row_bound
from dperm.mechanisms.inference import WeightNoise, in_steps
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.pricing import TIGHT, gaussian_noise, gaussian_price, mu_left, shortfall
from dperm.planning.rules import AUTO, check_flag, check_share, setting
from dperm.planning.sensitivity import (
    SMALLEST_TERM,
    gradient_gap,
    label_statistic_gap,
    remainder_gap,
    sum_error,
    whole_sum_error,
)
from dperm.privacy import Budget, Gate, GaussianNoise
from dperm.privacy.textbook import yu_gd_noise
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Engine


@dataclass(frozen=True, eq=False, kw_only=True)
class DPGDPlan(GradientPlan):
    """With the Gaussian parameter of every step, and of the label statistic before them (0: none)."""

    step_mu: float
    statistic_mu: float = 0.0


@register
@dataclass(frozen=True)
class DPGD(GradientMechanism):
    """Noisy gradient descent over all rows.

    Parameters
    ----------
    steps, step_size : optional
        By default a public rule of the number of rows and coefficients, the budget and the loss.
    momentum : float
        Share of the last move that is repeated; a given ``step_size`` is not lowered for it.
    clip : float, "auto" or None
        Scale the gradient of each row down to this norm. It biases the gradient and lowers the noise. "auto" is half of
        the bound on a row's gradient (0.35 for numbers), and None with ``split``, for intervals and with the accounting
        of the paper; None never clips.
    tail_average : float
        Share of the iterates, the last ones, whose mean is released; 0 releases the last one.
    adaptive : bool
        Let the noise follow the norm of the current weights, which is public: logistic gradients lie closer
        together at small weights. No effect where gradients are clipped, with other losses and with the accounting of
        the paper.
    split : float
        Share of the budget, in mu squared, for the part of the logistic gradient that does not depend on
        the weights. It is released once; every step then queries the remainder alone.

    Guarantee
    ---------
    The parameters of all releases are fixed in advance, so that all noisy gradients together cost exactly one
    Gaussian release with the root of the sum of their squares (docs/proofs/dp-gd.md).
    """

    adaptive: bool = setting(True, check_flag)
    split: float = setting(0.0, check_share)

    name: ClassVar[str] = "dp-gd"
    title: ClassVar[str] = "full-batch gradient descent, noise on every gradient"
    source: ClassVar[str] = "Bassily, Smith & Thakurta (2014); Yu et al. (2020)"
    route: ClassVar[str] = "full-batches"
    no_intervals: ClassVar[str | None] = None
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"steps": 3}, share=0.7),
        WorstCase(
            name="label of a lone row, logistic loss",
            settings={"step_size": 1e-3, "clip": None},
            facts={"loss": Logistic()},
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.split > 0 and (self.clip not in (None, AUTO) or self.accounting == "paper"):
            raise InvalidInput("split belongs to unclipped gradients and accounting='tight'.")

    def misfit(self, problem: Problem) -> str | None:
        if self.split > 0 and type(problem.loss) is not Logistic:
            return f"only the logistic gradient can be split; set split=0 for the {problem.loss.name} loss"
        return super().misfit(problem)

    def misfit_of_intervals(self, problem: Problem) -> str | None:
        reason = super().misfit_of_intervals(problem)
        if reason is None and self.clip not in (None, AUTO):
            return "clipped gradients lead to other coefficients than those of the loss; set clip=None"
        return reason

    def whole_sums(self) -> bool:
        """Remainders are differences of sums: they may be so small that coarse sums would drown them."""
        coarse = not isinstance(self.clip, float | int) or self.clip >= SMALLEST_TERM
        return self.split == 0 and coarse

    def clip_norm(self, problem: Problem) -> float | None:
        return super().clip_norm(problem) if self.split == 0 else None

    def follows_weights(self, problem: Problem, clip: float | None) -> bool:
        """Whether the sensitivity of a step is that at its weights."""
        tight = clip is None and self.accounting == "tight"
        return self.adaptive and tight and type(problem.loss) is Logistic

    def _rounding(self, problem: Problem, clip: float | None, weight_norm: float = 0.0) -> float:
        if not self.whole_sums():
            return sum_error(problem, weight_norm)
        follows = self.follows_weights(problem, clip)
        return whole_sum_error(problem, weight_norm, clip, exact_margins=follows)

    def _plan_inferring(self, problem: Problem, budget: Budget) -> Plan:
        if self.clip is None:
            return super()._plan_inferring(problem, budget)
        self._check_intervals(problem)
        return replace(replace(self, clip=None)._plan_inferring(problem, budget), mechanism=self)

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> DPGDPlan:
        mu = mu_left(budget, mu_spent)
        steps, step_size = self.rule(problem, mu)
        descent = self.descent(problem, np.full(steps, step_size), problem.n_rows)
        clip = descent.clip
        largest = gap(problem, clip) + self._rounding(problem, clip)
        paper = self.accounting == "paper"
        if paper:
            printed = problem.n_rows * yu_gd_noise(row_bound(problem, clip), problem.n_rows, steps, budget)
            step_mu = gaussian_noise(largest, problem.dimension, 1.0).scale / printed
        else:
            step_mu = mu * math.sqrt((1 - self.split) / steps)
        statistic_mu = mu * math.sqrt(self.split)
        profile = gaussian_price(math.hypot(step_mu * math.sqrt(steps), statistic_mu), mu_spent)
        reason = None
        if profile.delta(budget.epsilon) > budget.delta:
            reason = shortfall(profile.epsilon(budget.delta), budget, "the noise")
            if not paper:
                raise NotCertified(reason)
        return DPGDPlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings=self.settings_used(descent),
            accountant="noise of Yu et al. (2020), checked exactly" if paper else TIGHT,
            noise=gaussian_noise(largest, problem.dimension, step_mu),
            releases=steps + (statistic_mu > 0),
            profile=profile,
            assumptions=(TRAJECTORY,),
            not_certified=reason,
            descent=descent,
            step_mu=step_mu,
            statistic_mu=statistic_mu,
        )

    def _noise(self, plan: DPGDPlan, weight_norm: float) -> GaussianNoise:
        problem, clip = plan.problem, plan.descent.clip
        rounding = self._rounding(problem, clip, weight_norm)
        if plan.statistic_mu > 0:  # the remainder is the difference of two computed sums
            return gaussian_noise(
                remainder_gap(problem, weight_norm) + 2 * rounding, problem.dimension, plan.step_mu
            )
        follows = self.follows_weights(problem, clip)
        apart = gradient_gap(problem, weight_norm) if follows else gap(problem, clip)
        return gaussian_noise(apart + rounding, problem.dimension, plan.step_mu)

    def weight_noise(
        self, problem: Problem, used: Mapping[str, Any], noise_scale: float
    ) -> WeightNoise | None:
        """At most that of a flat function; a split budget has noise that all steps share, which is not counted."""
        if self.split > 0:
            return None
        steps = used["steps"]
        tail = max(1, round(used["tail_average"] * steps))
        return in_steps(noise_scale / problem.n_rows, used["step_size"], steps, used["momentum"], tail)

    def _prepare(self, engine: Engine, plans: Sequence[DPGDPlan], gate: Gate) -> Floats | None:
        """The gradient sum at zero weights, exact and released, when the budget is split."""
        if self.split == 0:
            return None
        exact = engine.gradient_sum(plans[0].problem.loss, np.zeros((engine.n_columns, len(plans))))
        noises = [
            gaussian_noise(
                label_statistic_gap(plan.problem) + self._rounding(plan.problem, None),
                plan.problem.dimension,
                plan.statistic_mu,
            )
            for plan in plans
        ]
        public = gate.release_weights(exact, noises, f"{self.name} label statistic")
        return np.stack([exact, public])
