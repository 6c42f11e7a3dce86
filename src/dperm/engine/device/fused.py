"""Passes on a GPU by kernels that Triton compiles: one model in a single read, slopes of several models at one go."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from dperm.engine.device.tensors import StoredTorch, load_torch
from dperm.losses import Loss
from dperm.typing import Floats, Integers

_WIDEST = 4096
_MOST_PREPARED = 32
_MOST_LAUNCHES = 20_000  # that are recorded


@cache
def gpu_kernels() -> Any:
    """None without Triton, which torch brings on Linux."""
    try:
        from dperm.engine.device import triton_kernels
    except ImportError:
        return None
    return triton_kernels


def fused_kind(rows: StoredTorch, loss: Loss) -> int | None:
    """The kernels' number of a loss (``Kernel.gpu``), or None where they do not apply."""
    if rows.device.type != "cuda" or gpu_kernels() is None:
        return None
    kernel = vars(type(loss)).get("kernel")  # of this very class: a subclass may change a formula
    return None if kernel is None else kernel.gpu


def settings_of(rows: StoredTorch, loss: Loss, clip: float = 0.0) -> Any:
    """What the kernels take of a loss, on the device."""
    torch = load_torch()
    numbers = (*loss.kernel_parameters, 0.0, 0.0, 0.0, 0.0)[:4]
    return torch.tensor((*numbers, clip), dtype=torch.float64).to(rows.device)


def recorded(launches: Callable[[], None]) -> Any:
    """A recording of these launches, which it does not run; None where the device takes none.

    Nothing may be given back meanwhile, so garbage is left lying.
    """
    torch, collecting = load_torch(), gc.isenabled()
    graph = torch.cuda.CUDAGraph()
    gc.disable()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            launches()
    except RuntimeError:
        return None
    finally:
        if collecting:
            gc.enable()
    return graph


