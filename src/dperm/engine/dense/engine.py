"""The fast engine for dense rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.arithmetic import FLOAT32, FLOAT64, Arithmetic
from dperm.engine.base import softmax_kernels
from dperm.engine.base.blocked import BlockedEngine, compiled_kind, has_compiled_softmax, one_clip, parameters
from dperm.engine.base.engine import CoordinatePass, Engine, Wanted
from dperm.engine.base.formulas import Formulas
from dperm.engine.base.intrinsics import VECTOR_BYTES
from dperm.engine.base.kernels import ADDED
from dperm.engine.base.rows import StoredDense
from dperm.engine.base.vertices import VertexPass
from dperm.engine.dense import kernels
from dperm.engine.dense.kernels import step
from dperm.losses import Loss
from dperm.processors import Part, in_order, split
from dperm.typing import Array, Floats

_WORK = 2**17  # slopes that keep one thread busy for some tenths of a millisecond


class ColumnPass(CoordinatePass):
    r"""Keeps the margins of all rows, in float64, and reads two columns at every step.

    It holds a second copy of the rows, column by column, and 9 bytes for each row and model.

    Why the margins are precise enough. They are computed anew from the weights after k = p/3 - 1 moves, with an error
    of at most gamma_p ||x|| M, where M is the norm of the longest weights so far. A move of one weight by c adds x_j c
    in two roundings, of at most u |x_j c| <= 2 u ||x|| M and u |margin|. So after k moves the error is below
    (p + 3 k + 2) u ||x|| M <= 2 p u ||x|| M, u = 2^-53, which is what ``Arithmetic.margin`` allows for.
    """

    def __init__(
        self,
        engine: Engine,
        rows: StoredDense,
        loss: Loss,
        weights: Floats,
        check_size: Callable[[Floats], None],
        threads: int,
    ) -> None:
        super().__init__(weights)
        self._engine, self._check_size, self._threads = engine, check_size, threads
        self._columns = np.ascontiguousarray(rows.X.T)
        n_models = weights.shape[1]
        mask = np.empty((n_models, 0), np.uint8) if rows.mask is None else np.ascontiguousarray(rows.mask.T)
        self._labels, self._mask = rows.y, mask
        self._loss = (compiled_kind(loss), parameters(loss))
        self._parts: list[Part] = split(0, len(rows.y), len(rows.y) * n_models / _WORK)
        self._margins = np.empty((n_models, len(rows.y)))
        self._pending: tuple[int, Floats] | None = None
        self._most = max(0, len(self._columns) // 3 - 1)
        self._moves = self._most + 1

    def derivative(self, j: int) -> Floats:
        self._check_size(self.weights)
        if self._moves > self._most:
            self._margins[:] = self._engine.margins(self.weights).T
            self._pending, self._moves = None, 0
        moved, change = self._pending or (j, np.zeros(len(self._margins)))
        self._pending = None

        def over(part: Part) -> Floats:
            total = np.zeros(len(self._margins))
            rows = (self._labels, self._mask, self._margins)
            step(self._columns[moved], self._columns[j], *rows, change, *part, *self._loss, total)
            return total

        return np.asarray(sum(in_order(over, self._parts, self._threads)))

    def move(self, j: int, change: Floats) -> None:
        if self._pending is not None:  # two moves without a look between them
            self._moves = self._most + 1
        super().move(j, change)
        self._pending = (j, np.array(change, np.float64))
        self._moves += 1


# Multiply-adds that keep one thread busy for some tenths of a millisecond, far above the cost of waking it.
_FUSED_WORK = 2**20


class DenseEngine(BlockedEngine):
    """One model: a single compiled read of X. Several: matrix products over blocks of rows.

    ``precise`` passes compute in float64, whatever rows are stored as, others in the storage precision. Losses without
    compiled formulas go through their own NumPy ones.

    Guarantee
    ---------
    In float32 at most 256 rows are added up before they are added to float64 sums. What is computed for a row depends
    on that row, its place and the weights; blocks, parts and their order follow from the number of rows, columns and
    models. So two tables that differ in one row have the same sums over every block but one
    (docs/proofs/arithmetic.md).

    Assumes
    -------
    BLAS multiplies matrices in the conventional way, as all common ones do, not by Strassen's method, and the same
    matrices in the same way each time.
    """

    _rows: StoredDense

    def arithmetic(self, n_models: int) -> Arithmetic:
        return FLOAT64 if self._dtype(n_models) == np.float64 else FLOAT32

    def _dtype(self, n_models: int) -> np.dtype[Any]:
        return np.dtype(np.float64) if self._precise else self._rows.X.dtype

    def _load(self, first: int, last: int, dtype: np.dtype[Any]) -> Array:
        return self._rows.X[first:last].astype(dtype, copy=False)

    def _add_back(self, block: Array, slopes: Array, total: Floats) -> None:
        for first in range(0, len(block), ADDED):
            last = first + ADDED
            total += block[first:last].T @ slopes[first:last]

    def _one_model_epoch(
        self, w: Floats, schedule: list[Any], kind: Formulas, loss: Loss, keep_sum: bool, total: Floats
    ) -> bool:
        if len(self._fused_parts(0, self.n_rows // len(schedule[-1]))) > 1:
            return False
        narrow = self._vectors(1)[0]
        own = (kind, parameters(loss, narrow.dtype))
        kernels.one_model_epoch(*self._columns(), w, narrow, *schedule, *own, keep_sum, total)
        return True

    def coordinate_pass(self, loss: Loss, W: Floats) -> CoordinatePass:
        if compiled_kind(loss) is None:
            return super().coordinate_pass(loss, W)
        precise = copy(self)
        precise._precise = True  # passes for several models too are in float64
        precise._begin(loss, W)
        return ColumnPass(precise, self._rows, loss, W, precise._check_size, self._threads)

    def vertex_pass(self, loss: Loss, model: int, grid_exponent: int, block: int) -> VertexPass:
        """On a copy of all numbers that are not zero."""
        self._used.add(FLOAT64)
        rows = sparse.csr_array(self._rows.X)
        entries = (rows.data, rows.indices, rows.indptr, np.empty(0))
        return VertexPass(self._rows, entries, loss, model, grid_exponent, block)

    def _power_sums(self, power: int) -> Floats:
        X, _, _, mask = self._columns()
        total = np.zeros((self.n_columns, mask.shape[1]))
        for k in range(mask.shape[1]):

            def pass_over(part: Part, k: int = k) -> tuple[Floats]:
                own = np.zeros(self.n_columns)
                kernels.add_rows(X, mask, k, power == 2, *part, own)
                return (own,)

            (total[:, k],) = self._sum_of_parts(pass_over, self._fused_parts(0, self.n_rows))
        return total

    def _columns(self) -> tuple[NDArray[Any], ...]:
        """What the one-model kernels read of the rows."""
        rows = self._rows
        return rows.X, rows.y, rows.inverse_norm, rows.known_mask

    def _fused_parts(self, first: int, last: int, outputs: int = 1) -> list[Part]:
        return split(first, last, (last - first) * self.n_columns * outputs / _FUSED_WORK)

    def _one_model(
        self, loss: Loss, W: Floats, first: int, last: int, wanted: Wanted
    ) -> tuple[Floats, Floats] | None:
        if compiled_kind(loss) is None and not has_compiled_softmax(loss):
            return None
        weights = self._vectors(-(-loss.outputs // softmax_kernels.TILE) * softmax_kernels.TILE)
        weights[: loss.outputs, : self.n_columns] = W[:, 0].reshape(self.n_columns, -1).T
        bound = one_clip(wanted, loss.outputs, weights.dtype)
        asked, columns = (bound, wanted.value, wanted.gradient), self._columns()
        shape: tuple[int, ...] = (loss.outputs, self.n_columns)
        if has_compiled_softmax(loss):
            kernel = softmax_kernels.one_softmax
            settings: tuple[Any, ...] = (loss.outputs,)
        else:
            kernel, settings = kernels.one_model, (compiled_kind(loss), parameters(loss, weights.dtype))
            weights, shape = weights[0], shape[1:]

        def pass_over(part: Part) -> tuple[Floats, Floats]:
            gradient = np.zeros(shape)
            return np.array([kernel(*columns, weights, *part, *settings, *asked, gradient)]), gradient

        value, total = self._sum_of_parts(pass_over, self._fused_parts(first, last, loss.outputs))
        own = total.reshape(-1, self.n_columns)
        return value, np.ascontiguousarray(own.T).reshape(W.shape)

    def _vectors(self, outputs: int) -> Array:
        """Zeros for the weights of one model in the arithmetic of a pass, each output as long as whole vectors."""
        dtype = self._dtype(1)
        lanes = VECTOR_BYTES // dtype.itemsize
        return np.zeros((outputs, -(-self.n_columns // lanes) * lanes), dtype)
