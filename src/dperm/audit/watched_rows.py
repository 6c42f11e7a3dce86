"""Rows that keep a list of how they were seen: through which maps, in which order, with what arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import Arithmetic
from dperm.engine import Engine, Order, Table
from dperm.row_map import RowMap

Matrix = NDArray[np.float64]

STORED = 1e-6  # of the bound: what float32 storage may change of a row
ROUNDED = 1e-12  # of the bound: what computing a norm may


@dataclass(frozen=True, eq=False)
class Opened:
    """Rows as an engine holds them, and the map and order that were asked for."""

    engine: Engine
    row_map: RowMap
    order: Order | None


class WatchedTable(Table):
    """A table whose copies all write to the same lists."""

    def __init__(self, *rows: Any, **facts: Any) -> None:
        super().__init__(*rows, **facts)
        self.asked: RowMap = self._declared
        self.maps: list[RowMap] = []
        self.opened: list[Opened] = []
        self.noted: list[set[Arithmetic]] = []

    def mapped(self, row_map: RowMap) -> WatchedTable:
        self.maps.append(row_map)
        seen = super().mapped(row_map)
        seen.asked = row_map
        return seen

    def noting(self, used: set[Arithmetic]) -> WatchedTable:
        self.noted.append(used)
        return super().noting(used)

    def open(self, order: Order | None = None, **how: Any) -> Engine:
        engine = super().open(order, **how)
        self.opened.append(Opened(engine, self.asked, order))
        return engine

    def faults(self) -> Iterator[str]:
        """Where an engine holds other rows than the map and the order that were asked for make of these."""
        for opened in self.opened:
            engine, row_map = opened.engine, opened.row_map
            held = engine.margins(np.eye(engine.n_columns))
            expected = self._through(row_map)
            if opened.order is not None:
                expected = expected[opened.order.permutation(self.n_rows)]
            features = held[:, : self._X.shape[1]]
            longest = float(np.sqrt(np.sum(features * features, axis=1)).max())
            if not longest <= row_map.x_norm * (1 + ROUNDED):
                yield f"a row of features is {longest:.6g} long, the bound is {row_map.x_norm:g}"
            if not np.abs(held - expected).max() <= STORED * max(row_map.x_norm, row_map.intercept):
                yield "an engine holds other rows than their map makes of them"

    def _through(self, row_map: RowMap) -> Matrix:
        """What the map's definition makes of the rows, in plain NumPy and by none of its own functions."""
        rows = _cut(self._X.astype(np.float64), row_map.x_norm)
        rows = rows if row_map.centre is None else rows - row_map.centre
        rows = rows if row_map.scale is None else rows / row_map.scale
        rows = _cut(rows, row_map.x_norm)
        if row_map.intercept > 0:
            rows = np.column_stack([rows, np.full(len(rows), row_map.intercept)])
        return np.pad(rows, ((0, self.n_rows - len(rows)), (0, 0)))


def _cut(rows: Matrix, bound: float) -> Matrix:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(norms > bound, rows * (bound / np.maximum(norms, bound)), rows)
