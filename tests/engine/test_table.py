"""Opening a table: rows are bounded, ordered, completed, and refused when they are not numbers."""

from fractions import Fraction

import numpy as np
import pytest
from engine_tables import FixedOrder, dense_table
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dperm.errors import InvalidInput

FACTS = {"x_norm": 1.0, "intercept": 0.0, "n_rows": 6}


def stored(X, storage=None, *, x_norm=1.0, intercept=0.0, order=None, **more):
    X = np.asarray(X)
    table = dense_table(X, np.ones(len(X)), x_norm=x_norm, intercept=intercept, n_rows=len(X), **more)
    return table.open(order, storage=storage or np.float64)._rows


def squared_norm(row):
    return sum(Fraction(float(v)) ** 2 for v in row)


def finite(dtype):
    width = 8 * np.dtype(dtype).itemsize
    return st.floats(allow_nan=False, allow_infinity=False, width=width)


@pytest.mark.parametrize("storage", ["float32", "float64"])
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_no_stored_row_is_longer_than_declared(source, storage):
    limit = 99 if storage == "float32" else 399

    @settings(max_examples=60, deadline=None)
    @given(
        X=hnp.arrays(source, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=finite(source)),
        x_norm=st.floats(2.0**-limit, 2.0**limit) | st.floats(0.01, 100),
        near=st.booleans(),
    )
    @example(X=np.full((2, 3), np.finfo(source).max, source), x_norm=2.0**-limit, near=False)
    @example(X=np.array([[1e-300, 1e-45, 1e-40]]).astype(source), x_norm=2.0**-limit, near=False)
    @example(X=np.array([[0.0, 5e-324, -0.0]]).astype(source), x_norm=1.0, near=False)
    def check(X, x_norm, near):
        if near:  # rows whose norm is the bound up to rounding
            norms = np.sqrt((X.astype(np.longdouble) ** 2).sum(axis=1, keepdims=True))
            with np.errstate(over="ignore"):
                X = (X / np.where(norms > 0, norms, 1) * x_norm).astype(source)
            X[~np.isfinite(X)] = 0
        rows = stored(X, storage, x_norm=x_norm)
        assert np.isfinite(rows.X).all()
        for row, inverse in zip(rows.X, rows.inverse_norm, strict=True):
            assert squared_norm(row) <= Fraction(x_norm) ** 2
            assert squared_norm(row) * Fraction(inverse) ** 2 <= 1

    check()


@pytest.mark.cover(1)
@pytest.mark.parametrize(("storage", "close"), [("float32", 4e-7), ("float64", 1e-14)])
@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e5, 1e200])
def test_long_rows_keep_their_direction_and_short_rows_are_untouched(storage, close, scale):
    X = np.random.default_rng(0).standard_normal((200, 9)) * scale
    found = stored(X, storage).X
    norm = np.sqrt((X.astype(np.longdouble) ** 2).sum(axis=1))
    expected = X / np.maximum(1, norm)[:, None]
    np.testing.assert_allclose(found, expected.astype(float), rtol=0, atol=close)
    short = norm < 1 - 1e-6
    np.testing.assert_array_equal(found[short], X[short].astype(storage))


@pytest.mark.cover(1)
@pytest.mark.parametrize("bound", [1.0, np.sqrt(3), 7.3])
@pytest.mark.parametrize("storage", ["float32", "float64"])
def test_unit_rows_of_many_columns(storage, bound):
    """The margin for rounding grows with the number of columns, and suffices."""
    X = np.random.default_rng(1).standard_normal((20, 3000))
    X *= bound / np.linalg.norm(X, axis=1, keepdims=True)
    for row in stored(X, storage, x_norm=bound).X:
        squares = squared_norm(row)
        assert squares <= Fraction(bound) ** 2
        assert squares >= Fraction(bound) ** 2 * (1 - Fraction(1, 10**6))


def test_bounding_a_row_does_not_look_at_the_others():
    X = np.random.default_rng(2).standard_normal((50, 4))
    alone = np.concatenate([stored(X[i : i + 1], "float32").X for i in range(50)])
    np.testing.assert_array_equal(stored(X, "float32").X, alone)


@pytest.mark.cover(1)
@pytest.mark.parametrize("value", [0.1, 1.0, 1 / 3, 0.7])
@pytest.mark.parametrize("storage", ["float32", "float64"])
def test_the_intercept_column_never_exceeds_its_value(storage, value):
    X = stored(np.eye(4) * 0.5, storage, intercept=value).X
    assert X.shape == (4, 5)
    assert (X[:, -1].astype(float) <= value).all()
    assert (np.nextafter(X[:, -1], np.inf).astype(float) > value).all()


