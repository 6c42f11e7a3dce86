"""Neighbouring tables that differ in one whole person, with 1, 3 and 50 rows, made from the declared bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dperm.audit.neighbours import Pair, PersonRows, Rows, Side, background, changes
from dperm.estimators.persons import GroupedRows, of_persons
from dperm.losses.weighted import weighted_targets
from dperm.neighbours import Neighbours
from dperm.problem import Problem
from dperm.unit import PersonLoss

SIZES = (1, 3, 50)
GROWN = ((1, 50), (50, 1))  # a person is replaced by one with more rows, or fewer: all later rows move
OTHERS = (1, 2, 4)  # how many rows the other persons have, in turn

Vector = NDArray[np.float64]
Person = tuple[Side, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class PersonPair(Pair):
    """``n_rows`` is how many rows the differing person has, on the side where they are more."""

    n_rows: int


def person_pairs(problem: Problem) -> list[PersonPair]:
    """Every kind of change, by persons of every size whose rows are all alike, and by some whose rows are not."""
    sizes = [(size, size) for size in SIZES]
    if problem.neighbours is Neighbours.REPLACE_ONE:
        sizes += GROWN
    middle, last = problem.n_rows // 2, problem.n_rows - 1
    (first, change), *_ = changes(problem).items()
    tried = [(name, "crowded", middle, *sides) for name, sides in changes(problem).items()]
    tried += [(first, "cancelling", middle, *change)]
    tried += [(f"{first}, {place}", "crowded", at, *change) for place, at in (("first", 0), ("last", last))]
    found = [
        person_pair(problem, name, kind, at, (here,) * left, (there,) * right, apart=k % 2 == 1)
        for k, (name, kind, at, here, there) in enumerate(tried)
        for left, right in sizes
    ]
    return [*found, *_mixed(problem, middle)]


def _mixed(problem: Problem, at: int) -> Iterator[PersonPair]:
    """Persons whose rows differ, so that what each row adds is divided among many directions."""
    left, right = zip(*changes(problem).values(), strict=True)
    for size in SIZES[1:]:
        here, there = (tuple(sides[k % len(sides)] for k in range(size)) for sides in (left, right))
        yield person_pair(problem, "rows of all kinds", "crowded", at, here, there)


def person_pair(
    problem: Problem, name: str, kind: str, at: int, here: Person, there: Person, *, apart: bool = True
) -> PersonPair:
    """A table in which one person differs, or under add-remove is not there; ``apart`` lays their rows apart."""
    persons = other_persons(problem, kind)
    left, right = list(persons), list(persons)
    left[at], right[at] = here, there
    removed = problem.neighbours is Neighbours.ADD_REMOVE
    if removed:
        del right[at]
    size = len(here) if removed else max(len(here), len(there))
    counts = (
        f"{len(here)} rows" if removed or len(here) == len(there) else f"{len(here)} to {len(there)} rows"
    )
    return PersonPair(
        name=f"{name}, {kind}, {counts}",
        left=table_of_persons(problem, left, apart),
        right=table_of_persons(problem, right, apart),
        row=at,
        n_rows=size,
    )


def table_of_persons(problem: Problem, persons: Sequence[Person], apart: bool = False) -> Rows:
    """Rows and ids as ``fit`` would get them, with weights where rows have some, and what it makes of them."""
    X, y, ids, number = laid_out(problem, persons, apart)
    bound = own_weights(problem)
    if bound != 1:
        y = weighted_targets(y, bound / (1 + number % 2))
    grouped = GroupedRows.of(ids)
    rows, targets, members = of_persons(X, y, grouped, problem)
    return (rows, targets) if members is None else PersonRows(rows, targets, members, grouped.n_persons)


def laid_out(
    problem: Problem, persons: Sequence[Person], apart: bool = False
) -> tuple[Vector, Vector, NDArray[np.str_], NDArray[np.int64]]:
    """Rows, labels, ids, and how many rows of the same person come before each.

    Rows of one person follow each other, or, ``apart``, the first rows of all come first, then the second ones.
    """
    places = [(k, i) for i, person in enumerate(persons) for k in range(len(person))]
    if apart:
        places.sort()
    X = np.array([persons[i][k][0] for k, i in places]).reshape(-1, problem.n_features)
    y = np.array([persons[i][k][1] for k, i in places])
    ids = np.array([f"person {7 * i % 1009}" for _, i in places])  # their order is not that of the rows
    return X, y, ids, np.array([k for k, _ in places], np.int64)


def own_weights(problem: Problem) -> float:
    """The bound on weights that a user gave; 1 where they gave none."""
    persons = problem.persons
    assert persons is not None
    many = problem.many_rows and persons.loss is PersonLoss.SUM
    return problem.loss.heaviest / (persons.rows_per_person if many else 1)


def other_persons(problem: Problem, kind: str) -> list[Person]:
    """Persons with one row and with several, no two rows of one alike."""
    X, y = background(replace(problem, loss=problem.loss.unweighted), kind, 0)
    shorter = np.linspace(1.0, 0.5, max(OTHERS))
    return [
        tuple((row * shorter[k], float(label)) for k in range(OTHERS[i % len(OTHERS)]))
        for i, (row, label) in enumerate(zip(X, y, strict=True))
    ]
