"""The element-wise middle of a pass on a device: margins in, slopes, values or counts out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.engine._torch_formulas import tensor_formulas
from dperm.engine.base import Integers
from dperm.engine.tensors import load_torch
from dperm.engine.torch_fused import fused_kind, settings_of, slopes_in_place
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
        self._formulas, self._kind = tensor_formulas(loss), fused_kind(rows, loss)
        self._settings = None if self._kind is None else settings_of(rows, loss)
        self._range = rows.placed(start), rows.placed(stop)
        self._clip = None if clip is None else rows.placed(clip)

    def values(self, Z: Any, first: int) -> Any:
        """The sums of each model's own losses, in float64; the range is that of all rows."""
        value = self._formulas.value(self._by_output(Z), self._labels(Z, first)).double()
        own = self._own(Z, first)
        return (value if own is None else value * own).sum(dim=0)

    def slopes(self, Z: Any, first: int) -> Any:
        """Slopes, clipped, masked and zero outside each model's range; the margins are used up."""
        ranged = first < self._shared[0] or first + len(Z) > self._shared[1]
        if self._kind is not None:
            ranges = self._range if ranged else None
            slopes_in_place(Z, self._rows, self._kind, self._settings, first, self._clip, ranges)
            return Z
        slope = self._formulas.slope(self._by_output(Z), self._labels(Z, first))
        weight = None
        if self._clip is not None:
            size = slope.abs() if self._loss.outputs == 1 else slope.square().sum(dim=-1).sqrt()
            allowed = self._clip * self._rows.inverse(self.dtype)[first : first + len(Z), None]
            allowed = allowed.clamp(max=float(np.finfo(f"f{self.dtype.itemsize}").max))
            weight = allowed / size.maximum(allowed)
        for factor in (self._own(Z, first), self._inside(Z, first) if ranged else None):
            if factor is not None:
                weight = factor.to(self.dtype) if weight is None else weight * factor
        if weight is not None:
            slope = slope * (weight if self._loss.outputs == 1 else weight[..., None])
        return slope.reshape(Z.shape)

    def correct(self, Z: Any, first: int) -> tuple[Any, Any]:
        """Correct predictions inside and outside each model's own rows."""
        margin, y = self._by_output(Z), self._labels(Z, first)
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
