"""The written precision of the engines, against arithmetic of higher precision."""

import math

import mpmath
import numpy as np
import pytest
from engine_tables import dense_table

from dperm.losses import ClippedSquared, HuberHinge, Linear, Logistic

MARGINS = np.concatenate(
    [
        np.linspace(-40, 40, 161),
        np.random.default_rng(0).uniform(-3, 3, 200),
        [-1000.0, -745.2, -709.5, -708.0, -0.0, 1e-300, -1e-300, 1e-17, 708.0, 709.1, 745.2, 1000.0],
        np.arange(-30, 31) * math.log(2) / 2,  # where the reduced argument of the exponential is largest
    ]
)


def one_margin_per_row(loss, y, models, storage):
    """An engine and weights whose margins are exactly MARGINS: row i is half the i-th unit vector."""
    n = len(MARGINS)
    table = dense_table(0.5 * np.eye(n), np.full(n, y), x_norm=1.0, intercept=0.0, n_rows=n)
    return table.open(storage=storage, precise=models == 1), np.repeat(2 * MARGINS[:, None], models, axis=1)


def exact(loss, margin, y):
    """Slope and value in 60 digits."""
    m, y = mpmath.mpf(float(margin)), mpmath.mpf(float(y))
    if isinstance(loss, Logistic):
        return -y / (1 + mpmath.exp(y * m)), mpmath.log(1 + mpmath.exp(-y * m))
    if isinstance(loss, HuberHinge):
        h, z = mpmath.mpf(loss.width), y * m
        slope = -y * min(max((1 + h - z) / (2 * h), 0), 1)
        return slope, 0 if z > 1 + h else (1 - z if z < 1 - h else (1 + h - z) ** 2 / (4 * h))
    if isinstance(loss, ClippedSquared):
        bound, r = mpmath.mpf(loss.residual_bound), m - y
        value = r * r / 2 if abs(r) <= bound else bound * (abs(r) - bound / 2)
        return min(max(r, -bound), bound), value
    return -y, -y * m


@pytest.mark.cover(1)
@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize(
    "loss",
    [Logistic(), HuberHinge(0.1), HuberHinge(0.5), ClippedSquared(0.7), ClippedSquared(20.0), Linear()],
    ids=str,
)
def test_slopes_are_exact_to_the_stated_precision(loss, y):
    with mpmath.workdps(60):
        slopes, values = np.array([exact(loss, m, y) for m in MARGINS]).T
        for storage, models, allowed in (("float64", 1, 1e-14), ("float32", 1, 1e-14), ("float64", 2, 1e-14)):
            engine, W = one_margin_per_row(loss, y, models, storage)
            if storage == "float32":
                np.testing.assert_array_equal(engine.margins(W)[:, 0], MARGINS)
            found = 2 * engine.gradient_sum(loss, W)[:, -1]
            error = max(abs(mpmath.mpf(f) - s) for f, s in zip(found, slopes, strict=True))
            assert error <= allowed * loss.lipschitz, (storage, models)
            assert np.abs(found).max() <= loss.lipschitz * (1 + allowed)
            total = engine.value_sum(loss, W)[-1]
            scale = sum(1 + abs(v) for v in values)
            assert abs(total - sum(values)) <= 1e-14 * scale, (storage, models)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5), ClippedSquared(0.7), Linear()], ids=str)
def test_float32_slopes(loss):
    engine, W = one_margin_per_row(loss, 1.0, 2, "float32")
    at = engine.margins(W.astype(np.float32).astype(np.float64))[:, 0]
    slopes = np.array([float(exact(loss, m, 1.0)[0]) for m in at])
    found = 2 * engine.gradient_sum(loss, W)[:, 1]
    assert np.abs(found - slopes).max() <= 1e-6 * loss.lipschitz


@pytest.mark.cover(1)
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs a long double wider than a double")
@pytest.mark.parametrize("storage", ["float32", "float64"])
@pytest.mark.parametrize(
    "loss", [Logistic(), HuberHinge(0.5), ClippedSquared(1.0)], ids=lambda loss: loss.name
)
def test_one_model_sums_stay_within_the_written_bound(loss, storage):
    rng = np.random.default_rng(1)
    n, p = 20_001, 37
    X, y = rng.standard_normal((n, p)), np.where(rng.random(n) < 0.5, -1.0, 1.0)
    engine = dense_table(X, y, x_norm=2.0, intercept=0.0, n_rows=n).open(storage=storage, precise=True)
    rows = engine._rows.X.astype(np.longdouble)
    norms = np.sqrt((rows**2).sum(axis=1))
    for size in (0.1, 3.0, 100.0):
        W = rng.standard_normal((p, 1)) * size
        margin = rows @ W.astype(np.longdouble)[:, 0]
        slope = loss.slope(margin, y.astype(np.longdouble))
        error = np.linalg.norm((engine.gradient_sum(loss, W)[:, 0] - rows.T @ slope).astype(float))
        unit = 2.0**-53
        gamma_p, gamma_n = (k * unit / (1 - k * unit) for k in (p, n))
        margin_error = gamma_p * norms * np.linalg.norm(W)
        slope_error = 1e-14 * loss.lipschitz + loss.smoothness * margin_error
        bound = (slope_error * norms).sum() + gamma_n * ((np.abs(slope) + slope_error) * norms).sum()
        assert error <= bound


def test_float32_storage_costs_one_model_no_precision():
    """The same stored rows give the same sum to float64 rounding, far below what float32 sums would."""
    rng = np.random.default_rng(2)
    n, p = 4_000, 50
    X, y = rng.standard_normal((n, p)).astype(np.float32), np.where(rng.random(n) < 0.5, -1.0, 1.0)
    W = rng.standard_normal((p, 1))
    rows = dense_table(X, y, x_norm=1.0, intercept=0.0, n_rows=n)
    narrow = rows.open(precise=True, storage="float32")
    same = dense_table(narrow._rows.X, y, x_norm=1.1, intercept=0.0, n_rows=n).open(storage="float64")
    gap = np.linalg.norm(narrow.gradient_sum(Logistic(), W) - same.gradient_sum(Logistic(), W))
    in_float32 = rows.open(storage="float32").gradient_sum(Logistic(), W)
    assert gap <= 1e-13 * n
    assert np.linalg.norm(in_float32 - same.gradient_sum(Logistic(), W)) > 100 * gap
