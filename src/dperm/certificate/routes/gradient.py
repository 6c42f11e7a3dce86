"""Noise on every gradient over all rows: docs/proofs/dp-gd.md and docs/proofs/dp-cd.md."""

from __future__ import annotations

import math

import numpy as np

from dperm.certificate.accountant import Price, gaussian_price
from dperm.certificate.constants import at_all_steps
from dperm.certificate.routes.evidence import CLOSE, Evidence, Release, inference_mu
from dperm.certificate.routes.output import HOW
from dperm.certificate.routes.weights import (
    LARGEST_NOISE,
    check_not_too_near,
    check_rounding,
    farthest,
    largest_pull,
    margin_of_gradient_gap,
    margin_of_remainder_gap,
)

FOLLOWS_WEIGHTS = (
    "the sensitivity of every step after the first, which follows the weights; it lies within its bounds and is not "
    "smaller than the noise of the step before makes it"
)


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

    def allowance(step: int) -> float:
        # The difference of two sums, which a split queries, is not computed in coarse ones.
        return facts.sum_error(step) if used["split"] > 0 else facts.whole_sum_error(step, clip, adaptive)

    errors = at_all_steps(allowance)
    for release in steps:
        evidence.equal("releases, dimension", release.dimension, facts.dimension)
        evidence.close("releases, noise per step", release.mu, steps[0].mu)
    if used["split"] > 0:  # at zero weights nothing is left but rounding; then at most r, or r/2
        _follow_weights(evidence, steps, 2 * errors[0], facts.r * facts.rows / 2 + 2 * errors[-1])
    elif adaptive:  # at zero weights gradients are y x / 2: r apart, or r/2 long
        least, most = facts.r * facts.rows / 2 + errors[0], facts.gap + errors[-1]
        _follow_weights(evidence, steps, least, most)
    else:
        pull = max(largest_pull(release, facts.n, row) for release in steps) / facts.n
        reached = farthest(pull, used["steps"], used["step_size"], used["l2_used"], used["momentum"])
        for release in steps:
            check_rounding(evidence, release, facts.rows * row, reached, allowance)
    evidence.equal("releases, count of the label statistic", evidence.counted(once), int(used["split"] > 0))
    for release in once:
        evidence.equal("releases, name", evidence.releases[0].name, release.name)
        evidence.equal("releases, dimension", release.dimension, facts.dimension)
        evidence.close("releases, sensitivity", release.sensitivity, facts.rows * facts.r / 2 + errors[0])
        evidence.close(
            "releases, share of the label statistic",
            release.mu**2,
            used["split"] * evidence.gaussian_mu(evidence.releases) ** 2,
        )
    return _price(evidence)


def _follow_weights(evidence: Evidence, steps: list[Release], least: float, most: float) -> None:
    """Sensitivities between that of zero weights, where a descent begins, and that of endless ones.

    Weights before a step are those before the last one, moved by its noisy gradient.
    """
    facts, used = evidence.facts, evidence.used
    for place, release in enumerate(steps):
        evidence.within("releases, sensitivity", release.sensitivity, least, most if place else least)
    in_order = [release for release in evidence.one_by_one() if release.name == steps[0].name]
    if len(in_order) < 2:
        return
    evidence.not_checked.append(FOLLOWS_WEIGHTS)
    split = used["split"] > 0
    rounding = 2 * facts.sum_error() if split else facts.whole_sum_error(exact_margins=True)
    stated = np.array([release.sensitivity for release in in_order[1:]]) * (1 + CLOSE)
    margin_of = margin_of_remainder_gap if split else margin_of_gradient_gap
    near = margin_of(np.maximum(stated - rounding, 0.0) / facts.r, facts.rows) / facts.r
    noise = [used["step_size"] * release.noise_scale / facts.n for release in in_order[:-1]]
    check_not_too_near(evidence, near.tolist(), noise, facts.dimension)


def coordinates(evidence: Evidence) -> Price:
    """One coordinate at a time; a feature is at most x_norm, the intercept column is public."""
    facts, used = evidence.facts, evidence.used
    bounds = {"features": facts.x_norm, "intercept": facts.intercept}
    expected = {name: facts.rows * facts.slope * bound for name, bound in bounds.items() if bound > 0}
    counts = dict.fromkeys(expected, 0)
    (releases,) = evidence.named("coordinate")
    reached = _farthest_coordinates(evidence, releases)
    for release in releases:
        evidence.equal("releases, dimension", release.dimension, 1)
        evidence.close("releases, noise per update", release.mu, releases[0].mu)
        kind = _nearest(release, expected)
        check_rounding(evidence, release, expected[kind], reached, facts.whole_sum_error)
        counts[kind] += release.count
    evidence.equal("used, updates", used["updates"], used["passes"] * facts.p)
    evidence.equal("releases, count of features", counts["features"], used["passes"] * facts.n_features)
    if "intercept" in counts:
        evidence.equal("releases, count of the intercept", counts["intercept"], used["passes"])
    return _price(evidence)


def _farthest_coordinates(evidence: Evidence, releases: list[Release]) -> float:
    """Norm that the weights can reach: every pass moves every coordinate once."""
    facts, used = evidence.facts, evidence.used
    noise = (1 + LARGEST_NOISE) * max(release.noise_scale for release in releases) / facts.n
    squares = 0.0
    for bound, columns in ((facts.x_norm, facts.n_features), (facts.intercept, facts.p - facts.n_features)):
        step = used["step_size"] / (facts.curvature * bound**2 + facts.l2) if columns else 0.0
        pull = facts.slope * bound + noise
        squares += columns * farthest(pull, used["passes"], step, facts.l2) ** 2
    return math.sqrt(squares)


def _nearest(release: Release, expected: dict[str, float]) -> str:
    return min(expected, key=lambda name: abs(math.log(release.sensitivity / expected[name])))


def _price(evidence: Evidence) -> Price:
    training, others = evidence.gaussian_mu(evidence.releases), evidence.standardisation_mu()
    return gaussian_price(math.hypot(training, others, inference_mu(evidence)), HOW)
