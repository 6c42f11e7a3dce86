"""Tables that differ in one row: every block but that row's adds the same bits (docs/proofs/arithmetic.md)."""

from itertools import count

import numpy as np
import pytest
from engine_tables import dense_table

from dperm import processors
from dperm.arithmetic import FLOAT32, FLOAT64
from dperm.engine.base import blocked, kernels, softmax_kernels
from dperm.engine.base.engine import Wanted
from dperm.engine.dense import engine as dense
from dperm.engine.dense.engine import DenseEngine
from dperm.losses import Logistic, Softmax

N, P, CHANGED = 20_000, 120, 7_777
BLOCK = FLOAT32.block
LOSSES = {1: Logistic(), 3: Softmax(3)}


class Recording(DenseEngine):
    """Keeps what each block of at most 256 rows adds, by its place."""

    def _add_back(self, block, slopes, total):
        for first in range(0, len(block), BLOCK):
            part, added = slice(first, first + BLOCK), np.zeros_like(total)
            super()._add_back(block[part], slopes[part], added)
            place = (block[part].ctypes.data - self._rows.X.ctypes.data) // self._rows.X.strides[0]
            self.blocks[place, len(block[part])] = added
            total += added


def tables(outputs, replaced=True, n=N):
    """A table and one that has another row at one place, or lacks it so that all later rows move up."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, P)) / 8
    y = rng.integers(outputs, size=n) if outputs > 1 else rng.choice([-1, 1], n)
    others = X.copy()
    others[CHANGED] = -X[CHANGED][::-1]
    kept = np.arange(n)
    if not replaced:
        others, kept[CHANGED:-1] = X, kept[CHANGED + 1 :]
    for rows, labels in ((X, y), (others[kept], y[kept])):
        yield dense_table(rows, labels, x_norm=1.0, intercept=0.3, n_rows=n)


def weights(models, outputs):
    W = np.random.default_rng(1).standard_normal((P + 1, models, outputs))
    return np.ascontiguousarray(W[:, :, 0]) if outputs == 1 else W


def many_blocks(table, models, outputs, threads, clip):
    engine = table.open(threads=threads)
    engine.__class__ = Recording
    engine.blocks = {}
    total = engine.gradient_sum(LOSSES[outputs], weights(models, outputs), clip=clip)
    return engine.blocks, total


def one_blocks(table, models, outputs, threads, clip):
    """A block of one model is what its kernel returns for it alone; added in order, blocks make the whole sum."""
    engine = table.open(threads=threads)
    loss, W = LOSSES[outputs], weights(1, outputs)
    blocks, total = {}, 0.0
    for first, last in engine._fused_parts(0, N, outputs):
        part = 0.0
        for place in range(first, last, BLOCK):
            end = min(place + BLOCK, last)
            (_, blocks[place, end - place]) = engine._one_model(
                loss, W, place, end, Wanted(False, True, clip)
            )
            part = part + blocks[place, end - place]
        total = total + part
    np.testing.assert_array_equal(total, engine.gradient_sum(loss, W, clip=clip))
    return blocks, total


CASES = pytest.mark.parametrize(
    ("models", "outputs", "threads", "clip"),
    [
        (1, 1, 1, None),
        (1, 1, 2, 0.01),
        (1, 3, 2, None),
        (128, 1, 1, None),
        (128, 1, 2, 0.01),
        (40, 3, 2, None),
    ],
)


def seen(models, outputs, threads, clip, replaced=True):
    bounds = None if clip is None else np.full(models, clip)
    of = one_blocks if models == 1 else many_blocks
    return [of(table, models, outputs, threads, bounds) for table in tables(outputs, replaced)]


@CASES
def test_only_the_block_of_the_changed_row_differs(models, outputs, threads, clip):
    (blocks, total), (others, moved) = seen(models, outputs, threads, clip)
    assert blocks.keys() == others.keys()
    assert len(blocks) >= N / BLOCK
    assert max(rows for _, rows in blocks) <= BLOCK
    assert sum(rows for _, rows in blocks) == N
    differing = [place for place in blocks if blocks[place].tobytes() != others[place].tobytes()]
    assert len(differing) == 1
    assert differing[0][0] <= CHANGED < sum(differing[0])
    assert total.tobytes() != moved.tobytes()


@CASES
def test_a_row_that_is_taken_out_moves_others_and_their_roundings(models, outputs, threads, clip):
    """The control, and why add-remove needs float64."""
    (blocks, _), (others, _) = seen(models, outputs, threads, clip, replaced=False)
    assert sum(blocks[place].tobytes() != others[place].tobytes() for place in blocks) > 20


@pytest.mark.parametrize("models", [1, 128])
def test_the_distance_is_within_the_allowance(models):
    """With all slopes at their bound, as the proof has them, and rows that hardly differ."""
    (_, total), (_, moved) = seen(models, 1, 1, 1e-3)
    apart = np.linalg.norm(total - moved, axis=0).max()
    assert 1e-3 < apart <= 1e-3 * (2 + FLOAT32.block_error(N))


def shuffled(in_order):
    """Results as they happen to be ready, not in their order."""
    turns = count()

    def broken(function, parts, threads):
        results = list(in_order(function, parts, threads))
        order = np.random.default_rng(next(turns)).permutation(len(results))
        return [results[k] for k in order]

    return broken


@pytest.mark.parametrize("models", [1, 128])
def test_block_sums_in_another_order_between_runs_are_noticed(models, monkeypatch):
    """A reduction that follows timing gives other bits for the same rows; ours does not, and the mutation does."""
    table, W = next(tables(1, n=3 * N)), weights(models, 1)
    engine = table.open(threads=2, precise=True)  # sums of float32 blocks are mostly exact in float64
    first = engine.gradient_sum(Logistic(), W).tobytes()
    assert all(engine.gradient_sum(Logistic(), W).tobytes() == first for _ in range(5))
    assert len(engine._fused_parts(0, 3 * N)) > 2
    for module in (dense, blocked):
        monkeypatch.setattr(module, "in_order", shuffled(processors.in_order))
    assert any(engine.gradient_sum(Logistic(), W).tobytes() != first for _ in range(5))


def test_blocks_are_no_longer_than_stated():
    assert min(FLOAT32.block, FLOAT64.block) >= kernels.ADDED
    assert kernels.ADDED % kernels.BLOCK == kernels.ADDED % softmax_kernels.BLOCK == 0
    assert FLOAT64.block >= blocked.MOST_ROWS
