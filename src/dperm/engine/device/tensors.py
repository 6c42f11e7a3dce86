"""What counts as a tensor, how it comes to torch or to the host, and opened rows in one.

torch is loaded by its first tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np

from dperm.engine.base.rows import Stored
from dperm.errors import InvalidInput
from dperm.losses.base import has_weights, targets_alone, weights_alone
from dperm.typing import Floats, Integers

_CPU = 1  # DLPack's number for the memory of the host


def is_tensor(values: Any) -> bool:
    """Whether this is a torch tensor, or an array with DLPack outside the memory of the host; no value is read."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        return True
    if isinstance(values, np.ndarray | np.generic) or not hasattr(values, "__dlpack__"):
        return False
    where = getattr(values, "__dlpack_device__", None)
    return where is not None and int(where()[0]) != _CPU


def as_tensor(values: Any) -> Any:
    """A torch tensor on the same device, without a copy."""
    torch = load_torch()
    tensor = values if isinstance(values, torch.Tensor) else torch.from_dlpack(values)
    tensor = tensor.detach()
    if tensor.layout != torch.strided or tensor.is_complex() or tensor.is_quantized:
        raise InvalidInput("a tensor must be dense and hold real numbers.")
    return tensor


def on_host(values: Any) -> Any:
    """A tensor as a NumPy array; anything else as it came."""
    return as_tensor(values).cpu().numpy() if is_tensor(values) else values


def load_torch() -> Any:
    if find_spec("torch") is None:
        raise InvalidInput("rows on a device need torch. Install it with: pip install 'dperm[gpu]'")
    import torch

    return torch


@contextmanager
def plain_products(device: Any) -> Iterator[None]:
    """Matrix products in the precision of their operands: no TF32, no automatic casts, no gradients.

    On a CPU torch keeps to one thread meanwhile, so that its sums do not depend on how many there are.
    """
    torch = load_torch()
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    casts = (
        torch.autocast(device.type, enabled=False)
        if torch.is_autocast_enabled(device.type)
        else nullcontext()
    )
    restore = _in_full(torch)
    if threads > 1:
        torch.set_num_threads(1)
    try:
        with torch.no_grad(), casts:
            yield
    finally:
        restore()
        if threads > 1:
            torch.set_num_threads(threads)


def _in_full(torch: Any) -> Callable[[], None]:
    """Have float32 multiplied as float32, and return how to undo that."""
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # it was set by the newer interface, which has a setting for each library
        parts = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
        each = [part.fp32_precision for part in parts]
        for part in parts:
            part.fp32_precision = "ieee"

        def restore() -> None:
            for part, precision in zip(parts, each, strict=True):
                part.fp32_precision = precision

        return restore
    if before == "highest":
        return lambda: None
    torch.set_float32_matmul_precision("highest")
    return lambda: torch.set_float32_matmul_precision(before)


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
