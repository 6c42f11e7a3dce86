"""Passes for several models over blocks of rows, whatever form the rows have."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dperm.arithmetic import Arithmetic
from dperm.engine._kernels_walk import add_values_between
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
)
from dperm.engine._threads import Part, in_order, one_blas_thread, split
from dperm.engine.base import Floats, Integers
from dperm.engine.stored import Stored, StoredEngine
from dperm.errors import InvalidInput
from dperm.losses import Loss
from dperm.losses.weighted import targets_alone

BLOCK_BYTES = 768 * 1024  # a block of rows and its margins stay in the L2 cache
FEWEST_ROWS, MOST_ROWS = 256, 1024
# Multiply-adds that keep one thread busy for some tenths of a millisecond, far above the cost of waking it.
BLOCKED_WORK = 2**23


class BlockedEngine(StoredEngine):
    """Margins of a block of rows, an element-wise stage, and back to the columns.

    A subclass says how a block is multiplied by weights and its transpose by slopes, and may have a shorter way for one
    model (``_one_model``).
    """

    def __init__(
        self, rows: Stored, used: set[Arithmetic] | None, *, precise: bool = False, threads: int = 1
    ) -> None:
        super().__init__(rows, used)
        self._precise, self._threads = precise, threads

    @abstractmethod
    def _dtype(self, n_models: int) -> np.dtype[Any]:
        """In which margins and slopes of a pass for so many models are computed."""

    @abstractmethod
    def _load(self, first: int, last: int, dtype: np.dtype[Any]) -> Any:
        """Rows [first, last), in the form that the two products take."""

    @abstractmethod
    def _margins_into(self, block: Any, weights: Block, out: Block) -> None:
        """Margins of a block, one column for each column of ``weights``."""

    @abstractmethod
    def _add_back(self, block: Any, slopes: Block, total: Any) -> None:
        """Add X^T slopes of a block to a float64 ``total`` that ``_blank`` made."""

    def _laid_out(self, weights: Block) -> Block:
        """Weights, one row per column of X, in the form that ``_margins_into`` takes."""
        return weights

    def _blank(self, weights: Block) -> Any:
        """Nothing yet, in the form that ``_add_back`` adds to; two of the kind can be added up by +=."""
        return np.zeros(weights.shape)

    def _folded(self, total: Any) -> Floats:
        """What ``_add_back`` added up, one row per column of X."""
        return np.asarray(total)

    def _spare(self, columns: int) -> int:
        """Columns of zeros that make a pass over so many columns of weights faster."""
        # Matrix products run best on multiples of 16 columns; beyond an eighth more, padding costs more.
        spare = -columns % 16
        return spare if spare * 8 <= columns else 0

    def _parts(self, first: int, last: int, width: int) -> list[Part]:
        """Ranges of rows whose sums are added up one after the other, by public numbers alone."""
        n = last - first
        return split(first, last, min(n * self.n_columns * width / BLOCKED_WORK, n / MOST_ROWS))

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
        """The sums of one model over rows [first, last) in one pass, or None where there is no shorter way."""
        return None

    def _largest_number(self, n_models: int) -> float:
        return float(np.finfo(self._dtype(n_models)).max)

    def _margins(self, W: Floats) -> Floats:
        flat = self._laid_out(np.ascontiguousarray(W.reshape(len(W), -1)))
        out = np.empty((self.n_rows, flat.shape[1]))
        with one_blas_thread:
            for first, last in self._cuts((0, self.n_rows), flat.shape[1], flat.dtype):
                self._margins_into(self._load(first, last, flat.dtype), flat, out[first:last])
        return out.reshape(self.n_rows, *W.shape[1:])

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
        if W.shape[1] == 1:
            alone = self._one_model(loss, W, int(start[0]), int(stop[0]), clip, want_value, want_gradient)
            if alone is not None:
                return alone
        stage, weights = self._stage(loss, W, start, stop, clip, self._dtype(W.shape[1]))

        def pass_over(part: Part) -> tuple[Floats, Floats]:
            value, gradient = np.zeros(W.shape[1]), self._blank(weights)
            for first, block, Z in self._margin_blocks(part, weights):
                if want_value:
                    self._add_values(stage, Z, first, value)
                if want_gradient:
                    stage.slopes(Z, first)
                    self._add_back(block, Z, gradient)
            return value, gradient

        value, gradient = self._add_up(pass_over, int(start.min()), int(stop.max()), weights.shape[1])
        return value, np.ascontiguousarray(self._folded(gradient)[:, : W[0].size]).reshape(W.shape)

    def values_between(self, loss: Loss, begin: Floats, end: Floats, shares: Floats) -> Floats:
        kind, n_models = compiled_kind(loss), self._begin(loss, begin)
        if kind is None or end.shape != begin.shape:
            return super().values_between(loss, begin, end, shares)
        self._begin(loss, end)
        ends = np.stack([begin, end], axis=2).reshape(len(begin), -1)
        _, weights = self._stage(loss, ends, *self._range(2 * n_models, None), None, self._dtype(n_models))
        padded = np.pad(shares, (0, -len(shares) % 8), mode="edge")  # whole vectors of numbers
        mask = no_mask(n_models) if self._rows.mask is None else self._rows.mask

        def pass_over(part: Part) -> tuple[Floats]:
            total = np.zeros((n_models, len(padded)))
            for first, _, Z in self._margin_blocks(part, weights):
                rows = (self._rows.y, mask, first)
                add_values_between(Z, len(Z), n_models, padded, *rows, kind, parameters(loss), total)
            return (total,)

        (values,) = self._add_up(pass_over, 0, self.n_rows, weights.shape[1] + len(padded))
        return np.ascontiguousarray(values[:, : len(shares)].T)

    def _curvatures(self, loss: Loss, W: Floats) -> Floats:
        mask = self._rows.mask

        def pass_over(part: Part) -> tuple[Floats]:
            total = np.zeros((W.shape[1], self.n_columns, self.n_columns))
            for first, last in self._cuts(part, self.n_columns, W.dtype):
                X = self._rows.densely(first, last)
                root = np.sqrt(loss.curvature(X @ W, self._rows.y[first:last, None]))
                for k in range(W.shape[1]):
                    own = root[:, k] if mask is None else root[:, k] * mask[first:last, k]
                    scaled = X * own[:, None]
                    total[k] += scaled.T @ scaled
            return (total,)

        (hessians,) = self._add_up(pass_over, 0, self.n_rows, self.n_columns * W.shape[1])
        return np.asarray(hessians)

    def _masked_moments(self, n_models: int) -> Floats:
        mask = self._rows.mask

        def pass_over(part: Part) -> tuple[Floats]:
            total = np.zeros((n_models, self.n_columns, self.n_columns))
            for first, last in self._cuts(part, self.n_columns, np.dtype(np.float64)):
                X = self._rows.densely(first, last)
                for k in range(n_models):
                    own = X if mask is None else X[mask[first:last, k] == 1]
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
                self._add_values(stage, Z, first, value)
                stage.add_correct(Z, first, inside, outside)
            return value, inside, outside

        value, inside, outside = self._add_up(pass_over, 0, self.n_rows, weights.shape[1])
        return value, inside, outside

    @staticmethod
    def _add_values(stage: Stage, Z: Block, first: int, total: Floats) -> None:
        """Add the losses of a block among themselves first, so that no chain of additions is long."""
        block = np.zeros_like(total)
        stage.add_values(Z, first, block)
        total += block

    def _check_classes(self, loss: Loss, first: int, last: int) -> None:
        """Refuse labels that a compiled softmax would take for a place outside its arrays."""
        y = targets_alone(self._rows.y[first:last])
        if has_compiled_softmax(loss) and len(y) and not (y.min() >= 0 and y.max() < loss.outputs):
            raise InvalidInput(f"labels must be whole numbers from 0 to {loss.outputs - 1}.")

    def _stage(
        self,
        loss: Loss,
        W: Floats,
        start: Integers,
        stop: Integers,
        clip: Floats | None,
        dtype: np.dtype[Any],
    ) -> tuple[Stage, Block]:
        """The element-wise stage, and the weights in its precision with all outputs side by side, laid out."""
        flat = np.ascontiguousarray(W.reshape(len(W), -1), dtype)
        kind: type[CompiledStage | SoftmaxStage]
        if has_compiled_softmax(loss):
            kind = SoftmaxStage
        elif compiled_kind(loss) is not None:
            kind = CompiledStage
        else:
            return NumpyStage(self._rows, loss, start, stop, clip, dtype), self._laid_out(flat)
        spare = self._spare(flat.shape[1])
        flat = np.pad(flat, ((0, 0), (0, spare))) if spare else flat
        return kind(self._rows, loss, start, stop, clip, dtype), self._laid_out(flat)

    def _cuts(self, part: Part, width: int, dtype: np.dtype[Any]) -> Iterator[Part]:
        """Blocks of rows that fit in the cache beside ``width`` columns, by public numbers alone."""
        n = int(np.clip(BLOCK_BYTES // (dtype.itemsize * (self.n_columns + width)), FEWEST_ROWS, MOST_ROWS))
        length = part[1] - part[0]
        n = max(1, -(-length // max(1, -(-length // n))))  # blocks of equal size
        for first in range(part[0], part[1], n):
            yield first, min(first + n, part[1])

    def _margin_blocks(self, part: Part, weights: Block) -> Iterator[tuple[int, Any, Block]]:
        """Blocks of rows with their margins; the margins' buffer is reused."""
        buffer = np.empty((MOST_ROWS, weights.shape[1]), weights.dtype)
        for first, last in self._cuts(part, weights.shape[1], weights.dtype):
            block, Z = self._load(first, last, weights.dtype), buffer[: last - first]
            self._margins_into(block, weights, Z)
            yield first, block, Z

    def _add_up(
        self, pass_over: Callable[[Part], tuple[Any, ...]], first: int, last: int, width: int
    ) -> tuple[Any, ...]:
        """Sum what ``pass_over`` returns for each range of rows, in a fixed order."""
        with one_blas_thread:
            results = iter(in_order(pass_over, self._parts(first, last, width), self._threads))
            totals = next(results)
            for result in results:
                for total, added in zip(totals, result, strict=True):
                    total += added
        return totals
