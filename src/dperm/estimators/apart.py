"""Margins of rows, each computed apart from all others, and their targets: what evaluations and searches count.

Matrix products may round a row one way in one place of a table and another way in another. A count of rows in bins must
not depend on that: a row that lies on the edge of a bin would change its cell because another row came or went.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_is_fitted

from dperm.codes import CodedTable
from dperm.engine import ShardSource, SparseRows, Table, engine_for, labels_in
from dperm.engine.sparse.rows import as_csr
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators._rows import (
    check_features,
    check_names,
    check_targets,
    checked,
    named_like,
    shape_of,
    unquoted,
)
from dperm.estimators._shards import are_in_shards, check_told, features_alone, in_shards
from dperm.estimators.base import PrivateLinearModel
from dperm.neighbours import Neighbours
from dperm.row_map import RowMap

Vector = NDArray[np.float64]
_CELLS_AT_ONCE = 2**21

quoting_nothing = unquoted
"""The block in which errors about the form of rows lose what they quote of them."""


def count_rows(X: Any, paying: bool, y: Any = None) -> int:
    """How many rows X tells of, before a value is looked at; y, if given, must tell of as many.

    ``y`` may also name the column of a frame with the targets.
    """
    with in_shards(X, y if isinstance(y, str) else None) as (rows, _):
        check_told(rows, paying)
        with unquoted():
            kind = engine_for(rows)
            shape = shape_of(rows, paying) if kind is Table else kind.shape_of(rows)
            check_targets(y, shape, paying)
            return int(shape[0])


def made(values: Any) -> Any:
    """Rows or targets that only told their shape so far, in their own form."""
    return values.read() if hasattr(values, "read") and hasattr(values, "shape") else values


def margins_and_targets(
    model: PrivateLinearModel, X: Any, y: Any, neighbours: Neighbours
) -> tuple[Vector, NDArray[Any]]:
    """Margins of all rows, and their targets as they came; there may be none.

    Guarantee
    ---------
    The margin of a row depends on this row alone, wherever it stands and whatever the others are. Of shards and other
    kinds than arrays, coded rows and sparse ones it may depend on the place too, so add-remove is refused there.
    """
    check_is_fitted(model)
    with in_shards(made(X), made(y)) as (rows, targets):
        margins = _margins(model, features_alone(model, rows), neighbours)
        with unquoted():
            known = labels_in(rows) if are_in_shards(targets) else targets
            if known is None:
                raise InvalidInput("y is needed: the true target of every row.")
            form = {"dtype": None, "ensure_2d": False, "ensure_min_samples": 0, "input_name": "y"}
            known = column_or_1d(check_array(known, **form))
    if len(known) != len(margins):
        raise InvalidInput(f"X has {len(margins):,} rows and y {len(known):,} targets.")
    return margins, known


def margins_apart(model: PrivateLinearModel, X: Any, neighbours: Neighbours) -> Vector:
    """As ``decision_function``, or ``predict`` of a regression; the margin of a row depends on it alone, as above."""
    with in_shards(made(X)) as (rows, _):
        margins = _margins(model, features_alone(model, rows), neighbours)
    return margins[:, 0] if margins.ndim == 2 and margins.shape[1] == 1 else margins


def _margins(model: PrivateLinearModel, X: Any, neighbours: Neighbours) -> Vector:
    kind = engine_for(X)
    if kind is Table:
        form: dict[str, Any] = {"dtype": [np.float64, np.float32], "reset": False, "ensure_min_samples": 0}
        X = checked(model, X, **form)
    else:
        named_like(model, X)
    weights, constant, row_map = model.coef_.T, model.intercept_, model.row_map_
    with unquoted():
        check_features(model, kind.shape_of(X)[1])
        check_names(model, X)
        if kind is SparseRows:
            X = as_csr(X).astype(np.float64, copy=False)
            if not np.isfinite(X.data).all():
                raise InvalidInput("X holds numbers that are not finite.")
            if row_map.linear:  # row by row, one entry after the other
                return np.asarray(X @ weights + constant)
        elif kind is not Table and not isinstance(X, CodedTable):
            check_place(X, neighbours)
            return kind.margins_of(X, row_map, weights, constant)
        return _joined(X, row_map, weights, constant)


def check_counted(
    X: Any, y: Any, neighbours: Neighbours, by_person: bool, rows_are_meant: bool = False
) -> None:
    """Refuse, before anything is spent, to count rows that cannot be counted where they are.

    ``rows_are_meant`` lets single rows be counted where shards hold the ids of persons.
    """
    with in_shards(X, y if isinstance(y, str) else None) as (rows, _):
        if isinstance(rows, ShardSource) and (by_person or (rows.person is not None and not rows_are_meant)):
            raise Unsupported(
                "rows that belong to persons are not counted in shards, where the rounding of a row depends on its "
                "place. Give the rows as an array or frame; with groups, if a person is to be protected."
            )
        check_place(rows, neighbours)


def check_place(X: Any, neighbours: Neighbours) -> None:
    """Refuse rows whose margins depend on their place, where that would tell of the others."""
    apart = isinstance(X, CodedTable) or engine_for(X) in (Table, SparseRows)
    if neighbours is Neighbours.ADD_REMOVE and not apart:
        what = "shards" if isinstance(X, ShardSource) else f"a {type(X).__name__}"
        raise Unsupported(
            f"neighbours='add-remove' is evaluated on arrays, frames, coded or sparse rows, not on {what}: there the "
            "rounding of a row depends on its place. Give an array, or use neighbours='replace-one'."
        )


def _joined(X: Any, row_map: RowMap, weights: Vector, constant: Any) -> Vector:
    flat = weights.reshape(len(weights), -1)
    parts = [_apart(block, row_map, flat) for block in _blocks(X)]
    margins = np.concatenate([np.zeros((0, flat.shape[1])), *parts])
    return np.asarray(margins.reshape(len(margins), *weights.shape[1:]) + constant)


def _blocks(X: Any) -> Iterator[Vector]:
    """Some rows at a time, as columns of float64."""
    n, width = X.shape
    step = max(64, _CELLS_AT_ONCE // max(1, width) // 64 * 64)
    for first in range(0, n, step):
        block = X[first : first + step]
        dense = block.toarray() if isinstance(block, CodedTable) or sparse.issparse(block) else block
        yield np.ascontiguousarray(np.asarray(dense, np.float64).T)


def _apart(columns: Vector, row_map: RowMap, weights: Vector) -> Vector:
    """``RowMap.margins`` without the constant, column after column: every operation is one of single rows."""
    if row_map.linear:
        return _product(columns, weights)
    columns = columns * _factor(columns, row_map.x_norm)
    if not row_map.moves:
        return _product(columns, weights)
    if row_map.centre is not None:
        columns = columns - row_map.centre[:, None]
    seen = columns if row_map.scale is None else columns / row_map.scale[:, None]
    offset = 0.0 if row_map.centre is None else row_map.centre @ weights
    return _factor(seen, row_map.x_norm)[:, None] * _product(columns, weights) + offset


def _product(columns: Vector, weights: Vector) -> Vector:
    total = np.zeros((weights.shape[1], columns.shape[1]))
    for column, weight in zip(columns, weights, strict=True):
        total += weight[:, None] * column
    return total.T


def _factor(columns: Vector, x_norm: float) -> Vector:
    norms = np.zeros(columns.shape[1])
    for column in columns:
        norms = np.hypot(norms, column)
    return np.asarray(x_norm / np.maximum(norms, x_norm))
