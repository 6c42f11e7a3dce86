"""The decision threshold of a fitted classifier of two classes, chosen from noisy counts of margins by label."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.certificate.threshold import AT_LEAST, Threshold, bins_for, check_objective, sensitivity
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators._paying import check_purse, paid
from dperm.estimators._rows import unquoted
from dperm.estimators.apart import check_counted, count_rows, margins_and_targets
from dperm.estimators.labels import encode_labels, is_turned
from dperm.estimators.margin_bins import bins_of, edges_of
from dperm.estimators.persons import SHARE_BITS, GroupedRows
from dperm.ledger import Ledger
from dperm.neighbours import Neighbours
from dperm.planning.gaussian import gaussian_noise
from dperm.privacy import Budget, Gate, gaussian_mu
from dperm.privacy.cost import Cost

Vector = NDArray[np.float64]

NAME = "decision threshold"
_EXACT_BITS = 53
_NEEDS_GROUPS = (
    "this model was trained by person, and its threshold must protect persons too: give groups, the id of the person "
    "of each row."
)
_BY_ROWS = (
    "this model was trained by rows, so its guarantee is for one row, and a threshold by person beside it has no "
    "guarantee for a person to add to. Leave groups out, or fit with groups."
)


@dataclass(frozen=True, kw_only=True)
class ThresholdTuning:
    """Who pays: what ``paid`` wants to know."""

    ledger: Ledger | None
    dataset: str | None
    random_state: Any


def tuned(
    model: Any, X: Any, y: Any, budget: Budget, objective: str, purse: ThresholdTuning, groups: Any = None
) -> Threshold:
    """The threshold that is best by noisy counts, for the relation, the unit and the bound on rows of the fit.

    Guarantee
    ---------
    One Gaussian release of the histogram of margins by label, within the budget: docs/proofs/selection.md, Theorem 5.
    """
    statement = model.certificate_
    neighbours = Neighbours.parse(statement["relation"])
    check_objective(objective)
    check_purse(purse)
    by_person = "persons" in statement
    # Places move with the number of rows of a person, so margins must then not depend on them either.
    apart = Neighbours.ADD_REMOVE if by_person else neighbours
    check_counted(X, y, apart, by_person or isinstance(groups, str))
    grouped = _grouped(X, groups, by_person, purse.ledger is not None)
    told, unit = None, "person" if by_person else "row"
    n_rows = count_rows(X, purse.ledger is not None, y)
    if neighbours is Neighbours.REPLACE_ONE:
        told = n_rows if grouped is None else grouped.n_persons
    if told == 0:
        raise InvalidInput("there are no rows to tune on.")
    n_units = statement["problem"]["n_units"] if told is None else told
    mu = gaussian_mu(budget)
    moved = sensitivity(neighbours.rows_changed)
    bins = bins_for(moved / mu, n_units)
    noise = gaussian_noise(moved, 2 * bins, mu)
    gate = Gate.from_random_state(purse.random_state)

    def counts() -> Vector:
        with unquoted(), np.errstate(all="ignore"):
            margins, targets = margins_and_targets(model, X, y, apart)
            n_found = len(margins) if grouped is None else grouped.n_persons
            if told is not None and n_found != told:
                raise InvalidInput("X has another number of rows than it told before it was read.")
            if n_found > n_units:
                raise InvalidInput(f"the table has more {unit}s than max_rows, which it must never exceed.")
            labels = encode_labels(targets, model.classes_)
            cells = bins_of(model, margins.reshape(-1), bins) + bins * (labels > 0)
            if grouped is None:
                return np.bincount(cells, minlength=2 * bins).astype(np.float64)
            grouped.check_rows(len(cells))
            return shared_counts(cells, grouped, 2 * bins, n_units)

    entry, noisy = paid(
        purse,
        lambda: Cost.gaussian(mu),
        neighbours,
        NAME,
        counts,
        lambda exact: gate.release_one(exact, noise, NAME),
        kind="threshold",
        unit=unit,
    )
    return Threshold(
        margin=best_margin(model, bins, noisy, objective, noise.scale),
        objective=objective,
        epsilon=float(budget.epsilon),
        delta=float(budget.delta),
        neighbours=neighbours.value,
        unit=statement["unit"],
        n_units=int(n_units),
        bins=bins,
        sensitivity=noise.sensitivity,
        noise_scale=noise.scale,
        entropy=gate.source.name,
        private=gate.secure,
        ledger_entry=entry,
    )


def shared_counts(cells: NDArray[np.int64], grouped: GroupedRows, n_cells: int, n_units: int) -> Vector:
    """Each row counts its share of its person, added up in whole numbers that a float holds exactly.

    ``n_units`` is public: with so many persons no count needs more than 53 bits.
    """
    dropped = max(0, int(n_units).bit_length() + SHARE_BITS - _EXACT_BITS)
    totals = np.zeros(n_cells, np.int64)
    np.add.at(totals, cells, grouped.shares() >> dropped)
    return totals.astype(np.float64) / 2.0 ** (SHARE_BITS - dropped)


def _grouped(X: Any, groups: Any, by_person: bool, paying: bool) -> GroupedRows | None:
    """Which rows belong to which person, where the model was trained by person; else rows are on their own."""
    if not by_person:
        if groups is not None:
            raise Unsupported(_BY_ROWS)
        return None
    if groups is None:
        raise InvalidInput(_NEEDS_GROUPS)
    with unquoted():
        grouped = GroupedRows.of(groups)
        grouped.check_rows(count_rows(X, paying))
    return grouped


def best_margin(model: Any, bins: int, noisy: Vector, objective: str, noise: float) -> float:
    """The edge that is best for the positive class, on the margin, which is that of ``classes_[1]``."""
    edges = edges_of(model, bins)
    if is_turned(model):
        return -best_edge(-edges[::-1], noisy[::-1], objective, noise)
    return best_edge(edges, noisy, objective, noise)


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
    condition = AT_LEAST.fullmatch(objective)
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
