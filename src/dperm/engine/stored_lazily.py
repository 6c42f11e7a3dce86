"""Rows that stay where they lie, with what makes a mapped row of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.engine.base import Floats, Integers
from dperm.engine.stored import Stored

LARGEST = 2.0**128
"""No number of a row may be larger in size, so that margins of rows as they lie cannot overflow."""


@dataclass(frozen=True, repr=False, kw_only=True)
class StoredLazily(Stored):
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
        from dperm.engine._kernels_lazy import map_rows

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
