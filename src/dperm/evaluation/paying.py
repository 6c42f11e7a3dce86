"""What every release about rows to be predicted does alike: checks before a row is read, the charge, the record."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput, PrivacyWarning
from dperm.estimators.apart import check_counted, count_rows, quoting_nothing
from dperm.estimators.persons import GroupedRows
from dperm.evaluation.design import MOST_ROWS
from dperm.evaluation.planning import Plan
from dperm.evaluation.subject import Subject
from dperm.ledger import Ledger
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, Gate
from dperm.unit import PERSON, ROW, parse_unit

Vector = NDArray[np.float64]
Rows = TypeVar("Rows")

ONCE = "Every person counts once, each of k rows as 1/k."
BY_PERSON = "Every person counts once, each of k rows as 1/k: the guarantee is for a person with all rows."
_BY_ROW = (
    "the model is one of persons, who may have several rows, and {}. Give groups, the id of the person of each row; or "
    "say that rows are meant, unit='row' (on the command line --unit row)."
)
_RELEASED = "this release would be private for single rows: a person with k of them is protected k times less"
_LOCAL = "figures of single rows would count a person with k of them k times"


@dataclass(frozen=True, eq=False)
class Purse:
    """Who pays: a ledger with one of its datasets, or nobody. ``secure`` is False where the noise is seeded."""

    ledger: Ledger | None
    dataset: str | None
    secure: bool

    @classmethod
    def checked(cls, ledger: Any, dataset: str | None, random_state: Any) -> Purse:
        if ledger is None:
            if dataset is not None:
                raise InvalidInput("dataset names a dataset of the ledger; give the ledger too.")
        elif not isinstance(ledger, Ledger):
            raise InvalidInput(f"ledger must be a dperm.Ledger or None; got a {type(ledger).__name__}.")
        elif random_state is not None:
            raise InvalidInput(
                "random_state makes the noise predictable, so the result is not private and cannot be charged as if it "
                "were. Leave random_state or the ledger at None."
            )
        return cls(ledger, dataset, random_state is None)

    def paid(
        self,
        plan: Plan,
        read: Callable[[], Rows],
        release: Callable[[Rows], Vector],
        label: str,
        mechanism: str,
        unit: str = "row",
    ) -> tuple[str | None, Vector]:
        """The charge, made before a row is read, and what was released."""
        if self.ledger is None:
            return None, release(read())
        return self.ledger.pay(
            plan.cost,
            read,
            release,
            dataset=self.dataset,
            neighbours=plan.neighbours.value,
            unit=unit,
            kind="evaluate",
            label=label,
            mechanism=mechanism,
        )


def check_unit(unit: Any, groups: Any, of_persons: bool, local: bool = False) -> None:
    """Refuse to protect, or to count, rows where the model is one of persons, unless rows are said to be meant."""
    if unit is not None:
        parse_unit(unit)
    if unit == PERSON and groups is None:
        raise InvalidInput("unit='person' needs groups, the id of the person of each row.")
    if unit == ROW and groups is not None:
        raise InvalidInput("unit='row' counts every row on its own: leave out groups.")
    if of_persons and groups is None and unit is None:
        raise InvalidInput(_BY_ROW.format(_LOCAL if local else _RELEASED))


def grouped_rows(
    subject: Subject, X: Any, y: Any, relation: Neighbours, groups: Any, unit: Any, purse: Purse | None
) -> GroupedRows | None:
    """Which rows belong to which person, where ``groups`` says so; refused where only the model knew.

    Without a purse figures are local. Rows that cannot be counted where they are, or targets of another number, are
    refused too.
    """
    paying = purse is not None and purse.ledger is not None
    by_person = groups is not None or (subject.of_persons and unit != ROW)
    if not subject.steps:  # rows of a pipeline are counted as its steps give them
        apart = Neighbours.ADD_REMOVE if by_person else relation
        check_counted(X, y, apart, by_person, rows_are_meant=unit == ROW or purse is None)
    check_unit(unit, groups, subject.of_persons, local=purse is None)
    n_rows = count_rows(X, paying, y)
    if groups is None:
        return None
    with quoting_nothing():
        grouped = GroupedRows.of(groups)
        grouped.check_rows(n_rows)
    return grouped


def unit_of(grouped: GroupedRows | None) -> str:
    return "row" if grouped is None else "person"


def public_rows(
    X: Any,
    budget: Budget,
    relation: Neighbours,
    max_rows: Any,
    purse: Purse,
    grouped: GroupedRows | None = None,
    y: Any = None,
) -> tuple[int | None, int]:
    """The number of rows, or of persons, where it is public, and a public number that it does not exceed."""
    _check_capacity(relation, max_rows)
    told = None
    if relation is Neighbours.REPLACE_ONE:
        told = count_rows(X, purse.ledger is not None, y) if grouped is None else grouped.n_persons
    if told == 0:
        raise InvalidInput("there are no rows to evaluate on.")
    public = told if max_rows is None else max_rows
    assert public is not None
    if budget.delta >= 1 / public:
        warnings.warn(
            f"delta = {budget.delta:g} is not below one over the number of rows: such a promise allows each of them to "
            "be published outright with that chance. Choose it far smaller.",
            PrivacyWarning,
            stacklevel=3,
        )
    return told, public


def check_read(n_rows: int, told: int | None, max_rows: int | None) -> None:
    """As many as was told, or no more than was declared."""
    if n_rows > MOST_ROWS or (told is not None and n_rows != told):
        raise InvalidInput("X has another number of rows than it told before it was read.")
    if max_rows is not None and n_rows > max_rows:
        raise InvalidInput("the table has more rows than max_rows, which it must never exceed.")


@contextmanager
def telling_nothing() -> Iterator[None]:
    """A block that reads rows: a record is quoted by no error, and no warning tells of one."""
    with quoting_nothing(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def recorded(gate: Gate, plan: Plan, released: Vector) -> dict[str, Any]:
    """The one release that the gate saw, in plain values."""
    (record,) = gate.records()
    return {
        "sensitivity": record.sensitivity,
        "noise_scale": record.noise_scale,
        "grid_exponent": record.grid_exponent,
        "numbers": released.tolist(),
        "parts": plan.design.told,
        "entropy": record.entropy,
        "secure": record.secure,
    }


def _check_capacity(relation: Neighbours, max_rows: Any) -> None:
    if relation is Neighbours.ADD_REMOVE and max_rows is None:
        raise InvalidInput(
            "neighbours='add-remove' keeps the number of rows private, so it needs max_rows, a public number that the "
            "table never exceeds; or use neighbours='replace-one'."
        )
    if relation is Neighbours.REPLACE_ONE and max_rows is not None:
        raise InvalidInput(
            "max_rows belongs to neighbours='add-remove'; under replace-one the row count is public."
        )
    whole = isinstance(max_rows, int) and not isinstance(max_rows, bool) and 1 <= max_rows <= MOST_ROWS
    if max_rows is not None and not whole:
        raise InvalidInput(f"max_rows must be a whole number from 1 to {MOST_ROWS}; got {max_rows!r}.")
