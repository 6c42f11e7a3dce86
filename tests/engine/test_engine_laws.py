"""Every engine obeys the same laws and equals the oracle to the precision that its contract states.

Pairs of a kind of rows and a loss meet in ``test_every_engine.py``; here every loss, storage and number of models.
"""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from engine_tables import OF_ONE, VERBS, FixedOrder, FixedSample, LogCosh, between, dense_table

from dperm.arithmetic import FLOAT32, FLOAT64
from dperm.engine.base.engine import Engine
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Linear, Logistic, Loss, Softmax

N, FEATURES, X_NORM, INTERCEPT = 2111, 10, 1.0, 0.5
RADIUS = np.hypot(X_NORM, INTERCEPT)


class UncompiledLogistic(Logistic):
    """The same formulas, but not the type that has compiled ones."""


COMPILED = [Logistic(), HuberHinge(0.5), ClippedSquared(0.8), Linear()]
LOSSES = [*COMPILED, LogCosh(), Softmax(3)]
ENGINES = [("reference", "float64"), ("dense", "float32"), ("dense", "float64")]

each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
each_engine = pytest.mark.parametrize(("kind", "storage"), ENGINES, ids=lambda value: value)
each_case = pytest.mark.parametrize("case", ["plain", "masks", "ranges", "clips", "everything"])
each_count = pytest.mark.parametrize("models", [1, 7, 33])


def gamma(k, unit):
    return k * unit / (1 - k * unit)


def tolerance(engine: Engine, loss: Loss, W, n=N):
    """The contract's bound on the error of a gradient sum, in Euclidean norm, doubled for the oracle's own.

    In float32 the worst case is never met; 16 roundings per sum are allowed, so as not to miss a bug.
    """
    columns = W.shape[0]
    w_norm = np.linalg.norm(W.reshape(columns, -1), axis=0).max()
    double = engine.arithmetic(W.shape[1]) == FLOAT64
    unit, slope, chain = (2.0**-53, 1e-14, n) if double else (2.0**-24, 1e-6, 16)
    slope_error = slope * loss.lipschitz + loss.smoothness * gamma(columns + 2, unit) * RADIUS * w_norm
    return 2 * n * RADIUS * (slope_error + (gamma(chain, unit) + gamma(n, 2.0**-53)) * loss.lipschitz)


def data(loss: Loss, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, FEATURES)) * 0.4  # about two rows in three are longer than X_NORM
    if loss.labels == "classes":
        return X, rng.integers(loss.outputs, size=n).astype(float)
    if loss.labels == "real":
        return X, rng.standard_normal(n)
    return X, np.where(rng.random(n) < 0.4, -1.0, 1.0)


def weights(loss: Loss, models, seed=1):
    shape = (FEATURES + 1, models) if loss.outputs == 1 else (FEATURES + 1, models, loss.outputs)
    return np.random.default_rng(seed).standard_normal(shape)


def table(loss: Loss, models=None, n=N, capacity=None):
    X, y = data(loss, n)
    mask = None
    if models is not None:
        mask = np.random.default_rng(2).random((n, models)) < 0.8
    return dense_table(X, y, x_norm=X_NORM, intercept=INTERCEPT, n_rows=capacity or n, mask=mask)


def options(case, models):
    rng = np.random.default_rng(3)
    found = {}
    if case in ("ranges", "everything"):
        found["batch"] = between(rng.integers(0, 700, models), rng.integers(900, N + 1, models))
    if case in ("clips", "everything"):
        found["clip"] = rng.uniform(0.1, 0.6, models)
    return found


@pytest.mark.cover(1)
@each_case
@each_count
@each_engine
@each_loss
def test_gradient_sum_equals_the_oracle(loss, kind, storage, models, case):
    rows = table(loss, models if case in ("masks", "everything") else None)
    engine = rows.open(storage=storage, engine=kind)
    oracle = rows.open(storage=storage, engine="reference")
    W = weights(loss, models)
    found = engine.gradient_sum(loss, W, **options(case, models))
    expected = oracle.gradient_sum(loss, W, **options(case, models))
    assert found.shape == W.shape
    assert found.dtype == np.float64
    error = np.linalg.norm((found - expected).reshape(len(W), models, -1), axis=(0, 2))
    assert error.max() <= tolerance(engine, loss, W)
    assert np.linalg.norm(expected) > 50 * tolerance(engine, loss, W)


