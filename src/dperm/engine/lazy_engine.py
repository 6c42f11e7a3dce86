"""Passes over rows that are mapped on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from dperm.arithmetic import FLOAT32, FLOAT64, Arithmetic
from dperm.engine import _kernels_lazy
from dperm.engine._stages import Block, compiled_kind, no_mask, parameters, safe_clip
from dperm.engine._threads import Part, in_order, split
from dperm.engine.base import Floats
from dperm.engine.blocked import BlockedEngine
from dperm.engine.stored_lazily import LARGEST, StoredLazily
from dperm.losses import Loss

_FUSED_WORK = 2**20  # multiply-adds, as for rows in memory
_FOLDED = 8.0
"""Longest c / s, in row bounds, for which the centre is taken out of sums; a longer one magnifies their rounding."""


class LazyEngine(BlockedEngine):
    r"""One model: a single compiled read of X. Otherwise blocks of rows are mapped and multiplied as dense ones.

    The read computes :math:`a_i \langle x_i, w/s\rangle - f_i \langle c, w/s\rangle + b w_{last}` and adds up
    :math:`\sum \phi'_i a_i x_i` and :math:`\sum \phi'_i f_i` in chains of 64 rows and then of blocks, from which the
    gradient follows. Sums :math:`a_i \lVert x_i/s\rVert + f_i \lVert c/s\rVert` are at most ``1 + 2 * 8`` row bounds
    there; farther centres go through mapped blocks.

    Guarantee
    ---------
    The cut into parts and blocks depends on public numbers only, and what is computed for a row on that row, its
    position and the weights only.
    """

    _rows: StoredLazily

    def arithmetic(self, n_models: int) -> Arithmetic:
        return FLOAT64 if self._dtype(n_models) == np.float64 else FLOAT32

    def _dtype(self, n_models: int) -> np.dtype[Any]:
        return np.dtype(np.float64 if n_models == 1 or self._precise else np.float32)

    def _largest_number(self, n_models: int) -> float:
        smallest = min(1.0, float(self._rows.spread.min(initial=1.0)))
        return min(super()._largest_number(n_models), float(np.finfo(np.float64).max) / LARGEST * smallest)

    def _load(self, first: int, last: int, dtype: np.dtype[Any]) -> Block:
        return self._rows.block(first, last, dtype)

    def _margins_into(self, block: Block, weights: Block, out: Block) -> None:
        np.matmul(block, weights, out=out)

    def _add_back(self, block: Block, slopes: Block, total: Floats) -> None:
        total += block.T @ slopes

    def _one_model(
        self,
        loss: Loss,
        W: Floats,
        first: int,
        last: int,
        clip: Floats | None,
        want_value: bool,
        want_gradient: bool,
    ) -> tuple[Floats, Floats] | None:
        rows = self._rows
        p, moves = rows.X.shape[1], rows.spread.size > 0
        scaled = rows.centre / rows.spread if moves else np.zeros(p)
        if compiled_kind(loss) is None or np.linalg.norm(scaled) > _FOLDED * self._radius:
            return None
        weights = np.zeros(p + 2)
        weights[:p] = W[:p, 0] / rows.spread if moves else W[:p, 0]
        weights[p] = scaled @ W[:p, 0]
        weights[p + 1] = rows.constant * W[p, 0] if rows.constant > 0 else 0.0
        bound = np.inf if clip is None else float(safe_clip(clip, 1, W.dtype)[0])
        columns = (*rows.lies, rows.y, rows.inverse_norm, no_mask(1) if rows.mask is None else rows.mask)
        how = (compiled_kind(loss), parameters(loss), bound, want_value, want_gradient)

        def pass_over(part: Part) -> tuple[float, Floats]:
            sums = np.zeros(p + 2)
            return _kernels_lazy.one_lazy_model(*columns, weights, *part, *how, sums), sums

        total, value = np.zeros(p + 2), 0.0
        for part_value, sums in in_order(
            pass_over, split(first, last, (last - first) * p / _FUSED_WORK), self._threads
        ):
            value += part_value
            total += sums
        gradient = np.empty((self.n_columns, 1))
        gradient[:p, 0] = (total[:p] / rows.spread if moves else total[:p]) - total[p] * scaled
        if rows.constant > 0:
            gradient[p] = rows.constant * total[p + 1]
        return np.array([value]), gradient
