"""What one promise costs in noise under different ways of accounting. No data."""

from dataclasses import dataclass, replace

import numpy as np

from dperm.errors import DpermError, InvalidInput
from dperm.mechanisms import Mechanism, Plan
from dperm.mechanisms.output.family import DescentPlan
from dperm.planning.pricing import TIGHT, price_branches
from dperm.privacy import Budget, calibrate_rdp
from dperm.problem import Problem

RENYI_CKS = "Rényi divergence over the batches, converted as in Canonne, Kamath & Steinke (2020)"


@dataclass(frozen=True, kw_only=True)
class Price:
    """The noise that one way of accounting asks for; without one, ``reason`` says why."""

    accounting: str
    accountant: str
    sensitivity: float | None = None
    noise_scale: float | None = None
    ratio: float | None = None
    reason: str | None = None


def price(mechanism: Mechanism, problem: Problem, budget: Budget) -> tuple[Plan, list[Price]]:
    """The tight plan, and its noise scale beside the paper's and, for a secret order, two others.

    ``worst batch alone`` forgets that the batch of the differing row is hidden. ``Rényi + CKS`` is the
    paper's Rényi divergence with a later, better conversion. ``ratio`` is relative to the tight scale.
    """
    if not mechanism.private:
        raise InvalidInput(f"mechanism {mechanism.name!r} is a baseline without noise; choose a private one.")
    plan = replace(mechanism, accounting="tight").plan(problem, budget)
    sensitivity, scale = _noise(plan)

    def row(accounting: str, accountant: str, sensitivity: float, noise_scale: float) -> Price:
        return Price(
            accounting=accounting,
            accountant=accountant,
            sensitivity=sensitivity,
            noise_scale=noise_scale,
            ratio=noise_scale / scale,
        )

    prices = [row("tight", plan.accountant, sensitivity, scale)]
    if isinstance(plan, DescentPlan) and plan.secret_batches:
        alone, _ = price_branches(problem, budget, np.ones(1), np.array([sensitivity]))
        share = np.array(plan.secret_batches) / problem.n_rows
        cks = calibrate_rdp(share, np.asarray(plan.sensitivities), budget, "cks")
        prices.append(row("worst batch alone", TIGHT, sensitivity, alone.scale))
        prices.append(row("Rényi + CKS", RENYI_CKS, sensitivity, cks))
    try:
        paper = replace(mechanism, accounting="paper").plan(problem, budget)
    except DpermError as error:
        refused = Price(accounting="paper", accountant=mechanism.source, reason=str(error))
        return plan, [*prices, refused]
    formula = getattr(mechanism, "paper_sensitivity", None)
    papers = _noise(paper)[0] if formula is None else formula(problem)
    return plan, [*prices, row("paper", paper.accountant, papers, _noise(paper)[1])]


def _noise(plan: Plan) -> tuple[float, float]:
    if plan.noise is None:
        raise InvalidInput(f"mechanism {plan.mechanism.name!r} adds no noise of one scale.")
    return plan.noise.sensitivity, plan.noise.scale
