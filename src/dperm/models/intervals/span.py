"""Columns that follow from others: what rows of a declared table can tell, and what they cannot.

The columns of a category sum to 0, and the hats of a number tell its linear column. Along such directions no row
says anything, so only what is left of a combination beside them has an interval.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dperm.models.population import made_up_rows
from dperm.schema import Schema

Floats = NDArray[np.float64]

_NOTHING = 1e-9  # of the largest eigenvalue


def spanned(schema: Schema | None, n_columns: int, intercept: float, lengths: Floats) -> Floats:
    """Orthonormal columns that span all rows of a table, once their columns are multiplied by ``lengths``."""
    if schema is None:
        return np.eye(n_columns)
    rows = made_up_rows(schema)
    if intercept:
        rows = np.column_stack([rows, np.full(len(rows), intercept)])
    rows = rows * lengths
    values, axes = np.linalg.eigh(rows.T @ rows)
    return np.ascontiguousarray(axes[:, values > _NOTHING * values[-1]])
