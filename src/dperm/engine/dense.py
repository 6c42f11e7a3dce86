"""The fast engine for dense rows in memory."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dperm.arithmetic import FLOAT32, FLOAT64, Arithmetic
from dperm.engine import _kernels, _kernels_softmax
from dperm.engine._stages import (
    Block,
    compiled_kind,
    has_compiled_softmax,
    no_mask,
    parameters,
    safe_clip,
)
from dperm.engine._threads import Part, in_order, split
from dperm.engine._tiles import VECTOR_BYTES
from dperm.engine.base import Floats
from dperm.engine.blocked import BlockedEngine
from dperm.engine.columns import ColumnWalk
from dperm.engine.corners import CornerWalk
from dperm.engine.drawn import Batches
from dperm.engine.stored import Ranges, StoredDense
from dperm.engine.walk import Walk
from dperm.losses import Loss

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

    def _load(self, first: int, last: int, dtype: np.dtype[Any]) -> Block:
        return self._rows.X[first:last].astype(dtype, copy=False)

    def _margins_into(self, block: Block, weights: Block, out: Block) -> None:
        np.matmul(block, weights, out=out)

    def _add_back(self, block: Block, slopes: Block, total: Floats) -> None:
        for first in range(0, len(block), _kernels.ADDED):
            last = first + _kernels.ADDED
            total += block[first:last].T @ slopes[first:last]

    def descend(
        self,
        loss: Loss,
        W: Floats,
        batches: Batches,
        steps: ArrayLike,
        l2: ArrayLike,
        iterate_sum: Floats | None = None,
    ) -> None:
        kind = compiled_kind(loss)
        decay, rate = self._check_schedule(loss, W, batches, steps, l2, iterate_sum)
        batch_parts = self._fused_parts(0, self.n_rows // len(rate))
        alone = W.shape[1] == 1 and kind is not None and isinstance(batches, Ranges)
        if not alone or len(batch_parts) > 1:
            super().descend(loss, W, batches, steps, l2, iterate_sum)
            return
        edges = self._edges(1, batches)
        w, narrow = np.ascontiguousarray(W[:, 0]), self._vectors(1)[0]
        total = np.zeros(len(w)) if iterate_sum is None else np.ascontiguousarray(iterate_sum[:, 0])
        cuts = np.ascontiguousarray(edges[:, 0], np.int64)
        schedule = (cuts, np.ascontiguousarray(decay[:, 0]), np.ascontiguousarray(rate[:, 0]))
        keep = iterate_sum is not None
        own = (kind, parameters(loss, narrow.dtype))
        _kernels.one_model_epoch(*self._columns(), w, narrow, *schedule, *own, keep, total)
        W[:, 0] = w
        self._check_size(W)
        if iterate_sum is not None:
            iterate_sum[:, 0] = total

    def walk(self, loss: Loss, W: Floats) -> Walk:
        if compiled_kind(loss) is None:
            return super().walk(loss, W)
        precise = copy(self)
        precise._precise = True  # several models too walk in float64
        precise._begin(loss, W)
        return ColumnWalk(precise, self._rows, loss, W, precise._check_size, self._threads)

    def corner_walk(self, loss: Loss, model: int, grid_exponent: int, block: int) -> CornerWalk:
        """On a copy of all numbers that are not zero."""
        self._used.add(FLOAT64)
        rows = sparse.csr_array(self._rows.X)
        entries = (rows.data, rows.indices, rows.indptr, np.empty(0))
        return CornerWalk(self._rows, entries, loss, model, grid_exponent, block)

    def _power_sums(self, power: int) -> Floats:
        X, _, _, mask = self._columns()
        total = np.zeros((self.n_columns, mask.shape[1]))
        for k in range(mask.shape[1]):

            def pass_over(part: Part, k: int = k) -> Floats:
                own = np.zeros(self.n_columns)
                _kernels.add_rows(X, mask, k, power == 2, *part, own)
                return own

            for own in in_order(pass_over, self._fused_parts(0, self.n_rows), self._threads):
                total[:, k] += own
        return total

    def _columns(self) -> tuple[NDArray[Any], ...]:
        """What the one-model kernels read of the rows."""
        rows = self._rows
        return rows.X, rows.y, rows.inverse_norm, no_mask(1) if rows.mask is None else rows.mask

    def _fused_parts(self, first: int, last: int, outputs: int = 1) -> list[Part]:
        return split(first, last, (last - first) * self.n_columns * outputs / _FUSED_WORK)

    def _one_model(
        self,
        loss: Loss,
        W: Floats,
        first: int,
        last: int,
        clip: Floats | None,
        want_value: bool,
        want_gradient: bool,
    ) -> tuple[Floats, Floats] | None:
        if compiled_kind(loss) is None and not has_compiled_softmax(loss):
            return None
        weights = self._vectors(-(-loss.outputs // _kernels_softmax.TILE) * _kernels_softmax.TILE)
        weights[: loss.outputs, : self.n_columns] = W[:, 0].reshape(self.n_columns, -1).T
        bound = np.inf if clip is None else float(safe_clip(clip, loss.outputs, weights.dtype)[0])
        wanted, columns = (bound, want_value, want_gradient), self._columns()
        shape: tuple[int, ...] = (loss.outputs, self.n_columns)
        if has_compiled_softmax(loss):
            kernel = _kernels_softmax.one_softmax
            settings: tuple[Any, ...] = (loss.outputs,)
        else:
            kernel, settings = _kernels.one_model, (compiled_kind(loss), parameters(loss, weights.dtype))
            weights, shape = weights[0], shape[1:]

        def pass_over(part: Part) -> tuple[float, Floats]:
            gradient = np.zeros(shape)
            return kernel(*columns, weights, *part, *settings, *wanted, gradient), gradient

        total, value = np.zeros(shape), 0.0
        parts = self._fused_parts(first, last, loss.outputs)
        for part_value, gradient in in_order(pass_over, parts, self._threads):
            value += part_value
            total += gradient
        own = total.reshape(-1, self.n_columns)
        return np.array([value]), np.ascontiguousarray(own.T).reshape(W.shape)

    def _vectors(self, outputs: int) -> Block:
        """Zeros for the weights of one model in the arithmetic of a pass, each output as long as whole vectors."""
        dtype = self._dtype(1)
        lanes = VECTOR_BYTES // dtype.itemsize
        return np.zeros((outputs, -(-self.n_columns // lanes) * lanes), dtype)
