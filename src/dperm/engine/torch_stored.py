"""Opened rows on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dperm.engine.base import Floats, Integers
from dperm.engine.stored import Stored
from dperm.engine.tensors import load_torch
from dperm.losses.weighted import has_weights, targets_alone, weights_alone


@dataclass(frozen=True, repr=False, kw_only=True)
class StoredTorch(Stored):
    """``X`` is a tensor; its first ``columns`` columns are the rows, the others are zero and only align them.

    Labels, norms and mask are on the host, as for all ``Stored``; what a pass reads of them is copied once.
    """

    X: Any
    columns: int

    @property
    def n_columns(self) -> int:
        return self.columns

    @property
    def device(self) -> Any:
        return self.X.device

    def densely(self, first: int, last: int) -> Floats:
        return np.asarray(self.X[first:last, : self.columns].double().cpu().numpy())

    def _taken(self, index: Integers) -> dict[str, Any]:
        return {"X": self.X[self.placed(index)]}

    def placed(self, values: Any) -> Any:
        """A copy of a host array on the device of the rows."""
        return load_torch().from_numpy(np.ascontiguousarray(values)).to(self.device)

    @cached_property
    def members(self) -> Any:
        """The mask on the device, or None."""
        return None if self.mask is None else self.placed(self.mask.view(np.uint8))

    @cached_property
    def prepared(self) -> dict[Any, Any]:
        """What passes have prepared for these rows, to be used again."""
        return {}

    @cached_property
    def _labels(self) -> dict[Any, Any]:
        return {}

    @cached_property
    def _inverse(self) -> dict[Any, Any]:
        return {}

    def labels(self, dtype: Any) -> Any:
        """On the device; targets with weights have a last axis for both."""
        if dtype not in self._labels:
            y = self.y
            both = np.stack([targets_alone(y), weights_alone(y)], axis=-1) if has_weights(y) else y
            self._labels[dtype] = self.placed(both).to(dtype)
        return self._labels[dtype]

    def inverse(self, dtype: Any) -> Any:
        """``inverse_norm``, rounded; ``safe_clip`` leaves room for that."""
        if dtype not in self._inverse:
            self._inverse[dtype] = self.placed(self.inverse_norm).to(dtype)
        return self._inverse[dtype]
