"""What passed the gate must cost no more than was claimed: added up by hand, and as the certificate recomputes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dperm.certificate.assumptions import DECLARED
from dperm.certificate.constants import Facts, is_known
from dperm.certificate.routes import route_of
from dperm.certificate.routes.evidence import Evidence
from dperm.certificate.statement import statement_of
from dperm.errors import DpermError
from dperm.mechanisms import Plan
from dperm.mechanisms.objective.family import ObjectivePlan
from dperm.mechanisms.output.family import DescentPlan
from dperm.privacy import Budget, GaussianNoise, GaussianProfile, rho_to_epsilon
from dperm.privacy.noise import GammaNormNoise
from dperm.privacy.noisy_min import NoisyMin
from dperm_audit.watch import Watch

ROUNDING = 1e-9  # relative slack when two prices or two distances are compared
ELSEWHERE = (
    0.5,
    2.0,
)  # a ledger prices a plan at other epsilons than its own: multiples of it that are tried


def price_faults(plan: Plan, run: Watch, recomputed: bool = True) -> Iterator[str]:
    """Why the events of a run cost more than the budget; nothing for a plan that claims none."""
    inner = plan.trained_by
    if inner.not_certified is not None or not inner.private:
        return
    if inner.profile is not None and _exceeds(inner.profile, plan.budget):
        yield "the profile of the plan exceeds the budget"
    yield from _branch_price(inner, run)
    yield from _added_up(inner, run, plan.budget)
    if recomputed:
        yield from _by_recomputation(plan, run)


def _exceeds(profile: GaussianProfile, budget: Budget) -> bool:
    return profile.delta(budget.epsilon) > budget.delta * (1 + ROUNDING)


def _added_up(plan: Plan, run: Watch, budget: Budget) -> Iterator[str]:
    """The events that no secret draw of rows amplifies, and that the price is the sum of."""
    if plan.hidden_noises > 0 or isinstance(plan, ObjectivePlan):
        return
    plain = [p.noise for p in run.events if p.kind != "hidden" and not p.rows_drawn]
    gaussians = [n.padded(n.sensitivity) / n.scale for n in plain if isinstance(n, GaussianNoise)]
    choices = [n.epsilon for n in plain if isinstance(n, NoisyMin)]
    gammas = [n.sensitivity / n.scale for n in plain if isinstance(n, GammaNormNoise)]
    epsilon = _epsilon(math.hypot(*gaussians), choices, gammas, budget.delta)
    if epsilon > budget.epsilon * (1 + 1e-6):
        yield f"the events cost epsilon = {epsilon:.6g}, the budget is {budget.epsilon:g}"


def _epsilon(mu: float, choices: list[float], gammas: list[float], delta: float) -> float:
    """What Gaussian releases, choices of bounded range and pure releases cost together."""
    if not choices and not gammas:
        return GaussianProfile.gaussian(mu).epsilon(delta) if mu > 0 else 0.0
    pure = math.inf if mu > 0 else sum(choices) + sum(gammas)
    rho = mu * mu / 2 + sum(e * e for e in choices) / 8 + sum(e * e for e in gammas) / 2
    return min(pure, rho_to_epsilon(rho, delta, "cks")) if delta > 0 else pure


def _branch_price(plan: Plan, run: Watch) -> Iterator[str]:
    """In every hidden branch the profile charges at least the branch's sensitivity over the noise that was added."""
    if plan.profile is None or plan.sensitivities is None or not isinstance(plan, DescentPlan):
        return
    noise = run.events[-1].noise if run.events else None
    charged = plan.profile.mu[:, 0]
    if isinstance(noise, GaussianNoise) and len(charged) == len(plan.sensitivities):
        needed = np.array([noise.padded(s) for s in plan.sensitivities]) / noise.scale
        if not (needed <= charged * (1 + ROUNDING)).all():
            yield "the noise is smaller than the one that the profile of the plan is for"


def has_recomputation(plan: Plan) -> bool:
    """Whether the certificate knows formulas of its own for this plan, and constants for its loss."""
    return route_of(plan.trained_by.mechanism) is not None and is_known(plan.problem.loss.name)


def _by_recomputation(plan: Plan, run: Watch) -> Iterator[str]:
    """Sensitivities by the certificate's own formulas and the price by its own accountant.

    The library's accountants and these share no code, so that a slip in one of them shows. The price that the plan
    gives to a ledger is held against it too, at other epsilons than the budget's.
    """
    route = route_of(plan.trained_by.mechanism)
    if route is None or not has_recomputation(plan):
        return
    assert run.outcome is not None
    budget = plan.budget
    statement = statement_of(plan, run.outcome, run.source, _targets(plan), None)
    try:
        evidence = Evidence(statement, Facts.of(statement))
        evidence.check_passages()
        price = route(evidence)
    except (DpermError, ValueError, LookupError, ArithmeticError) as error:
        yield f"independent recomputation: {str(error) or type(error).__name__}"
        return
    yield from (f"independent recomputation: {fault}" for fault in dict.fromkeys(evidence.faults[:3]))
    if evidence.faults:
        return
    if not price.meets(budget.epsilon, budget.delta):
        yield (
            f"independent recomputation: delta = {price.delta(budget.epsilon):.6g} at epsilon = {budget.epsilon:g}, "
            f"claimed is {budget.delta:g}"
        )
    cost = plan.cost
    for factor in ELSEWHERE:
        here = budget.epsilon * factor
        if price.delta(here) > cost.delta(here) * (1 + max(price.accuracy, 1e-6)) + 1e-15:
            yield (
                f"independent recomputation: delta = {price.delta(here):.6g} at epsilon = {here:g}, "
                f"a ledger is charged {cost.delta(here):.6g}"
            )


def _targets(plan: Plan) -> dict[str, Any]:
    if plan.problem.loss.labels == "real":
        return {"kind": "range", "low": -1.0, "high": 1.0, "origin": DECLARED}
    return {"kind": "classes", "count": max(plan.problem.loss.outputs, 2), "origin": DECLARED}
