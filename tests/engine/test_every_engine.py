"""Every verb on every kind of rows equals the oracle on the same rows, as precisely as the engine says of itself."""

from functools import lru_cache

import numpy as np
import pytest
from engine_tables import OF_ONE, VERBS, FixedOrder, FixedSample, LogCosh
from kinds import features_of, is_slow, kinds_marked

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.engine import Table, engine_for
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Softmax
from dperm.mechanisms.minimiser import EveryNth
from dperm.problem import Problem
from dperm.row_map import RowMap
from dperm.unit import Neighbours

N = 1303
X_NORM, INTERCEPT = 1.0, 0.5
RADIUS = float(np.hypot(X_NORM, INTERCEPT))
STORED = 2.0**-22  # of a row: what storage in float32 may change, where rows are not opened precisely


LOSSES = [Logistic(), HuberHinge(0.5), ClippedSquared(0.8), Softmax(3), LogCosh()]
FEW = [Logistic(), Softmax(3)]
each_kind = pytest.mark.parametrize("kind", kinds_marked())
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
each_precision = pytest.mark.parametrize("precise", [True, False], ids=["precise", "fast"])
each_mask = pytest.mark.parametrize("masked", [False, True], ids=["all rows", "masks"])


def plain_map(kind, **more):
    return RowMap(x_norm=X_NORM, intercept=INTERCEPT, **more)


def moving_map(kind):
    columns = features_of(kind, 2).shape[1]
    rng = np.random.default_rng(11)
    return plain_map(kind, centre=rng.uniform(-0.1, 0.1, columns), scale=rng.uniform(0.5, 2.0, columns))


@lru_cache(maxsize=64)
def _labels(loss, n):
    rng = np.random.default_rng(5)
    if loss.labels == "classes":
        return rng.integers(loss.outputs, size=n).astype(float)
    return rng.standard_normal(n) if loss.labels == "real" else np.where(rng.random(n) < 0.4, -1.0, 1.0)


class Both:
    """The same rows twice: of a kind, and dense for the oracle."""

    def __init__(self, kind, loss, models=None, row_map=None, n=N, capacity=None, X=None):
        self.X = features_of(kind, n) if X is None else X
        mask = None
        if models is not None:
            mask = np.random.default_rng(2).random((capacity or n, models)) < 0.8
        facts = {"row_map": row_map or plain_map(kind), "n_rows": capacity or n, "mask": mask}
        self.mine = kind.rows(self.X, _labels(loss, n), **facts)
        self.oracle = Table.of(self.X, _labels(loss, n), **facts)

    def open(self, order=None, precise=True):
        theirs = self.oracle.open(order, storage="float64", engine="reference")
        return self.mine.open(order, precise=precise), theirs


def weights(engine, loss, models, seed=1):
    shape = (engine.n_columns, models) + (loss.outputs,) * (loss.outputs > 1)
    return np.random.default_rng(seed).standard_normal(shape)


def allowed(engine, loss, W, precise, n=N):
    """How far a gradient sum may be from the oracle's, by what the engine says of its arithmetic.

    In float32 the worst case of a sum is never met; 16 roundings are allowed, so as not to miss a bug.
    """
    says = engine.arithmetic(W.shape[1])
    size = np.linalg.norm(W.reshape(len(W), W.shape[1], -1), axis=(0, 2)).max()
    margin = 2 * len(W) * says.margin * RADIUS * size
    slope = says.slope * max(loss.lipschitz, loss.smoothness / 5) + loss.smoothness * margin
    chain = n * UNIT_ROUNDOFF + (0 if says.sum <= UNIT_ROUNDOFF else 16 * says.sum)
    stored = 0 if precise else STORED * (loss.lipschitz + loss.smoothness * size * RADIUS)
    return 2 * n * RADIUS * (slope + chain * loss.lipschitz + stored)


def distance(found, expected):
    return np.linalg.norm((found - expected).reshape(len(found), -1), axis=0).max()


