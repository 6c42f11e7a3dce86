"""The element-wise middle of a pass on a device: margins in, slopes, values or counts out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.engine._torch_formulas import tensor_formulas
from dperm.engine.base import Integers
from dperm.engine.tensors import load_torch
from dperm.engine.torch_blocks import cuts
from dperm.engine.torch_many import SlopeKernels
from dperm.engine.torch_stored import StoredTorch
from dperm.losses import Loss


class TorchStage:
    """Of some models, each with its own range of rows; ``clip`` was lowered by ``safe_clip``."""

    def __init__(
        self,
        rows: StoredTorch,
        loss: Loss,
        start: Integers,
        stop: Integers,
        clip: NDArray[Any] | None,
        dtype: Any,
    ) -> None:
        self._rows, self._loss, self.dtype = rows, loss, dtype
        self.models = len(start)
        self.span = int(start.min()), int(stop.max())
        self._shared = int(start.max()), int(stop.min())
        self._formulas = tensor_formulas(loss)
        self._range = rows.placed(start), rows.placed(stop)
        self._clip = None if clip is None else rows.placed(clip)
        self._kernels = SlopeKernels(rows, loss, self._clip)

    def values(self, Z: Any, first: int) -> Any:
        """The sums of each model's own losses, in float64; the range is that of all rows."""
        value = self._formulas.value(self._by_output(Z), self._labels(Z, first)).double()
        own = self._own(Z, first)
        return (value if own is None else value * own).sum(dim=0)

    def slope_blocks(self, weights: Any) -> Iterator[tuple[Any, Any]] | None:
        """Blocks of rows with their slopes, margins and slopes at one go; None where there is no kernel for that."""
        X = self._rows.X
        if not self._kernels or X.dtype != self.dtype or X.dtype.itemsize != 4:
            return None
        padded = self._kernels.padded(weights)
        return (
            (
                X[first:last],
                self._kernels.of_rows(padded, weights.shape[1], first, last, self._ranges(first, last)),
            )
            for first, last in cuts(*self.span, max(*weights.shape), self.dtype)
        )

    def _ranges(self, first: int, last: int) -> tuple[Any, Any] | None:
        """Where each model's rows begin and end, unless all of these are in."""
        return self._range if first < self._shared[0] or last > self._shared[1] else None

    def slopes(self, Z: Any, first: int) -> Any:
        """Slopes, clipped, masked and zero outside each model's range; the margins are used up."""
        ranges = self._ranges(first, first + len(Z))
        if self._kernels:
            self._kernels.in_place(Z, first, ranges)
            return Z
        slope = self._formulas.slope(self._by_output(Z), self._labels(Z, first))
        weight = None
        if self._clip is not None:
            size = slope.abs() if self._loss.outputs == 1 else slope.square().sum(dim=-1).sqrt()
            allowed = self._clip * self._rows.inverse(self.dtype)[first : first + len(Z), None]
            allowed = allowed.clamp(max=float(np.finfo(f"f{self.dtype.itemsize}").max))
            weight = allowed / size.maximum(allowed)
        for factor in (self._own(Z, first), None if ranges is None else self._inside(Z, first)):
            if factor is not None:
                weight = factor.to(self.dtype) if weight is None else weight * factor
        if weight is not None:
            slope = slope * (weight if self._loss.outputs == 1 else weight[..., None])
        return slope.reshape(Z.shape)

    def correct(self, Z: Any, first: int) -> tuple[Any, Any]:
        """Correct predictions inside and outside each model's own rows."""
        margin, y = self._by_output(Z), self._labels(Z, first)
        y = y[..., 0] if y.ndim > 2 else y
        right = (margin > 0) == (y > 0) if self._loss.outputs == 1 else margin.argmax(dim=-1) == y
        own = self._own(Z, first)
        if own is None:
            inside = right.sum(dim=0)
            return inside, inside * 0
        return (right & (own == 1)).sum(dim=0), (right & (own == 0)).sum(dim=0)

    def _by_output(self, Z: Any) -> Any:
        return Z if self._loss.outputs == 1 else Z.reshape(len(Z), self.models, self._loss.outputs)

    def _labels(self, Z: Any, first: int) -> Any:
        return self._rows.labels(self.dtype)[first : first + len(Z), None]

    def _own(self, Z: Any, first: int) -> Any:
        members = self._rows.members
        return None if members is None else members[first : first + len(Z)]

    def _inside(self, Z: Any, first: int) -> Any:
        place = load_torch().arange(first, first + len(Z), device=Z.device)[:, None]
        return (place >= self._range[0]) & (place < self._range[1])
