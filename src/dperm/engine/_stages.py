"""The element-wise middle of a blocked pass: margins in, slopes, values or counts out."""

from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.engine import _kernels, _kernels_softmax
from dperm.engine._formulas import Formulas, formulas_of
from dperm.engine.base import Floats, Integers
from dperm.engine.stored import Stored
from dperm.losses import Loss, Softmax
from dperm.losses.weighted import has_weights, targets_alone

Block = NDArray[np.floating[Any]]
FLOAT64 = np.dtype(np.float64)


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


def no_mask(n_models: int) -> NDArray[np.uint8]:
    return np.empty((0, n_models), np.uint8)


class Stage(Protocol):
    """Z holds the margins of rows first, first + 1, ... with the models (and outputs) side by side."""

    def slopes(self, Z: Block, first: int) -> None:
        """Replace margins by slopes, clipped, masked and zero outside each model's range."""

    def add_values(self, Z: Block, first: int, total: Floats) -> None:
        """Add each model's own losses."""

    def add_correct(self, Z: Block, first: int, inside: Integers, outside: Integers) -> None:
        """Count correct predictions inside and outside each model's own rows."""


class CompiledStage:
    """One compiled loop per loss; padding columns of Z are left alone."""

    def __init__(
        self,
        rows: Stored,
        loss: Loss,
        start: Integers,
        stop: Integers,
        clip: Floats | None,
        dtype: np.dtype[Any],
    ) -> None:
        self._rows, self._models = rows, len(start)
        self._kind = compiled_kind(loss)
        self._wide, self._narrow = parameters(loss), parameters(loss, dtype)
        self._start, self._stop = start, stop
        self._clip = np.empty(0, dtype) if clip is None else safe_clip(clip, 1, dtype)
        self._mask = no_mask(self._models) if rows.mask is None else rows.mask
        self._shared = int(start.max()), int(stop.min())

    def slopes(self, Z: Block, first: int) -> None:
        size = (len(Z), self._models)
        rows = self._rows
        _kernels.slopes_of_models(
            Z, *size, rows.y, rows.inverse_norm, self._mask, first, self._kind, self._narrow, self._clip
        )
        if first < self._shared[0] or first + len(Z) > self._shared[1]:
            _kernels.clear_outside(Z, *size, first, self._start, self._stop, *self._shared)

    def add_values(self, Z: Block, first: int, total: Floats) -> None:
        rows, loss = self._rows, (self._kind, self._wide, self._narrow)
        _kernels.add_values(Z, len(Z), self._models, rows.y, self._mask, first, *loss, total)

    def add_correct(self, Z: Block, first: int, inside: Integers, outside: Integers) -> None:
        _kernels.add_correct(Z, len(Z), self._models, self._rows.y, self._mask, first, inside, outside)


class SoftmaxStage:
    """The classes of a model lie side by side in Z; padding columns are left alone."""

    def __init__(
        self,
        rows: Stored,
        loss: Loss,
        start: Integers,
        stop: Integers,
        clip: Floats | None,
        dtype: np.dtype[Any],
    ) -> None:
        self._rows, self._shape = rows, (len(start), loss.outputs)
        self._range = start, stop
        self._clip = np.empty(0) if clip is None else safe_clip(clip, loss.outputs, dtype).astype(np.float64)
        self._mask = no_mask(len(start)) if rows.mask is None else rows.mask

    def slopes(self, Z: Block, first: int) -> None:
        rows = self._rows
        _kernels_softmax.softmax_slopes(
            Z, len(Z), *self._shape, rows.y, rows.inverse_norm, self._mask, first, self._clip, *self._range
        )

    def add_values(self, Z: Block, first: int, total: Floats) -> None:
        _kernels_softmax.softmax_values(Z, len(Z), *self._shape, self._rows.y, self._mask, first, total)

    def add_correct(self, Z: Block, first: int, inside: Integers, outside: Integers) -> None:
        _kernels_softmax.softmax_correct(
            Z, len(Z), *self._shape, self._rows.y, self._mask, first, inside, outside
        )


class NumpyStage:
    """Any loss, through its own formulas."""

    def __init__(
        self,
        rows: Stored,
        loss: Loss,
        start: Integers,
        stop: Integers,
        clip: Floats | None,
        dtype: np.dtype[Any],
    ) -> None:
        self._rows, self._loss, self._start, self._stop = rows, loss, start, stop
        self._clip = None if clip is None else safe_clip(clip, loss.outputs, dtype)
        self._shape = (-1, len(start)) if loss.outputs == 1 else (-1, len(start), loss.outputs)

    def _labels(self, Z: Block, first: int) -> Block:
        y = self._rows.y[first : first + len(Z), None]
        return y if has_weights(y) else y.astype(Z.dtype)

    def _own(self, Z: Block, first: int) -> NDArray[np.bool_]:
        mask = self._rows.mask
        if mask is None:
            return np.ones((len(Z), len(self._start)), np.bool_)
        return mask[first : first + len(Z)].view(np.bool_)

    def slopes(self, Z: Block, first: int) -> None:
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

    def add_values(self, Z: Block, first: int, total: Floats) -> None:
        value = self._loss.value(Z.reshape(self._shape), self._labels(Z, first))
        total += np.where(self._own(Z, first), value, 0).sum(axis=0, dtype=np.float64)

    def add_correct(self, Z: Block, first: int, inside: Integers, outside: Integers) -> None:
        margin, y = Z.reshape(self._shape), targets_alone(self._labels(Z, first))
        correct = margin.argmax(axis=-1) == y if self._loss.outputs > 1 else (margin > 0) == (y > 0)
        own = self._own(Z, first)
        inside += (correct & own).sum(axis=0)
        outside += (correct & ~own).sum(axis=0)
