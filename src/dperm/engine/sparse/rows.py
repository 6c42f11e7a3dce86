"""Sparse rows as they came in, and the one pass that makes them safe to compute with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dperm.arithmetic import FLOAT64, UNIT_ROUNDOFF
from dperm.engine.base.rows import InMemoryRows, OpenRequest, floor_of, storage_of
from dperm.engine.dense.rows import Table
from dperm.errors import InvalidInput
from dperm.row_map import RowMap
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine.base.engine import Engine
    from dperm.engine.sparse.engine import StoredSparse

_MOST_COLUMNS = 2**31 - 1
_DENSE_AT_MOST = 2**26  # numbers
_LARGEST = 2.0**400  # of a number before it is bounded, so that it has a square


class SparseRows(InMemoryRows):
    """A SciPy sparse matrix or array of any format, or a pandas frame whose columns are all sparse.

    Entries at the same place are added up; an entry that holds a zero is as good as none.

    Parameters
    ----------
    X : sparse matrix, sparse array or frame of shape (rows, features)
        It may hold fewer rows than ``n_rows``.
    y, row_map, n_rows, mask
        As for all ``InMemoryRows``.
    """

    name: ClassVar[str] = "sparse"
    chooses_storage: ClassVar[bool] = True
    opens = ("scipy.sparray", "scipy.spmatrix", "pandas.DataFrame")

    def __init__(self, X: Any, y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None) -> None:
        kinds = {np.dtype(kind).kind for kind in _dtypes(X)}
        if X.ndim != 2 or X.shape[1] < 1 or not kinds <= set("biuf"):
            raise InvalidInput(
                "X must be a sparse matrix of real numbers with at least one column. Encode text and categories first."
            )
        if X.shape[1] > _MOST_COLUMNS:
            raise InvalidInput(f"X has more than {_MOST_COLUMNS} columns. Use PublicHasher before the model.")
        self._X = X
        super().__init__(self.shape_of(X), y, row_map=row_map, n_rows=n_rows, mask=mask)

    @classmethod
    def accepts(cls, X: Any) -> bool:
        return is_sparse(X)

    @classmethod
    def shape_of(cls, X: Any) -> tuple[int, int]:
        if len(X.shape) != 2:
            raise InvalidInput(f"X must have two dimensions; got {len(X.shape)}.")
        return super().shape_of(X)

    @classmethod
    def margins_of(cls, X: Any, row_map: RowMap, coefficients: Floats, constant: Floats | float) -> Floats:
        rows = as_csr(X).astype(np.float64, copy=False)
        if not np.isfinite(rows.data).all():
            raise InvalidInput(_NOT_FINITE)
        if row_map.linear:
            return np.asarray(rows @ coefficients + constant)
        bounded = sparse.diags_array(_shrinkage(rows, row_map.x_norm)) @ rows
        plain = np.asarray(bounded @ coefficients)
        if not row_map.moves:
            return plain + constant
        n_features = rows.shape[1]
        centre = np.zeros(n_features) if row_map.centre is None else row_map.centre
        spread = np.ones(n_features) if row_map.scale is None else row_map.scale
        offset, ahead = centre @ coefficients, centre / spread
        scaled = bounded @ sparse.diags_array(1 / spread)
        squares = _row_squares(scaled) - 2 * (scaled @ ahead) + ahead @ ahead
        factor = row_map.x_norm / np.sqrt(np.maximum(squares, row_map.x_norm**2))
        return np.asarray((factor * (plain - offset).T).T + offset + constant)

    def _engine(self, request: OpenRequest) -> Engine:
        """Rows are held densely where a far centre would cost precision and all numbers fit, by their public number."""
        from dperm.engine.sparse.engine import SparseEngine, arithmetic_at

        n_columns = self._shape[1] + (self._map.intercept > 0)
        stated = arithmetic_at(self._reach(), n_columns, self._n_rows)
        if self._n_rows * n_columns <= _DENSE_AT_MOST and not stated.within(FLOAT64):
            dense = Table(as_csr(self._X).toarray(), self._y, row_map=self._map, n_rows=self._n_rows)
            return dense.noting(self._used)._engine(request)
        rows = self._stored(request)
        return SparseEngine(rows, self._used, precise=request.precise, threads=request.threads)

    def _reach(self) -> float:
        """Bound on (norm of the entries + norm of the centre) / ``x_norm`` of rows as stored."""
        if self._map.centre is None:
            return 1.0
        centre, spread = self._moves()
        return (1 + 2 * math.sqrt(math.fsum((centre / spread) ** 2)) / self._map.x_norm) * (1 + 1e-9)

    def _dtype(self, precise: bool, storage: DTypeLike | None) -> np.dtype[Any]:
        """By public numbers alone. A centre or a scale beyond what float32 holds is stored as float64."""
        centre, spread = self._moves()
        largest = max(1.0, (self._map.x_norm + np.abs(centre).max(initial=0.0)) / spread.min(initial=1.0))
        if not largest <= _LARGEST:
            raise InvalidInput("scale is so small, or centre so large, that rows would overflow.")
        if storage is None and largest > 2.0**100:
            storage = np.float64
        return storage_of(self._map, self._n_rows * self._shape[1], precise, storage)

    def _stored(self, request: OpenRequest) -> StoredSparse:
        r"""One pass: convert, bound, scale, bound again, reject what is not finite.

        Why the bound holds. Let e be the entries of a row as stored, after the first bound, the scale and rounding to
        the storage type, d = c / s as computed, A = ||e||^2, B = <e, d>, D = ||d||^2 and p the number of features. The
        row is e - d, with squared norm A - 2 B + D. The computed sum is within 2 (p + 4) u (A + D) of it, because
        2 |<e, d>| <= A + D, so adding 4 (p + 16) u (A + D) as computed gives an upper bound on the squared norm, and
        its root times 1 + 2^-49 an upper bound l on the norm.

        - If l <= ``x_norm`` the row stays as it is, f = 1.
        - Otherwise it is multiplied by f = x_norm / (l + 2 v sqrt(A)) (1 - t), v the rounding of the storage type
          (2^-24 or 2^-53) and t = 2^-32 or 2^-48. Storing f e moves it by at most v f ||e|| (1 + u), so the norm of the
          stored row minus f d is at most f (l + v sqrt(A) (1 + u)) <= x_norm (1 - t) (1 + 8 u). What underflow adds,
          sqrt(p) 2^-150 against x_norm >= 2^-100 for float32, sqrt(p) 2^-1074 against 2^-400 for float64, is within the
          rest for p < 2^31.
        """
        from dperm.engine.sparse.engine import StoredSparse
        from dperm.engine.sparse.kernels import bound_rows

        dtype, position = self._dtype(request.precise, request.storage), request.position
        csr, n_features = as_csr(self._X), self._shape[1]
        kept = csr.data.dtype == np.float32
        source = (
            np.ascontiguousarray(csr.data, np.float32 if kept else np.float64),
            np.ascontiguousarray(csr.indices, np.int32),
            np.ascontiguousarray(csr.indptr, np.int64),
        )
        counts = np.zeros(self._n_rows, np.int64)
        counts[position[: self._shape[0]]] = np.diff(source[2])
        edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

        centre, spread = self._moves()
        centre = np.empty(0) if self._map.centre is None else centre / spread
        spread = np.empty(0) if self._map.scale is None else spread
        distance, x_norm = math.fsum(centre**2), self._map.x_norm
        rounding = 2.0**-23 if dtype == np.float32 else 2.0**-52
        floor = floor_of(n_features, dtype)
        spare = 2.0**-32 if dtype == np.float32 else 2.0**-48
        slack = 4 * (n_features + 16) * UNIT_ROUNDOFF
        bounds = (x_norm, self._map.intercept, rounding, spare, slack, distance, floor)
        data, index = np.empty(edges[-1], dtype), np.empty(edges[-1], np.int32)
        far = np.zeros(self._n_rows if centre.size else 0)
        inverse_norm = np.full(self._n_rows, 1 / floor)
        if bound_rows(source, position, spread, centre, bounds, edges, data, index, far, inverse_norm):
            raise InvalidInput(_NOT_FINITE)
        constant = np.zeros(self._n_rows if self._map.intercept else 0)
        if self._map.intercept:
            constant[position[: self._shape[0]]] = self._map.intercept
        return StoredSparse(
            data=data,
            index=index,
            edges=edges,
            far=far,
            constant=constant,
            centre=centre,
            n_features=n_features,
            has_constant=self._map.intercept > 0,
            reach=self._reach(),
            inverse_norm=inverse_norm,
            **request.common,
        )


_NOT_FINITE = (
    "X holds NaN or infinite values. Fill or drop them first, by a rule that looks at one row at a time."
)


def is_sparse(X: Any) -> bool:
    """Whether rows are a SciPy sparse matrix or array, or a frame of sparse columns, by their type alone."""
    return bool(sparse.issparse(X)) or _is_frame(X)


def _is_frame(X: Any) -> bool:
    accessor = getattr(X, "sparse", None) if type(X).__module__.partition(".")[0] == "pandas" else None
    return type(accessor).__name__ == "SparseFrameAccessor"


def _dtypes(X: Any) -> list[Any]:
    return [kind.subtype for kind in X.dtypes] if _is_frame(X) else [X.dtype]


def as_csr(X: Any) -> sparse.csr_array:
    """The same rows in the CSR format, each place at most once; without a copy where they are that already."""
    if _is_frame(X):
        if any(kind.fill_value != 0 for kind in X.dtypes):
            raise InvalidInput("sparse columns must have 0 as the value that is left out.")
        X = X.sparse.to_coo()
    rows = sparse.csr_array(X)
    limits = rows.indices.min(initial=0), rows.indices.max(initial=0), rows.indptr[0], rows.indptr[-1]
    inside = limits[0] >= 0 and limits[1] < max(1, rows.shape[1]) and limits[2] == 0
    if not inside or (np.diff(rows.indptr) < 0).any() or limits[3] > min(len(rows.data), len(rows.indices)):
        raise InvalidInput("X is not a valid sparse matrix: its indices do not fit its shape.")
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _row_squares(rows: sparse.csr_array) -> Floats:
    squares = sparse.csr_array((rows.data**2, rows.indices, rows.indptr), shape=rows.shape)
    return np.asarray(squares @ np.ones(rows.shape[1]))


def _shrinkage(rows: sparse.csr_array, x_norm: float) -> NDArray[np.float64]:
    """What each row is multiplied by so that its norm is at most ``x_norm``."""
    largest = np.asarray(abs(rows).max(axis=1).todense()).ravel() if rows.nnz else np.zeros(rows.shape[0])
    unit = np.maximum(largest, x_norm)  # so that squares neither overflow nor vanish
    relative = np.sqrt(_row_squares(sparse.diags_array(1 / unit) @ rows))
    return np.asarray(x_norm / unit / np.maximum(relative, x_norm / unit))