def batch_sizes(engine, loss, models):
    counts = engine.evaluate(loss, weights(engine, loss, models)).training_rows
    first = np.arange(models) + 200
    return np.stack([first, np.full(models, 517), counts - 517 - first])


def skip_slow(kind, loss):
    if is_slow(kind) and loss not in FEW:
        pytest.skip("a kind of which a pass takes long runs on fewer losses")


@pytest.mark.cover(2)
@each_mask
@each_precision
@each_loss
@each_kind
def test_gradients_with_batches_and_clips(kind, loss, precise, masked):
    skip_slow(kind, loss)
    for models in (3,) if is_slow(kind) and masked else (1, 7, 18):
        engine, oracle = Both(kind, loss, models if masked else None).open(precise=precise)
        W, clip = weights(engine, loss, models), np.random.default_rng(3).uniform(0.1, 0.5, models)
        limit = allowed(engine, loss, W, precise)
        expected = oracle.gradient_sum(loss, W)
        found = engine.gradient_sum(loss, W)
        assert (found.shape, found.dtype) == (W.shape, np.float64)
        assert distance(found, expected) <= limit
        assert np.linalg.norm(expected) > 300 * limit
        assert (
            distance(engine.gradient_sum(loss, W, clip=clip), oracle.gradient_sum(loss, W, clip=clip))
            <= limit
        )
        sizes = batch_sizes(oracle, loss, models)
        mine, theirs = engine.batches(sizes), oracle.batches(sizes)
        np.testing.assert_array_equal(mine.sizes, sizes)
        for j in range(len(sizes)):
            one, other = mine.only(j), theirs.only(j)
            found = engine.gradient_sum(loss, W, batch=one, clip=clip if j else None)
            expected = oracle.gradient_sum(loss, W, batch=other, clip=clip if j else None)
            assert distance(found, expected) <= limit
            assert np.linalg.norm(expected) > 10 * limit


@pytest.mark.cover(2)
@each_mask
@each_precision
@each_loss
@each_kind
def test_values_scores_and_margins(kind, loss, precise, masked):
    skip_slow(kind, loss)
    models = 3
    engine, oracle = Both(kind, loss, models if masked else None).open(precise=precise)
    W = weights(engine, loss, models)
    relative = max(1e-12, 100 * engine.arithmetic(models).margin, 0 if precise else 8 * STORED)
    close = {"rtol": relative, "atol": N * relative}
    expected, gradient = oracle.value_and_gradient_sum(loss, W)
    np.testing.assert_allclose(engine.value_sum(loss, W), expected, **close)
    value, mine = engine.value_and_gradient_sum(loss, W)
    np.testing.assert_allclose(value, expected, **close)
    assert distance(mine, gradient) <= allowed(engine, loss, W, precise)

    margin = oracle.margins(W)
    size = 100 * max(1e-14, engine.arithmetic(1).margin, 0 if precise else STORED)
    np.testing.assert_allclose(engine.margins(W), margin, rtol=size, atol=size)
    ordered = np.sort(margin, axis=-1)
    gap = np.abs(margin) if loss.outputs == 1 else ordered[..., -1] - ordered[..., -2]
    unsure = int((gap < 10 * relative).sum())
    scores, right = engine.evaluate(loss, W), oracle.evaluate(loss, W)
    np.testing.assert_allclose(scores.training_loss, expected, **close)
    np.testing.assert_array_equal(scores.training_rows, right.training_rows)
    np.testing.assert_array_equal(scores.held_out_rows, right.held_out_rows)
    assert np.abs(scores.training_correct - right.training_correct).max() <= unsure
    assert np.abs(scores.held_out_correct - right.held_out_correct).max() <= unsure
    assert unsure < 5


