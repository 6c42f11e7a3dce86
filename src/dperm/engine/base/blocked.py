"""Passes for several models over blocks of rows, whatever form the rows have."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import Arithmetic
from dperm.engine.base import kernels, softmax_kernels
from dperm.engine.base.draws import Batches, Ranges
from dperm.engine.base.engine import Schedule, StoredEngine, Wanted
from dperm.engine.base.formulas import Formulas, formulas_of
from dperm.engine.base.kernels import add_values_between
from dperm.engine.base.rows import Stored
from dperm.errors import InvalidInput
from dperm.losses import Loss, Softmax
from dperm.losses.base import has_weights, targets_alone
from dperm.processors import Part, in_order, one_blas_thread, split
from dperm.typing import Array, Floats, Integers

FLOAT64 = np.dtype(np.float64)
Span = tuple[Integers, Integers]
"""Where each model's own range of rows begins and ends."""


@cache
def _formulas(kind: type[Loss]) -> Formulas | None:
    kernel = vars(kind).get("kernel")  # of this very class: a subclass may change a formula
    return None if kernel is None else formulas_of(kernel)


def compiled_kind(loss: Loss) -> Formulas | None:
    """What stands for a loss of one margin inside the kernels, or None if it has no compiled formulas.

    Weights are in the targets, whose type tells the kernels of them.
    """
    return _formulas(type(loss.unweighted)) if loss.outputs == 1 else None


def has_compiled_softmax(loss: Loss) -> bool:
    return type(loss.unweighted) is Softmax


def parameters(loss: Loss, dtype: np.dtype[Any] = FLOAT64) -> tuple[Any, ...]:
    """What the compiled formulas take besides margin and label, in one precision."""
    as_type = float if dtype == FLOAT64 else dtype.type
    return tuple(as_type(value) for value in loss.kernel_parameters)