def test_the_way_the_rows_are_laid_out_does_not_matter():
    from dperm.engine.dense.kernels import bound_rows

    base = np.random.default_rng(3).integers(-3, 4, (5000, 7))
    expected = stored(base.astype(np.float64)).X
    wide = np.zeros((10000, 14))
    wide[::2, ::2] = base
    frozen = base.astype(np.float64)
    frozen.flags.writeable = False
    for X in (
        np.asfortranarray(base, np.float64),
        wide[::2, ::2],
        frozen,
        base,
        base.astype(np.int8),
        base.astype(np.float16),
        base.astype(np.longdouble),
        base.astype(np.float64)[::-1][::-1],
        base.astype(">f8"),
    ):
        np.testing.assert_array_equal(stored(X, "float64").X, expected)
    np.testing.assert_array_equal(stored(base > 0).X, stored((base > 0).astype(float)).X)
    single = stored(np.asfortranarray(base, np.float32), "float32")
    assert single.X.dtype == np.float32
    assert single.X.flags.c_contiguous
    np.testing.assert_allclose(single.X, expected, atol=4e-7)
    assert stored(base).X.dtype == np.float64
    assert len(bound_rows.signatures) <= 4  # float32 or float64 in, float32 or float64 out


def test_the_input_is_left_alone():
    X = np.random.default_rng(4).standard_normal((20, 3)) * 10
    y = np.ones(20)
    before = X.copy()
    engine = dense_table(X, y, x_norm=1.0, intercept=1.0, n_rows=20).open(precise=True)
    np.testing.assert_array_equal(X, before)
    assert not np.shares_memory(engine._rows.X, X)
    assert not np.shares_memory(engine._rows.y, y)


def test_order_missing_rows_labels_and_mask_move_together():
    rng = np.random.default_rng(5)
    X, y, mask = rng.uniform(0.1, 0.3, (4, 2)), np.array([-1.0, 1.0, -1.0, -1.0]), rng.random((6, 3)) < 0.5
    order = np.array([5, 0, 3, 4, 1, 2])
    rows = (
        dense_table(X, y, x_norm=1.0, intercept=0.5, n_rows=6, mask=mask)
        .open(FixedOrder(order), precise=True)
        ._rows
    )
    whole = np.zeros((6, 3))
    whole[:4, :2], whole[:4, 2] = X, 0.5
    np.testing.assert_array_equal(rows.X, whole[order])
    np.testing.assert_array_equal(rows.y, np.append(y, [1, 1])[order])
    np.testing.assert_array_equal(rows.mask, mask[order])
    assert rows.mask.dtype == np.uint8
    assert np.isfinite(rows.inverse_norm).all()
    nothing = dense_table(np.empty((0, 2)), [], x_norm=1.0, intercept=0.5, n_rows=3).open(precise=True)._rows
    np.testing.assert_array_equal(nothing.X, 0)


@pytest.mark.together
@pytest.mark.parametrize(
    "order", [[0, 1, 2, 3, 4, 4], [0, 1, 2], [0, 1, 2, 3, 4, 6], [-1, 0, 1, 2, 3, 4], [0.0] * 6]
)
def test_order_must_be_a_permutation(order):
    with pytest.raises(InvalidInput, match="permutation"):
        dense_table(np.zeros((6, 2)), np.ones(6), **FACTS).open(FixedOrder(order))


@pytest.mark.cover(2)
@pytest.mark.parametrize("storage", ["float32", "float64"])
@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_numbers_are_refused(source, storage, bad):
    X = np.zeros((9, 5), source)
    X[7, 2], X[8, 4] = bad, bad
    X[7, 0] = 1e30
    with pytest.raises(InvalidInput, match="in 2 of its 5 columns") as caught:
        stored(X, storage)
    assert not {"7", "8", "1e"} & set(str(caught.value).split())


def test_labels_that_are_not_numbers_are_refused():
    with pytest.raises(InvalidInput, match="y holds NaN"):
        dense_table(np.zeros((6, 2)), [1, 1, 1, 1, 1, np.nan], **FACTS).open(precise=True)


@pytest.mark.together
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros(6)}, "2-D"),
        ({"X": np.zeros((6, 0))}, "2-D"),
        ({"X": np.full((6, 2), "a")}, "real numbers"),
        ({"X": np.zeros((6, 2), complex)}, "real numbers"),
        ({"y": np.ones(5)}, "one number per row"),
        ({"n_rows": 5}, "more rows than the declared"),
        ({"mask": np.ones((5, 2), bool)}, "mask"),
        ({"mask": np.full((6, 2), 2)}, "mask"),
        ({"mask": np.ones((6, 2))}, "mask"),
    ],
)
def test_wrong_shapes_are_refused_at_once(change, message):
    with pytest.raises(InvalidInput, match=message):
        dense_table(**({"X": np.zeros((6, 2)), "y": np.ones(6), **FACTS} | change))


@pytest.mark.together
@pytest.mark.parametrize(
    ("facts", "arguments", "message"),
    [
        ({}, {"storage": "float16"}, "storage"),
        ({}, {"engine": "sparse"}, "engine"),
        ({}, {"threads": 0}, "threads"),
        ({"x_norm": 0.0}, {}, "x_norm"),
        ({"x_norm": np.nan}, {}, "x_norm"),
        ({"x_norm": 1e40}, {"storage": "float32"}, "store them as float64"),
        ({"x_norm": 1e-40}, {"storage": "float32"}, "store them as float64"),
        ({"intercept": -1.0}, {}, "intercept"),
        ({"intercept": 1e-50}, {"storage": "float32"}, "intercept"),
    ],
)
def test_wrong_settings_are_refused(facts, arguments, message):
    table = dense_table(np.zeros((6, 2)), np.ones(6), **(FACTS | facts))
    with pytest.raises(InvalidInput, match=message):
        table.open(**arguments)