@pytest.mark.cover(1)
@pytest.mark.parametrize("models", [None, 3])
@each_kind
def test_sums_of_rows_moments_and_curvature(kind, models):
    engine, oracle = Both(kind, Logistic(), models, capacity=N + 40).open()
    for verb in ("row_sum", "square_sum", "row_moments"):
        found, expected = getattr(engine, verb)(), getattr(oracle, verb)()
        assert (found.shape, found.dtype) == (expected.shape, np.float64)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    for loss in (Logistic(), LogCosh()):
        W = weights(engine, loss, models or 1)
        expected = oracle.curvature_sum(loss, W)
        np.testing.assert_allclose(engine.curvature_sum(loss, W), expected, rtol=0, atol=1e-8)
    with pytest.raises(Unsupported, match="one output"):
        engine.curvature_sum(Softmax(3), weights(engine, Softmax(3), models or 1))


@pytest.mark.cover(2)
@each_mask
@each_loss
@each_kind
def test_an_epoch_in_a_secret_order(kind, loss, masked):
    skip_slow(kind, loss)
    models, capacity = 2, N + 40
    both = Both(kind, loss, models if masked else None, capacity=capacity)
    order = FixedOrder(np.random.default_rng(7).permutation(capacity))
    engine, oracle = both.open(order)
    start = weights(engine, loss, models)
    np.testing.assert_allclose(engine.margins(start), oracle.margins(start), rtol=1e-9, atol=1e-9)
    assert np.abs(both.open()[1].margins(start) - oracle.margins(start)).max() > 1
    sizes = batch_sizes(oracle, loss, models)
    steps, l2 = np.random.default_rng(8).uniform(0.1, 0.5, sizes.shape), np.array([0.0, 0.1])
    ends, totals = [start.copy(), start.copy()], [np.ones_like(start), np.ones_like(start)]
    for each, end, total in zip((engine, oracle), ends, totals, strict=True):
        each.descend(loss, end, each.batches(sizes), steps, l2, total)
    limit = allowed(engine, loss, start, True) / 100
    assert distance(*ends) <= limit
    assert distance(*totals) <= 3 * limit
    assert distance(ends[0], start) > 100 * limit


@pytest.mark.cover(1)
@each_mask
@each_kind
def test_samples_and_selections(kind, masked):
    loss, models = Logistic(), 3
    engine, oracle = Both(kind, loss, models if masked else None).open()
    rng = np.random.default_rng(9)
    W = weights(engine, loss, models)
    limit = allowed(engine, loss, W, True)
    for sizes in ([3, 100, 600], [0, 1, 2], [800, 900, 700]):
        draws = [FixedSample(rng.choice(900, size, replace=False)) for size in sizes]
        mine, theirs = engine.sample(draws), oracle.sample(draws)
        found, expected = (
            mine.gradient_sum(loss, W, clip=[0.3] * 3),
            theirs.gradient_sum(loss, W, clip=[0.3] * 3),
        )
        assert distance(found, expected) <= limit
        value = theirs.value_sum(loss, W)
        np.testing.assert_allclose(mine.value_sum(loss, W), value, rtol=1e-9, atol=1e-9)
        again = mine.select([2, 0]).gradient_sum(loss, W[:, [2, 0]])
        assert distance(again, theirs.select([2, 0]).gradient_sum(loss, W[:, [2, 0]])) <= limit
    some = [2, 0, 2]
    found, expected = (each.select(some).gradient_sum(loss, W) for each in (engine, oracle))
    assert distance(found, expected) <= limit
    one, other = (each.select([1]).sample([EveryNth(4)]) for each in (engine, oracle))
    np.testing.assert_allclose(
        one.curvature_sum(loss, W[:, :1]), other.curvature_sum(loss, W[:, :1]), rtol=0, atol=1e-9
    )
    if masked:
        both = Both(kind, loss, models)
        found, expected = both.mine.select([2]).open(precise=True), both.oracle.select([2]).open(precise=True)
        assert distance(found.gradient_sum(loss, W[:, :1]), expected.gradient_sum(loss, W[:, :1])) <= limit
        with pytest.raises(InvalidInput, match="models"):
            engine.gradient_sum(loss, W[:, :2])


