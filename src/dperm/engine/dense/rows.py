"""Rows that one process holds, in whatever form, with a mask that says which of them each model may see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.engine.base.rows import InMemoryRows, OpenRequest, Rows, StoredDense, storage_of, storing_bounds
from dperm.errors import InvalidInput
from dperm.processors import Part, in_order, split
from dperm.row_map import RowMap
from dperm.typing import Floats, Integers

if TYPE_CHECKING:
    from dperm.engine.base.engine import Engine

_ROWS_AT_ONCE = 4096
_STORED_AT_ONCE = 2**20  # numbers, at least, in the part of a thread


class Table(InMemoryRows):
    """Rows in an array, of any real dtype and memory layout, or in what NumPy makes one of.

    Parameters
    ----------
    X : array of shape (rows, features)
        It may hold fewer rows than ``n_rows``.
    y, row_map, n_rows, mask
        As for all ``InMemoryRows``.
    """

    name: ClassVar[str] = "dense"
    chooses_storage: ClassVar[bool] = True

    def __init__(
        self, X: ArrayLike, y: ArrayLike, *, row_map: RowMap, n_rows: int, mask: ArrayLike | None = None
    ) -> None:
        self._X = np.asarray(X)
        self._each: tuple[RowMap, ...] = ()
        if self._X.ndim != 2 or self._X.shape[1] < 1 or self._X.dtype.kind not in "biuf":
            raise InvalidInput(
                f"X must be a 2-D array of real numbers; got {self._X.dtype} in {self._X.ndim} dimensions. "
                "Encode text and categories first."
            )
        super().__init__(self._X.shape, y, row_map=row_map, n_rows=n_rows, mask=mask)

    @classmethod
    def accepts(cls, X: Any) -> bool:
        return True

    @classmethod
    def margins_of(cls, X: Any, row_map: RowMap, coefficients: Floats, constant: Floats | float) -> Floats:
        return row_map.margins(np.asarray(X), coefficients, constant)

    def select(self, models: Sequence[int]) -> Self:
        if not self._each:
            return super().select(models)
        part = copy(super().select(models))
        part._each = tuple(self._each[k] for k in models)
        return part

    def mapped(self, row_map: RowMap) -> Self:
        part = super().mapped(row_map)
        part._each = ()
        return part

    def mapped_per_model(self, maps: Sequence[RowMap]) -> Rows | None:
        from dperm.engine.dense.per_model import common_map

        common = common_map(maps, self._n_rows)
        if common is None:
            return None
        part = self.mapped(common)
        part._each = tuple(maps)
        return part

    def _stored(self, request: OpenRequest) -> StoredDense:
        """Copy the rows, mapped and in the given order."""
        size = self._n_rows * self._X.shape[1]
        dtype = storage_of(self._map, size, request.precise, request.storage)
        X, inverse_norm = self._bounded(dtype, request.position, request.threads)
        return StoredDense(X=X, inverse_norm=inverse_norm, **request.common)

    def _engine(self, request: OpenRequest) -> Engine:
        rows = self._stored(request)
        if self._each:
            from dperm.engine.dense.per_model import per_model_engine

            empty = request.position[len(self._X) :]
            return per_model_engine(rows, empty, self._each, self._map, self._used, request.threads)
        from dperm.engine.dense.engine import DenseEngine

        return DenseEngine(rows, self._used, precise=request.precise, threads=request.threads)

    def _bounded(
        self, dtype: np.dtype[Any], position: Integers, threads: int
    ) -> tuple[NDArray[np.floating[Any]], Floats]:
        r"""One pass: convert, map, bound, append the intercept, reject what is not finite.

        Why the bound holds. Rows are moved in float64, and x is the row as moved. Let s be the computed sum of squares
        of its p numbers, u = 2^-53, and v = 2^-24 for float32 storage, 0 for float64. In any order of summation
        s >= (1 - gamma_p) ||x||^2, and storing a number multiplies it by at most 1 + v.

        - A row is stored as it is only if s * slack <= x_norm^2 as computed, slack = 1 + 4 v + 4 (p + 8) u.
          Two roundings are involved, so ||stored||^2 <= (1 + v)^2 s / (1 - gamma_p) <= x_norm^2.
        - Any other row is multiplied by x_norm / sqrt(s) * shrink, shrink = 1 - 2 v - (p + 16) u. That takes
          five roundings, so ||stored|| <= x_norm * shrink * (1 + v) (1 + 6 u) / sqrt(1 - gamma_p) <= x_norm.

        Underflow while storing adds at most sqrt(p) 2^-150 (float32) or sqrt(p) 2^-1074 (float64) to a norm.
        Against x_norm >= 2^-100 or 2^-400 that is far inside the unused half of both margins.
        """
        from dperm.engine.dense.kernels import bound_rows

        n_features = self._X.shape[1]
        X = np.empty((self._n_rows, n_features + (self._map.intercept > 0)), dtype)
        inverse_norm = np.empty(self._n_rows)
        bounds = storing_bounds(self._map, n_features, dtype)
        moves = self._moves()

        def store(part: Part) -> int:
            return sum(
                bound_rows(block, position[first:], *moves, bounds, X, inverse_norm)
                for first, block in self._blocks(part)
            )

        parts = split(0, len(self._X), len(self._X) * n_features / _STORED_AT_ONCE)
        if sum(in_order(store, parts, threads)):
            raise InvalidInput(self._not_finite())
        empty = position[len(self._X) :]
        X[empty] = 0
        inverse_norm[empty] = 1 / bounds[-1]
        return X, inverse_norm

    def _blocks(self, part: Part) -> Iterator[tuple[int, NDArray[np.floating[Any]]]]:
        """The rows as C-ordered float32 or float64 blocks; a view where they are that already."""
        source: type[np.floating[Any]] = np.float32 if self._X.dtype == np.float32 else np.float64
        for first in range(*part, _ROWS_AT_ONCE):
            rows = self._X[first : min(first + _ROWS_AT_ONCE, part[1])]
            with np.errstate(over="ignore"):
                block = np.ascontiguousarray(rows, source)[:]
            block.flags.writeable = False  # one compiled signature for writable and read-only arrays
            yield first, block

    def _not_finite(self) -> str:
        columns = np.zeros(self._X.shape[1], bool)
        for _, block in self._blocks((0, len(self._X))):
            columns |= ~np.isfinite(block).all(axis=0)
        return (
            f"X holds NaN or infinite values in {columns.sum()} of its {len(columns)} columns. Fill or drop "
            "them first, by a rule that does not depend on the other rows."
        )
