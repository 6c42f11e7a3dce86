"""Rows that belong to persons: ids in, the rows that are kept, their shares and who they belong to out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.engine import ShardSource, labels_in, persons_in
from dperm.engine.base.draws import Members
from dperm.engine.shards.sources import KeptShards, rows_at
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Loss, Weighted
from dperm.losses.base import targets_alone, weighted_targets, weights_alone
from dperm.mechanisms import Plan
from dperm.person_ids import UNREADABLE, numbered
from dperm.problem import Problem
from dperm.unit import SHARE_BITS, PersonLoss, Persons, rows_kept

Integers = NDArray[np.int64]

_NOT_DECLARED = (
    "max_rows_per_person and person_loss are about persons: give fit the ids of the persons with groups=, one for each "
    "row."
)
_NO_COLUMN = (
    "groups is the name of a column only where X is a Dask or Spark frame or a PyArrow dataset with that column, or "
    "shards that hold it. Otherwise give the ids, one for each row."
)
_IN_ORDER = (
    "mechanism {!r} goes through the persons in an order, and one of persons cannot be drawn for rows in shards, since "
    "those of one person may lie in several: use auto, objective, output, dp-gd or dp-sgd, or rows in memory."
)
_CONVERT_FIRST = (
    "With a ledger the number of persons must be known before a row is read: write the rows to a folder of shards "
    "first, with dperm convert or dperm.data.write_shards, and fit on that."
)
_SUM_NEEDS_BOUND = (
    "person_loss='sum' adds up all rows of a person, so it needs max_rows_per_person, a number that is declared "
    "without the data: rows beyond it are left out and the noise grows with it. person_loss='mean' needs none."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupedRows:
    """The person of every row, numbered by their first rows, and how many rows each has before it.

    Where an id cannot be read, persons are counted, all such ids as one, and nothing else is told: that an id is bad is
    known from the rows, so it is refused when they are read, after a charge.
    """

    numbers: Integers
    before: Integers
    in_shards: bool = False
    readable: bool = True

    @classmethod
    def of(cls, groups: Any) -> GroupedRows:
        """From ids, or what stands for them in shards (``dperm.person_ids``). Their form is checked; each is later."""
        found = numbered(groups)
        person = found.person
        order = np.argsort(person, kind="stable")
        starts = np.searchsorted(person[order], np.arange(len(found.names)))
        before = np.empty(len(person), np.int64)
        before[order] = np.arange(len(person)) - starts[person[order]]
        return cls(numbers=person, before=before, readable=found.readable)

    @property
    def n_persons(self) -> int:
        return int(self.numbers.max()) + 1 if self.numbers.size else 0

    @property
    def person(self) -> Integers:
        """The number of the person of each row, once it is known that every id could be read."""
        self.check_ids()
        return self.numbers

    def check_ids(self) -> None:
        if not self.readable:
            raise InvalidInput(UNREADABLE[0].upper() + UNREADABLE[1:])

    def check_rows(self, n_rows: int) -> None:
        if len(self.numbers) != n_rows:
            raise InvalidInput(f"groups has {len(self.numbers):,} ids for {n_rows:,} rows.")

    def check_plan(self, plan: Plan) -> None:
        """Refuse, before anything is spent, what cannot be done with rows where they are."""
        if self.in_shards and plan.problem.many_rows and plan.trained_by.mechanism.in_order:
            raise Unsupported(_IN_ORDER.format(plan.trained_by.mechanism.name))

    def kept(self, most: int) -> NDArray[np.bool_]:
        """The first rows of every person, at most so many: a rule that looks at nobody else."""
        self.check_ids()
        return np.asarray(self.before < most)

    def shares(self) -> Integers:
        """How much of its person each row is, in whole 2**-30ths, rounded down.

        The rows of one person add up to at most 1, exactly, so that sums of what each row counts times its share move
        with a person by no more than with one row.
        """
        return np.asarray(2**SHARE_BITS // np.bincount(self.person)[self.person], np.int64)


def grouped_rows(groups: Any, rows: Any, n_rows: int, paying: bool) -> GroupedRows | None:
    """Which rows belong to which person, where ``fit`` was told or the shards know."""
    known = rows.person if isinstance(rows, ShardSource) else None
    if isinstance(groups, str) and groups != known:
        raise InvalidInput(_NO_COLUMN)
    if known is not None:
        if groups is not None and not isinstance(groups, str):
            raise InvalidInput(
                "these shards hold the ids of the persons beside their rows; leave groups out."
            )
        if paying and not rows.persons_are_apart:
            raise InvalidInput(_CONVERT_FIRST)
        groups = persons_in(rows)
    if groups is None:
        return None
    grouped = replace(GroupedRows.of(groups), in_shards=isinstance(rows, ShardSource))
    grouped.check_rows(n_rows)
    return grouped


def declared_persons(
    by_person: bool, person_loss: str, max_rows_per_person: int | None, n_persons: int
) -> Persons | None:
    """What an estimator declares of persons; None where rows are on their own."""
    loss = PersonLoss.parse(person_loss)
    if not by_person:
        if max_rows_per_person is not None or loss is not PersonLoss.MEAN:
            raise InvalidInput(_NOT_DECLARED)
        return None
    if max_rows_per_person is None and loss is PersonLoss.SUM:
        raise InvalidInput(_SUM_NEEDS_BOUND)
    most = rows_kept(n_persons) if max_rows_per_person is None else max_rows_per_person
    return Persons(rows_per_person=most, loss=loss)


def loss_of_persons(loss: Loss, persons: Persons | None) -> Loss:
    """The loss whose bound is that of one person: rows then weigh their share, or one each up to so many."""
    if persons is None or persons.rows_per_person == 1:
        return loss
    most = float(persons.rows_per_person) if persons.loss is PersonLoss.SUM else 1.0
    if isinstance(loss, Weighted):
        return Weighted(loss.base, loss.bound * most)
    return Weighted(loss, most)


def of_persons(
    rows: Any, targets: Any, grouped: GroupedRows, problem: Problem
) -> tuple[Any, Any, Members | None]:
    """The rows that are kept, their targets with their shares as weights, and who they belong to.

    Targets of rows in shards may be what encodes them there; they are fetched where each needs a weight of its own.
    Whether rows are left out is nothing that a pass may depend on, so shards are wrapped in any case.
    """
    persons = problem.persons
    assert persons is not None
    kept = grouped.kept(persons.rows_per_person)
    person = grouped.person
    if isinstance(rows, ShardSource):
        rows = KeptShards(rows, kept)
    elif not kept.all():
        rows = rows_at(rows, np.flatnonzero(kept))
    if not callable(targets):
        targets = targets[kept]
    elif problem.many_rows:
        targets = labels_in(rows, targets)
    person = person[kept]
    if not problem.many_rows:
        return rows, targets, None
    weights = weights_alone(targets)
    if persons.loss is PersonLoss.MEAN:
        weights = weights / np.bincount(person)[person]
    members = Members(person, problem.n_rows, problem.loss.heaviest)
    return rows, weighted_targets(targets_alone(targets), weights), members