def shape_of_tiles(width: int, double: bool) -> tuple[int, int, int]:
    """Rows of a tile, warps of a program, most programs of a pass; by public numbers, as measured on an H200."""
    if double:
        return max(1, min(32, (4096 if width <= 128 else 2048) // width)), 1, 1024
    return max(1, min(64, 8192 // width)), 2, 512


class FusedPass:
    """The sums of one model over ranges of rows, and steps along them."""

    def __init__(self, rows: StoredTorch, loss: Loss, clip: float | None, double: bool) -> None:
        torch, self._device = load_torch(), rows.device
        stride = int(rows.X.shape[1])
        self.width = 1 << (stride - 1).bit_length()
        self._tile, self._warps, self._programs = shape_of_tiles(self.width, double)
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
            "STRIDE": stride,
            "WIDTH": self.width,
            "TILE": self._tile,
            "KIND": fused_kind(rows, loss),
            "DOUBLE": double,
            "MASKED": rows.members is not None,
            "CLIPPED": clip is not None,
            "num_warps": self._warps,
        }
        self._sums = self._empty(self._programs, self.width)
        self._values = self._empty(self._programs)
        here, back = (torch.zeros(n, dtype=torch.float64).pin_memory() for n in (self.width, self.width + 1))
        self._buffers = here, self._empty(self.width), self._empty(self.width + 1), back
        self._sent, self._received = here.numpy(), back.numpy()
        self._recorded: Any = None
        self._recorded_as: Any = None
        self._may_record = True
        self._last: Any = None

    @classmethod
    def fits(cls, rows: StoredTorch, loss: Loss) -> bool:
        return fused_kind(rows, loss) is not None and int(rows.X.shape[1]) <= _WIDEST

    @classmethod
    def of(cls, rows: StoredTorch, loss: Loss, clip: float | None, double: bool) -> FusedPass:
        """The pass for these rows, which keeps its buffers from call to call."""
        key = (loss, clip, double)
        if key not in rows.prepared:
            if len(rows.prepared) >= _MOST_PREPARED:
                rows.prepared.clear()
            rows.prepared[key] = cls(rows, loss, clip, double)
        found: FusedPass = rows.prepared[key]
        return found

    def _empty(self, *shape: int) -> Any:
        torch = load_torch()
        return torch.empty(shape, dtype=torch.float64, device=self._device)

    def padded(self, weights: Floats) -> Any:
        """The weights of one model on the device, with zeros up to the kernels' width."""
        whole = np.zeros(self.width)
        whole[: len(weights)] = weights
        return load_torch().from_numpy(whole).to(self._device)

    def sums(
        self, weights: Floats, first: int, last: int, want_value: bool, want_gradient: bool
    ) -> tuple[Floats, Floats]:
        """The value and the gradient sum over rows [first, last); what is not wanted as zeros.

        A pass that is asked for again is recorded, and replayed from then on: for few rows launches cost more than it.
        """
        torch = load_torch()
        what = (first, last, want_value, want_gradient)
        self._sent[: len(weights)] = weights
        with torch.cuda.device(self._device):
            if what != self._recorded_as:
                self._there_and_back(*what)
                if what == self._last and self._may_record:
                    self._recorded = recorded(partial(self._there_and_back, *what))
                    self._may_record = self._recorded is not None
                    self._recorded_as = what if self._may_record else None
            else:
                self._recorded.replay()
            torch.cuda.current_stream().synchronize()
        self._last = what
        value, gradient = np.zeros(1), np.zeros(len(weights))
        if want_value:
            value[:] = self._received[-1]
        if want_gradient:
            gradient[:] = self._received[: len(weights)]
        return value, gradient

    def _there_and_back(self, first: int, last: int, want_value: bool, want_gradient: bool) -> None:
        """Weights to the device, the pass, its sums to the host."""
        here, weights, found, back = self._buffers
        weights.copy_(here, non_blocking=True)
        count = self.launch(weights, first, last, want_value, want_gradient)
        if want_gradient:
            load_torch().sum(self._sums[:count], dim=0, out=found[:-1])
        if want_value:
            load_torch().sum(self._values[:count], dim=0, out=found[-1])
        back.copy_(found, non_blocking=True)

    def step(
        self, weights: Any, iterates: Any | None, first: int, last: int, schedule: tuple[Any, Any], j: int
    ) -> None:
        """Move the weights along their gradient sum over rows [first, last), in place; ``schedule``: decay and rate."""
        count = self.launch(weights, first, last, False, True)
        group = 16
        gpu_kernels().move[(max(1, self.width // group),)](
            self._sums,
            weights,
            weights if iterates is None else iterates,
            *schedule,
            count,
            j,
            WIDTH=self.width,
            GROUP=min(group, self.width),
            SUM=iterates is not None,
            num_warps=4,
        )

    def launch(self, weights: Any, first: int, last: int, value: bool, gradient: bool) -> int:
        """Start the pass; the number of programs whose sums make it up."""
        tiles = -(-max(last - first, 1) // self._tile)
        each = -(-tiles // self._programs)
        count = -(-tiles // each)
        gpu_kernels().one_model[(count,)](
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
        )
        return count


class FusedEpochs:
    """Epochs of one model over the same batches; from the second on their launches are replayed."""

    def __init__(self, fused: FusedPass, edges: Integers, averaging: bool) -> None:
        self._fused, self.edges = fused, edges
        self._places = edges[:, 0].tolist()
        batches = len(self._places) - 1
        self._weights = fused.padded(np.zeros(0))
        self._iterates = fused.padded(np.zeros(0)) if averaging else None
        self._schedule = tuple(fused.padded(np.zeros(0)).new_zeros(batches) for _ in range(2))
        self._recorded: Any = None
        self._epochs = 0

    @classmethod
    def of(cls, rows: StoredTorch, fused: FusedPass, edges: Integers, averaging: bool) -> FusedEpochs:
        key = (cls, id(fused), averaging)
        found: FusedEpochs | None = rows.prepared.get(key)
        if found is None or found.edges is not edges:
            found = rows.prepared[key] = cls(fused, edges, averaging)
        return found

    def run(self, W: Floats, iterate_sum: Floats | None, decay: Floats, rate: Floats) -> None:
        """One epoch on the weights of one model, in place."""
        torch, device = load_torch(), self._weights.device
        with torch.cuda.device(device):
            for buffer, values in zip(self._schedule, (decay, rate), strict=True):
                buffer.copy_(torch.from_numpy(np.ascontiguousarray(values[:, 0])))
            self._weights.copy_(self._fused.padded(W[:, 0]))
            if self._iterates is not None and iterate_sum is not None:
                self._iterates.copy_(self._fused.padded(iterate_sum[:, 0]))
            self._epochs += 1
            if self._epochs == 2 and 2 * len(self._places) <= _MOST_LAUNCHES:
                self._recorded = recorded(self._steps)
            if self._recorded is None:
                self._steps()
            else:
                self._recorded.replay()
            W[:, 0] = self._weights[: len(W)].cpu().numpy()
            if self._iterates is not None and iterate_sum is not None:
                iterate_sum[:, 0] = self._iterates[: len(W)].cpu().numpy()

    def _steps(self) -> None:
        for j in range(len(self._places) - 1):
            self._fused.step(
                self._weights, self._iterates, self._places[j], self._places[j + 1], self._schedule, j
            )


_ROWS, _MODELS, _COLUMNS = 64, 64, 16  # of the tiles in which margins are computed


class SlopeKernels:
    """Slopes of some models, each with its own clip and range of rows, where there are kernels for the loss."""

    def __init__(self, rows: StoredTorch, loss: Loss, clip: Any | None) -> None:
        self._rows, self._kind, self._clip = rows, fused_kind(rows, loss), clip
        self._settings = None if self._kind is None else settings_of(rows, loss)

    def __bool__(self) -> bool:
        return self._kind is not None

    def in_place(self, Z: Any, first: int, ranges: tuple[Any, Any] | None) -> None:
        """Replace the margins of rows first, first + 1, ... by slopes."""
        height = 8
        grid = (-(-len(Z) // height), -(-Z.shape[1] // _MODELS))
        with load_torch().cuda.device(Z.device):
            gpu_kernels().slopes_of_models[grid](
                Z,
                *self._facts(Z.dtype, ranges),
                first,
                *Z.shape,
                **self._form(ranges),
                ROWS=height,
                MODELS=_MODELS,
                num_warps=4,
            )

    def padded(self, weights: Any) -> Any:
        """Weights with zeros up to whole tiles."""
        spare = (0, -weights.shape[1] % _MODELS, 0, -len(weights) % _COLUMNS)
        return load_torch().nn.functional.pad(weights, spare).contiguous()

    def of_rows(self, padded: Any, models: int, first: int, last: int, ranges: tuple[Any, Any] | None) -> Any:
        """Slopes of float32 rows [first, last), from the weights."""
        X = self._rows.X
        S = X.new_empty((last - first, models))
        with load_torch().cuda.device(X.device):
            gpu_kernels().slopes_of_rows[(-(-len(S) // _ROWS), padded.shape[1] // _MODELS)](
                X,
                padded,
                S,
                *self._facts(X.dtype, ranges),
                first,
                *S.shape,
                STRIDE=X.shape[1],
                **self._form(ranges),
                ROWS=_ROWS,
                MODELS=_MODELS,
                COLUMNS=_COLUMNS,
                num_warps=4,
            )
        return S

    def _facts(self, dtype: Any, ranges: tuple[Any, Any] | None) -> tuple[Any, ...]:
        """What the kernels read of the rows and models; in place of what they do not, the labels."""
        rows, y = self._rows, self._rows.labels(dtype)
        inverse, clip = (y, y) if self._clip is None else (rows.inverse(dtype), self._clip)
        members = y if rows.members is None else rows.members
        return (y, inverse, members, clip, *((y, y) if ranges is None else ranges), self._settings)

    def _form(self, ranges: tuple[Any, Any] | None) -> dict[str, Any]:
        return {
            "KIND": self._kind,
            "MASKED": self._rows.members is not None,
            "CLIPPED": self._clip is not None,
            "RANGED": ranges is not None,
        }


def add_blocks(total: Any, products: Any) -> bool:
    """Add products of all blocks, of shape (blocks, ...), to the float64 ``total``; False, and nothing, off a GPU."""
    if total.device.type != "cuda" or gpu_kernels() is None:
        return False
    size = total.numel()
    with load_torch().cuda.device(total.device):
        gpu_kernels().add_blocks[(-(-size // 32),)](
            products, total, len(products), size, ROWS=128, COLUMNS=32, num_warps=4
        )
    return True