def safe_clip(clip: Floats, outputs: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Clip bounds lowered by more than the roundings between them and a clipped slope."""
    return (clip * (1 - (8 + outputs) * float(np.finfo(dtype).eps))).astype(dtype)


def one_clip(wanted: Wanted, outputs: int, dtype: np.dtype[Any]) -> float:
    """The ``safe_clip`` of a single model, infinite where there is none."""
    return math.inf if wanted.clip is None else float(safe_clip(wanted.clip, outputs, dtype)[0])


class Stage(ABC):
    """Z holds the margins of rows first, first + 1, ... with the models (and outputs) side by side."""

    def __init__(
        self, rows: Stored, loss: Loss, span: Span, clip: Floats | None, dtype: np.dtype[Any]
    ) -> None:
        self._rows, self._loss, (self._start, self._stop) = rows, loss, span
        self._models = len(self._start)
        self._clip = None if clip is None else safe_clip(clip, loss.outputs, dtype)
        self._mask = rows.known_mask
        self._dtype = dtype

    @abstractmethod
    def slopes(self, Z: Array, first: int) -> None:
        """Replace margins by slopes, clipped, masked and zero outside each model's range."""

    @abstractmethod
    def add_values(self, Z: Array, first: int, total: Floats) -> None:
        """Add each model's own losses."""

    @abstractmethod
    def add_correct(self, Z: Array, first: int, inside: Integers, outside: Integers) -> None:
        """Count correct predictions inside and outside each model's own rows."""


class CompiledStage(Stage):
    """One compiled loop per loss; padding columns of Z are left alone."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._kind = compiled_kind(self._loss)
        self._wide, self._narrow = parameters(self._loss), parameters(self._loss, self._dtype)
        self._bounds = np.empty(0, self._dtype) if self._clip is None else self._clip
        self._shared = int(self._start.max()), int(self._stop.min())

    def slopes(self, Z: Array, first: int) -> None:
        size = (len(Z), self._models)
        rows = self._rows
        kernels.slopes_of_models(
            Z, *size, rows.y, rows.inverse_norm, self._mask, first, self._kind, self._narrow, self._bounds
        )
        if first < self._shared[0] or first + len(Z) > self._shared[1]:
            kernels.clear_outside(Z, *size, first, self._start, self._stop, *self._shared)

    def add_values(self, Z: Array, first: int, total: Floats) -> None:
        rows, loss = self._rows, (self._kind, self._wide, self._narrow)
        kernels.add_values(Z, len(Z), self._models, rows.y, self._mask, first, *loss, total)

    def add_correct(self, Z: Array, first: int, inside: Integers, outside: Integers) -> None:
        kernels.add_correct(Z, len(Z), self._models, self._rows.y, self._mask, first, inside, outside)


class SoftmaxStage(Stage):
    """The classes of a model lie side by side in Z; padding columns are left alone."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._shape = self._models, self._loss.outputs
        self._bounds = np.empty(0) if self._clip is None else self._clip.astype(np.float64)

    def slopes(self, Z: Array, first: int) -> None:
        rows = (self._rows.y, self._rows.inverse_norm, self._mask, first)
        own = (self._bounds, self._start, self._stop)
        softmax_kernels.softmax_slopes(Z, len(Z), *self._shape, *rows, *own)

    def add_values(self, Z: Array, first: int, total: Floats) -> None:
        softmax_kernels.softmax_values(Z, len(Z), *self._shape, self._rows.y, self._mask, first, total)

    def add_correct(self, Z: Array, first: int, inside: Integers, outside: Integers) -> None:
        softmax_kernels.softmax_correct(
            Z, len(Z), *self._shape, self._rows.y, self._mask, first, inside, outside
        )


class NumpyStage(Stage):
    """Any loss, through its own formulas."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        outputs = self._loss.outputs
        self._shape = (-1, self._models) if outputs == 1 else (-1, self._models, outputs)

    def _labels(self, Z: Array, first: int) -> Array:
        y = self._rows.y[first : first + len(Z), None]
        return y if has_weights(y) else y.astype(Z.dtype)

    def _own(self, Z: Array, first: int) -> NDArray[np.bool_]:
        mask = self._rows.mask
        if mask is None:
            return np.ones((len(Z), len(self._start)), np.bool_)
        return mask[first : first + len(Z)].view(np.bool_)

    def slopes(self, Z: Array, first: int) -> None:
        slope = self._loss.slope(Z.reshape(self._shape), self._labels(Z, first))
        position = np.arange(first, first + len(Z))[:, None]
        factor = self._own(Z, first) & (position >= self._start) & (position < self._stop)
        weight = factor.astype(Z.dtype)
        if self._clip is not None:
            size = np.abs(slope) if self._loss.outputs == 1 else np.linalg.norm(slope, axis=-1)
            with np.errstate(over="ignore"):
                allowed = self._clip * self._rows.inverse_norm[first : first + len(Z), None].astype(Z.dtype)
            allowed = np.minimum(allowed, np.finfo(Z.dtype).max)
            weight *= allowed / np.maximum(size, allowed)
        if self._loss.outputs > 1:
            weight = weight[..., None]
        np.multiply(slope, weight, out=Z.reshape(self._shape), casting="same_kind")

    def add_values(self, Z: Array, first: int, total: Floats) -> None:
        value = self._loss.value(Z.reshape(self._shape), self._labels(Z, first))
        total += np.where(self._own(Z, first), value, 0).sum(axis=0, dtype=np.float64)

    def add_correct(self, Z: Array, first: int, inside: Integers, outside: Integers) -> None:
        margin, y = Z.reshape(self._shape), targets_alone(self._labels(Z, first))
        correct = margin.argmax(axis=-1) == y if self._loss.outputs > 1 else (margin > 0) == (y > 0)
        own = self._own(Z, first)
        inside += (correct & own).sum(axis=0)
        outside += (correct & ~own).sum(axis=0)


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

    def _dtype(self, n_models: int) -> np.dtype[Any]:
        """In which margins and slopes of a pass for so many models are computed."""
        return FLOAT64

    @abstractmethod
    def _load(self, first: int, last: int, dtype: np.dtype[Any]) -> Any:
        """Rows [first, last), in the form that the two products take."""

    def _margins_into(self, block: Any, weights: Array, out: Array) -> None:
        """Margins of a block, one column for each column of ``weights``."""
        np.matmul(block, weights, out=out)

    @abstractmethod
    def _add_back(self, block: Any, slopes: Array, total: Any) -> None:
        """Add X^T slopes of a block to a float64 ``total`` that ``_blank`` made."""

    def _laid_out(self, weights: Array) -> Array:
        """Weights, one row per column of X, in the form that ``_margins_into`` takes."""
        return weights

    def _blank(self, weights: Array) -> Any:
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
        self, loss: Loss, W: Floats, first: int, last: int, wanted: Wanted
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
        self, loss: Loss, W: Floats, start: Integers, stop: Integers, wanted: Wanted
    ) -> tuple[Floats, Floats]:
        self._check_classes(loss, int(start.min()), int(stop.max()))
        if W.shape[1] == 1:
            alone = self._one_model(loss, W, int(start[0]), int(stop[0]), wanted)
            if alone is not None:
                return alone
        stage, weights = self._stage(loss, W, (start, stop), wanted.clip, self._dtype(W.shape[1]))

        def pass_over(part: Part) -> tuple[Floats, Floats]:
            value, gradient = np.zeros(W.shape[1]), self._blank(weights)
            for first, block, Z in self._margin_blocks(part, weights):
                if wanted.value:
                    self._add_values(stage, Z, first, value)
                if wanted.gradient:
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
        _, weights = self._stage(loss, ends, self._range(2 * n_models, None), None, self._dtype(n_models))
        padded = np.pad(shares, (0, -len(shares) % 8), mode="edge")  # whole vectors of numbers

        def pass_over(part: Part) -> tuple[Floats]:
            total = np.zeros((n_models, len(padded)))
            for first, _, Z in self._margin_blocks(part, weights):
                rows = (self._rows.y, self._rows.known_mask, first)
                add_values_between(Z, len(Z), n_models, padded, *rows, kind, parameters(loss), total)
            return (total,)

        (values,) = self._add_up(pass_over, 0, self.n_rows, weights.shape[1] + len(padded))
        return np.ascontiguousarray(values[:, : len(shares)].T)

    def _epoch(
        self, loss: Loss, W: Floats, batches: Batches, schedule: Schedule, iterate_sum: Floats | None
    ) -> None:
        kind = compiled_kind(loss)
        if W.shape[1] == 1 and kind is not None and isinstance(batches, Ranges):
            edges = self._edges(1, batches)
            w = np.ascontiguousarray(W[:, 0])
            own = [np.ascontiguousarray(values[:, 0]) for values in (edges, *schedule)]
            total = np.zeros(len(w)) if iterate_sum is None else np.ascontiguousarray(iterate_sum[:, 0])
            if self._one_model_epoch(w, own, kind, loss, iterate_sum is not None, total):
                W[:, 0] = w
                if iterate_sum is not None:
                    iterate_sum[:, 0] = total
                return
        super()._epoch(loss, W, batches, schedule, iterate_sum)

    def _one_model_epoch(
        self, w: Floats, schedule: list[Any], kind: Formulas, loss: Loss, keep_sum: bool, total: Floats
    ) -> bool:
        """Descend with one model in a single compiled call, or False: nothing was done.

        ``schedule`` holds the edges of the batches, decay and rate; ``total`` is the sum of iterates, if one is kept.
        """
        return False

    def _curvatures(self, loss: Loss, W: Floats) -> Floats:
        mask = self._rows.mask

        def scaled(X: Floats, first: int, last: int) -> Iterator[Floats]:
            root = np.sqrt(loss.curvature(X @ W, self._rows.y[first:last, None]))
            for k in range(W.shape[1]):
                own = root[:, k] if mask is None else root[:, k] * mask[first:last, k]
                yield X * own[:, None]

        return self._grams(W.shape[1], scaled)

    def _masked_moments(self, n_models: int) -> Floats:
        mask = self._rows.mask

        def own(X: Floats, first: int, last: int) -> Iterator[Floats]:
            for k in range(n_models):
                yield X if mask is None else X[mask[first:last, k] == 1]

        return self._grams(n_models, own)

    def _grams(self, n_models: int, seen: Callable[[Floats, int, int], Iterator[Floats]]) -> Floats:
        """Sum of x x^T for each model, over blocks of rows as ``seen`` gives them for each."""

        def pass_over(part: Part) -> tuple[Floats]:
            total = np.zeros((n_models, self.n_columns, self.n_columns))
            for first, last in self._cuts(part, self.n_columns, FLOAT64):
                for k, X in enumerate(seen(self._rows.densely(first, last), first, last)):
                    total[k] += X.T @ X
            return (total,)

        (grams,) = self._add_up(pass_over, 0, self.n_rows, self.n_columns * n_models)
        return np.asarray(grams)

    def _counted(self, loss: Loss, W: Floats) -> tuple[Floats, Integers, Integers]:
        self._check_classes(loss, 0, self.n_rows)
        span = self._range(W.shape[1], None)
        stage, weights = self._stage(loss, W, span, None, self._dtype(W.shape[1]))

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
    def _add_values(stage: Stage, Z: Array, first: int, total: Floats) -> None:
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
        self, loss: Loss, W: Floats, span: Span, clip: Floats | None, dtype: np.dtype[Any]
    ) -> tuple[Stage, Array]:
        """The element-wise stage, and the weights in its precision with all outputs side by side, laid out."""
        flat = np.ascontiguousarray(W.reshape(len(W), -1), dtype)
        kind: type[Stage] = NumpyStage
        if has_compiled_softmax(loss):
            kind = SoftmaxStage
        elif compiled_kind(loss) is not None:
            kind = CompiledStage
        spare = 0 if kind is NumpyStage else self._spare(flat.shape[1])
        flat = np.pad(flat, ((0, 0), (0, spare))) if spare else flat
        return kind(self._rows, loss, span, clip, dtype), self._laid_out(flat)

    def _cuts(self, part: Part, width: int, dtype: np.dtype[Any]) -> Iterator[Part]:
        """Blocks of rows that fit in the cache beside ``width`` columns, by public numbers alone."""
        n = int(np.clip(BLOCK_BYTES // (dtype.itemsize * (self.n_columns + width)), FEWEST_ROWS, MOST_ROWS))
        length = part[1] - part[0]
        n = max(1, -(-length // max(1, -(-length // n))))  # blocks of equal size
        for first in range(part[0], part[1], n):
            yield first, min(first + n, part[1])

    def _margin_blocks(self, part: Part, weights: Array) -> Iterator[tuple[int, Any, Array]]:
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
            return self._sum_of_parts(pass_over, self._parts(first, last, width))

    def _sum_of_parts(
        self, pass_over: Callable[[Part], tuple[Any, ...]], parts: list[Part]
    ) -> tuple[Any, ...]:
        results = iter(in_order(pass_over, parts, self._threads))
        totals = next(results)
        for result in results:
            for total, added in zip(totals, result, strict=True):
                total += added
        return totals
