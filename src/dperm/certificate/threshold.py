"""Thresholds in a model file: each is planned and priced anew (docs/proofs/selection.md, Theorem 5)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dperm.certificate.accountant import Price, gaussian_price
from dperm.certificate.constants import ROWS_CHANGED, padded
from dperm.certificate.statement import check_citation
from dperm.errors import InvalidInput
from dperm.planning.pricing import gaussian_noise
from dperm.privacy import Budget, gaussian_mu
from dperm.privacy.entropy import SystemEntropy
from dperm.strict_json import typed
from dperm.unit import UNITS

BINS = (64, 32, 16)
OBJECTIVES = ("balanced_accuracy", "f1", "accuracy")
AT_LEAST = re.compile(r"(recall|precision)>=(0\.\d{1,15}|1\.0|1)", re.ASCII)
CLOSE = 1e-9
_NOISY = 0.005
_MOST = 1000


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A threshold on the margin, and what it cost beside the fit. ``print`` it.

    ``n_units`` is the public number of rows, or of persons where these are the ``unit``; under add-remove it is
    ``max_rows``. ``private`` is False where a seed made the noise predictable.
    """

    margin: float
    objective: str
    epsilon: float
    delta: float
    neighbours: str
    unit: str
    n_units: int
    bins: int
    sensitivity: float
    noise_scale: float
    entropy: str
    private: bool
    ledger_entry: str | None

    def __str__(self) -> str:
        return f"{self.margin:.6g} on the margin, {tuned_words(self.to_dict())}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: object) -> Threshold:
        """From what a model file holds: every key, each of its type."""
        return cls(**typed("threshold", stored, cls))


def tuned_words(threshold: Mapping[str, Any]) -> str:
    """How it was chosen and what that cost."""
    units = "persons" if threshold["unit"] == UNITS["person"] else "rows"
    price = (
        f"costs ({threshold['epsilon']:g}, {threshold['delta']:g}) beside the fit"
        if threshold["private"]
        else "NOT PRIVATE: a seed was set"
    )
    return f"chosen by {threshold['objective']} on {threshold['n_units']} {units}; {price}"


def bins_for(noise: float, n_units: int) -> int:
    """The more the less noise a bin has, beside the public number of rows; counts above a threshold add up many."""
    return next((bins for bins in BINS[:-1] if noise * math.sqrt(bins) <= _NOISY * n_units), BINS[-1])


def check_objective(objective: object) -> None:
    known = isinstance(objective, str) and (objective in OBJECTIVES or AT_LEAST.fullmatch(objective))
    if not known:
        raise InvalidInput(
            f"objective must be one of {', '.join(OBJECTIVES)}, or a condition such as 'recall>=0.8' or "
            f"'precision>=0.5'; got {objective!r}."
        )


def thresholds_in(document: Mapping[str, Any]) -> tuple[Threshold, ...]:
    """All that were tuned, the last of which is in force."""
    if "thresholds" not in document:
        return ()
    stored = document["thresholds"]
    if not isinstance(stored, list) or not 0 < len(stored) <= _MOST:
        raise InvalidInput(f"thresholds must be a list of 1 to {_MOST:,} objects.")
    return tuple(map(Threshold.from_dict, stored))