@pytest.mark.cover(1)
@pytest.mark.parametrize("masked", [False, True])
@each_count
@each_engine
@each_loss
def test_values_and_scores_equal_the_oracle(loss, kind, storage, models, masked):
    rows = table(loss, models if masked else None)
    engine = rows.open(storage=storage, engine=kind)
    oracle = rows.open(storage=storage, engine="reference")
    W = weights(loss, models)
    expected, gradient = oracle.value_and_gradient_sum(loss, W)
    relative = 1e-13 if engine.arithmetic(models) == FLOAT64 else 2e-6
    np.testing.assert_allclose(engine.value_sum(loss, W), expected, rtol=relative, atol=N * relative)
    value, same_gradient = engine.value_and_gradient_sum(loss, W)
    np.testing.assert_allclose(value, expected, rtol=relative, atol=N * relative)
    assert np.linalg.norm(same_gradient - gradient, axis=0).max() <= tolerance(engine, loss, W)

    margin = oracle.margins(W)
    np.testing.assert_allclose(engine.margins(W), margin, rtol=1e-13, atol=1e-13)
    gap = (
        np.abs(margin) if loss.outputs == 1 else np.diff(np.sort(margin, axis=-1)[..., -2:], axis=-1)[..., 0]
    )
    close_calls = (gap < 1e-5).sum() if relative > 1e-9 else 0
    found, expected_scores = engine.evaluate(loss, W), oracle.evaluate(loss, W)
    np.testing.assert_allclose(found.training_loss, expected, rtol=relative, atol=N * relative)
    np.testing.assert_array_equal(found.training_rows, expected_scores.training_rows)
    np.testing.assert_array_equal(found.held_out_rows, expected_scores.held_out_rows)
    assert np.abs(found.training_correct - expected_scores.training_correct).max() <= close_calls
    assert np.abs(found.held_out_correct - expected_scores.held_out_correct).max() <= close_calls
    correct = found.training_correct + found.held_out_correct
    assert (correct > 0).all()
    assert (correct < N).all()


@pytest.mark.cover(1)
@pytest.mark.parametrize("models", [1, 3])
@each_engine
@pytest.mark.parametrize("loss", [*COMPILED[:3], LogCosh()], ids=lambda loss: loss.name)
def test_curvature_sum_is_the_hessian(loss, kind, storage, models):
    rows = table(loss, models)
    engine = rows.open(storage=storage, engine=kind)
    W = weights(loss, models)
    found = engine.curvature_sum(loss, W)
    oracle = rows.open(storage=storage, engine="reference")
    expected = oracle.curvature_sum(loss, W)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    step = 1e-6 * np.random.default_rng(4).standard_normal(W.shape)
    moved = oracle.gradient_sum(loss, W + step) - oracle.gradient_sum(loss, W - step)
    by_hessian = 2 * np.einsum("kij,jk->ik", found, step)
    assert np.linalg.norm(moved - by_hessian) <= 2e-3 * np.linalg.norm(moved)


@pytest.mark.cover(1)
@pytest.mark.parametrize("models", [None, 1, 3])
@each_engine
def test_row_sums_and_moments_are_within_the_contract(kind, storage, models):
    """Over a table below capacity: empty rows add nothing. The expected sums are exact."""
    n = 300
    capacity = n if models else n + 7
    rows = table(Logistic(), models, n=n, capacity=capacity)
    engine = rows.open(storage=storage, engine=kind)
    X = engine._rows.X.astype(np.float64)
    mask = np.ones((capacity, 1), bool) if models is None else engine._rows.mask == 1
    sums, squares, moments = engine.row_sum(), engine.square_sum(), engine.row_moments()
    assert squares.shape == sums.shape
    assert squares.dtype == np.float64
    assert sums.shape == (FEATURES + 1, mask.shape[1])
    assert moments.shape == (mask.shape[1], FEATURES + 1, FEATURES + 1)
    assert moments.dtype == np.float64
    np.testing.assert_array_equal(moments, moments.transpose(0, 2, 1))
    for k in range(mask.shape[1]):
        own = X[mask[:, k]]
        exact_sum = np.array([math.fsum(column) for column in own.T])
        exact = np.array([[_exact_dot(a, b) for b in own.T] for a in own.T])
        lengths = np.linalg.norm(own, axis=1)
        assert np.linalg.norm(sums[:, k] - exact_sum) <= gamma(n, 2.0**-53) * lengths.sum()
        assert np.linalg.norm(moments[k] - exact) <= gamma(n, 2.0**-53) * (lengths**2).sum()
        assert np.linalg.norm(squares[:, k] - np.diag(exact)) <= gamma(n, 2.0**-53) * (lengths**2).sum()
        assert np.linalg.norm(exact - X.T @ X) > 1 or mask[:, k].all()


