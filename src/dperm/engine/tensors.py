"""What counts as a tensor, and how one comes to torch or to the host. torch is loaded by its first tensor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any

import numpy as np

from dperm.errors import InvalidInput

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