@pytest.mark.cover(1)
@each_precision
@each_kind
def test_rows_that_are_moved_and_scaled(kind, precise):
    loss, models = Logistic(), 3
    for row_map in (moving_map(kind), plain_map(kind, scale=moving_map(kind).scale)):
        both = Both(kind, loss)
        both.mine, both.oracle = both.mine.mapped(row_map), both.oracle.mapped(row_map)
        engine, oracle = both.open(precise=precise)
        W = weights(engine, loss, models)
        limit = allowed(engine, loss, W, precise)
        assert distance(engine.gradient_sum(loss, W), oracle.gradient_sum(loss, W)) <= limit
        clip = [0.1, 0.2, 0.3]
        found, expected = (each.gradient_sum(loss, W, clip=clip) for each in (engine, oracle))
        assert distance(found, expected) <= limit
        plain = Both(kind, loss).open(precise=precise)[1].gradient_sum(loss, W)
        assert distance(plain, oracle.gradient_sum(loss, W)) > 100 * limit
        slack = 1e-9 if precise else 1e-5
        np.testing.assert_allclose(engine.row_moments(), oracle.row_moments(), rtol=0, atol=slack * N)
        lengths = np.linalg.norm(engine.margins(np.eye(engine.n_columns))[:, :-1], axis=1)
        assert lengths.max() <= X_NORM * (1 + 1e-12)


@each_kind
def test_empty_rows_add_exactly_zero(kind):
    loss, empty = Logistic(), 333
    full, _ = Both(kind, loss).open()
    engine, _ = Both(kind, loss, capacity=N + empty).open()
    W = weights(engine, loss, 2)
    tail = engine.batches(np.repeat([[N], [empty]], 2, axis=1)).only(1)
    np.testing.assert_array_equal(engine.gradient_sum(loss, W, batch=tail), 0)
    np.testing.assert_array_equal(engine.gradient_sum(loss, W, batch=tail, clip=[1e-3] * 2), 0)
    assert distance(engine.gradient_sum(loss, W), full.gradient_sum(loss, W)) <= allowed(
        engine, loss, W, True
    )
    np.testing.assert_array_equal(engine.margins(np.ones((engine.n_columns, 1)))[N:], 0)
    np.testing.assert_array_equal(engine.evaluate(loss, W).training_rows, N + empty)
    assert (engine.n_rows, full.n_rows) == (N + empty, N)


@each_kind
def test_one_row_adds_at_most_the_clip(kind):
    loss, n = Logistic(), 40
    engine, _ = Both(kind, loss, n=n).open(precise=False)
    W = 3 * weights(engine, loss, 2)
    batches = engine.batches(np.ones((n, 2), np.int64))
    bites = 0
    for i in range(0, n, 20 if is_slow(kind) else 1):
        for clip in (0.3, 1e-3):
            found = engine.gradient_sum(loss, W, batch=batches.only(i), clip=[clip] * 2)
            assert np.linalg.norm(found, axis=0).max() <= clip * (1 + 1e-12)
            bites += np.linalg.norm(engine.gradient_sum(loss, W, batch=batches.only(i)), axis=0).max() > clip
    assert bites > 0


@pytest.mark.cover(1)
@each_precision
@each_kind
def test_shared_rows_are_rounded_alike(kind, precise):
    """Batches without the row that was replaced have the same bits, and opening again changes none."""
    loss, models = Logistic(), 3
    X = features_of(kind, N)
    other = X.copy()
    other[700] = X[3]
    assert (other[700] != X[700]).any()
    engines = [Both(kind, loss, X=rows).open(precise=precise)[0] for rows in (X, X, other)]
    W = weights(engines[0], loss, models)
    sizes = np.repeat([[690], [20], [N - 710]], models, axis=1)
    sums = [
        [each.gradient_sum(loss, W, batch=each.batches(sizes).only(j)) for j in range(3)] for each in engines
    ]
    for j in range(3):
        np.testing.assert_array_equal(sums[0][j], sums[1][j])
    np.testing.assert_array_equal(sums[0][0], sums[2][0])
    np.testing.assert_array_equal(sums[0][2], sums[2][2])
    assert distance(sums[0][1], sums[2][1]) > 1e-3