def _exact_dot(a, b):
    return float(sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)))


def test_curvature_sum_needs_one_output():
    with pytest.raises(Unsupported, match="one output"):
        table(Softmax(3)).open(precise=True).curvature_sum(Softmax(3), weights(Softmax(3), 1))


@pytest.mark.cover(1)
@each_count
@each_engine
@each_loss
def test_any_split_and_any_order_give_the_same_sum(loss, kind, storage, models):
    rows = table(loss)
    W = weights(loss, models)
    order = np.random.default_rng(5).permutation(N)
    engine, shuffled = (rows.open(o, storage=storage, engine=kind) for o in (None, FixedOrder(order)))
    whole = engine.gradient_sum(loss, W)
    cuts = [0, 5, 900, 901, N]
    pieces = sum(
        engine.gradient_sum(loss, W, batch=between(np.full(models, a), np.full(models, b)))
        for a, b in pairwise(cuts)
    )
    bound = 2 * tolerance(engine, loss, W)
    assert np.linalg.norm(pieces - whole, axis=0).max() <= bound
    assert np.linalg.norm(shuffled.gradient_sum(loss, W) - whole, axis=0).max() <= bound
    np.testing.assert_allclose(shuffled.margins(W), engine.margins(W)[order], rtol=1e-12, atol=1e-14)


@pytest.mark.cover(1)
@pytest.mark.parametrize("models", [1, 7])
@each_engine
@each_loss
def test_empty_rows_add_exactly_zero(loss, kind, storage, models):
    empty = 333
    rows = table(loss, capacity=N + empty)
    order = np.random.default_rng(6).permutation(N + empty)
    W = weights(loss, models)
    engine = rows.open(storage=storage, engine=kind)
    last = between(np.full(models, N), np.full(models, N + empty))
    tail = engine.gradient_sum(loss, W, batch=last)
    np.testing.assert_array_equal(tail, 0)
    clipped = engine.gradient_sum(loss, W, batch=last, clip=np.full(models, 1e-3))
    np.testing.assert_array_equal(clipped, 0)
    full = table(loss).open(storage=storage, engine=kind).gradient_sum(loss, W)
    shuffled = rows.open(FixedOrder(order), storage=storage, engine=kind)
    assert np.linalg.norm(shuffled.gradient_sum(loss, W) - full, axis=0).max() <= 2 * tolerance(
        engine, loss, W
    )
    is_empty = (shuffled.margins(np.ones((FEATURES + 1, 1))) == 0)[:, 0]
    np.testing.assert_array_equal(is_empty, order >= N)


def exact_norm_squared(vector):
    return sum(Fraction(float(v)) ** 2 for v in np.ravel(vector))


@pytest.mark.cover(1)
@pytest.mark.parametrize("models", [1, 2])
@each_engine
@each_loss
def test_one_row_adds_at_most_the_clip(loss, kind, storage, models):
    engine = table(loss).open(storage=storage, engine=kind)
    W = weights(loss, models)
    bites = 0
    for clip in (0.3, 1e-3, 7e-8):
        for i in range(0, 60, 3):
            here = between(np.full(models, i), np.full(models, i + 1))
            found = engine.gradient_sum(loss, W, batch=here, clip=np.full(models, clip))
            free = engine.gradient_sum(loss, W, batch=here)
            for k in range(models):
                assert exact_norm_squared(found[:, k]) <= Fraction(clip) ** 2 * (1 + Fraction(2) ** -46)
                bites += exact_norm_squared(free[:, k]) > Fraction(clip) ** 2
    assert bites > 30  # the clip was needed


@each_engine
def test_a_clip_that_is_too_large_to_bite_changes_nothing(kind, storage):
    loss, W = Logistic(), weights(Logistic(), 1)
    engine = table(loss).open(storage=storage, engine=kind)
    np.testing.assert_array_equal(engine.gradient_sum(loss, W, clip=[1e6]), engine.gradient_sum(loss, W))


