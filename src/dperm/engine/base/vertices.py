"""A gradient that is kept while weights shrink and single ones move: only rows with that feature are looked at."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.engine.base.blocked import compiled_kind, parameters
from dperm.engine.base.kernels import renew
from dperm.engine.base.rows import Stored
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Loss
from dperm.typing import Floats, Integers

_LARGEST_CHANGE = 2.0**500
_MOST_ROWS = 2**28  # of which each adds at most 2**30 steps


class VertexPass:
    r"""From zero weights, for one model: all weights shrink by a common factor and one of them moves, again and again.

    ``sums`` are whole steps of a grid, sum_i rint(s_i x_ij / grid) over the model's own rows, a number for each column
    and zeros up to whole blocks of columns. The slope s_i is that of row i when it was last renewed: at the beginning,
    after each ``move`` along a column in which it has a number, and in ``renew``.

    It holds the rows a second time, column by column (8 bytes an entry in float32, 12 in float64; 4 more from 2^31
    entries on), and 16 bytes a row.

    Guarantee
    ---------
    What a row adds to a sum depends on that row and on the arguments of all moves so far, on no other row and not on
    its place, and is at most ``loss.lipschitz`` |x_ij| / grid in size, up to 2^-51 of it, plus 1/2. The sums are exact.
    """

    def __init__(
        self,
        rows: Stored,
        entries: tuple[NDArray[Any], ...],
        loss: Loss,
        model: int,
        grid_exponent: int,
        block: int,
    ) -> None:
        """``entries`` are ``data``, ``index``, ``edges`` in CSR and the last column, empty without one.

        ``block``, columns of a block, is a power of two.
        """
        kind = compiled_kind(loss)
        if kind is None:
            raise Unsupported(f"{loss.name} has no compiled formulas, so old slopes cannot be kept.")
        if rows.n_rows > _MOST_ROWS:
            raise Unsupported(f"slopes of more than {_MOST_ROWS} rows cannot be kept.")
        self._rows, self._entries = rows, entries
        self._own = np.empty(0, np.uint8) if rows.mask is None else np.ascontiguousarray(rows.mask[:, model])
        self._loss = (kind, parameters(loss), (loss.lipschitz, math.ldexp(1.0, -grid_exponent)))
        data, index, edges, constant = entries
        self._features = rows.n_columns - bool(constant.size)
        narrow = np.int32 if edges[-1] < 2**31 else np.int64
        by_row = (data, index.astype(narrow, copy=False), edges.astype(narrow, copy=False))
        self._by_column = sparse.csr_array(by_row, shape=(rows.n_rows, self._features)).tocsc()
        self._margins, self._slopes = np.zeros(rows.n_rows), np.zeros(rows.n_rows)
        self._shift, self._scale = np.uint32(block.bit_length() - 1), 1.0
        self.sums: Integers = np.zeros(-(-rows.n_columns // block) * block, np.int64)
        self.changed = np.zeros(len(self.sums) // block, np.uint8)
        self.renew()

    def move(self, j: int, change: float, shrink: float) -> None:
        """Multiply all weights by ``shrink``, which is positive, and add ``change`` to weight j."""
        self._scale *= shrink
        if not (abs(change) <= _LARGEST_CHANGE * self._scale and self._scale > 0):
            raise InvalidInput("the weights are so large that margins might overflow. Use a smaller radius.")
        self._renew(*self._column(j), change / self._scale)

    def renew(self) -> None:
        """Renew the slopes of all rows."""
        self._renew(np.arange(self._rows.n_rows), self._slopes, 0.0)

    def _column(self, j: int) -> tuple[Integers, Floats]:
        if j == self._features:
            return np.arange(self._rows.n_rows), self._entries[3]
        part = slice(self._by_column.indptr[j], self._by_column.indptr[j + 1])
        # Of the same types in every call, so that one compiled loop computes all slopes.
        return self._by_column.indices[part].astype(np.int64), self._by_column.data[part].astype(np.float64)

    def _renew(self, places: Integers, values: Floats, change: float) -> None:
        sums = self.sums[: self._rows.n_columns]
        state = (self._margins, self._slopes, sums, self._shift, self.changed)
        given = (places, values, change, self._scale)
        renew(self._entries, self._rows.y, self._own, *given, *self._loss, *state)
