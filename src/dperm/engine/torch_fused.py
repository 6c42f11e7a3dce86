"""One model on a GPU: the rows are read once, by a kernel that Triton compiles."""

from __future__ import annotations

from functools import cache
from typing import Any

from dperm.engine.tensors import load_torch
from dperm.engine.torch_stored import StoredTorch
from dperm.losses import (
    ClippedSquared,
    HardClippedLogistic,
    HuberHinge,
    Linear,
    Logistic,
    Loss,
    MarginLogistic,
    SoftClippedLogistic,
    SoftClippedSquared,
)

# The numbers by which the kernels know a loss; by the very class, since a subclass may change a formula.
_KINDS: dict[type[Loss], int] = {
    Logistic: 0,
    MarginLogistic: 0,
    HardClippedLogistic: 1,
    SoftClippedLogistic: 2,
    HuberHinge: 3,
    ClippedSquared: 4,
    SoftClippedSquared: 5,
    Linear: 6,
}
_WIDEST = 4096
_PROGRAMS = 1024


@cache
def _kernels() -> Any:
    """None without Triton, which torch brings on Linux."""
    try:
        from dperm.engine import _triton_kernels
    except ImportError:
        return None
    return _triton_kernels


def fused_kind(rows: StoredTorch, loss: Loss) -> int | None:
    """The kernels' number of a loss, or None where they do not apply."""
    if rows.device.type != "cuda" or _kernels() is None:
        return None
    return _KINDS.get(type(loss))


def settings_of(rows: StoredTorch, loss: Loss, clip: float = 0.0) -> Any:
    """What the kernels take of a loss, on the device."""
    torch = load_torch()
    numbers = (*loss.kernel_parameters, 0.0, 0.0, 0.0, 0.0)[:4]
    return torch.tensor((*numbers, clip), dtype=torch.float64).to(rows.device)


def shape_of_tiles(width: int, double: bool) -> tuple[int, int]:
    """Rows in a tile and warps of a program, by public numbers alone; measured on an H200."""
    warps = 1 if width <= 256 else 4
    return max(1, min(16, 2048 // width) // (2 if double else 1)), warps


class FusedPass:
    """The sums of one model over ranges of rows, and steps along them."""

    def __init__(self, rows: StoredTorch, loss: Loss, clip: float | None, double: bool) -> None:
        torch, self._rows = load_torch(), rows
        self._stride = int(rows.X.shape[1])
        self.width = 1 << (self._stride - 1).bit_length()
        self._tile, self._warps = shape_of_tiles(self.width, double)
        dtype = torch.float64 if double else torch.float32
        unused = rows.X  # in place of what a pass does not read
        self._read = (
            rows.X,
            rows.labels(dtype),
            unused if clip is None else rows.inverse(dtype),
            unused if rows.members is None else rows.members,
        )
        self._settings = settings_of(rows, loss, clip or 0.0)
        self._form = {
            "STRIDE": self._stride,
            "WIDTH": self.width,
            "TILE": self._tile,
            "KIND": _KINDS[type(loss)],
            "DOUBLE": double,
            "MASKED": rows.members is not None,
            "CLIPPED": clip is not None,
        }
        shape = (_PROGRAMS, self.width)
        self._sums = torch.empty(shape, dtype=torch.float64, device=rows.device)
        self._values = torch.empty(_PROGRAMS, dtype=torch.float64, device=rows.device)

    @classmethod
    def fits(cls, rows: StoredTorch, loss: Loss) -> bool:
        return fused_kind(rows, loss) is not None and int(rows.X.shape[1]) <= _WIDEST

    def padded(self, weights: Any) -> Any:
        """The weights of one model, with zeros up to the kernels' width."""
        out = weights.new_zeros(self.width)
        out[: len(weights)] = weights
        return out

    def sums(
        self, weights: Any, first: int, last: int, want_value: bool, want_gradient: bool
    ) -> tuple[Any, Any]:
        """The value and the gradient sum (with zeros up to the width) over rows [first, last)."""
        count = self._launch(weights, first, last, want_value, want_gradient)
        value = self._values[:count].sum() if want_value else weights.new_zeros(())
        return value, self._sums[:count].sum(dim=0) if want_gradient else weights.new_zeros(self.width)

    def step(
        self, weights: Any, iterates: Any | None, first: int, last: int, schedule: tuple[Any, Any], j: int
    ) -> None:
        """Move the weights along their gradient sum over rows [first, last), in place; ``schedule`` is (decay, rate)."""
        count = self._launch(weights, first, last, False, True)
        group = 16
        _kernels().move[(self.width // group,)](
            self._sums,
            weights,
            weights if iterates is None else iterates,
            *schedule,
            count,
            j,
            WIDTH=self.width,
            GROUP=group,
            SUM=iterates is not None,
            num_warps=4,
        )

    def _launch(self, weights: Any, first: int, last: int, value: bool, gradient: bool) -> int:
        """Start the pass; the number of programs whose sums make it up."""
        tiles = -(-max(last - first, 1) // self._tile)
        each = -(-tiles // _PROGRAMS)
        count = -(-tiles // each)
        _kernels().one_model[(count,)](
            *self._read,
            weights,
            self._settings,
            self._sums,
            self._values,
            first,
            last,
            each * self._tile,
            VALUE=value,
            GRADIENT=gradient,
            **self._form,
            num_warps=self._warps,
        )
        return count


def slopes_in_place(
    Z: Any,
    rows: StoredTorch,
    kind: int,
    settings: Any,
    first: int,
    clip: Any | None,
    ranges: tuple[Any, Any] | None,
) -> None:
    """Replace margins by slopes, clipped, masked and zero outside each range."""
    height, breadth = 8, 128
    grid = (-(-len(Z) // height), -(-Z.shape[1] // breadth))
    _kernels().slopes_of_models[grid](
        Z,
        rows.labels(Z.dtype),
        Z if clip is None else rows.inverse(Z.dtype),
        Z if rows.members is None else rows.members,
        Z if clip is None else clip,
        *((Z, Z) if ranges is None else ranges),
        settings,
        first,
        len(Z),
        Z.shape[1],
        KIND=kind,
        MASKED=rows.members is not None,
        CLIPPED=clip is not None,
        RANGED=ranges is not None,
        ROWS=height,
        MODELS=breadth,
        num_warps=4,
    )
