"""Rows that keep a list of how they were seen: through which maps, in which order, with what arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import FLOAT64, Arithmetic
from dperm.engine import Engine, Order, Table
from dperm.losses.weighted import has_weights
from dperm.problem import Problem
from dperm.row_map import RowMap

Matrix = NDArray[np.float64]

STORED = 1e-6  # of the bound: what float32 storage may change of a row
ROUNDED = 1e-12  # of the bound: what computing a norm may


@dataclass(frozen=True, eq=False)
class Opened:
    """Rows as an engine holds them, the map and order that were asked for, and for how many models."""

    engine: Engine
    row_map: RowMap
    order: Order | None
    models: int

    @property
    def held(self) -> Matrix:
        """A margin with a unit vector is a column."""
        return self.engine.margins(np.eye(self.engine.n_columns))


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

    def mapped_per_model(self, maps: Sequence[RowMap]) -> None:
        """One by one, so that the rows behind every map are looked at; that all together come to the same is tested."""
        return

    def noting(self, used: set[Arithmetic]) -> WatchedTable:
        self.noted.append(used)
        return super().noting(used)

    def open(self, order: Order | None = None, **how: Any) -> Engine:
        engine = super().open(order, **how)
        models = 1 if self._mask is None else int(self._mask.shape[1])
        self.opened.append(Opened(engine, self.asked, order, models))
        return engine

    def other_rows(self) -> Iterator[str]:
        """Where an engine holds other rows than the map and the order that were asked for make of these."""
        for opened in self.opened:
            row_map, held = opened.row_map, opened.held
            expected = self._through(row_map)[_places(opened.order, self.n_rows)]
            features = held[:, : self._X.shape[1]]
            longest = float(np.sqrt(np.sum(features * features, axis=1)).max())
            if not longest <= row_map.x_norm * (1 + ROUNDED):
                yield f"a row of features is {longest:.6g} long, the bound is {row_map.x_norm:g}"
            allowed = STORED * max(row_map.x_norm, row_map.intercept)
            if held.shape != expected.shape or not np.abs(held - expected).max() <= allowed:
                yield "an engine holds other rows than their map makes of them"

    def imprecise_sums(self, problem: Problem) -> Iterator[str]:
        """Where an engine sums gradients less precisely than it says, at weights of unit margins."""
        loss, n = problem.loss, self.n_rows
        y = np.ones(n, self._y.dtype if has_weights(self._y) else np.float64)
        y[: len(self._y)] = self._y
        for opened in self.opened:
            engine, X, labels = opened.engine, opened.held, y[_places(opened.order, n)]
            shape = (engine.n_columns, opened.models) + (loss.outputs,) * (loss.outputs > 1)
            W = np.cos(np.arange(np.prod(shape))).reshape(shape)
            W /= problem.row_norm * np.linalg.norm(W)
            found = engine.gradient_sum(loss, W)
            says = engine.arithmetic(opened.models)
            units = problem.n_rows
            allowed = units * sum(
                replace(problem, arithmetic=a).gradient_error(units, 1 / problem.row_norm)
                for a in (says, FLOAT64)
            )
            for k in range(opened.models):
                exact = X.T @ loss.slope(X @ W[:, k], labels)
                if not np.linalg.norm(found[:, k] - exact) <= allowed:
                    yield f"an engine sums gradients less precisely than {says.name} would"

    def _through(self, row_map: RowMap) -> Matrix:
        """What the map's definition makes of the rows, in plain NumPy and by none of its own functions."""
        rows = _cut(self._X.astype(np.float64), row_map.x_norm)
        rows = rows if row_map.centre is None else rows - row_map.centre
        rows = rows if row_map.scale is None else rows / row_map.scale
        rows = _cut(rows, row_map.x_norm)
        if row_map.intercept > 0:
            rows = np.column_stack([rows, np.full(len(rows), row_map.intercept)])
        return np.pad(rows, ((0, self.n_rows - len(rows)), (0, 0)))


def _places(order: Order | None, n_rows: int) -> NDArray[np.int64]:
    return np.arange(n_rows) if order is None else order.permutation(n_rows)


def _cut(rows: Matrix, bound: float) -> Matrix:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(norms > bound, rows * (bound / np.maximum(norms, bound)), rows)
