"""Passes over sparse rows, against scikit-learn's and against one another."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse
from sklearn._loss import HalfBinomialLoss
from sklearn.linear_model._linear_loss import LinearModelLoss

from benchmarks.timing import Result, interleaved
from dperm.engine import SparseRows
from dperm.engine.base.engine import Engine
from dperm.losses import Logistic
from dperm.row_map import RowMap

LOSS = Logistic()


def rows(n: int, columns: int, entries: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Columns by Zipf's law, as words are, and rows of norm about one."""
    rng = np.random.default_rng(0)
    weight = 1 / (np.arange(columns) + 20.0)
    drawn = np.searchsorted(np.cumsum(weight / weight.sum()), rng.random(n * entries)).clip(max=columns - 1)
    column = rng.permutation(columns)[drawn].astype(np.int32)
    data = (rng.random(n * entries) / np.sqrt(entries)).astype(np.float32)
    X = sparse.csr_array((data, column, np.arange(0, n * entries + 1, entries)), shape=(n, columns))
    X.sum_duplicates()
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def opened(X: sparse.csr_array, y: np.ndarray, **moves: np.ndarray) -> Engine:
    return SparseRows(X, y, row_map=RowMap(x_norm=2.0, **moves), n_rows=len(y)).open(threads=1)


def run() -> Iterator[Result]:
    for n, columns, entries, rounds in ((30_000, 47_236, 76, 31), (200_000, 100_000, 70, 9)):
        X, y = rows(n, columns, entries)
        size = f"{n:,} x {columns:,}"
        engine, rng = opened(X, y), np.random.default_rng(1)
        one, eight = rng.standard_normal((columns, 1)), rng.standard_normal((columns, 8))
        wide, target, w = X.astype(np.float64), (y > 0).astype(np.float64), np.ascontiguousarray(one[:, 0])
        theirs = LinearModelLoss(base_loss=HalfBinomialLoss(), fit_intercept=False)

        def scikit_learn(wide=wide, target=target, w=w, theirs=theirs):
            return theirs.gradient(w, wide, target, sample_weight=None, l2_reg_strength=0.0, n_threads=1)

        def alone(engine=engine, one=one):
            return engine.gradient_sum(LOSS, one)

        timed = interleaved(alone, scikit_learn, rounds)
        yield Result(f"CSR, one model, {size}", 1, timed[0], "scikit-learn float64", *timed[1:], 1 / 1.15)
        timed = interleaved(lambda e=engine, W=eight: e.gradient_sum(LOSS, W), alone, rounds)
        yield Result(
            f"CSR, per model of 8, {size}", 1, timed[0] / 8, "one model", timed[1], timed[2] / 8, 0.5
        )
        centre = np.asarray(X.mean(axis=0)).ravel()
        moved = opened(X, y, centre=centre, scale=rng.uniform(1.0, 2.0, columns))
        timed = interleaved(lambda e=moved, w=one: e.gradient_sum(LOSS, w), alone, rounds)
        yield Result(f"CSR, centred and scaled, {size}", 1, timed[0], "one model", *timed[1:], 1.1)
        yield epoch(engine, n, columns, max(3, rounds // 3))


def epoch(engine: Engine, n: int, columns: int, rounds: int) -> Result:
    sizes = np.diff(np.linspace(0, n, n // 50 + 1).astype(np.int64))[:, None]
    batches, steps, W = engine.batches(sizes), np.full(sizes.shape, 0.1), np.zeros((columns, 1))
    total = np.zeros_like(W)
    timed = interleaved(
        lambda: engine.descend(LOSS, W, batches, steps, 1e-3, total),
        lambda: engine.gradient_sum(LOSS, W),
        rounds,
    )
    return Result("CSR, epoch in batches of 50", 1, timed[0], "gradient pass", *timed[1:], None)
