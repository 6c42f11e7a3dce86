"""Several models on a GPU: margins and slopes in one kernel, and blocks added up in another."""

from __future__ import annotations

from typing import Any

from dperm.engine.tensors import load_torch
from dperm.engine.torch_fused import fused_kind, gpu_kernels, settings_of
from dperm.engine.torch_stored import StoredTorch
from dperm.losses import Loss

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
