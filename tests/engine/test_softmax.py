"""The compiled softmax equals the oracle for any shape, and its slopes are as exact as the contract says."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from engine_tables import between, dense_table

from dperm.arithmetic import FLOAT64
from dperm.engine.base.intrinsics import VECTOR_BYTES
from dperm.engine.base.softmax_kernels import BLOCK, CHUNK, ROWS, TILE, WIDTH
from dperm.errors import InvalidInput
from dperm.losses import Softmax

X_NORM, INTERCEPT = 1.0, 0.4
RADIUS = np.hypot(X_NORM, INTERCEPT)
STORAGES = ["float32", "float64"]


class UncompiledSoftmax(Softmax):
    """The same formulas, but not the type that has compiled ones."""


def table(n, features, classes, models=None):
    rng = np.random.default_rng([n, features, classes])
    X = rng.standard_normal((n, features)) * 1.2 / np.sqrt(features)
    mask = None if models is None else rng.random((n, models)) < 0.7
    y = rng.integers(classes, size=n)
    return dense_table(X, y, x_norm=X_NORM, intercept=INTERCEPT, n_rows=n, mask=mask)


def weights(features, models, classes):
    return 2 * np.random.default_rng([3, features]).standard_normal((features + 1, models, classes))


def options(n, models):
    rng = np.random.default_rng(4)
    start = rng.integers(0, n // 2 + 1, models)
    return {
        "batch": between(start, rng.integers(start, n + 1, models)),
        "clip": rng.uniform(0.2, 1.0, models),
    }


def largest_error(engine, oracle, W, loss, **chosen):
    gap = engine.gradient_sum(loss, W, **chosen) - oracle.gradient_sum(loss, W, **chosen)
    return np.linalg.norm(gap, axis=(0, 2)).max()


def allowed(engine, W, n):
    """A few roundings of the margin, and of the sum, for each row: tighter than the contract's worst case."""
    double = engine.arithmetic(W.shape[1]) == FLOAT64
    unit, slope = (2.0**-53, 2e-14) if double else (2.0**-24, 1.5e-6)
    return n * RADIUS * (slope + 8 * np.sqrt(len(W)) * unit * RADIUS * np.abs(W).max())


# Columns below, at and above the tiles of the kernel, with an intercept column; classes likewise.
LANES = VECTOR_BYTES // 8
COLUMNS = [1, LANES - 1, LANES, WIDTH * LANES - 1, WIDTH * LANES + LANES + 2, 2 * WIDTH * LANES]
CLASSES = [2, TILE, TILE + 1, 2 * TILE]


@pytest.mark.together
@pytest.mark.cover(2)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("classes", CLASSES)
def test_one_model_equals_the_oracle_for_any_shape(columns, classes, storage):
    loss, W = Softmax(classes), weights(columns, 1, classes)
    for n in (1, ROWS, BLOCK - 1, BLOCK, 3 * BLOCK + ROWS + 1):
        for masked in (None, 1):
            rows = table(n, columns, classes, masked)
            engine, oracle = (rows.open(storage=storage, engine=kind) for kind in ("dense", "reference"))
            bound = allowed(engine, W, n)
            assert largest_error(engine, oracle, W, loss) <= bound
            assert largest_error(engine, oracle, W, loss, **options(n, 1)) <= bound
            value, gradient = engine.value_and_gradient_sum(loss, W)
            np.testing.assert_array_equal(gradient, engine.gradient_sum(loss, W))
            rounding = 1e-12 if storage == "float64" else 1e-5
            np.testing.assert_allclose(value, oracle.value_sum(loss, W), rtol=rounding, atol=rounding)
    assert np.linalg.norm(gradient) > (1e5 if storage == "float64" else 10) * bound


@pytest.mark.cover(2)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("models", [2, 5, 13])
@pytest.mark.parametrize("classes", [3, 10])
def test_many_models_equal_the_oracle(models, classes, storage):
    n, columns = 3000, 17
    loss, W = Softmax(classes), weights(columns, models, classes)
    for masked in (None, models):
        rows = table(n, columns, classes, masked)
        engine, oracle = (rows.open(storage=storage, engine=kind) for kind in ("dense", "reference"))
        bound = allowed(engine, W, n)
        assert largest_error(engine, oracle, W, loss) <= bound
        assert largest_error(engine, oracle, W, loss, **options(n, models)) <= bound
        found, expected = engine.evaluate(loss, W), oracle.evaluate(loss, W)
        rounding = 1e-12 if storage == "float64" else 1e-5
        np.testing.assert_allclose(found.training_loss, expected.training_loss, rtol=rounding)
        top = np.sort(oracle.margins(W), axis=-1)
        close_calls = (top[..., -1] - top[..., -2] < rounding).sum()
        for name in ("training_correct", "held_out_correct"):
            assert np.abs(getattr(found, name) - getattr(expected, name)).max() <= close_calls
        assert bool(found.held_out_correct.sum() > 0) is (masked is not None)


def test_ties_go_to_the_first_class():
    engine = table(200, 3, 4).open(precise=True)
    for models in (1, 2):
        found = engine.evaluate(Softmax(4), np.zeros((4, models, 4)))
        np.testing.assert_array_equal(found.training_correct, (engine._rows.y == 0).sum())


def test_the_uncompiled_loss_gives_the_same():
    rows = table(1000, 21, 6, 4)
    W = weights(21, 4, 6)
    engine = rows.open(storage="float64")
    chosen = options(1000, 4)
    found = engine.gradient_sum(UncompiledSoftmax(6), W, **chosen)
    assert np.linalg.norm(found - engine.gradient_sum(Softmax(6), W, **chosen)) <= allowed(engine, W, 1000)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("models", [1, 2])