@each_kind
def test_every_pass_notes_its_arithmetic(kind):
    """Selected and sampled rows too: what is certified rests on it."""
    rows = Both(kind, Logistic()).mine
    for verb, run in VERBS.items():
        for models in (1, 3):
            used = set()
            engine = rows.noting(used).open()
            views = [engine, engine.select(range(models))]
            if verb != "descend":
                views.append(engine.sample([FixedSample(np.arange(N))] * models))
            for view in views:
                used.clear()
                run(view, weights(engine, Logistic(), models))
                assert used == {engine.arithmetic(1 if verb in OF_ONE else models)}, verb
        if is_slow(kind) and verb == "curvature_sum":
            break


@pytest.mark.together
@each_kind
def test_what_does_not_fit_is_refused(kind):
    rows = Both(kind, Logistic()).mine
    n_features = features_of(kind, 2).shape[1]
    problem = Problem(
        loss=Logistic(),
        l2=0.0,
        x_norm=X_NORM,
        intercept=INTERCEPT,
        n_rows=N,
        n_features=n_features,
        neighbours=Neighbours.REPLACE_ONE,
    )
    rows.check_matches(problem, 0)
    rows.check_labels(Logistic())
    with pytest.raises(InvalidInput, match="labels"):
        rows.check_labels(Softmax(3))
    with pytest.raises(InvalidInput, match="plan"):
        Both(kind, Logistic(), n=N - 1).mine.check_matches(problem, 0)
    engine = rows.open()
    W = weights(engine, Logistic(), 1)
    with pytest.raises(InvalidInput, match="not finite"):
        engine.gradient_sum(Logistic(), W * np.nan)
    with pytest.raises(InvalidInput, match="float64 of shape"):
        engine.gradient_sum(Logistic(), W[1:])
    with pytest.raises(InvalidInput, match="sum to the number of rows"):
        engine.batches([[N - 1]])
    with pytest.raises(InvalidInput, match="clip"):
        engine.gradient_sum(Logistic(), W, clip=[0.0])
    with pytest.raises(InvalidInput, match="more rows"):
        Both(kind, Logistic(), capacity=N - 1)


@pytest.mark.together
@each_kind
def test_a_row_that_is_not_finite_is_refused_and_not_quoted(kind):
    if getattr(kind, "finite", False):
        pytest.skip("rows of this kind cannot hold such a number")
    X = features_of(kind, 50)
    X[17, 1], X[17, 2] = np.nan, 0.1234567
    with pytest.raises(InvalidInput, match="NaN or infinite") as caught:
        Both(kind, Logistic(), n=50, X=X).open()[0].row_sum()
    assert "12345" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.cover(1)
@pytest.mark.parametrize("linear", [False, True], ids=["bounded", "linear"])
@each_kind
def test_prediction_is_that_of_the_row_map(kind, linear):
    if not hasattr(kind, "native"):
        pytest.skip("the kind says no native form to predict for")
    X = features_of(kind, 300)
    rng = np.random.default_rng(4)
    coefficients, constant = rng.standard_normal((X.shape[1], 2)), rng.standard_normal(2)
    for row_map in (plain_map(kind, linear=linear), moving_map(kind)):
        given = kind.native(X)
        assert engine_for(given).shape_of(given) == X.shape
        found = engine_for(given).margins_of(given, row_map, coefficients, constant)
        np.testing.assert_allclose(found, row_map.margins(X, coefficients, constant), rtol=1e-9, atol=1e-9)
