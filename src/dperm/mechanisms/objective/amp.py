"""Approximate minima perturbation (Iyengar et al. 2019), corrected (docs/proofs/amp.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dperm.mechanisms.objective.family import ObjectiveMechanism, ObjectivePlan
from dperm.mechanisms.objective.objective_kst import several_margins
from dperm.mechanisms.objective.profile import amp_split
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import NEWTON_JOBS, REMOVED, WorstCase
from dperm.planning.pricing import mu_left
from dperm.privacy import Budget, GaussianProfile
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
