"""Dense rows from plain facts, and orders and samples that a test fixes itself."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dperm.engine import Table
from dperm.engine.base.draws import Ranges
from dperm.losses import Logistic, Loss
from dperm.privacy.secrets import LocalSample, SplitOrder, cut_sample
from dperm.row_map import RowMap


def dense_table(X: Any, y: Any, *, x_norm: float, intercept: float, n_rows: int, mask: Any = None) -> Table:
    return Table(X, y, row_map=RowMap(x_norm=x_norm, intercept=intercept), n_rows=n_rows, mask=mask)


@dataclass(frozen=True, eq=False)
class FixedOrder:
    order: Any

    def permutation(self, n_rows: int) -> np.ndarray:
        return np.asarray(self.order)

    def split(self, counts: Any) -> SplitOrder:
        return SplitOrder.cut(self.permutation(sum(counts)), counts)


@dataclass(frozen=True, eq=False)
class FixedSample:
    chosen: Any

    def positions(self, n_rows: int) -> np.ndarray:
        return np.asarray(self.chosen, np.int64)

    def split(self, counts: Any) -> list[LocalSample]:
        return cut_sample(self.positions(sum(counts)), counts)


def between(start: Any, stop: Any) -> Ranges:
    """One batch: the rows of each model from ``start`` to before ``stop``."""
    edges = np.stack([np.asarray(start), np.asarray(stop)])
    return Ranges(edges, np.diff(edges, axis=0))


@dataclass(frozen=True)
class LogCosh(Loss):
    """A loss that the engines have never heard of."""

    name: ClassVar[str] = "log-cosh"
    labels: ClassVar = "real"
    lipschitz = 1.0
    smoothness = 1.0

    def value(self, margin, y):
        size = np.abs(margin - y)
        return size + np.log1p(np.exp(-2 * size)) - np.log(margin.dtype.type(2))

    def slope(self, margin, y):
        return np.tanh(margin - y)

    def curvature(self, margin, y):
        return 1 - np.tanh(margin - y) ** 2


# Every verb of an engine, with the logistic loss; the arithmetic of some does not depend on the number of models.
VERBS = {
    "gradient_sum": lambda engine, W: engine.gradient_sum(Logistic(), W),
    "value_sum": lambda engine, W: engine.value_sum(Logistic(), W),
    "value_and_gradient_sum": lambda engine, W: engine.value_and_gradient_sum(Logistic(), W),
    "curvature_sum": lambda engine, W: engine.curvature_sum(Logistic(), W),
    "evaluate": lambda engine, W: engine.evaluate(Logistic(), W),
    "margins": lambda engine, W: engine.margins(W),
    "row_sum": lambda engine, W: engine.row_sum(),
    "square_sum": lambda engine, W: engine.square_sum(),
    "row_moments": lambda engine, W: engine.row_moments(),
    "descend": lambda engine, W: engine.descend(
        Logistic(), W.copy(), engine.batches([[engine.n_rows] * W.shape[1]]), np.ones((1, W.shape[1])), 0.1
    ),
}
OF_ONE = ("margins", "row_sum", "square_sum", "row_moments")
