"""Releases and private choices that share one budget of zCDP: docs/proofs/dp-agd.md and docs/proofs/frank-wolfe.md."""

from __future__ import annotations

import math

from dperm.certificate.accountant import Price, pure_price, zcdp_price
from dperm.certificate.constants import Facts, U
from dperm.certificate.routes.evidence import CLOSE, Evidence, Release
from dperm.certificate.routes.weights import check_rounding

HOW = "zero-concentrated costs added up, converted at the best Rényi order"
FOLLOWS_CHOICES = (
    "the sensitivity of step choices after the first, which follows the weights and the steps chosen before; it is one "
    "of the values that these can give"
)
_REVIEW, _MARGIN = 10, 1.1  # after so many steps the longest one shrinks to so much of the longest chosen


def adaptive_steps(evidence: Evidence) -> Price:
    """A gradient, a choice of the step, and again; what was chosen shows in what was bought next."""
    facts, used = evidence.facts, evidence.used
    gradients, choices = evidence.named("gradient", "step")
    cost = gradients[0].mu ** 2 / 2
    longest = used["largest_step"] / facts.r
    for release in gradients:
        evidence.equal("releases, dimension", release.dimension, facts.dimension)
        check_rounding(evidence, release, facts.gap, longest * len(choices), facts.sum_error)
    share = used["choice_share"] / (1 - used["choice_share"])
    share /= 4 if used["accounting"] == "paper" else 1  # the paper's price of a choice is four times ours
    for release in choices:
        evidence.equal("releases, dimension", release.dimension, used["candidates"] + 1)
        evidence.close("releases, cost of a choice", release.choice_range**2 / 8, share * cost)
    planned = evidence.statement["planned"]["releases"]
    evidence.within("planned, releases", evidence.counted(evidence.releases), 1, planned)
    _check_spending(evidence, gradients, choices)
    if not evidence.faults:
        _check_order(evidence)
    rho = math.fsum(release.count * release.mu**2 / 2 for release in gradients)
    rho += math.fsum(release.count * release.choice_range**2 / 8 for release in choices)
    return zcdp_price(rho + evidence.standardisation_mu() ** 2 / 2, HOW)


def _check_order(evidence: Evidence) -> None:
    """Follow the run: which gradient costs what, and how long a step each choice could take."""
    facts, used, passages = evidence.facts, evidence.used, evidence.one_by_one()
    first = passages[0].mu ** 2 / 2
    bought = [0.0]  # what the current gradient may have cost so far
    longest = used["largest_step"] / facts.r
    taken = shortened = 0  # steps that may have been taken, and how often the longest one shrank
    for place, release in enumerate(passages):
        chooses = place % 2 == 1
        evidence.equal("releases, name", release.name, f"{evidence.name} {'step' if chooses else 'gradient'}")
        if evidence.faults:
            return
        if not chooses:
            cost, growth = release.mu**2 / 2, used["growth"]
            refined = [paid for paid in bought if math.isclose(cost, growth * paid, rel_tol=CLOSE)]
            anew = math.isclose(cost, first, rel_tol=CLOSE)  # a new round, because a step was taken
            if not (anew or refined):
                evidence.close("releases, cost of a gradient", cost, first)
            bought = [paid + cost for paid in refined] + ([first] if anew else [])
            taken += anew and place > 0
            continue
        if place > 1:
            evidence.not_checked.append(FOLLOWS_CHOICES)
        if _fits(facts, release.sensitivity, longest, first=place == 1):
            continue
        shorter = _shortened(evidence, release.sensitivity, longest)
        shortened += 1
        if shorter is None or shortened > taken // _REVIEW:
            expected = _moved(facts, longest, _power(longest))
            evidence.close("releases, sensitivity of a step", release.sensitivity, expected)
            return
        longest = shorter


def _fits(facts: Facts, stated: float, longest: float, first: bool = False) -> bool:
    """Whether a choice among steps of this length moves so much, at some weights; the first is made at zero."""
    nearest = longest if first else longest / 2  # one end of a segment is as far out as half its length
    low = _power(nearest * (1 - CLOSE))
    high = _power(longest * (1 + CLOSE)) if first else 60
    powers = range(low, high + 1)
    return any(
        math.isclose(stated, _moved(facts, longest, power), rel_tol=CLOSE, abs_tol=0.0) for power in powers
    )


def _shortened(evidence: Evidence, stated: float, longest: float) -> float | None:
    """The longest step after a review: 1.1 times one of the candidates, if that is shorter."""
    facts, candidates = evidence.facts, evidence.used["candidates"]
    for power in range(61):
        free = stated - _moved(facts, 0.0, power)
        chosen = round(2 * free / facts.gap / (_MARGIN * longest) * candidates)
        shorter = float(_MARGIN * chosen / candidates * longest)
        if 0 < shorter < longest and _fits(facts, stated, shorter):
            return shorter
    return None


def _power(norm: float) -> int:
    """Exponent of the power of two above, and at least 0."""
    return max(0, math.frexp(norm)[1])


def _moved(facts: Facts, longest: float, power: int) -> float:
    """How far scores on a segment of this length move apart, rounding at weights up to 2**power included."""
    norm = 2.0**power
    length = longest * (1 + 1e-9) + 16 * U * (norm + longest)
    value = (facts.at_zero or 0.0) + facts.R * norm
    row = facts.slope * 2 * facts.p * U * facts.r * norm + 1e-14 * (facts.heaviest + value)
    summed = facts.adding(facts.n) * value + 2 * (facts.p + 8) * U * (value + facts.l2 / 2 * norm**2)
    return facts.gap * length / 2 + 2 * facts.n * (row + summed)


def _check_spending(evidence: Evidence, gradients: list[Release], choices: list[Release]) -> None:
    """Every gradient is followed by a choice, until the budget cannot pay for the next release."""
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
    largest = facts.slope * max(facts.x_norm, facts.intercept)
    exact = facts.rows * largest / facts.n
    if used.get("lazy"):  # whole numbers of steps that are added exactly: one for rounding what a row adds
        moved = radius * (exact + facts.rows * 2.0 ** (math.floor(math.log2(largest)) - 29) / facts.n)
    else:
        step = facts.step_at(radius)
        error = math.inf if step is None else facts.whole_sum_error(step) / facts.n
        moved = radius * (exact + error + 16 * U * (facts.R + facts.l2 * radius))
    ((release,),) = evidence.named("corner")
    evidence.equal("releases, count", release.count, used["steps"])
    evidence.equal("releases, dimension", release.dimension, 2 * facts.p)
    evidence.close("releases, sensitivity", release.sensitivity, moved)
    if evidence.delta == 0:
        return pure_price(release.count * release.choice_range, "pure costs added up")
    rho = release.count * release.choice_range**2 / 8
    return zcdp_price(rho + evidence.standardisation_mu() ** 2 / 2, HOW)
