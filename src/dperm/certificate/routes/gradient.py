"""Noise on every gradient over all rows: docs/proofs/dp-gd.md and docs/proofs/dp-cd.md."""

from __future__ import annotations

import math

from dperm.certificate.accountant import Price, gaussian_price
from dperm.certificate.routes.evidence import Evidence, Release
from dperm.certificate.routes.output import HOW


def full_batches(evidence: Evidence) -> Price:
    """Each step costs the same, whatever the sensitivity at its weights; a split query is paid beforehand."""
    facts, used = evidence.facts, evidence.used
    steps, once = evidence.named("gradient", "label statistic")
    evidence.equal("releases, count of the gradients", evidence.counted(steps), used["steps"])
    clip = used["clip"]
    row = facts.R if clip is None else min(clip, facts.R)
    adaptive = (
        used["adaptive"] and clip is None and used["accounting"] == "tight" and facts.loss == "logistic"
    )
    errors = facts.sum_errors()
    for place, release in enumerate(steps):
        evidence.equal("releases, dimension", release.dimension, facts.dimension)
        evidence.close("releases, noise per step", release.mu, steps[0].mu)
        if used["split"] > 0:  # at zero weights nothing is left but rounding; then at most r, or r/2
            least, most = 2 * errors[0], facts.r * facts.rows / 2 + 2 * errors[-1]
            evidence.within("releases, sensitivity", release.sensitivity, least, most if place else least)
        elif adaptive:  # at zero weights gradients are y x / 2: r apart, or r/2 long
            least, most = facts.r * facts.rows / 2 + errors[0], facts.gap + errors[-1]
            evidence.within("releases, sensitivity", release.sensitivity, least, most if place else least)
        else:
            expected = [facts.rows * row + error for error in errors]
            evidence.one_of("releases, sensitivity", release.sensitivity, expected)
    evidence.equal("releases, count of the label statistic", evidence.counted(once), int(used["split"] > 0))
    for release in once:
        evidence.equal("releases, dimension", release.dimension, facts.dimension)
        evidence.close("releases, sensitivity", release.sensitivity, facts.rows * facts.r / 2 + errors[0])
        evidence.close(
            "releases, share of the label statistic",
            release.mu**2,
            used["split"] * evidence.gaussian_mu(evidence.releases) ** 2,
        )
    return _price(evidence)


def coordinates(evidence: Evidence) -> Price:
    """One coordinate at a time; a feature is at most x_norm, the intercept column is public."""
    facts, used = evidence.facts, evidence.used
    errors = facts.sum_errors()
    bounds = {"features": facts.x_norm, "intercept": facts.intercept}
    expected = {name: facts.rows * facts.slope * bound for name, bound in bounds.items() if bound > 0}
    counts = dict.fromkeys(expected, 0)
    (releases,) = evidence.named("coordinate")
    for release in releases:
        evidence.equal("releases, dimension", release.dimension, 1)
        evidence.close("releases, noise per update", release.mu, releases[0].mu)
        kind = _nearest(release, expected)
        evidence.one_of("releases, sensitivity", release.sensitivity, [expected[kind] + e for e in errors])
        counts[kind] += release.count
    evidence.equal("used, updates", used["updates"], used["passes"] * facts.p)
    evidence.equal("releases, count of features", counts["features"], used["passes"] * facts.n_features)
    if "intercept" in counts:
        evidence.equal("releases, count of the intercept", counts["intercept"], used["passes"])
    return _price(evidence)


def _nearest(release: Release, expected: dict[str, float]) -> str:
    return min(expected, key=lambda name: abs(math.log(release.sensitivity / expected[name])))


def _price(evidence: Evidence) -> Price:
    return gaussian_price(math.hypot(evidence.gaussian_mu(evidence.releases), evidence.centre_mu()), HOW)
