"""The fast engine for dense rows in memory."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.arithmetic import FLOAT32, FLOAT64, Arithmetic
from dperm.engine import _kernels, _kernels_softmax
from dperm.engine._stages import (
    Block,
    CompiledStage,
    NumpyStage,
    SoftmaxStage,
    Stage,
    compiled_kind,
    has_compiled_softmax,
    no_mask,
    parameters,
    safe_clip,
)
from dperm.engine._threads import Part, in_order, one_blas_thread, split
from dperm.engine.base import Batches, Floats, Integers
from dperm.engine.stored import Ranges, Stored, StoredEngine
from dperm.errors import InvalidInput
from dperm.losses import Loss

_BLOCK_BYTES = 768 * 1024  # a block of rows and its margins stay in the L2 cache
_FEWEST_ROWS, _MOST_ROWS = 256, 1024
# Multiply-adds that keep one thread busy for some tenths of a millisecond, far above the cost of waking it.
_FUSED_WORK, _BLOCKED_WORK = 2**20, 2**23


class DenseEngine(StoredEngine):
    """One model: a single compiled read of X. Several: matrix products over blocks of rows.

    One model computes in float64 even over float32 rows, and so do several if they were asked to be ``precise``. Others
    compute in the storage precision and add the blocks up in float64. Losses without compiled formulas go through
    their own NumPy ones.

    In float32 blocks of at most 1,024 rows are multiplied in float32 and added up in float64. A worst-case bound on
    that rounding exceeds the sensitivity of a mean over many rows, so a guarantee rests on float64.

    Assumes
    -------
    BLAS multiplies matrices in the conventional way, as all common ones do, not by Strassen's method.
    """

    def __init__(
        self, rows: Stored, used: set[Arithmetic] | None, *, precise: bool = False, threads: int = 1
    ) -> None:
        super().__init__(rows, used)
        self._precise, self._threads = precise, threads

    def arithmetic(self, n_models: int) -> Arithmetic:
        return FLOAT64 if self._dtype(n_models) == np.float64 else FLOAT32

    def _dtype(self, n_models: int) -> np.dtype[Any]:
        return np.dtype(np.float64) if n_models == 1 or self._precise else self._rows.X.dtype

    def _largest_number(self, n_models: int) -> float:
        return float(np.finfo(self._dtype(n_models)).max)

    def _margins(self, W: Floats) -> Floats:
        flat = W.reshape(len(W), -1)
        out = np.empty((self.n_rows, flat.shape[1]))
        with one_blas_thread:
            for first, X in self._blocks((0, self.n_rows), flat.shape[1], np.dtype(np.float64)):
                np.matmul(X, flat, out=out[first : first + len(X)])
        return out.reshape(self.n_rows, *W.shape[1:])

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
        if not alone or (self._threads > 1 and len(batch_parts) > 1):
            super().descend(loss, W, batches, steps, l2, iterate_sum)
            return
        edges = self._edges(1, batches)
        w = np.ascontiguousarray(W[:, 0])
        total = np.zeros(len(w)) if iterate_sum is None else np.ascontiguousarray(iterate_sum[:, 0])
        cuts = np.ascontiguousarray(edges[:, 0], np.int64)
        schedule = (cuts, np.ascontiguousarray(decay[:, 0]), np.ascontiguousarray(rate[:, 0]))
        keep = iterate_sum is not None
        _kernels.one_model_epoch(*self._columns(), w, *schedule, kind, parameters(loss), keep, total)
        W[:, 0] = w
        self._check_size(W)
        if iterate_sum is not None:
            iterate_sum[:, 0] = total

    def _range_sums(
        self,
        loss: Loss,
        W: Floats,
        start: Integers,
        stop: Integers,
        clip: Floats | None,
        want_value: bool,
        want_gradient: bool,
    ) -> tuple[Floats, Floats]:
        self._check_classes(loss, int(start.min()), int(stop.max()))
        if W.shape[1] == 1 and (compiled_kind(loss) is not None or has_compiled_softmax(loss)):
            return self._fused(loss, W, int(start[0]), int(stop[0]), clip, want_value, want_gradient)

        dtype = self._dtype(W.shape[1])
        stage, weights = self._stage(loss, W, start, stop, clip, dtype)

        def pass_over(part: Part) -> tuple[Floats, Floats]:
            value, gradient = np.zeros(W.shape[1]), np.zeros(weights.shape)
            product = np.empty(weights.shape, dtype)
            for first, X, Z in self._margin_blocks(part, weights):
                if want_value:
                    stage.add_values(Z, first, value)
                if want_gradient:
                    stage.slopes(Z, first)
                    np.matmul(X.T, Z, out=product)
                    gradient += product
            return value, gradient

        value, gradient = self._add_up(pass_over, int(start.min()), int(stop.max()), weights.shape[1])
        return value, np.ascontiguousarray(gradient[:, : W[0].size]).reshape(W.shape)

    def _curvatures(self, loss: Loss, W: Floats) -> Floats:
        mask = self._rows.mask

        def pass_over(part: Part) -> tuple[Floats]:
            total = np.zeros((W.shape[1], self.n_columns, self.n_columns))
            for first, X in self._blocks(part, self.n_columns, np.dtype(np.float64)):
                here = slice(first, first + len(X))
                root = np.sqrt(loss.curvature(X @ W, self._rows.y[here, None]))
                for k in range(W.shape[1]):
                    own = root[:, k] if mask is None else root[:, k] * mask[here, k]
                    scaled = X * own[:, None]
                    total[k] += scaled.T @ scaled
            return (total,)

        (hessians,) = self._add_up(pass_over, 0, self.n_rows, self.n_columns * W.shape[1])
        return np.asarray(hessians)

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

    def _masked_moments(self, n_models: int) -> Floats:
        mask = self._rows.mask

        def pass_over(part: Part) -> tuple[Floats]:
            total = np.zeros((n_models, self.n_columns, self.n_columns))
            for first, X in self._blocks(part, self.n_columns, np.dtype(np.float64)):
                for k in range(n_models):
                    own = X if mask is None else X[mask[first : first + len(X), k] == 1]
                    total[k] += own.T @ own
            return (total,)

        (moments,) = self._add_up(pass_over, 0, self.n_rows, self.n_columns * n_models)
        return np.asarray(moments)

    def _counted(self, loss: Loss, W: Floats) -> tuple[Floats, Integers, Integers]:
        start, stop = self._range(W.shape[1], None)
        self._check_classes(loss, 0, self.n_rows)
        stage, weights = self._stage(loss, W, start, stop, None, self._dtype(W.shape[1]))

        def pass_over(part: Part) -> tuple[Floats, Integers, Integers]:
            value = np.zeros(W.shape[1])
            inside, outside = np.zeros((2, W.shape[1]), np.int64)
            for first, _, Z in self._margin_blocks(part, weights):
                stage.add_values(Z, first, value)
                stage.add_correct(Z, first, inside, outside)
            return value, inside, outside

        value, inside, outside = self._add_up(pass_over, 0, self.n_rows, weights.shape[1])
        return value, inside, outside

    def _columns(self) -> tuple[NDArray[Any], ...]:
        """What the one-model kernels read of the rows."""
        rows = self._rows
        return rows.X, rows.y, rows.inverse_norm, no_mask(1) if rows.mask is None else rows.mask

    def _check_classes(self, loss: Loss, first: int, last: int) -> None:
        """Refuse labels that a compiled softmax would take for a place outside its arrays."""
        y = self._rows.y[first:last]
        if has_compiled_softmax(loss) and len(y) and not (y.min() >= 0 and y.max() < loss.outputs):
            raise InvalidInput(f"labels must be whole numbers from 0 to {loss.outputs - 1}.")

    def _fused_parts(self, first: int, last: int, outputs: int = 1) -> list[Part]:
        return split(first, last, (last - first) * self.n_columns * outputs / _FUSED_WORK)

    def _fused(
        self,
        loss: Loss,
        W: Floats,
        first: int,
        last: int,
        clip: Floats | None,
        want_value: bool,
        want_gradient: bool,
    ) -> tuple[Floats, Floats]:
        bound = np.inf if clip is None else float(safe_clip(clip, loss.outputs, W.dtype)[0])
        wanted, columns = (bound, want_value, want_gradient), self._columns()
        if has_compiled_softmax(loss):
            weights = np.zeros((-(-loss.outputs // _kernels_softmax.TILE) * _kernels_softmax.TILE, len(W)))
            weights[: loss.outputs] = W[:, 0].T
            kernel = _kernels_softmax.one_softmax
            settings: tuple[Any, ...] = (loss.outputs,)
        else:
            weights = np.ascontiguousarray(W[:, 0])
            kernel, settings = _kernels.one_model, (compiled_kind(loss), parameters(loss))

        def pass_over(part: Part) -> tuple[float, Floats]:
            gradient = np.zeros(weights.shape)
            return kernel(*columns, weights, *part, *settings, *wanted, gradient), gradient

        total, value = np.zeros(weights.shape), 0.0
        parts = self._fused_parts(first, last, loss.outputs)
        for part_value, gradient in in_order(pass_over, parts, self._threads):
            value += part_value
            total += gradient
        own = total.reshape(-1, self.n_columns)[: loss.outputs]
        return np.array([value]), np.ascontiguousarray(own.T).reshape(W.shape)

    def _stage(
        self,
        loss: Loss,
        W: Floats,
        start: Integers,
        stop: Integers,
        clip: Floats | None,
        dtype: np.dtype[Any],
    ) -> tuple[Stage, Block]:
        """The element-wise stage, and the weights in its precision with all outputs side by side."""
        flat = W.reshape(len(W), -1).astype(dtype)
        kind: type[CompiledStage | SoftmaxStage]
        if has_compiled_softmax(loss):
            kind = SoftmaxStage
        elif compiled_kind(loss) is not None:
            kind = CompiledStage
        else:
            return NumpyStage(self._rows, loss, start, stop, clip, dtype), flat
        # Matrix products run best on multiples of 16 columns; beyond an eighth more, padding costs more.
        spare = -flat.shape[1] % 16
        if spare * 8 <= flat.shape[1]:
            flat = np.pad(flat, ((0, 0), (0, spare)))
        return kind(self._rows, loss, start, stop, clip, dtype), flat

    def _blocks(self, part: Part, width: int, dtype: np.dtype[Any]) -> Iterator[tuple[int, Block]]:
        """Blocks of rows in the given precision, small enough for the cache beside ``width`` columns."""
        n = int(
            np.clip(_BLOCK_BYTES // (dtype.itemsize * (self.n_columns + width)), _FEWEST_ROWS, _MOST_ROWS)
        )
        length = part[1] - part[0]
        n = max(1, -(-length // max(1, -(-length // n))))  # blocks of equal size
        for first in range(part[0], part[1], n):
            yield first, self._rows.X[first : min(first + n, part[1])].astype(dtype, copy=False)

    def _margin_blocks(self, part: Part, weights: Block) -> Iterator[tuple[int, Block, Block]]:
        """Blocks of rows with their margins; the margins' buffer is reused."""
        buffer = np.empty((_MOST_ROWS, weights.shape[1]), weights.dtype)
        for first, X in self._blocks(part, weights.shape[1], weights.dtype):
            yield first, X, np.matmul(X, weights, out=buffer[: len(X)])

    def _add_up(
        self, pass_over: Callable[[Part], tuple[Any, ...]], first: int, last: int, width: int
    ) -> tuple[Any, ...]:
        """Sum what ``pass_over`` returns for each range of rows, in a fixed order."""
        n = last - first
        most = min(n * self.n_columns * width / _BLOCKED_WORK, n / _MOST_ROWS)
        with one_blas_thread:
            results = iter(in_order(pass_over, split(first, last, most), self._threads))
            totals = next(results)
            for result in results:
                for total, added in zip(totals, result, strict=True):
                    total += added
        return totals
