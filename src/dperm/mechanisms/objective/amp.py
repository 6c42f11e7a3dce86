"""Approximate minima perturbation (Iyengar et al. 2019), corrected (docs/proofs/amp.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from dperm.mechanisms.objective.family import ObjectiveMechanism, ObjectivePlan
from dperm.mechanisms.objective.objective_kst import several_margins
from dperm.mechanisms.objective.profile import (
    UP,
    check_delta,
    check_one_margin,
    curvature_bound,
    vertices_with_offset,
)
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import NEWTON_JOBS, REMOVED, WorstCase
from dperm.planning.pricing import mu_left
from dperm.privacy import Budget, GaussianProfile
from dperm.privacy.search import smallest_safe
from dperm.problem import Problem

PUBLISHED = (
    "the published proof counts one computed minimiser where two may be off, so its output noise is half of what "
    "it needs; use accounting='tight'."
)


@register
@dataclass(frozen=True)
class AMP(ObjectiveMechanism):
    r"""The variant without hyper-parameters: fixed shares of epsilon and delta for each part.

    Parameters
    ----------
    tolerance : float, optional
        As in ``ObjectiveMechanism``; by default 1/n, the paper's :math:`1/n^2` for the mean.

    Guarantee
    ---------
    docs/proofs/amp.md: the distance of *two* computed minimisers, the loss's own smoothness and exact Gaussian
    prices. ``accounting="paper"`` is the published noise, for comparison and not certified.
    """

    name: ClassVar[str] = "amp"
    title: ClassVar[str] = "approximate minima perturbation"
    source: ClassVar[str] = "Iyengar, Near, Song, Thakkar, Thakurta & Wang (2019)"
    labels: ClassVar[tuple[str, ...]] = ("binary", "real")
    for_rows_alone: ClassVar[str | None] = (
        "its fixed shares of epsilon are for a gradient that runs along a line and a Hessian of rank one"
    )
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        # Its own tolerance leaves much noise on the weights of a small table.
        WorstCase(settings={"tolerance": 1e-4}, facts=REMOVED, share=0.3, jobs=NEWTON_JOBS),
        WorstCase(),
    )

    def misfit(self, problem: Problem) -> str | None:
        return super().misfit(problem) or several_margins(problem.loss)

    def _tolerance(self, problem: Problem) -> float:
        return 1 / problem.n_rows if self.tolerance is None else self.tolerance

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> ObjectivePlan:
        paper = self.accounting == "paper"
        split = amp_split(problem, _left(budget, mu_spent), published=paper)
        used = replace(problem, l2=max(problem.l2, split.strength / problem.n_rows))
        return self._gaussian_plan(
            problem,
            used,
            budget,
            split.scale,
            split.output_mu,
            mu_spent,
            "the paper's formulas" if paper else "exact profile, the paper's split",
            not_certified=PUBLISHED if paper else None,
        )


def _left(budget: Budget, mu_spent: float) -> Budget:
    """The same delta, at the epsilon that a Gaussian release beside leaves; the whole is checked exactly."""
    budget.check_gaussian()
    if mu_spent == 0:
        return budget
    left = GaussianProfile.gaussian(mu_left(budget, mu_spent)).epsilon(budget.delta)
    return Budget(left, budget.delta)


@dataclass(frozen=True, kw_only=True)
class AmpSplit:
    """How approximate minima perturbation divides a budget.

    The minimiser meets ``objective`` when the strength is at least ``strength`` and b has ``scale``:
    ``noise_epsilon`` of it pays for the noise, the rest for the Hessian. Noise on the computed minimiser of
    ``output_sensitivity(...) / output_mu`` meets ``output``.
    """

    objective: Budget
    noise_epsilon: float
    output: Budget
    strength: float
    scale: float
    output_mu: float


def amp_split(problem: Problem, budget: Budget, *, published: bool = False) -> AmpSplit:
    """The hyper-parameter-free split of Iyengar et al. (2019).

    ``published`` uses their formulas: they neglect that *two* computed minimisers are off, so that their
    output noise is half of what is needed, and (1 + sqrt(2 ln(1/delta))) / epsilon is no longer enough at
    large epsilon. Otherwise both noises come from exact profiles. The smoothness is the true one either way.
    """
    check_one_margin(problem)
    check_delta(budget)
    objective = Budget(0.99 * budget.epsilon, 0.99 * budget.delta)
    output = Budget(0.01 * budget.epsilon, 0.01 * budget.delta)
    fitted = min(0.88671 + 0.0186607 / budget.epsilon**0.372906, 0.99)
    noise_epsilon = objective.epsilon * max(fitted, 1 - 0.999 / objective.epsilon)
    if published:
        scale = problem.gradient_gap * _published_multiplier(Budget(noise_epsilon, objective.delta))
        output_mu = 2 / _published_multiplier(output)
    else:
        scale = _smallest_scale(
            lambda scale: vertices_with_offset(problem, scale, 0.0),
            Budget(noise_epsilon, objective.delta),
            start=problem.gradient_gap,
        )
        output_mu = 1 / _smallest_scale(lambda scale: GaussianProfile.gaussian(1 / scale), output, start=1.0)
    return AmpSplit(
        objective=objective,
        noise_epsilon=noise_epsilon,
        output=output,
        strength=2 * curvature_bound(problem) / (objective.epsilon - noise_epsilon) * UP,
        scale=scale,
        output_mu=output_mu,
    )


def _published_multiplier(budget: Budget) -> float:
    return (1 + math.sqrt(-2 * math.log(budget.delta))) / budget.epsilon


def _smallest_scale(
    profile_of_scale: Callable[[float], GaussianProfile], budget: Budget, start: float
) -> float:
    """``calibrate`` for the small parts of a budget, which may lie below the range users are held to."""
    target = math.log(budget.delta) - 1e-12
    return smallest_safe(lambda scale: profile_of_scale(scale).log_delta(budget.epsilon) - target, start)