def check_thresholds(document: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """Sensitivity by the formula of the proof, bins and noise by planning again, the price by the second accountant."""
    found = thresholds_in(document)
    if statement["targets"].get("count") != 2:
        raise InvalidInput("a threshold belongs to a classifier of two classes.")
    for threshold in found:
        _check(threshold, document, statement)
    cited = [entry for entry in (one.ledger_entry for one in found) if entry is not None]
    if len(set(cited)) < len(cited) or statement["model"]["ledger_entry"] in cited:
        raise InvalidInput("thresholds: a charge pays for one release, and two cite the same.")
    told = (f"({one.epsilon:g}, {one.delta:g})" for one in found)
    return f"{' and '.join(told)}, added to the price of the fit"


def _check(one: Threshold, document: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
    """Refuse what ``tune_threshold`` of this very model cannot have written."""
    if (one.neighbours, one.unit) != (statement["relation"], statement["unit"]):
        raise InvalidInput("threshold: neighbours and unit must be those of the certificate.")
    rows = ROWS_CHANGED.get(one.neighbours)
    if rows is None:
        raise InvalidInput("threshold, neighbours must be replace-one or add-remove.")
    if not 1 <= one.n_units <= 1e15 or (rows == 1 and one.n_units != statement["problem"]["n_units"]):
        raise InvalidInput(
            "threshold, n_units must be at least 1, and under add-remove that of the certificate."
        )
    check_objective(one.objective)
    if one.private != (one.entropy == SystemEntropy.name):
        raise InvalidInput("threshold: private does not agree with where its noise came from.")
    if one.ledger_entry is not None:
        check_citation("threshold, ledger_entry", one.ledger_entry)
        if not one.private:
            raise InvalidInput("threshold: a ledger does not take what a seed made predictable.")
    if not math.isclose(one.sensitivity, math.sqrt(rows), rel_tol=1e-12):
        raise InvalidInput(f"threshold, sensitivity is not the {math.sqrt(rows):.6g} of a histogram.")
    mu = gaussian_mu(Budget(one.epsilon, one.delta))
    if one.bins != bins_for(math.sqrt(rows) / mu, one.n_units):
        raise InvalidInput("threshold, bins is not what the rule gives for its noise and number of rows.")
    planned = gaussian_noise(math.sqrt(rows), 2 * one.bins, mu).scale
    if one.noise_scale > planned * (1 + CLOSE):
        raise InvalidInput("threshold, noise_scale is not what its epsilon and delta give.")
    if one.noise_scale < planned * (1 - CLOSE) or not _price(_mu(one)).meets(one.epsilon, one.delta):
        raise InvalidInput("threshold: its noise costs more than the epsilon and delta that it states.")
    _check_margin(one, document, statement)


def _check_margin(one: Threshold, document: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
    """It must be an edge of the public bins, which follow from the released numbers."""
    weights, row_map = document["coefficients"], document.get("row_map") or {}
    centre, scale = (
        row_map.get(name) or [none] * len(weights) for name, none in (("centre", 0.0), ("scale", 1.0))
    )
    parts = [document["intercept"], *(w * c for w, c in zip(weights, centre, strict=True))]
    spread = math.hypot(*(w * s for w, s in zip(weights, scale, strict=True)))
    spread = max(spread * statement["problem"]["x_norm"] / math.sqrt(len(weights)), 1e-300)
    size = math.fsum(map(abs, parts))
    for k in range(1, one.bins):
        away = 2 * k / one.bins - 1
        step = spread * away / math.sqrt(1 - away**2)
        if abs(one.margin - (math.fsum(parts) + step)) <= CLOSE * (size + abs(step)):
            return
    raise InvalidInput("threshold, margin is not an edge of the public bins of the model's margins.")


def _mu(one: Threshold) -> float:
    return padded(one.sensitivity, 2 * one.bins) / one.noise_scale


def _price(mu: float) -> Price:
    return gaussian_price(mu, "one Gaussian release")


def price_with(fit: Price | None, thresholds: Sequence[Threshold]) -> Price | None:
    """Of fit and thresholds together, which are Gaussian releases after each other.

    Epsilon is parted between both in the best of a few ways, and deltas add up.
    """
    if fit is None or not thresholds:
        return fit
    other = _price(math.hypot(*map(_mu, thresholds)))
    stated = math.fsum(one.epsilon for one in thresholds)

    def delta(epsilon: float) -> float:
        shares = {min(stated, epsilon), *(epsilon * share / 8 for share in range(9))}
        return min(1.0, *(fit.delta(epsilon - share) + other.delta(share) for share in shares))

    return Price(delta, f"{fit.how}, and the thresholds beside it", max(fit.accuracy, other.accuracy))


def total(
    claim: Mapping[str, float] | None, thresholds: Sequence[Mapping[str, Any]]
) -> Mapping[str, float] | None:
    """What model and thresholds cost together; nothing is claimed where one of them is not private."""
    if claim is None or not all(one["private"] for one in thresholds):
        return None
    return summed(claim, thresholds)


def summed(budget: Mapping[str, float], thresholds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Epsilons and deltas of a budget and of the thresholds beside it, added up."""
    return {name: budget[name] + math.fsum(one[name] for one in thresholds) for name in ("epsilon", "delta")}
