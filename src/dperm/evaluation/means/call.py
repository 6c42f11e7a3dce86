"""``dperm.mean_predictions``: charge, read, sum, release, and make means of what was released."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm import __version__
from dperm.errors import InvalidInput
from dperm.estimators.apart import made
from dperm.estimators.persons import GroupedRows
from dperm.evaluation.means.counting import GROUPS, Groups, means_design
from dperm.evaluation.means.declared import Declared, declared_groups
from dperm.evaluation.means.figures import means
from dperm.evaluation.means.quantity import Quantity, quantity_of
from dperm.evaluation.means.result import MeanPredictions
from dperm.evaluation.means.verifying import notes_of
from dperm.evaluation.owners import Integers, Owners
from dperm.evaluation.paying import (
    Purse,
    check_read,
    grouped_rows,
    public_rows,
    recorded,
    telling_nothing,
    unit_of,
)
from dperm.evaluation.planning import Plan
from dperm.evaluation.subject import subject_of
from dperm.ledger import Ledger
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, Gate

Vector = NDArray[np.float64]
Rows = tuple[Integers, Vector, Owners]

NEEDS_BUDGET = (
    "budget must be a Budget to spend on these rows, for example Budget(epsilon=0.5, delta=1e-6): a mean over private "
    "rows tells about them."
)


def mean_predictions(
    model: Any,
    X: Any,
    budget: Budget,
    *,
    by: Any = None,
    values: Any = None,
    other: str | None = None,
    label: Any = None,
    bounds: tuple[float, float] | None = None,
    groups: Any = None,
    unit: str | None = None,
    neighbours: str = "replace-one",
    max_rows: int | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    random_state: Any = None,
) -> MeanPredictions:
    """Average what a model predicts for private rows, by declared group, with one noisy release that costs ``budget``.

    Parameters
    ----------
    model : private model, or a pipeline of a PublicEncoder and one
        Fitted; it is public, and taken as it is.
    X
        Rows as ``predict`` takes them. Targets are not needed.
    budget : Budget
        Of the one release. Everything in the result is made of it, at no further cost.
    by : array-like with one value for each row, or the name of a column of X, optional
        The group of each row. Without it there is the mean of all rows alone.
    values : list of str, int or bool
        The values of ``by`` that make a group, declared without a look at the rows.
    other : str, optional
        Names a group of all rows with another value, or none. Without it such a row is an error.
    label : optional
        The class whose probability is averaged; of two classes the positive one by default. Not for a regression.
    bounds : (float, float), optional
        Predictions outside count as the nearest end, and noise falls with the distance of the two; by default from 0 to
        1, or the declared range of a regression. They must be known without the rows.
    groups : array-like with one id for each row, optional
        The person of each row: every person then counts once, each of k rows as 1/k in its own group, and the
        guarantee is for a person with all rows.
    unit : {"row", "person"}, optional
        Whom the guarantee is for: a person where there are ``groups``, otherwise a row. A model of persons is refused
        without ``groups`` unless "row" is said.
    neighbours, max_rows
        As of the estimators: under "add-remove" the number of rows is private too and ``max_rows`` bounds it.
    ledger, dataset
        Charged once, before a row is read. If nobody in these rows was in the training rows, they are a dataset of
        their own.
    random_state
        Anything but None makes the noise predictable, and the result not private.

    Guarantee
    ---------
    Without ``random_state`` all of the result is (epsilon, delta)-differentially private for these rows, one row, or
    with ``groups`` one person, being the unit (docs/proofs/means.md). Of the training rows it tells nothing that the
    model does not.

    Examples
    --------
    >>> import numpy as np
    >>> import dperm
    >>> rng = np.random.default_rng(0)
    >>> X, ward = rng.uniform(-0.5, 0.5, size=(20_000, 2)), rng.choice(["A", "B"], size=20_000)
    >>> y = (X[:, 0] + 0.2 * rng.normal(size=20_000) > 0).astype(int)
    >>> model = dperm.PrivateLogisticRegression(epsilon=1, delta=1e-6, classes=[0, 1]).fit(X[:10_000], y[:10_000])
    >>> new, where = X[10_000:], ward[10_000:]
    >>> found = dperm.mean_predictions(model, new, dperm.Budget(1, 1e-6), by=where, values=["A", "B"])
    >>> bool(0.4 < found.groups["A"].mean.low < found.groups["A"].mean.high < 0.6)
    True
    """
    subject, relation = subject_of(model), Neighbours.parse(neighbours)
    quantity, declared = quantity_of(subject, label, bounds), declared_groups(by, values, other)
    if not isinstance(budget, Budget):
        raise InvalidInput(NEEDS_BUDGET)
    purse = Purse.checked(ledger, dataset, random_state)
    grouped = grouped_rows(subject, X, None, relation, groups, unit, purse)
    told, _ = public_rows(X, budget, relation, max_rows, purse, grouped)
    plan = Plan(design=means_design(declared.n_cells), budget=budget, neighbours=relation)
    gate = Gate.from_random_state(random_state)

    def read() -> Rows:
        rows = _read(quantity, declared, X, by, relation, grouped)
        check_read(rows[2].count, told, max_rows)
        return rows

    def release(rows: Rows) -> Vector:
        return plan.release(plan.design.vector({GROUPS: _counts(declared, rows)}), gate)

    words = f"mean predictions of model {subject.digest[:12]}"
    unit = unit_of(grouped)
    entry, released = purse.paid(plan, read, release, words, mechanism="means", unit=unit)
    found = means(released, plan.noise.scale, told, quantity.ends)
    return MeanPredictions(
        model=subject.digest,
        label=quantity.label,
        range=quantity.ends,
        by=declared.name,
        groups=dict(zip(declared.labels, found, strict=False)),
        overall=found[-1],
        other=declared.other,
        unit=unit,
        rows=told,
        max_rows=max_rows,
        budget={"epsilon": budget.epsilon, "delta": budget.delta},
        neighbours=relation.value,
        ledger_entry=entry,
        release=recorded(gate, plan, released),
        notes=notes_of(quantity.label, quantity.ends, purse.secure, grouped is not None),
        library=__version__,
    )


def _read(
    quantity: Quantity,
    declared: Declared,
    X: Any,
    by: Any,
    relation: Neighbours,
    grouped: GroupedRows | None,
) -> Rows:
    """The group of each row, its prediction in halves of the range, and whose row it is.

    Places move with the number of rows of a person, so predictions are then such as do not depend on them.
    """
    with telling_nothing():
        rows = made(X)
        predicted = quantity.in_halves(rows, relation if grouped is None else Neighbours.ADD_REMOVE)
        places = declared.places(rows, by, len(predicted))
        if grouped is None:
            return places, predicted, Owners.of_rows(len(predicted))
        grouped.check_rows(len(predicted))
        return places, predicted, Owners.of_persons(grouped)


def _counts(declared: Declared, rows: Rows) -> Integers:
    return Groups(declared.n_cells).count(*rows)
