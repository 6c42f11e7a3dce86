"""A gradient of old slopes: the same as one that is made anew from the same recurrence, and from each row by itself."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from dperm.arithmetic import FLOAT64
from dperm.engine import SparseRows, Table
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import HuberHinge, Logistic
from dperm.row_map import RowMap

N, P, GRID, BLOCK = 150, 40, -28, 16
MOVES = [(3, 0.7, 0.5), (P, -1.2, 2 / 3), (3, 0.4, 0.75), (17, 2.0, 0.6), (39, -0.3, 0.9), (5, 1.0, 0.8)]
LOSSES = [Logistic(), HuberHinge(0.5)]
KINDS = {"sparse": lambda X, y, **facts: SparseRows(sparse.csr_array(X), y, **facts), "dense": Table}


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((N, P)) < 0.15, rng.standard_normal((N, P)), 0.0)
    return X, np.where(rng.random(N) < 0.5, 1.0, -1.0)


def opened(kind, X, y, mask=None, used=None, **moved):
    row_map = RowMap(x_norm=1.5, intercept=0.5, **moved)
    rows = KINDS[kind](X, y, row_map=row_map, n_rows=N + 5, mask=mask)
    return (rows if used is None else rows.noting(used)).open(precise=True)


def recomputed(engine, loss, moves, renewed, own=None):
    """Every row by itself, in float64, as the definition says; sums in whole numbers."""
    rows, y = engine._rows.densely(0, engine.n_rows), engine._rows.y
    per_one, total = 2.0**-GRID, np.zeros(P + 1, np.int64)
    for i, row in enumerate(rows):
        if own is not None and not own[i]:
            continue
        margin, scale = 0.0, 1.0
        slope = loss.slope(np.array([0.0]), y[i : i + 1])[0]
        for t, (j, change, shrink) in enumerate(moves):
            scale *= shrink
            margin += row[j] * (change / scale)
            if row[j] != 0 or t in renewed:
                slope = loss.slope(np.array([scale * margin]), y[i : i + 1])[0]
        total += np.rint(slope * row * per_one).astype(np.int64)
    return total


def passed(engine, loss, moves=MOVES, renewed=(), model=0):
    state = engine.vertex_pass(loss, model, GRID, BLOCK)
    for t, move in enumerate(moves):
        state.move(*move)
        if t in renewed:
            state.renew()
    return state


@pytest.mark.cover(2)
@pytest.mark.parametrize("renewed", [(), (2, 4)], ids=["never", "twice"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_the_kept_sums_are_those_of_the_recurrence(kind, loss, renewed):
    """A step of the grid is room for compiled slopes that differ in the last digit. Fresh slopes would be far off."""
    used = set()
    engine = opened(kind, *data(), used=used)
    state = passed(engine, loss, renewed=renewed)
    expected = recomputed(engine, loss, MOVES, renewed)
    np.testing.assert_allclose(state.sums[: P + 1], expected, atol=3)
    assert not state.sums[P + 1 :].any()
    assert used == {FLOAT64}
    fresh = recomputed(engine, loss, MOVES, range(len(MOVES)))
    assert np.abs(state.sums[: P + 1] - fresh).max() > 1e5


@pytest.mark.parametrize("kind", KINDS)
def test_each_model_keeps_its_own_rows(kind):
    mask = (np.random.default_rng(1).random((N + 5, 2)) < 0.5).astype(np.uint8)
    engine = opened(kind, *data(), mask=mask)
    for model in (0, 1):
        expected = recomputed(engine, Logistic(), MOVES, (), mask[:, model])
        found = passed(engine, Logistic(), model=model).sums[: P + 1]
        np.testing.assert_allclose(found, expected, atol=3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_adds_the_same_wherever_it_lies_and_whoever_lies_beside_it(kind):
    """Exactly: the sums of two parts are that of the whole, and one row less is less by what it adds alone."""
    X, y = data()
    order = np.random.default_rng(2).permutation(N)
    some = order[:61]
    rest = order[61:]
    sums = [passed(opened(kind, X[part], y[part]), Logistic()).sums for part in (order, some, rest)]
    np.testing.assert_array_equal(sums[0], sums[1] + sums[2])
    np.testing.assert_array_equal(sums[0], passed(opened(kind, X, y), Logistic()).sums)
    one = [passed(opened(kind, X[[i]], y[[i]]), Logistic()).sums for i in range(N)]
    np.testing.assert_array_equal(sums[0], np.sum(one, axis=0))
    limit = max(1.5, 0.5) * 2.0**-GRID
    assert 0.3 * limit < np.abs(one).max() <= limit + 1


def test_marks_tell_which_blocks_changed():
    engine = opened("sparse", *data())
    state = engine.vertex_pass(Logistic(), 0, GRID, BLOCK)
    state.changed[:] = 0
    before = state.sums.copy()
    state.move(17, 2.0, 0.5)
    moved = (state.sums != before).reshape(-1, BLOCK).any(axis=1)
    assert moved.any()
    assert state.changed[moved].all()


def test_a_loss_beyond_its_constant_is_cut():
    """What a row adds is bounded by the declared constant, whatever the formulas give."""

    class Steep(Logistic):
        kernel = Logistic.kernel
        lipschitz = 0.25

    engine = opened("dense", *data())
    plain, cut = (np.abs(passed(engine, loss).sums).max() for loss in (Logistic(), Steep()))
    assert cut < plain
    state = engine.vertex_pass(Steep(), 0, GRID, BLOCK)
    assert np.abs(state._slopes).max() == 0.25


def test_refusals_of_vertex_passes():
    X, y = data()
    with pytest.raises(Unsupported, match="centre"):
        passed(opened("sparse", X, y, centre=np.full(P, 0.01)), Logistic())
    engine = opened("sparse", X, y)

    class Own(Logistic):
        name = "own"

    with pytest.raises(Unsupported, match="compiled"):
        passed(engine, Own())
    with pytest.raises(InvalidInput, match="radius"):
        passed(engine, Logistic(), [(0, 1e300, 0.5)])
    reference = Table(X, y, row_map=RowMap(x_norm=1.5, intercept=0.5), n_rows=N).open(engine="reference")
    with pytest.raises(Unsupported, match="lazy"):
        passed(reference, Logistic())
    many = dataclasses.replace(engine._rows, y=np.broadcast_to(1.0, 2**28 + 1))
    engine._rows = many
    with pytest.raises(Unsupported, match="rows"):
        passed(engine, Logistic())
