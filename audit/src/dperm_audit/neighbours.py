"""Worst-case neighbouring tables, made from the declared bounds of a problem and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dperm.engine.base.draws import Members
from dperm.losses import Weighted
from dperm.losses.base import weighted_targets
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.watch import WatchedTable

Vector = NDArray[np.float64]
Rows = tuple[Vector, NDArray[Any]]

BEYOND = 1e6  # how far, relatively, a row may lie beyond the bound that it will be cut to
FAR_TARGET = 10.0


class PersonRows(tuple[Vector, NDArray[Any]]):
    """A table (X, y) whose rows belong to so many persons, several to one."""

    members: Members
    n_persons: int

    def __new__(cls, X: Vector, y: NDArray[Any], members: Members, n_persons: int) -> Self:
        table = super().__new__(cls, (X, y))
        table.members, table.n_persons = members, n_persons
        return table


@dataclass(frozen=True, eq=False, kw_only=True)
class Pair:
    """Two neighbouring tables (X, y). ``row`` is where they differ; ``right`` lacks it under add-remove.

    With persons it is the place of one among all persons, whose rows differ, in number too.
    """

    name: str
    left: Rows
    right: Rows
    row: int

    @property
    def removed(self) -> bool:
        return _units(self.right) < _units(self.left)


def _units(rows: Rows) -> int:
    return rows.n_persons if isinstance(rows, PersonRows) else len(rows[0])


def table_of(problem: Problem, rows: Rows, models: int = 1) -> WatchedTable:
    """The rows, all of them for each of so many models."""
    if isinstance(rows, PersonRows):
        members = rows.members
        return WatchedTable(*rows, row_map=problem.row_map, n_rows=members.n_rows).of_persons(members)
    mask = None if models == 1 else np.ones((problem.n_rows, models), np.uint8)
    return WatchedTable(*rows, row_map=problem.row_map, n_rows=problem.n_rows, mask=mask)


def pairs(problem: Problem) -> list[Pair]:
    """Every kind of change, at the first, middle and last place, among crowded and among cancelling rows.

    The crowd lies round one direction at full length, so that weights grow; rows that cancel keep gradients near
    zero, where a direction or a choice turns over most easily.
    """
    middle = problem.n_rows // 2
    found = [
        _pair(problem, f"{name}, {crowd}", crowd, middle, *change)
        for crowd in ("crowded", "cancelling")
        for name, change in changes(problem).items()
    ]
    name, change = next(iter(changes(problem).items()))
    for place, row in (("first", 0), ("last", problem.n_rows - 1)):
        found.append(_pair(problem, f"{name}, crowded, {place} row", "crowded", row, *change))
    if problem.neighbours is Neighbours.ADD_REMOVE:
        found.append(only_row_pair(problem))
    elif isinstance(problem.loss, Weighted):
        found.append(weight_pair(problem))
    return [*found, outlier_pair(problem), turned_pair(problem)]


def cancelling_pair(problem: Problem, row: int = 0, surplus: int = 0) -> Pair:
    """Rows that cancel but for ``surplus`` of them; the row's label changes, or under add-remove it leaves."""
    name, change = next(iter(changes(problem).items()))
    return _pair(problem, f"{name}, cancelling, row {row}", "cancelling", row, *change, surplus=surplus)


def only_row_pair(problem: Problem) -> Pair:
    """One row and none: whether there is anything at all must not show either."""
    (features, label), _ = next(iter(changes(problem).values()))
    alone = features[None], _with_weights(problem, np.array([label]), 0)
    return Pair(name="only row", left=alone, right=(alone[0][:0], alone[1][:0]), row=0)


def weight_pair(problem: Problem) -> Pair:
    """The same row with the largest weight and with none."""
    (features, label), _ = next(iter(changes(problem).values()))
    row = problem.n_rows // 2
    pair = _pair(problem, "weight", "crowded", row, (features, label), (features, label))
    pair.right[1]["weight"][row] = 0.0
    return pair


