"""The decision threshold of a fitted classifier of two classes, chosen from noisy counts of margins by label."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dperm.certificate.threshold import BINS, sensitivity
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators._paying import check_purse, paid, shape_of
from dperm.estimators._rows import unquoted
from dperm.estimators.apart import margins_and_targets
from dperm.estimators.labels import encode_labels
from dperm.estimators.margin_bins import bins_of, edges_of
from dperm.ledger import Ledger
from dperm.neighbours import Neighbours
from dperm.planning.gaussian import gaussian_noise
from dperm.privacy import Budget, Gate, gaussian_mu
from dperm.privacy.cost import Cost
from dperm.strict_json import matches

Vector = NDArray[np.float64]

NAME = "decision threshold"
OBJECTIVES = ("balanced_accuracy", "f1", "accuracy")
_NOISY = 0.005
_BY_ROWS = (
    "a threshold is tuned by counts of rows, and this model was trained by person, who may have several: there is no "
    "guarantee for a person to be had. Choose the threshold on public rows, or by what a false alarm costs."
)
_AT_LEAST = re.compile(r"(recall|precision)>=(0\.\d+|1\.0|1)")


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A threshold on the margin, and what it cost beside the fit. ``print`` it.

    ``private`` is False where a seed made the noise predictable.
    """

    margin: float
    objective: str
    epsilon: float
    delta: float
    neighbours: str
    n_rows: int
    bins: int
    sensitivity: float
    noise_scale: float
    private: bool
    ledger_entry: str | None

    def __str__(self) -> str:
        price = (
            f"({self.epsilon:g}, {self.delta:g}) beside the fit"
            if self.private
            else "NOT PRIVATE: a seed was set"
        )
        return f"{self.margin:.6g} on the margin, by {self.objective} on {self.n_rows} rows, {price}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: object) -> Threshold:
        """From what a model file holds; nothing is taken on trust."""
        kinds = get_type_hints(cls)
        if not isinstance(stored, Mapping) or set(stored) != set(kinds):
            raise InvalidInput(f"threshold must be an object with exactly the keys {', '.join(kinds)}.")
        for name, kind in kinds.items():
            if not matches(stored[name], kind):
                raise InvalidInput(f"threshold, {name}: the value is of a wrong type.")
        return cls(**stored)


@dataclass(frozen=True, kw_only=True)
class ThresholdTuning:
    """Who pays: what ``paid`` wants to know."""

    ledger: Ledger | None
    dataset: str | None
    random_state: Any


def tuned(model: Any, X: Any, y: Any, budget: Budget, objective: str, purse: ThresholdTuning) -> Threshold:
    """The threshold that is best by noisy counts of the rows, for the relation and ``max_rows`` of the model.

    Guarantee
    ---------
    One Gaussian release of the histogram of margins by label, within the budget: docs/proofs/selection.md, Theorem 5.
    """
    check_objective(objective)
    if "persons" in model.privacy_.statement:
        raise Unsupported(_BY_ROWS)
    check_purse(purse)
    neighbours = Neighbours.parse(model.neighbours)
    shape = shape_of(X, purse.ledger is not None)
    n_rows = model.max_rows if neighbours is Neighbours.ADD_REMOVE else shape[0]
    if shape[0] > n_rows:
        raise InvalidInput("the table has more rows than max_rows.")
    mu = gaussian_mu(budget)
    moved = sensitivity(neighbours.rows_changed)
    bins = bins_for(moved / mu, n_rows)
    noise = gaussian_noise(moved, 2 * bins, mu)
    gate = Gate.from_random_state(purse.random_state)

    def counts() -> Vector:
        with unquoted(), np.errstate(all="ignore"):
            margins, targets = margins_and_targets(model, X, y, neighbours)
            labels = encode_labels(targets, model.classes_)
            cells = bins_of(model, margins.reshape(-1), bins) + bins * (labels > 0)
            return np.bincount(cells, minlength=2 * bins).astype(np.float64)

    entry, noisy = paid(
        purse,
        lambda: Cost.gaussian(mu),
        neighbours,
        NAME,
        counts,
        lambda exact: gate.release_one(exact, noise, NAME),
        kind="threshold",
    )
    return Threshold(
        margin=best_edge(edges_of(model, bins), noisy, objective, noise.scale),
        objective=objective,
        epsilon=float(budget.epsilon),
        delta=float(budget.delta),
        neighbours=neighbours.value,
        n_rows=int(n_rows),
        bins=bins,
        sensitivity=noise.sensitivity,
        noise_scale=noise.scale,
        private=gate.secure,
        ledger_entry=entry,
    )


def bins_for(noise: float, n_rows: int) -> int:
    """The more the less noise a bin has, beside the public number of rows; counts above a threshold add up many."""
    return next((bins for bins in BINS[:-1] if noise * math.sqrt(bins) <= _NOISY * n_rows), BINS[-1])


def check_objective(objective: object) -> None:
    known = isinstance(objective, str) and (objective in OBJECTIVES or _AT_LEAST.fullmatch(objective))
    if not known:
        raise InvalidInput(
            f"objective must be one of {', '.join(OBJECTIVES)}, or a condition such as 'recall>=0.8' or "
            f"'precision>=0.5'; got {objective!r}."
        )


def best_edge(edges: Vector, noisy: Vector, objective: str, noise: float) -> float:
    """The edge between two bins at which the objective is best, by noisy counts.

    'recall>=0.8' takes the largest edge above which that share of the positive rows lies, 'precision>=0.5' the
    smallest above which that share of the rows is positive.
    """
    negative, positive = noisy.reshape(2, -1)
    caught, alarms = (np.cumsum(part[::-1])[::-1][1:] for part in (positive, negative))  # above each edge
    least = noise * math.sqrt(len(positive))
    wanted, unwanted = max(float(positive.sum()), least), max(float(negative.sum()), least)
    recall, passed = (np.clip(part, 0, None) for part in (caught / wanted, 1 - alarms / unwanted))
    condition = _AT_LEAST.fullmatch(objective)
    if condition is not None:
        precision = caught / np.maximum(caught + alarms, least)
        holds = (recall if condition[1] == "recall" else precision) >= float(condition[2])
        if not holds.any():
            return float(edges[0] if condition[1] == "recall" else edges[-1])
        places = np.flatnonzero(holds)
        return float(edges[places[-1] if condition[1] == "recall" else places[0]])
    if objective == "f1":
        scores = 2 * caught / np.maximum(wanted + caught + alarms, least)
    elif objective == "accuracy":
        scores = caught - alarms
    else:
        scores = recall + passed
    return float(edges[int(np.argmax(scores))])