def test_the_clip_bounds_the_whole_gradient_of_a_row(models, storage):
    """The norm of the slopes of all classes times the norm of the row, in exact arithmetic."""
    engine = table(90, 5, 4).open(storage=storage)
    W, bites = weights(5, models, 4), 0
    for clip in (0.5, 1e-2, 3e-7):
        for i in range(0, 90, 7):
            here = between(np.full(models, i), np.full(models, i + 1))
            squares = [
                sum(Fraction(float(v)) ** 2 for v in gradient[:, 0].flat)
                for gradient in (
                    engine.gradient_sum(Softmax(4), W, batch=here, clip=c)
                    for c in (np.full(models, clip), None)
                )
            ]
            assert squares[0] <= Fraction(clip) ** 2 * (1 + Fraction(2) ** -46)
            assert squares[0] >= min(squares[1], Fraction(clip) ** 2) * Fraction(9999, 10000)
            bites += squares[1] > Fraction(clip) ** 2
    assert bites > 20


def test_a_huge_clip_changes_nothing():
    engine, W = table(50, 5, 3).open(storage="float32"), weights(5, 2, 3)
    free = engine.gradient_sum(Softmax(3), W)
    np.testing.assert_array_equal(engine.gradient_sum(Softmax(3), W, clip=np.full(2, 1e30)), free)


@pytest.mark.parametrize("storage", STORAGES)
def test_threads_do_not_change_a_bit(storage):
    n, columns, classes = 30_000, 40, 7
    rows = table(n, columns, classes)
    one, two = (rows.open(storage=storage, threads=threads) for threads in (1, 2))
    for models in (1, 3):
        W = weights(columns, models, classes)
        for mine, other in zip(
            one.value_and_gradient_sum(Softmax(classes), W),
            two.value_and_gradient_sum(Softmax(classes), W),
            strict=True,
        ):
            np.testing.assert_array_equal(mine, other)


def test_labels_outside_the_classes_are_refused():
    engine, W = table(60, 4, 5).open(precise=True), weights(4, 1, 3)
    for verb in (engine.gradient_sum, engine.value_sum, engine.evaluate):
        with pytest.raises(InvalidInput, match="from 0 to 2"):
            verb(Softmax(3), W)
    negative = dense_table(np.ones((2, 4)), [-1, 1], x_norm=1.0, intercept=INTERCEPT, n_rows=2).open(
        precise=True
    )
    with pytest.raises(InvalidInput, match="from 0 to 2"):
        negative.gradient_sum(Softmax(3), W)


def margins_for(classes):
    """Rows of margins: ordinary, far apart, all equal, and such that the exponentials differ much."""
    rng = np.random.default_rng(classes)
    rows = [rng.uniform(-3, 3, classes) for _ in range(25)]
    rows += [rng.uniform(-40, 40, classes) for _ in range(5)]
    rows += [
        np.zeros(classes),
        np.full(classes, 1000.0),
        -1000 * np.eye(classes)[0],
        1000 * np.eye(classes)[1],
    ]
    return np.array(rows)


@pytest.mark.parametrize("classes", [2, 3, 10, CHUNK + 1, 300])
def test_slopes_are_exact_to_the_stated_precision(classes):
    """Row i is half the i-th unit vector, so that W holds the margins themselves."""
    margins = margins_for(classes)
    n = len(margins)
    y = np.arange(n) % classes
    loss, W = Softmax(classes), 2 * margins[:, None, :]
    with mpmath.workdps(50):
        powers = [[mpmath.exp(m) for m in row] for row in margins]
        totals = [mpmath.fsum(row) for row in powers]
        slopes = [
            [power / total - (c == label) for c, power in enumerate(row)]
            for row, total, label in zip(powers, totals, y, strict=True)
        ]
        values = [
            mpmath.log(total) - row[label] for total, row, label in zip(totals, margins, y, strict=True)
        ]
        for storage, models in (("float64", 1), ("float32", 1), ("float64", 2)):
            engine = dense_table(0.5 * np.eye(n), y, x_norm=1.0, intercept=0.0, n_rows=n).open(
                storage=storage, precise=True
            )
            found = 2 * engine.gradient_sum(loss, np.repeat(W, models, axis=1))[:, -1]
            for row, exact in zip(found, slopes, strict=True):
                error = mpmath.sqrt(sum((mpmath.mpf(f) - e) ** 2 for f, e in zip(row, exact, strict=True)))
                assert error <= 1e-14 * loss.lipschitz
            total = engine.value_sum(loss, np.repeat(W, models, axis=1))[-1]
            assert abs(total - sum(values)) <= 1e-14 * sum(1 + abs(v) for v in values)
        narrow = dense_table(0.5 * np.eye(n), y, x_norm=1.0, intercept=0.0, n_rows=n).open(storage="float32")
        ordinary = np.repeat(W, 2, axis=1)[:25]
        found = 2 * narrow.gradient_sum(loss, np.concatenate([ordinary, 0 * W[25:].repeat(2, 1)]))[:25, 1]
        gap = found - np.array(slopes[:25]).astype(float)
        rounding = 2.0**-24 * np.abs(margins[:25]).max()  # of the weights to float32
        assert np.linalg.norm(gap, axis=1).max() <= (1e-6 + loss.smoothness * rounding) * loss.lipschitz


def test_every_computed_slope_sums_to_zero():
    """A wrong normalisation in some lane would show as a gradient that is not orthogonal to the all-ones class."""
    engine, W = table(1000, 9, 6).open(precise=True), weights(9, 1, 6)
    gradient = engine.gradient_sum(Softmax(6), W)
    assert np.abs(gradient.sum(axis=2)).max() <= 1e-11
    assert np.abs(gradient).min(axis=2).max() > 1e-3
