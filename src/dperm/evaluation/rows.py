"""The rows of a release: whose they are, how many are public, and how they are read without a message about them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.counting.design import MOST_ROWS, Owners
from dperm.counting.query import Account, check_count
from dperm.errors import InvalidInput, PrivacyWarning
from dperm.estimators.persons import GroupedRows
from dperm.estimators.rows import check_counted, count_rows, redact_errors
from dperm.evaluation.model import EvaluatedModel
from dperm.privacy import Budget
from dperm.unit import PERSON, ROW, Neighbours, parse_unit

_BY_ROW = (
    "the model is one of persons, who may have several rows, and {}. Give groups, the id of the person of each row; or "
    "say that rows are meant, unit='row' (on the command line --unit row)."
)
_RELEASED = "this release would be private for single rows: a person with k of them is protected k times less"
_LOCAL = "figures of single rows would count a person with k of them k times"


@dataclass(frozen=True, eq=False)
class Ownership:
    """Which rows belong to which person, or None where each is on its own."""

    grouped: GroupedRows | None

    @property
    def unit(self) -> str:
        return ROW if self.grouped is None else PERSON

    @property
    def by_person(self) -> bool:
        return self.grouped is not None

    def relation_of_places(self, relation: Neighbours) -> Neighbours:
        """Places move with the number of rows of a person, so margins are then such as do not depend on them."""
        return relation if self.grouped is None else Neighbours.ADD_REMOVE

    def owners(self, n_rows: int) -> Owners:
        if self.grouped is None:
            return Owners.of_rows(n_rows)
        self.grouped.check_rows(n_rows)
        return Owners.of_persons(self.grouped)


def ownership(
    model: EvaluatedModel,
    X: Any,
    y: Any,
    relation: Neighbours,
    groups: Any,
    unit: Any,
    account: Account | None,
) -> Ownership:
    """Which rows belong to which person, where ``groups`` says so; refused where only the model knew.

    Without an account nothing is released. Rows that cannot be counted where they are, or targets of another number,
    are refused too.
    """
    charged, local = account is not None and account.charged, account is None
    by_person = groups is not None or (model.of_persons and unit != ROW)
    if not model.steps:  # rows of a pipeline are counted as its steps give them
        apart = Neighbours.ADD_REMOVE if by_person else relation
        check_counted(X, y, apart, by_person, rows_are_meant=unit == ROW or local)
    _check_unit(unit, groups, model.of_persons, local)
    n_rows = count_rows(X, charged, y)
    if groups is None:
        return Ownership(None)
    with redact_errors():
        grouped = GroupedRows.of(groups)
        grouped.check_rows(n_rows)
    return Ownership(grouped)


def _check_unit(unit: Any, groups: Any, of_persons: bool, local: bool) -> None:
    """Refuse to protect, or to count, rows where the model is one of persons, unless rows are said to be meant."""
    if unit is not None:
        parse_unit(unit)
    if unit == PERSON and groups is None:
        raise InvalidInput("unit='person' needs groups, the id of the person of each row.")
    if unit == ROW and groups is not None:
        raise InvalidInput("unit='row' counts every row on its own: leave out groups.")
    if of_persons and groups is None and unit is None:
        raise InvalidInput(_BY_ROW.format(_LOCAL if local else _RELEASED))


@dataclass(frozen=True)
class PublicCount:
    """The number of rows, or of persons, None where it is private; a declared bound is public instead."""

    n_rows: int | None
    max_rows: int | None

    @property
    def bound(self) -> int:
        public = self.n_rows if self.max_rows is None else self.max_rows
        assert public is not None
        return public

    def check(self, n_read: int) -> None:
        """As many as were public, or no more than were declared."""
        check_count(n_read, self.n_rows, min(MOST_ROWS, self.max_rows or MOST_ROWS))


def public_count(
    X: Any, y: Any, budget: Budget, relation: Neighbours, max_rows: Any, account: Account, whose: Ownership
) -> PublicCount:
    """What is public of the number of rows, checked before one is read."""
    relation.check_max_rows(max_rows)
    whole = isinstance(max_rows, int) and not isinstance(max_rows, bool) and 1 <= max_rows <= MOST_ROWS
    if max_rows is not None and not whole:
        raise InvalidInput(f"max_rows must be a whole number from 1 to {MOST_ROWS}; got {max_rows!r}.")
    n_rows = None
    if relation is Neighbours.REPLACE_ONE:
        grouped = whose.grouped
        n_rows = count_rows(X, account.charged, y) if grouped is None else grouped.n_persons
    if n_rows == 0:
        raise InvalidInput("there are no rows to evaluate on.")
    public = PublicCount(n_rows, max_rows)
    if budget.delta >= 1 / public.bound:
        warnings.warn(
            f"delta = {budget.delta:g} is not below one over the number of rows: such a promise allows each of them to "
            "be published outright with that chance. Choose it far smaller.",
            PrivacyWarning,
            stacklevel=3,
        )
    return public


@contextmanager
def redacted() -> Iterator[None]:
    """A block that reads rows: a record is quoted by no error, and no warning tells of one."""
    with redact_errors(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
