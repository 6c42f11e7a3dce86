"""Rows that stay where they lie, and passes that standardise them as they read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import FLOAT32, FLOAT64, UNIT_ROUNDOFF, Arithmetic
from dperm.engine.base.blocked import BlockedEngine, compiled_kind, one_clip, parameters
from dperm.engine.base.engine import Wanted
from dperm.engine.base.rows import Stored
from dperm.engine.dense import mapped_kernels
from dperm.losses import Loss
from dperm.processors import Part, split
from dperm.typing import Array, Floats, Integers

LARGEST = 2.0**128
"""No number of a row may be larger in size, so that margins of rows as they lie cannot overflow."""


@dataclass(frozen=True, repr=False, kw_only=True)
class StoredMapped(Stored):
    r"""Rows as they lie in ``X``, and per position what makes them mapped ones.

    The row at position i is :math:`z = a_i (x - f_i c)/s` with x row ``index[i]`` of ``X``, and the intercept. It is
    empty where :math:`a_i` = 0.

    ``length``    a, positive unless the position is empty;
    ``lift``      f, or None where nothing is subtracted;
    ``index``     which row of X stands at a position, or None where all keep their order;
    ``centre``, ``spread``  c and s, or no number;
    ``constant``  the intercept column.
    """

    X: NDArray[Any]
    length: Floats
    lift: Floats | None
    index: Integers | None
    centre: Floats
    spread: Floats
    constant: float

    @property
    def n_columns(self) -> int:
        return int(self.X.shape[1]) + (self.constant > 0)

    @property
    def lies(self) -> tuple[Any, ...]:
        """What every compiled loop takes first."""
        return self.X, self.index, self.length, self.lift

    def block(self, first: int, last: int, dtype: np.dtype[Any]) -> NDArray[np.floating[Any]]:
        """Positions [first, last) as the model sees them."""
        from dperm.engine.dense.mapped_kernels import map_rows

        out = np.empty((last - first, self.n_columns), dtype)
        map_rows(*self.lies, self.centre, self.spread, self.constant, first, out)
        return out

    def densely(self, first: int, last: int) -> Floats:
        return self.block(first, last, np.dtype(np.float64)).astype(np.float64, copy=False)

    def _taken(self, index: Integers) -> dict[str, Any]:
        return {
            "length": self.length[index],
            "lift": None if self.lift is None else self.lift[index],
            "index": np.asarray(index, np.int64) if self.index is None else self.index[index],
        }


_FUSED_WORK = 2**20  # multiply-adds, as for rows in memory


class MappedEngine(BlockedEngine):
    r"""One model: a single compiled read of X. Otherwise blocks of rows are mapped and multiplied as dense ones.

    Either way a number of a row is :math:`a(x - fc)/s` before it is multiplied by anything. With P columns and
    :math:`C = \lVert c/s\rVert/r` its roundings make a margin of up to P + 3 + C of them, where the contract allows
    2P, and two rows' terms of a sum of up to 6 (1 + 2C) in units of its bound, at the start of a chain that is half as
    long as the contract allows. A map that moves rows farther than that is stated, and then not certified.

    Guarantee
    ---------
    The cut into parts and blocks depends on public numbers only, and what is computed for a row on that row, its
    position and the weights only.
    """

    _rows: StoredMapped

    def arithmetic(self, n_models: int) -> Arithmetic:
        if self._dtype(n_models) != np.float64:
            return FLOAT32
        rows, columns, n = self._rows, self.n_columns, max(1, self.n_rows)
        if rows.spread.size == 0:
            return FLOAT64
        far = float(np.linalg.norm(rows.centre / rows.spread)) / self._radius
        roundings = 6 * (1 + 2 * far) + 4 + min(n / 2, n / 128 + 64)
        return FLOAT64.worsened(
            (columns + 3 + far) / (2 * columns), roundings * UNIT_ROUNDOFF / FLOAT64.sum_error(n)
        )

    def _dtype(self, n_models: int) -> np.dtype[Any]:
        return np.dtype(np.float64 if n_models == 1 or self._precise else np.float32)

    def _largest_number(self, n_models: int) -> float:
        smallest = min(1.0, float(self._rows.spread.min(initial=1.0)))
        return min(super()._largest_number(n_models), float(np.finfo(np.float64).max) / LARGEST * smallest)

    def _load(self, first: int, last: int, dtype: np.dtype[Any]) -> Array:
        return self._rows.block(first, last, dtype)

    def _add_back(self, block: Array, slopes: Array, total: Floats) -> None:
        total += block.T @ slopes

    def _one_model(
        self, loss: Loss, W: Floats, first: int, last: int, wanted: Wanted
    ) -> tuple[Floats, Floats] | None:
        rows, kind = self._rows, compiled_kind(loss)
        if kind is None:
            return None
        p = rows.X.shape[1]
        spread = rows.spread if rows.spread.size else np.ones(p)
        weights = np.append(W[:p, 0] / spread, rows.constant * W[p, 0] if rows.constant > 0 else 0.0)
        bound = one_clip(wanted, 1, W.dtype)
        read = ((*rows.lies, rows.centre), (rows.y, rows.inverse_norm, rows.known_mask), weights)
        how = (kind, parameters(loss), bound, (wanted.value, wanted.gradient))

        def pass_over(part: Part) -> tuple[Floats, Floats]:
            sums = np.zeros(p + 1)
            return np.array([mapped_kernels.one_mapped_model(*read, *part, *how, sums)]), sums

        parts = split(first, last, (last - first) * p / _FUSED_WORK)
        value, total = self._sum_of_parts(pass_over, parts)
        gradient = np.empty((self.n_columns, 1))
        gradient[:p, 0] = total[:p] / spread
        if rows.constant > 0:
            gradient[p] = rows.constant * total[p]
        return value, gradient
