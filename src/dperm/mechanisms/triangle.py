"""Symmetric matrices as vectors: the upper triangle, in the Frobenius norm."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def triangle_size(n_columns: int) -> int:
    return n_columns * (n_columns + 1) // 2


def pack(matrix: Matrix) -> Vector:
    """The upper triangle, off-diagonal entries times sqrt(2): Euclidean norm is then Frobenius norm."""
    rows, columns = np.triu_indices(len(matrix))
    return np.asarray(matrix[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2)))


def unpack(triangle: Vector, n_columns: int) -> Matrix:
    """The symmetric matrix that :func:`pack` made a vector of."""
    rows, columns = np.triu_indices(n_columns)
    matrix = np.zeros((n_columns, n_columns))
    matrix[rows, columns] = triangle / np.where(rows == columns, 1.0, math.sqrt(2))
    matrix[columns, rows] = matrix[rows, columns]
    return matrix
