"""The threshold in a model file: its noise must pay for what it claims (docs/proofs/selection.md, Theorem 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dperm.certificate.accountant import Price, gaussian_price
from dperm.certificate.facts import padded
from dperm.certificate.statement import UNITS
from dperm.errors import InvalidInput

BINS = (64, 32, 16)


def sensitivity(rows_changed: int) -> float:
    """Of counts of which each row is in one: a row that is replaced leaves one and comes to another."""
    return math.sqrt(rows_changed)


def check_threshold(threshold: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """Sensitivity and price by the second accountant."""
    if statement["unit"] != UNITS["row"]:
        raise InvalidInput("threshold: its counts hide one row, and the certificate is about another unit.")
    rows = {"replace-one": 2, "add-remove": 1}.get(threshold["neighbours"])
    if rows is None:
        raise InvalidInput("threshold, neighbours must be replace-one or add-remove.")
    if not math.isclose(threshold["sensitivity"], math.sqrt(rows), rel_tol=1e-12):
        raise InvalidInput(f"threshold, sensitivity is not the {math.sqrt(rows):.6g} of a histogram.")
    if not (threshold["noise_scale"] > 0 and math.isfinite(threshold["margin"])):
        raise InvalidInput("threshold: the noise must be above 0 and the margin finite.")
    if threshold["bins"] not in BINS:
        raise InvalidInput(f"threshold, bins must be one of {', '.join(map(str, BINS))}.")
    price = threshold_price(threshold)
    if not price.meets(threshold["epsilon"], threshold["delta"]):
        raise InvalidInput("threshold: its noise costs more than the epsilon and delta that it states.")
    return f"({threshold['epsilon']:g}, {threshold['delta']:g}), added to the price of the fit"


def threshold_price(threshold: Mapping[str, Any]) -> Price:
    mu = padded(threshold["sensitivity"], 2 * threshold["bins"]) / threshold["noise_scale"]
    return gaussian_price(mu, "one Gaussian release")


def both_prices(fit: Price | None, threshold: Mapping[str, Any] | None) -> Price | None:
    """Of fit and threshold together: epsilon is parted between them in the best of a few ways, and deltas add up."""
    if fit is None or threshold is None:
        return fit
    other = threshold_price(threshold)
    stated = threshold["epsilon"]

    def delta(epsilon: float) -> float:
        shares = {min(stated, epsilon), *(epsilon * share / 8 for share in range(9))}
        return min(1.0, *(fit.delta(epsilon - share) + other.delta(share) for share in shares))

    return Price(delta, f"{fit.how}, and the threshold beside it", max(fit.accuracy, other.accuracy))


def with_threshold(
    claim: Mapping[str, float] | None, threshold: Mapping[str, Any] | None
) -> Mapping[str, float] | None:
    """What model and threshold cost together; nothing is claimed where either is not private."""
    if claim is None or threshold is None:
        return claim
    if not threshold["private"]:
        return None
    return {name: claim[name] + threshold[name] for name in ("epsilon", "delta")}