@pytest.mark.parametrize("storage", ["float32", "float64"])
def test_one_row_moves_a_clipped_sum_by_at_most_its_bound(storage):
    loss, clip, i = Logistic(), 0.25, 777
    X, y = data(loss)
    W = weights(loss, 1)
    other = X.copy()
    other[i] *= -50
    without = np.delete(X, i, axis=0)
    facts = {"x_norm": X_NORM, "intercept": INTERCEPT, "n_rows": N}
    sums = [
        dense_table(rows, labels, **facts).open(storage=storage).gradient_sum(loss, W, clip=[clip])
        for rows, labels in ((X, y), (other, y), (without, np.delete(y, i)))
    ]
    slack = 2 * tolerance(table(loss).open(precise=True), loss, W)
    replaced, removed = (np.linalg.norm(s - sums[0]) for s in sums[1:])
    assert 0.5 * clip < replaced <= 2 * clip + slack
    assert 0.5 * clip < removed <= clip + slack


@pytest.mark.cover(1)
@pytest.mark.parametrize("masked", [False, True])
@each_count
@each_engine
@each_loss
def test_an_epoch_equals_its_loop(loss, kind, storage, models, masked):
    rows = table(loss, models if masked else None)
    engine = rows.open(storage=storage, engine=kind)
    counts = engine.evaluate(loss, weights(loss, models)).training_rows
    sizes = np.stack([np.full(models, 500), np.full(models, 333), counts - 833])
    batches = engine.batches(sizes)
    rng = np.random.default_rng(7)
    steps, l2 = rng.uniform(0.1, 0.5, sizes.shape), rng.uniform(0, 0.1, models)
    start = weights(loss, models)

    fast, total = start.copy(), np.ones_like(start)
    engine.descend(loss, fast, batches, steps, l2, total)
    oracle = rows.open(storage=storage, engine="reference")
    slow, slow_total = start.copy(), np.ones_like(start)
    for j in range(len(sizes)):
        gradient = oracle.gradient_sum(loss, slow, batch=batches.only(j))
        for k in range(models):
            step = steps[j, k]
            slow[:, k] = (1 - step * l2[k]) * slow[:, k] - step / sizes[j, k] * gradient[:, k]
        slow_total += slow
    bound = 3 * tolerance(engine, loss, start) / 333
    assert np.linalg.norm(fast - slow, axis=0).max() <= bound
    assert np.linalg.norm(total - slow_total, axis=0).max() <= 3 * bound
    assert np.linalg.norm(fast - start) > 100 * bound

    alone = start.copy()
    engine.descend(loss, alone, batches, steps, l2)
    np.testing.assert_array_equal(alone, fast)


