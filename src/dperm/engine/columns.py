"""The coordinate walk over dense rows: margins that are kept, and rows that are read column by column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dperm.engine._kernels_walk import step
from dperm.engine._stages import compiled_kind, parameters
from dperm.engine._threads import Part, in_order, split
from dperm.engine.base import Engine, Floats
from dperm.engine.stored import StoredDense
from dperm.engine.walk import Walk
from dperm.losses import Loss

_WORK = 2**17  # slopes that keep one thread busy for some tenths of a millisecond


class ColumnWalk(Walk):
    r"""Keeps the margins of all rows, in float64, and reads two columns at every step.

    It holds a second copy of the rows, column by column, and 9 bytes for each row and model.

    Why the margins are precise enough. They are computed anew from the weights after k = p/3 - 1 moves, with an error
    of at most gamma_p ||x|| M, where M is the norm of the longest weights so far. A move of one weight by c adds x_j c
    in two roundings, of at most u |x_j c| <= 2 u ||x|| M and u |margin|. So after k moves the error is below
    (p + 3 k + 2) u ||x|| M <= 2 p u ||x|| M, u = 2^-53, which is what ``Arithmetic.margin`` allows for.
    """

    def __init__(
        self,
        engine: Engine,
        rows: StoredDense,
        loss: Loss,
        weights: Floats,
        check_size: Callable[[Floats], None],
        threads: int,
    ) -> None:
        super().__init__(weights)
        self._engine, self._check_size, self._threads = engine, check_size, threads
        self._columns = np.ascontiguousarray(rows.X.T)
        n_models = weights.shape[1]
        mask = np.empty((n_models, 0), np.uint8) if rows.mask is None else np.ascontiguousarray(rows.mask.T)
        self._labels, self._mask = rows.y, mask
        self._loss = (compiled_kind(loss), parameters(loss))
        self._parts: list[Part] = split(0, len(rows.y), len(rows.y) * n_models / _WORK)
        self._margins = np.empty((n_models, len(rows.y)))
        self._pending: tuple[int, Floats] | None = None
        self._most = max(0, len(self._columns) // 3 - 1)
        self._moves = self._most + 1

    def derivative(self, j: int) -> Floats:
        self._check_size(self.weights)
        if self._moves > self._most:
            self._margins[:] = self._engine.margins(self.weights).T
            self._pending, self._moves = None, 0
        moved, change = self._pending or (j, np.zeros(len(self._margins)))
        self._pending = None

        def over(part: Part) -> Floats:
            total = np.zeros(len(self._margins))
            rows = (self._labels, self._mask, self._margins)
            step(self._columns[moved], self._columns[j], *rows, change, *part, *self._loss, total)
            return total

        return np.asarray(sum(in_order(over, self._parts, self._threads)))

    def move(self, j: int, change: Floats) -> None:
        if self._pending is not None:  # two moves without a look between them
            self._moves = self._most + 1
        super().move(j, change)
        self._pending = (j, np.array(change, np.float64))
        self._moves += 1
