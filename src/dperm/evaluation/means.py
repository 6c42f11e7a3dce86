"""``dperm.mean_predictions``: one counting query about what a model predicts, by group, and its result."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dperm.certificate.statement import plain
from dperm.counting.design import Integers, Owners
from dperm.counting.estimates import UNIT
from dperm.counting.query import Account, Query
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.rows import made, margins_apart
from dperm.evaluation.groups import (
    SUMMED,
    DeclaredGroups,
    GroupSums,
    Mean,
    declared_groups,
    means,
    means_design,
)
from dperm.evaluation.model import EvaluatedModel, evaluated_model
from dperm.evaluation.plan import means_notes, stated
from dperm.evaluation.report import means_html, means_text
from dperm.evaluation.results import MAX_BYTES, MeansResult
from dperm.evaluation.rows import Ownership, ownership, public_count, redacted
from dperm.evaluation.verification import MEANS, accepted
from dperm.ledger import Ledger
from dperm.privacy import Budget, Gate
from dperm.render.html import notebook_cell
from dperm.strict_json import read_file
from dperm.unit import Neighbours

__all__ = ["Mean", "MeanPredictions", "mean_predictions", "read_mean_predictions"]

Vector = NDArray[np.float64]
Ends = tuple[float, float]
Rows = tuple[Integers, Vector, Owners]

_FAR = 1e6  # a margin that overflowed is cut, so that what follows is a number whatever the row
NEEDS_BUDGET = (
    "budget must be a Budget to spend on these rows, for example Budget(epsilon=0.5, delta=1e-6): a mean over private "
    "rows tells about them."
)


class MeanPredictions(MeansResult):
    """What a model predicts for private rows, on average, by declared group.

    Attributes
    ----------
    groups : dict of Mean
        One for every declared value and, where declared, the rest. A ``Mean`` has three estimates, each with
        ``estimate``, ``low``, ``high`` (95 %) and ``noise``: ``mean``, whose interval is for the population that the
        rows came from; ``here``, whose interval is for these very rows and knows the noise alone; and ``rows``, how
        many there are, or how many persons. All numbers are None where the noise leaves nothing to say.
    overall : Mean
        Of all rows, or persons.
    label, range
        The class whose probability was averaged, None for a regression; and where predictions were cut off.
    by : str
        The name of the column that tells the group, where it has one.
    other : str or None
        The name of the group of all rows with another value.
    private : bool
        Whether (epsilon, delta) holds for all of this: not with a ``random_state``.
    budget : dict
        Epsilon and delta of the one release.
    neighbours : str
        The relation for which they hold.
    unit : str
        "row", or "person" where ids were given: every person then counts once, each of k rows as 1/k in its group.
    rows : int or None
        The number of rows, or of persons; None where it is private, and then ``overall.rows`` is its estimate.
    model : str
        Digest of the released numbers of the model, as its certificate has it under ``model.sha256``.
    ledger_entry : str or None
        The charge that paid for it.
    """

    @classmethod
    def from_dict(cls, document: object) -> MeanPredictions:
        """From what JSON held: its statement is recomputed, and its means are made again from what was released."""
        return cls(**accepted(document, MEANS))

    def __str__(self) -> str:
        return means_text(self)

    def _repr_html_(self) -> str:
        return notebook_cell(means_html(self))


def read_mean_predictions(path: str | os.PathLike[str]) -> MeanPredictions:
    """The mean predictions that a file holds.

    Raises
    ------
    InvalidInput
        If it is not one that this version reads, whole and unchanged, or what it states does not recompute.
    """
    return read_file(path, MeanPredictions.from_dict, "file of mean predictions", MAX_BYTES)


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
    evaluated, relation = evaluated_model(model), Neighbours.parse(neighbours)
    quantity, declared = quantity_of(evaluated, label, bounds), declared_groups(by, values, other)
    if not isinstance(budget, Budget):
        raise InvalidInput(NEEDS_BUDGET)
    account = Account.checked(ledger, dataset, random_state)
    whose = ownership(evaluated, X, None, relation, groups, unit, account)
    public = public_count(X, None, budget, relation, max_rows, account, whose)
    query = Query(design=means_design(declared.n_cells), budget=budget, neighbours=relation)

    def read() -> Rows:
        rows = _read(quantity, declared, X, by, relation, whose)
        public.check(rows[2].count)
        return rows

    release = query.run(
        account,
        Gate.from_random_state(random_state),
        read,
        lambda rows: {SUMMED: GroupSums(declared.n_cells).count(*rows)},
        unit=whose.unit,
        kind="evaluate",
        label=f"mean predictions of model {evaluated.digest[:12]}",
        mechanism="means",
    )
    found = means(release.numbers, query.noise.scale, public.n_rows, quantity.ends)
    return MeanPredictions(
        **stated(evaluated, whose, public, query, release),
        label=quantity.label,
        range=quantity.ends,
        by=declared.name,
        groups=dict(zip(declared.labels, found, strict=False)),
        overall=found[-1],
        other=declared.other,
        release=release.to_dict(),
        notes=means_notes(quantity.label, quantity.ends, account.secure, whose.by_person),
    )


def _read(
    quantity: Quantity, declared: DeclaredGroups, X: Any, by: Any, relation: Neighbours, whose: Ownership
) -> Rows:
    """The group of each row, its prediction in halves of the range, and whose row it is."""
    with redacted():
        rows = made(X)
        predicted = quantity.in_halves(rows, whose.relation_of_places(relation))
        places = declared.places(rows, by, len(predicted))
        return places, predicted, whose.owners(len(predicted))


@dataclass(frozen=True, eq=False)
class Quantity:
    """A number for every row, cut off at ``ends``; ``place`` is that of its class, None for a regression.

    Guarantee
    ---------
    The number of a row depends on this row and public facts alone: every operation acts on each row by itself.
    """

    evaluated: EvaluatedModel
    place: int | None
    ends: Ends

    @property
    def label(self) -> Any:
        """The class, as plain JSON has it."""
        return None if self.place is None else plain("classes", self.evaluated.classes)[self.place]

    def in_halves(self, X: Any, neighbours: Neighbours) -> Vector:
        """The numbers of all rows in units of half the range, around its middle: from -1 to 1."""
        if self.evaluated.steps:
            X = self.evaluated.transformed(X)
        numbers = self._numbers(margins_apart(self.evaluated.model, X, neighbours))
        low, high = self.ends
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        return np.clip((np.nan_to_num(numbers) - middle) / half, -1.0, 1.0)

    def _numbers(self, margins: Vector) -> Vector:
        if self.place is None:
            return margins
        odds = self.evaluated.in_order(
            np.clip(np.nan_to_num(self.evaluated.loss.log_odds(margins)), -_FAR, _FAR)
        )
        if odds.ndim == 1:
            return np.asarray(expit(odds if self.place == 1 else -odds))
        # Class after class: the order in which a sum over columns is taken may depend on how many rows there are.
        others = np.full(len(odds), -np.inf)
        for k, column in enumerate(odds.T):
            if k != self.place:
                others = np.logaddexp(others, column)
        return np.asarray(expit(odds[:, self.place] - others))


def quantity_of(evaluated: EvaluatedModel, label: Any, bounds: Any) -> Quantity:
    """``label`` is a class, of two the positive one unless another is given; ``bounds`` are narrower ends."""
    if evaluated.task == "regression":
        if label is not None:
            raise InvalidInput("label names a class, and a regression has none; leave it out.")
        return Quantity(evaluated, None, _narrowed(evaluated.y_range, bounds))
    if not evaluated.has_probabilities:
        raise Unsupported(
            "this model was trained with a loss that gives no probabilities, so there are none to average. Use a "
            "logistic model."
        )
    return Quantity(evaluated, _place(evaluated, label), _narrowed(UNIT, bounds))


def _place(evaluated: EvaluatedModel, label: Any) -> int:
    classes = plain("classes", evaluated.classes)
    if label is None:
        if len(classes) == 2:
            return 1
        raise InvalidInput(
            f"label must say whose probability to average, of the {len(classes)} classes of the model."
        )
    found = [place for place, known in enumerate(evaluated.classes) if known == label]
    if len(found) != 1:
        raise InvalidInput("label must be one of the classes of the model.")
    return found[0]


def _narrowed(ends: Ends, bounds: Any) -> Ends:
    if bounds is None:
        return ends
    numbers = isinstance(bounds, tuple | list) and all(
        isinstance(end, float | int | np.floating) and not isinstance(end, bool) and math.isfinite(end)
        for end in bounds
    )
    if not numbers or len(bounds) != 2 or not ends[0] <= bounds[0] < bounds[1] <= ends[1]:
        raise InvalidInput(
            f"bounds must be two numbers (low, high) with {ends[0]:g} <= low < high <= {ends[1]:g}; got {bounds!r}."
        )
    return float(bounds[0]), float(bounds[1])