@pytest.mark.parametrize("models", [1, 33])
@pytest.mark.parametrize("storage", ["float32", "float64"])
def test_a_loss_without_compiled_formulas_gives_the_same(storage, models):
    rows = table(Logistic(), models)
    engine = rows.open(storage=storage)
    W = weights(Logistic(), models)
    for case in ("masks", "everything"):
        found = engine.gradient_sum(UncompiledLogistic(), W, **options(case, models))
        expected = engine.gradient_sum(Logistic(), W, **options(case, models))
        assert np.linalg.norm(found - expected, axis=0).max() <= tolerance(engine, Logistic(), W)
    for found, expected in zip(
        engine.evaluate(UncompiledLogistic(), W), engine.evaluate(Logistic(), W), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.cover(1)
@each_engine
@each_loss
def test_margins_of_a_thousand_are_stable(loss, kind, storage):
    engine = table(loss).open(storage=storage, engine=kind)
    for models in (1, 2):
        W = weights(loss, models)
        W *= 1000 / np.abs(engine.margins(W)).max()
        value, gradient = engine.value_and_gradient_sum(loss, W)
        assert np.isfinite(value).all()
        assert np.linalg.norm(gradient, axis=0).max() <= 1.000001 * N * RADIUS * loss.lipschitz
        assert value.min() > 0 or loss.name == "linear"


@pytest.mark.parametrize("models", [1, 33])
@pytest.mark.parametrize("storage", ["float32", "float64"])
def test_threads_do_not_change_a_bit(storage, models):
    rng = np.random.default_rng(8)
    n = 75_000 if models == 1 else 20_000
    X, y = rng.standard_normal((n, 30)) / 6, np.where(rng.random(n) < 0.5, -1.0, 1.0)
    rows = dense_table(X, y, x_norm=1.0, intercept=1.0, n_rows=n)
    one, two = (rows.open(storage=storage, threads=t) for t in (1, 2))
    W = rng.standard_normal((31, models))
    for mine, other in zip(
        one.value_and_gradient_sum(Logistic(), W), two.value_and_gradient_sum(Logistic(), W), strict=True
    ):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(
        one.curvature_sum(Logistic(), W[:, :2]), two.curvature_sum(Logistic(), W[:, :2])
    )
    np.testing.assert_array_equal(one.row_moments(), two.row_moments())
    np.testing.assert_array_equal(one.square_sum(), two.square_sum())
    for mine, other in zip(one.evaluate(Logistic(), W), two.evaluate(Logistic(), W), strict=True):
        np.testing.assert_array_equal(mine, other)
    moved = [W.copy(), W.copy()]
    whole = one.batches(np.full((1, models), n))
    for engine, w in zip((one, two), moved, strict=True):
        engine.descend(Logistic(), w, whole, np.ones((1, models)), np.zeros(models))
    np.testing.assert_array_equal(moved[0], moved[1])


def test_blas_threads_are_restored():
    from threadpoolctl import ThreadpoolController

    def threads():
        return [library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()]

    before = threads()
    table(Logistic()).open(precise=True).gradient_sum(Logistic(), weights(Logistic(), 7))
    assert threads() == before

    class Broken(UncompiledLogistic):
        def slope(self, margin, y):
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        table(Logistic()).open(precise=True).gradient_sum(Broken(), weights(Logistic(), 7))
    assert threads() == before


@each_engine
def test_arithmetic_is_double_where_it_was_asked_for(kind, storage):
    precise = table(Logistic()).open(storage=storage, engine=kind, precise=True)
    engine = table(Logistic()).open(storage=storage, engine=kind)
    for models in (1, 2):
        assert precise.arithmetic(models) == FLOAT64
        assert engine.arithmetic(models) == (FLOAT32 if (kind, storage) == ("dense", "float32") else FLOAT64)
    assert (engine.n_rows, engine.n_columns) == (N, FEATURES + 1)


@each_engine
def test_every_pass_notes_its_arithmetic(kind, storage):
    """Selected and sampled rows too: what is certified rests on it."""
    for verb, run in VERBS.items():
        for models in (1, 3):
            used = set()
            engine = table(Logistic()).noting(used).open(storage=storage, engine=kind)
            everyone = [FixedSample(np.arange(N))] * models
            for rows in (engine, engine.select(range(models)), engine.sample(everyone)):
                used.clear()
                run(rows, weights(Logistic(), models))
                assert used == {engine.arithmetic(1 if verb in OF_ONE else models)}, verb


def test_batches_are_cut_of_exactly_these_sizes():
    models = 5
    rows = table(Logistic(), models)
    engine = rows.open(FixedOrder(np.random.default_rng(9).permutation(N)))
    counts = engine.evaluate(Logistic(), weights(Logistic(), models)).training_rows
    sizes = np.stack([np.full(models, 1), np.full(models, 800), counts - 801])
    batches = engine.batches(sizes)
    np.testing.assert_array_equal(batches.sizes, sizes)
    edges = batches.edges
    mask = engine._rows.mask
    for k in range(models):
        for j in range(3):
            assert mask[edges[j, k] : edges[j + 1, k], k].sum() == sizes[j, k]
        assert (edges[0, k], edges[3, k]) == (0, N)
    plain = table(Logistic()).open(precise=True).batches([[11], [N - 11]])
    np.testing.assert_array_equal(plain.edges, [[0], [11], [N]])
    np.testing.assert_array_equal(plain.only(1).edges, [[11], [N]])


@each_engine
def test_selected_models_keep_their_own_rows(kind, storage):
    loss, W = Logistic(), weights(Logistic(), 7)
    rows = table(loss, 7)
    engine = rows.open(storage=storage, engine=kind)
    whole = engine.gradient_sum(loss, W)
    for part in (engine.select([5, 2]), rows.select([5, 2]).open(storage=storage, engine=kind)):
        found = part.gradient_sum(loss, W[:, [5, 2]])
        assert np.linalg.norm(found - whole[:, [5, 2]], axis=0).max() <= tolerance(engine, loss, W)
    np.testing.assert_array_equal(engine.gradient_sum(loss, W), whole)
    unmasked = table(loss)
    assert unmasked.select([0]) is unmasked
    opened = unmasked.open(storage=storage, engine=kind)
    assert opened.select([0]) is opened


@pytest.mark.together
@pytest.mark.parametrize(
    ("sizes", "message"),
    [([[10], [20]], "must sum"), ([[0], [N]], "at least 1"), ([[0.5], [1.5]], "whole"), ([N], "shape")],
)
def test_batches_refuse_sizes_that_do_not_fit(sizes, message):
    with pytest.raises(InvalidInput, match=message):
        table(Logistic()).open(precise=True).batches(sizes)


def test_wrong_arguments_are_refused():
    loss = Logistic()
    engine = table(loss, 3).open(precise=True)
    W = weights(loss, 3)
    for bad in (W.astype(np.float32), W[:-1], W[:, :2], W[:, 0], np.full_like(W, np.nan), W * 1e307):
        with pytest.raises(InvalidInput):
            engine.gradient_sum(loss, bad)
    ok = np.array([0, 5, 9])
    for start, stop in ((ok, ok - 1), (ok - 1, ok), (ok, ok + N), (ok[:2], ok[:2])):
        with pytest.raises(InvalidInput, match="batch"):
            engine.gradient_sum(loss, W, batch=between(start, stop))
    three = engine.batches(np.stack([np.full(3, 5), engine.evaluate(loss, W).training_rows - 5]))
    with pytest.raises(InvalidInput, match="single batch"):
        engine.gradient_sum(loss, W, batch=three)
    for clip in ([0.1, 0.2], [0.1, 0.2, 0.0], [0.1, np.inf, 0.1], [0.1, np.nan, 0.1]):
        with pytest.raises(InvalidInput, match="clip"):
            engine.gradient_sum(loss, W, clip=clip)
    one = np.ones((2, 3))
    for steps in (one[:, :2], one[:1], one[:0]):
        with pytest.raises(InvalidInput, match="batches and steps"):
            engine.descend(loss, W, three, steps, one[0])
    with pytest.raises(InvalidInput, match="iterate_sum"):
        engine.descend(loss, W, three, one, one[0], np.zeros(3))


@pytest.mark.parametrize("models", [1, 3])
def test_an_epoch_that_diverges_is_refused(models):
    loss = Linear()
    engine = table(loss).open(precise=True)
    W = np.zeros((FEATURES + 1, models))
    sizes = np.full((1, models), N)
    with pytest.raises(InvalidInput, match="not finite"):
        engine.descend(
            loss, W, engine.batches(sizes), np.full((1, models), np.finfo(float).max), np.zeros(models)
        )


@pytest.mark.cover(2)
@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
@each_engine
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=lambda loss: loss.name)
def test_a_sample_is_its_rows_and_no_others(loss, kind, storage, share, masked, models):
    """Positions count among a model's own rows; none, few and most of them, with and without a mask."""
    rng = np.random.default_rng(6)
    rows = table(loss, models if masked else None)
    X, y = data(loss)
    mask = np.random.default_rng(2).random((N, models)) < 0.8 if masked else np.ones((N, models), bool)
    positions = [np.flatnonzero(rng.random(mask[:, k].sum()) < share) for k in range(models)]
    chosen = np.zeros((N, models), bool)
    for k in range(models):
        chosen[np.flatnonzero(mask[:, k])[positions[k]], k] = True
    expected = dense_table(X, y, x_norm=X_NORM, intercept=INTERCEPT, n_rows=N, mask=chosen).open(
        storage=storage, engine="reference"
    )
    whole = rows.open(storage=storage, engine=kind)
    W, clip = weights(loss, models), np.full(models, 0.3)
    found = whole.sample([FixedSample(chosen) for chosen in positions])
    for options_ in ({}, {"clip": clip}):
        error = found.gradient_sum(loss, W, **options_) - expected.gradient_sum(loss, W, **options_)
        assert np.linalg.norm(error) <= models * tolerance(found, loss, W)
    if share == 0:
        assert (found.gradient_sum(loss, W) == 0).all()
    else:
        other = whole.gradient_sum(loss, W) - found.gradient_sum(loss, W)
        assert np.linalg.norm(other) > 100 * tolerance(found, loss, W)
    assert whole.n_rows == N


def test_a_sample_refuses_positions_outside_a_models_rows():
    engine = table(Logistic(), 2).open(precise=True)
    counts = engine._own_counts(2)
    for bad in ([[0], [counts[1]]], [[-1], [0]]):
        with pytest.raises(InvalidInput, match="positions of model"):
            engine.sample([FixedSample(chosen) for chosen in bad])
    with pytest.raises(InvalidInput, match="mask is for 2 models"):
        engine.sample([FixedSample([0])])
