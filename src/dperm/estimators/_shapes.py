"""Shapes of rows and targets, as far as a fit may know them before its charge."""

from __future__ import annotations

from typing import Any

import numpy as np

from dperm.errors import InvalidInput


def shape_of(X: Any, paying: bool) -> tuple[int, ...]:
    """The shape of a table, without a look at its values; nothing but lengths of lists and tuples is read.

    Without a ledger, an array-like that does not tell its shape is converted to find out.
    """
    if hasattr(X, "shape"):
        return tuple(X.shape)
    if isinstance(X, list | tuple):
        return (len(X), *(shape_of(X[0], paying) if len(X) and _has_shape(X[0]) else ()))
    if paying:
        raise InvalidInput(
            "With a ledger X must tell its shape before it is read: give an array, a table or a list of rows; got a "
            f"{type(X).__name__}."
        )
    return np.asarray(X).shape


def check_targets(y: Any, shape: tuple[int, ...], paying: bool) -> None:
    """Refuse, before anything is spent, targets that tell another number than there are rows in this shape.

    The name of a column, and labels that lie in shards, tell nothing.
    """
    if y is None or isinstance(y, str) or not shape:
        return
    known = hasattr(y, "shape") or isinstance(y, list | tuple) or not paying
    told = shape_of(y, paying) if known else (len(y),) if hasattr(y, "__len__") else ()
    if told and isinstance(told[0], int | np.integer) and told[0] != shape[0]:
        raise InvalidInput(
            "X and y are of inconsistent lengths: y must hold one target for each row, and it has another number of "
            "targets."
        )


def _has_shape(item: Any) -> bool:
    return hasattr(item, "shape") or isinstance(item, list | tuple)


def check_shape(rows: Any, n_rows: int | None, n_features: int) -> None:
    """Refuse rows of another shape than they told before they were read; None for a number that is private."""
    shape = shape_of(rows, True)
    if shape != (shape[0] if n_rows is None else n_rows, n_features):
        raise InvalidInput(
            "X has another shape than it told before it was read; give a table that stays as it is."
        )
