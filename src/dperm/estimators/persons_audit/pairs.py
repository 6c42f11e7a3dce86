"""Neighbouring tables that differ in one whole person, with 1, 3 and 50 rows, made from the declared bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.audit.neighbours import Pair, PersonRows, Rows, Side, background, changes
from dperm.estimators.persons import GroupedRows, of_persons
from dperm.losses.weighted import weighted_targets
from dperm.neighbours import Neighbours
from dperm.persons import PersonLoss
from dperm.problem import Problem

SIZES = (1, 3, 50)
GROWN = ((1, 50), (50, 1))  # a person is replaced by one with more rows, or fewer: all later rows move
OTHERS = (1, 2, 4)  # how many rows the other persons have, in turn

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
    middle = problem.n_rows // 2
    found = [
        person_pair(problem, name, "crowded", middle, (here,) * left, (there,) * right)
        for name, (here, there) in changes(problem).items()
        for left, right in sizes
    ]
    (name, (here, there)), *_ = changes(problem).items()
    for place, at in (("first person", 0), ("last person", problem.n_rows - 1)):
        found += [
            person_pair(problem, f"{name}, {place}", "crowded", at, (here,) * left, (there,) * right)
            for left, right in sizes[-1:]
        ]
    found += [
        person_pair(problem, name, "cancelling", middle, (here,) * left, (there,) * right)
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
    problem: Problem, name: str, kind: str, at: int, here: Person, there: Person, *, mixed_up: bool = True
) -> PersonPair:
    """A table in which one person differs, or under add-remove is not there; ``mixed_up`` lays rows apart."""
    persons = _others(problem, kind)
    left, right = list(persons), list(persons)
    left[at], right[at] = here, there
    removed = problem.neighbours is Neighbours.ADD_REMOVE
    if removed:
        del right[at]
    size = len(here) if removed else max(len(here), len(there))
    counts = f"{len(here)} rows" if removed or len(here) == len(there) else f"{len(here)} to {len(there)} rows"
    return PersonPair(
        name=f"{name}, {kind}, {counts}",
        left=table_of_persons(problem, left, mixed_up),
        right=table_of_persons(problem, right, mixed_up),
        row=at,
        n_rows=size,
    )


def table_of_persons(problem: Problem, persons: Sequence[Person], mixed_up: bool = False) -> Rows:
    """Rows and ids as ``fit`` would get them, and what it makes of them.

    Rows of one person follow each other, or, ``mixed_up``, the first rows of all come first, then the second ones.
    """
    numbers = [(k, i) for i, person in enumerate(persons) for k in range(len(person))]
    order = sorted(numbers) if mixed_up else numbers
    X = np.array([persons[i][k][0] for k, i in order]).reshape(-1, problem.n_features)
    y = np.array([persons[i][k][1] for k, i in order])
    ids = np.array([f"person {7 * i % 1009}" for _, i in order])  # their order is not that of the rows
    return rows_of_persons(problem, X, y, ids)


def rows_of_persons(problem: Problem, X: NDArray[Any], y: NDArray[Any], ids: NDArray[Any]) -> Rows:
    """What an estimator trains on, once it was told whose rows these are."""
    grouped = GroupedRows.of(ids)
    rows, targets, members = of_persons(X, _with_weights(problem, y), grouped, problem)
    return (rows, targets) if members is None else PersonRows(rows, targets, members, grouped.n_persons)




def own_weights(problem: Problem) -> float:
    """The bound on weights that a user gave; 1 where they gave none."""
    persons = problem.persons
    assert persons is not None
    many = problem.many_rows and persons.loss is PersonLoss.SUM
    return problem.loss.heaviest / (persons.rows_per_person if many else 1)


def _with_weights(problem: Problem, y: NDArray[Any]) -> NDArray[Any]:
    bound = own_weights(problem)
    if bound == 1:
        return y
    return weighted_targets(y, bound * (1 - (np.arange(len(y)) % 5 == 4) / 2))


def _others(problem: Problem, kind: str) -> list[Person]:
    X, y = background(replace(problem, loss=problem.loss.unweighted), kind, 0)
    shorter = np.linspace(1.0, 0.5, max(OTHERS))
    return [
        tuple((row * shorter[k], float(label)) for k in range(OTHERS[i % len(OTHERS)]))
        for i, (row, label) in enumerate(zip(X, y, strict=True))
    ]
