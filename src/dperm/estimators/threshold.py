"""The decision threshold of a fitted classifier of two classes, chosen from noisy counts of margins by label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.certificate.threshold import AT_LEAST, Threshold, bins_for, check_objective
from dperm.counting.bins import margin_scale
from dperm.counting.design import Design, Histogram, Integers, share_bits, shared_counts
from dperm.counting.metrics import registered_metrics
from dperm.counting.metrics.base import EdgeCounts
from dperm.counting.query import Account, Query, check_count
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.labels import encode_labels, is_turned
from dperm.estimators.persons import GroupedRows
from dperm.estimators.rows import check_counted, count_rows, margins_and_targets, redact_errors
from dperm.ledger import Ledger
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, Gate, gaussian_mu

Vector = NDArray[np.float64]

NAME = "decision threshold"
_NEEDS_GROUPS = (
    "this model was trained by person, and its threshold must protect persons too: give groups, the id of the person "
    "of each row."
)
_BY_ROWS = (
    "this model was trained by rows, so its guarantee is for one row, and a threshold by person beside it has no "
    "guarantee for a person to add to. Leave groups out, or fit with groups."
)


def tuned(
    model: Any,
    X: Any,
    y: Any,
    budget: Budget,
    objective: str,
    *,
    ledger: Ledger | None,
    dataset: str | None,
    random_state: Any,
    groups: Any = None,
) -> Threshold:
    """The threshold that is best by noisy counts, for the relation, the unit and the bound on rows of the fit.

    Guarantee
    ---------
    One Gaussian release of the histogram of margins by label, within the budget: docs/proofs/selection.md, Theorem 5.
    """
    statement = model.certificate_
    neighbours = Neighbours.parse(statement["relation"])
    check_objective(objective)
    account = Account.checked(ledger, dataset, random_state, of_fit=True)
    by_person = "persons" in statement
    # Places move with the number of rows of a person, so margins must then not depend on them either.
    apart = Neighbours.ADD_REMOVE if by_person else neighbours
    check_counted(X, y, apart, by_person or isinstance(groups, str))
    grouped = _grouped(X, groups, by_person, account.charged)
    n_public, unit = None, "person" if by_person else "row"
    n_rows = count_rows(X, account.charged, y)
    if neighbours is Neighbours.REPLACE_ONE:
        n_public = n_rows if grouped is None else grouped.n_persons
    if n_public == 0:
        raise InvalidInput("there are no rows to tune on.")
    n_units = statement["problem"]["n_units"] if n_public is None else n_public
    query = _query(budget, neighbours, n_units, by_person)
    bins, gate = query.design.size // 2, Gate.from_random_state(random_state)

    def cells() -> Integers:
        with redact_errors(), np.errstate(all="ignore"):
            margins, targets = margins_and_targets(model, X, y, apart)
            check_count(len(margins) if grouped is None else grouped.n_persons, n_public, n_units, unit)
            labels = encode_labels(targets, model.classes_)
            if grouped is not None:
                grouped.check_rows(len(labels))
                grouped.check_ids()
            return np.asarray(margin_scale(model).place(margins.reshape(-1), bins) + bins * (labels > 0))

    def counts(cells: Integers) -> dict[str, Integers]:
        shares = None if grouped is None else grouped.shares()
        return {NAME: shared_counts(cells, 2 * bins, shares, share_bits(n_units))}

    words = {"unit": unit, "kind": "threshold", "label": "ThresholdTuning", "mechanism": NAME}
    release = query.run(account, gate, cells, counts, **words)
    return Threshold(
        margin=best_margin(model, bins, release.numbers, objective, query.noise.scale),
        objective=objective,
        epsilon=float(budget.epsilon),
        delta=float(budget.delta),
        neighbours=neighbours.value,
        unit=statement["unit"],
        n_units=int(n_units),
        bins=bins,
        sensitivity=query.noise.sensitivity,
        noise_scale=query.noise.scale,
        entropy=gate.source.name,
        private=gate.secure,
        ledger_entry=release.ledger_entry,
    )


def _query(budget: Budget, neighbours: Neighbours, n_units: int, by_person: bool) -> Query:
    """Counts of rows, or of shares of persons, in two histograms of as many bins as the public rule gives."""
    step = 2.0 ** -share_bits(n_units) if by_person else 1.0

    def design(bins: int) -> Design:
        return Design((Histogram(NAME, 2 * bins, unit=step),))

    bins = bins_for(design(1).sensitivity(neighbours) / gaussian_mu(budget), n_units)
    return Query(design=design(bins), budget=budget, neighbours=neighbours, name=NAME)


def _grouped(X: Any, groups: Any, by_person: bool, paying: bool) -> GroupedRows | None:
    """Which rows belong to which person, where the model was trained by person; else rows are on their own."""
    if not by_person:
        if groups is not None:
            raise Unsupported(_BY_ROWS)
        return None
    if groups is None:
        raise InvalidInput(_NEEDS_GROUPS)
    with redact_errors():
        grouped = GroupedRows.of(groups)
        grouped.check_rows(count_rows(X, paying))
    return grouped


def best_margin(model: Any, bins: int, noisy: Vector, objective: str, noise: float) -> float:
    """The edge that is best for the positive class, on the margin, which is that of ``classes_[1]``."""
    edges = margin_scale(model).edges(bins)
    if is_turned(model):
        return -best_edge(-edges[::-1], noisy[::-1], objective, noise)
    return best_edge(edges, noisy, objective, noise)


def best_edge(edges: Vector, noisy: Vector, objective: str, noise: float) -> float:
    """The edge between two bins at which the objective is best, by noisy counts.

    'recall>=0.8' takes the largest edge above which that share of the positive rows lies, 'precision>=0.5' the
    smallest above which that share of the rows is positive.
    """
    metrics, condition = registered_metrics(), AT_LEAST.fullmatch(objective)
    counts = EdgeCounts.of(noisy, noise)
    if condition is None:
        return float(edges[int(np.argmax(metrics[objective].at_edges(counts)))])
    holds = metrics[condition[1]].at_edges(counts) >= float(condition[2])
    if not holds.any():
        return float(edges[0] if condition[1] == "recall" else edges[-1])
    places = np.flatnonzero(holds)
    return float(edges[places[-1] if condition[1] == "recall" else places[0]])
