"""The release for intervals, after the weights: docs/proofs/intervals.md."""

from __future__ import annotations

import math

from dperm.certificate.constants import Facts, U
from dperm.certificate.routes.evidence import INFERRING, TOLD, Evidence

LONGEST = 1024.0  # margin at the weights that the curvature is taken at
CONSTANT = 2.0  # times the constant column in the curvature
RAMP = 1 / 8  # of the bound on residuals


def inference_mu(evidence: Evidence) -> float:
    """Gaussian parameter of the release for intervals, 0 without one."""
    stated, facts = evidence.statement.get("inference"), evidence.facts
    found = [release for release in evidence.all_releases if release.name in TOLD]
    if stated is None and not found:
        return 0.0
    name, release = TOLD[evidence.name == "adassp"], evidence.all_releases[-1]
    if stated is None or len(found) != 1 or release.name != name:  # the weights are public by then
        evidence.faults.append("inference and the release that it is about do not fit each other")
        return 0.0
    change = _curvature_change(evidence)
    if evidence.name not in INFERRING or change is None or evidence.statement["standardisation"] is not None:
        evidence.faults.append(
            "inference: no release for intervals is proved for this mechanism and this loss"
        )
        return 0.0
    pairs, squares = facts.p * (facts.p + 1) // 2, _squares_error(facts)
    moved = math.sqrt(facts.rows) * facts.curvature * _stretched(facts)
    weight: float | None = None
    dimension, sensitivity = pairs, moved + 2 * _hessian_error(facts, change)
    if evidence.name == "adassp":
        weight, dimension, sensitivity = 1.0, 1, facts.slope**2 + 2 * squares
    elif facts.loss != "logistic":
        weight, dimension = moved / facts.slope**2, pairs + 1
        sensitivity += (math.sqrt(2) - 1) * moved + 2 * weight * squares
    evidence.close("releases, sensitivity of the release for intervals", release.sensitivity, sensitivity)
    evidence.equal("releases, dimension of the release for intervals", release.dimension, dimension)
    evidence.equal("releases, count of the release for intervals", release.count, 1)
    evidence.close("inference, noise_scale", stated["noise_scale"], release.noise_scale)
    evidence.close("inference, mu", stated["mu"], release.mu)
    if weight is None or stated["weight"] is None:
        evidence.equal("inference, weight", stated["weight"], weight)
    else:
        evidence.close("inference, weight", stated["weight"], weight)
    constant = 1.0 if evidence.name == "adassp" or facts.intercept == 0 else CONSTANT
    evidence.equal("inference, constant", stated["constant"], constant)
    _check_moments(evidence)
    return release.mu


def _check_moments(evidence: Evidence) -> None:
    """Noise scales of moments that were released before, where these are what intervals are made of."""
    stated = evidence.statement["inference"]["moments"]
    expected = (
        [release.noise_scale for release in evidence.releases[1:]] if evidence.name == "adassp" else None
    )
    evidence.equal("inference, moments", stated, expected)


def _curvature_change(evidence: Evidence) -> float | None:
    """How steep the curvature of a loss with coefficients to make intervals for is; None for any other loss."""
    parameters = evidence.statement["problem"]["loss_parameters"]
    if evidence.facts.loss == "logistic":
        return 1 / math.sqrt(108)
    if evidence.facts.intercept <= 0:  # the squared residuals are summed in that column
        return None
    if evidence.facts.loss == "squared":
        return 1 / (RAMP * float(parameters[0]))
    if evidence.facts.loss == "soft-clipped-squared":
        return 1 / (float(parameters[0]) * (1 - float(parameters[1])))
    return None


def _stretched(facts: Facts) -> float:
    """Squared norm of a row whose constant column is longer."""
    return facts.x_norm**2 + (CONSTANT * facts.intercept) ** 2


def _hessian_error(facts: Facts, change: float) -> float:
    margin = 2 * facts.p * U * LONGEST
    row = change * margin + (1e-14 + facts.adding(facts.n) + 8 * U) * facts.curvature
    return facts.n * _stretched(facts) * row


def _squares_error(facts: Facts) -> float:
    off = facts.curvature * 2 * facts.p * U * LONGEST + 1e-14 * max(facts.slope, facts.curvature / 5)
    row = off * (2 * facts.slope + off) + (facts.adding(facts.n) + 8 * U) * facts.slope**2
    return facts.n * row
