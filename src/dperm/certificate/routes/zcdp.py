"""Releases and private choices that share a purse: docs/proofs/dp-agd.md and docs/proofs/frank-wolfe.md."""

from __future__ import annotations

import math

from dperm.certificate.accountant import Price, pure_price, zcdp_price
from dperm.certificate.facts import U
from dperm.certificate.routes.evidence import Evidence, Release

HOW = "zero-concentrated costs added up, converted at the best Rényi order"


def purse(evidence: Evidence) -> Price:
    facts, used = evidence.facts, evidence.used
    gradients, choices = evidence.named("gradient", "step")
    cost, growth = gradients[0].mu ** 2 / 2, used["growth"]
    costs = [cost] + [cost * growth * (1 + growth) ** k for k in range(500)]
    expected = [facts.gap + error for error in facts.sum_errors()]
    for release in gradients:
        evidence.equal("releases, dimension", release.dimension, facts.dimension)
        evidence.one_of("releases, sensitivity", release.sensitivity, expected)
        evidence.one_of("releases, cost of a gradient", release.mu**2 / 2, costs)
    # a step is at most largest_step over r long, and shrinks; rounding of scores comes on top
    longest = facts.gap / 2 * used["largest_step"] / facts.r
    share = used["choice_share"] / (1 - used["choice_share"])
    share /= 4 if used["accounting"] == "paper" else 1  # the paper's price of a choice is four times ours
    for release in choices:
        evidence.equal("releases, dimension", release.dimension, used["candidates"] + 1)
        evidence.within("releases, sensitivity", release.sensitivity, 0.0, longest * (1 + 1e-3))
        evidence.close("releases, cost of a choice", release.choice_range**2 / 8, share * cost)
    planned = evidence.statement["planned"]["releases"]
    evidence.within("planned, releases", evidence.counted(evidence.releases), 1, planned)
    _check_spending(evidence, gradients, choices)
    rho = math.fsum(release.count * release.mu**2 / 2 for release in gradients)
    rho += math.fsum(release.count * release.choice_range**2 / 8 for release in choices)
    return zcdp_price(rho + evidence.centre_mu() ** 2 / 2, HOW)


def _check_spending(evidence: Evidence, gradients: list[Release], choices: list[Release]) -> None:
    """Every gradient is followed by a choice, until the purse cannot pay for the next release."""
    used, first = evidence.used, gradients[0].mu ** 2 / 2
    whole = (
        first * used["splits"] / (1 - used["choice_share"]) / (1 - 1e-9)
    )  # a round leaves 1e-9 for roundings
    choice = first * used["choice_share"] / (1 - used["choice_share"])
    bought, chosen = evidence.counted(gradients), evidence.counted(choices)
    spent = math.fsum(release.count * release.mu**2 / 2 for release in gradients) + chosen * choice
    evidence.within("releases, cost of all", spent, 0.0, whole)
    if chosen == bought - 1:  # the last choice was refused
        evidence.within("releases, count of choices", whole - spent, -math.inf, choice + 3e-10 * whole)
    else:
        evidence.equal("releases, count of choices", chosen, bought)
        largest = max(first, used["growth"] * first * (1 + used["growth"]) ** bought)
        evidence.within("releases, count", whole - spent, -math.inf, largest)


def corners(evidence: Evidence) -> Price:
    facts, used = evidence.facts, evidence.used
    radius = used["radius"] / facts.r
    margin = max(1024.0, facts.r * radius)
    error = 2 * facts.gradient_error(facts.n, 2.0 ** (math.floor(math.log2(margin)) + 1) / facts.r)
    exact = facts.rows * facts.slope * max(facts.x_norm, facts.intercept) / facts.n
    moved = radius * (exact + error + 16 * U * (facts.R + facts.l2 * radius))
    ((release,),) = evidence.named("corner")
    evidence.equal("releases, count", release.count, used["steps"])
    evidence.equal("releases, dimension", release.dimension, 2 * facts.p)
    evidence.close("releases, sensitivity", release.sensitivity, moved)
    if evidence.delta == 0:
        return pure_price(release.count * release.choice_range, "pure costs added up")
    rho = release.count * release.choice_range**2 / 8
    return zcdp_price(rho + evidence.centre_mu() ** 2 / 2, HOW)