def outlier_pair(problem: Problem) -> Pair:
    """A full row against an empty one, or none, where all other rows are half as long."""
    _, high, _ = extreme_labels(problem)
    along = np.eye(problem.n_features)[0] * problem.x_norm
    sides = (along, high), (np.zeros_like(along), high)
    return _pair(problem, "outlier", "short", problem.n_rows // 2, *sides)


def turned_pair(problem: Problem) -> Pair:
    """A row along the first axis against one along the last, or none, among rows whose mean is zero."""
    _, high, _ = extreme_labels(problem)
    first, *_, last = np.eye(max(2, problem.n_features))[:, : problem.n_features] * problem.x_norm
    return _pair(problem, "turned row", "mirrored", problem.n_rows // 2, (first, high), (last, high))


Side = tuple[Vector, float]


def changes(problem: Problem) -> dict[str, tuple[Side, Side]]:
    """Names and what stands at the differing place, left and right; the right is left out under add-remove."""
    low, high, other = extreme_labels(problem)
    along = np.eye(problem.n_features)[0] * problem.x_norm
    spread = np.full(problem.n_features, problem.x_norm / np.sqrt(problem.n_features))
    axis = np.eye(problem.n_features)[-1] * problem.x_norm
    nothing = np.zeros(problem.n_features)
    if problem.neighbours is Neighbours.ADD_REMOVE:
        return {
            "full row": ((along, high), (nothing, high)),
            "full row, other label": ((spread, low), (nothing, high)),
            "one-hot row": ((axis, other), (nothing, high)),
            "row beyond the bound": ((-BEYOND * spread, high), (nothing, high)),
            "intercept alone": ((nothing, low), (nothing, high)),
        }
    return {
        "label": ((along, high), (along, low)),
        "opposite rows": ((spread, high), (-spread, high)),
        "opposite rows and labels": ((spread, high), (-spread, low)),
        "one-hot rows": ((along, high), (axis, high)),
        "row beyond the bound": ((BEYOND * spread, high), (-BEYOND * spread, high)),
        "label of an empty row": ((nothing, high), (nothing, low)),
        "row against an empty one": ((spread, low), (nothing, high)),
        "third label": ((spread, other), (spread, low)),
    }


def extreme_labels(problem: Problem) -> tuple[float, float, float]:
    """Two labels as far apart as the loss allows, and a third where there is one."""
    if problem.loss.labels == "binary":
        return -1.0, 1.0, 1.0
    if problem.loss.labels == "classes":
        return 0.0, 1.0, float(problem.loss.outputs - 1)
    # Where the largest slope is reached at the largest curvature: residuals of this size, or larger ones.
    bound = problem.loss.lipschitz / (problem.loss.smoothness or 1.0)
    return -FAR_TARGET * bound, FAR_TARGET * bound, bound / 2


def background(problem: Problem, kind: str, surplus: int) -> Rows:
    low, high, _ = extreme_labels(problem)
    n, d = problem.n_rows, problem.n_features
    if kind == "cancelling":
        X = np.zeros((n, d))
        X[:, 0] = problem.x_norm
        y = np.where(np.arange(n) % 2 == 0, high, low)
        y[np.flatnonzero(y == low)[: surplus // 2]] = high
        return X, y
    if kind == "mirrored":
        side = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
        return side[:, None] * np.eye(d)[0] * problem.x_norm, np.where(side > 0, high, low)
    rng = np.random.default_rng(0)
    X = np.full((n, d), 1.0) + 0.3 * rng.normal(size=(n, d))
    X *= problem.x_norm / np.linalg.norm(X, axis=1, keepdims=True)
    X[:: 1 if kind == "short" else 3] *= 0.5
    return X, np.where(rng.random(n) < 0.8, high, low)


def _pair(
    problem: Problem, name: str, kind: str, row: int, here: Side, there: Side, surplus: int = 0
) -> Pair:
    X, y = background(problem, kind, surplus)
    left, right = (X.copy(), y.copy()), (X.copy(), y.copy())
    for (rows, labels), (features, label) in ((left, here), (right, there)):
        rows[row], labels[row] = features, label
    left, right = ((rows, _with_weights(problem, labels, row)) for rows, labels in (left, right))
    if problem.neighbours is Neighbours.ADD_REMOVE:
        right = np.delete(right[0], row, axis=0), np.delete(right[1], row)
    return Pair(name=name, left=left, right=right, row=row)


def _with_weights(problem: Problem, y: Vector, row: int) -> NDArray[Any]:
    """The labels, where the loss is for weighted rows with weights from 0 up; this row has the largest."""
    if not isinstance(problem.loss, Weighted):
        return y
    weights = problem.loss.bound * (np.arange(len(y)) % 5) / 4
    weights[row] = problem.loss.bound
    return weighted_targets(y, weights)
