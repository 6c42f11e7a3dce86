"""Large tables are stored as float32; what a precise pass computes of them is as exact as of float64 rows."""

import numpy as np
import pytest
from engine_tables import dense_table

from dperm.arithmetic import FLOAT32, FLOAT64
from dperm.engine import Table
from dperm.errors import InvalidInput
from dperm.losses import HuberHinge, Logistic
from dperm.row_map import RowMap

N, P = 6000, 40


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, P)) / 5, np.where(rng.random(N) < 0.5, -1.0, 1.0)


def seen(row_map: RowMap, dtype: type = np.float64) -> Table:
    X, y = rows()
    return Table(X.astype(dtype), y, row_map=row_map, n_rows=N + 3)


MAP = RowMap(x_norm=1.0, intercept=0.3, centre=np.linspace(-0.1, 0.1, P), scale=np.linspace(0.5, 1.5, P))


@pytest.mark.together
@pytest.mark.parametrize("models", [1, 2, 7])
def test_precise_passes_over_float32_rows_are_float64(models: int) -> None:
    """Against 64-bit mantissas. The control, passes that are not asked to be precise, fails by far."""
    W = np.random.default_rng(1).standard_normal((P + 1, models))
    errors = {}
    for precise in (True, False):
        engine = seen(MAP).open(precise=precise, storage=np.float32)
        X, y = engine._rows.X.astype(np.longdouble), engine._rows.y.astype(np.longdouble)
        assert engine._rows.X.dtype == np.float32
        exact = X.T @ Logistic().slope(X @ W.astype(np.longdouble), y[:, None])
        errors[precise] = float(np.abs(engine.gradient_sum(Logistic(), W) - exact).max())
        assert engine.arithmetic(models) == (FLOAT64 if precise else FLOAT32)
    assert errors[True] <= 1e-13 * N
    assert errors[False] > 1e3 * errors[True]


@pytest.mark.together
@pytest.mark.parametrize("facts", [{"x_norm": 1e40}, {"x_norm": 1e-40}, {"intercept": 1e-35}], ids=str)
def test_bounds_beyond_float32_are_stored_as_float64(facts: dict, monkeypatch) -> None:
    """The bounds decide, not the rows."""
    monkeypatch.setattr("dperm.engine.base.rows._SMALL", 0)
    for X in (np.zeros((5, 2)), np.full((5, 2), 1e300)):
        table = dense_table(X, np.ones(5), **({"x_norm": 1.0, "intercept": 0.3, "n_rows": 5} | facts))
        assert table.open(precise=True)._rows.X.dtype == np.float64
        with pytest.raises(InvalidInput, match="float32"):
            table.open()


def test_large_tables_are_stored_as_float32_by_their_public_size() -> None:
    """Capacity and features decide, not how many rows there are."""
    for capacity, expected in ((2**20, np.float64), (2**20 + 1, np.float32)):
        for n in (0, 1):
            table = dense_table(np.zeros((n, 2)), np.ones(n), x_norm=1.0, intercept=0.3, n_rows=capacity)
            assert table.open(precise=True)._rows.X.dtype == expected
            assert table.open()._rows.X.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row_map", [RowMap(x_norm=1.0), MAP], ids=["bounded", "moved"])
def test_what_is_stored_does_not_depend_on_threads_or_the_other_rows(
    row_map: RowMap, dtype: type, monkeypatch
) -> None:
    monkeypatch.setattr("dperm.engine.dense.rows._STORED_AT_ONCE", 1000)
    monkeypatch.setattr("dperm.engine.dense.rows._ROWS_AT_ONCE", 37)
    whole = seen(row_map, dtype)
    one, three = (whole.open(threads=threads)._rows for threads in (1, 3))
    np.testing.assert_array_equal(one.X, three.X)
    np.testing.assert_array_equal(one.inverse_norm, three.inverse_norm)
    X, y = rows()
    few = Table(X[100:200].astype(dtype), y[100:200], row_map=row_map, n_rows=100).open()._rows
    np.testing.assert_array_equal(one.X[100:200], few.X)


@pytest.mark.parametrize("storage", [np.float32, np.float64])
def test_a_moved_row_is_stored_as_the_map_defines_it(storage: type) -> None:
    """Rows that overflow, rows at the bound, and none longer than it in exact arithmetic on what is stored."""
    X, _ = rows()
    X[:50] *= 1e300
    X[50:100] *= 1e-300
    table = Table(X, np.ones(N), row_map=MAP, n_rows=N)
    held = table.open(storage=storage)._rows.X
    np.testing.assert_allclose(
        held[:, :P], MAP.features(X), rtol=0, atol=3e-7 if storage == np.float32 else 1e-14
    )
    assert np.sqrt((held[:, :P].astype(np.longdouble) ** 2).sum(axis=1)).max() <= 1


def test_a_row_that_is_not_finite_is_refused_through_a_map_too() -> None:
    for wrong in (np.nan, np.inf):
        X, y = rows()
        X[5, 3] = wrong
        with pytest.raises(InvalidInput, match="1 of its 40 columns"):
            Table(X, y, row_map=MAP, n_rows=N).open(precise=True)


def test_a_map_for_other_features_is_refused() -> None:
    with pytest.raises(InvalidInput, match="each of the 40 features"):
        seen(RowMap(x_norm=1.0, centre=np.zeros(P - 1))).open()


@pytest.mark.parametrize("kind", ["dense", "reference"])
def test_sums_of_squares_are_the_diagonal_of_the_moments(kind: str) -> None:
    X, y = rows()
    mask = np.random.default_rng(2).random((500, 3)) < 0.5
    for whose in (None, mask):
        engine = Table(X[:500], y[:500], row_map=MAP, n_rows=500, mask=whose).open(precise=True, engine=kind)
        expected = np.stack([np.diag(moments) for moments in engine.row_moments()], axis=1)
        np.testing.assert_allclose(engine.square_sum(), expected, rtol=1e-13)
    assert np.abs(engine.square_sum() - engine.row_sum()).max() > 1


@pytest.mark.parametrize("name", ["row_sum", "square_sum"])
def test_column_sums_do_not_depend_on_threads(name: str, monkeypatch) -> None:
    monkeypatch.setattr("dperm.engine.dense.engine._FUSED_WORK", 1000)
    one, three = (getattr(seen(MAP).open(threads=threads), name)() for threads in (1, 3))
    np.testing.assert_array_equal(one, three)


def test_the_hessian_of_float32_rows_is_that_of_the_rows() -> None:
    engine, W = seen(MAP).open(precise=True, storage=np.float32), np.full((P + 1, 1), 0.5)
    X, y = engine._rows.X.astype(np.float64), engine._rows.y
    for loss in (Logistic(), HuberHinge(0.5)):
        expected = X.T @ (loss.curvature(X @ W[:, 0], y)[:, None] * X)
        np.testing.assert_allclose(engine.curvature_sum(loss, W)[0], expected, rtol=1e-11, atol=1e-11)
