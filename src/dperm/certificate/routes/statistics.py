"""Noise on sums over the rows: docs/proofs/ssp.md and docs/proofs/adassp.md."""

from __future__ import annotations

import math

from dperm.certificate.accountant import Price, gaussian_price
from dperm.certificate.constants import Facts, U, unweighted
from dperm.certificate.routes.evidence import Evidence, inference_mu
from dperm.certificate.routes.output import HOW
from dperm.errors import InvalidInput


def pair(evidence: Evidence) -> Price:
    """First and second moments at once; the pair is never at its worst in both parts."""
    facts, weight = evidence.facts, float(evidence.used["weight"])
    if _counted_once(facts) != "logistic":
        raise InvalidInput("the pair of moments is for the logistic loss.")
    if facts.rows == 1:
        joint = math.sqrt(1 / 4 + weight**2)
    else:  # the largest (1 - t)/2 + 2 c^2 (1 - t^2) over -1 <= t <= 1
        t = max(-1.0, -1 / (8 * weight**2))
        joint = math.sqrt((1 - t) / 2 + 2 * weight**2 * (1 - t * t))
    first = facts.n * facts.gradient_error(facts.n, 0.0)
    second = weight / facts.r * _moment_error(evidence)
    (release,) = evidence.once_each(("first and second moments", facts.p + facts.p * (facts.p + 1) // 2))
    evidence.close("releases, sensitivity", release.sensitivity, facts.r * joint + 2 * (first + second))
    return gaussian_price(math.hypot(release.mu, evidence.standardisation_mu()), HOW)


def three(evidence: Evidence) -> Price:
    """Smallest eigenvalue, second moments, moments with the target."""
    facts, bound = evidence.facts, float(evidence.used["target_bound"])
    if _counted_once(facts) != "squared":
        raise InvalidInput("these moments are for the squared loss.")
    squared, summed = facts.r**2, _moment_error(evidence)
    solver = 10 * facts.p * U * facts.n * squared
    cross_error = facts.n * (facts.r * 1e-14 * max(bound, 1 / 5) + facts.adding(facts.n) * bound * facts.r)
    expected = [
        squared + 2 * (summed + solver),
        squared * math.sqrt(facts.rows) + 2 * summed,
        facts.rows * bound * facts.r + 2 * cross_error,
    ]
    releases = evidence.once_each(
        ("smallest eigenvalue of X'X", 1), ("X'X", facts.p * (facts.p + 1) // 2), ("X'y", facts.p)
    )
    printed = [squared, squared, facts.r * bound]
    for release, sensitivity, unit in zip(releases, expected, printed, strict=True):
        evidence.close("releases, sensitivity", release.sensitivity, sensitivity)
        if evidence.used["accounting"] == "paper":
            factor = 3 * math.sqrt(math.log(6 / evidence.delta)) / evidence.epsilon
            evidence.close("releases, noise_scale", release.noise_scale, factor * unit)
        else:
            evidence.close("releases, share of each", release.mu, releases[-1].mu)
    training, others = evidence.gaussian_mu(evidence.releases), evidence.standardisation_mu()
    return gaussian_price(math.hypot(training, others, inference_mu(evidence)), HOW)


def _moment_error(evidence: Evidence) -> float:
    facts = evidence.facts
    return (facts.adding(facts.n) + 8 * U) * facts.n * facts.r**2


def _counted_once(facts: Facts) -> str:
    """The loss, where every row counts once or by an equal share in its person."""
    return unweighted(facts.loss) if facts.many_rows and facts.heaviest == 1 else facts.loss
