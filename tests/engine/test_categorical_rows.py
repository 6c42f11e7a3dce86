"""What is particular to categorical rows: bounds, parts that round alike, memory maps, and the dense way out."""

from fractions import Fraction

import numpy as np
import pytest
from engine_tables import FixedOrder
from kind_categorical import LAYOUT, native, table

import dperm_audit.replay as replays
from dperm.arithmetic import FLOAT64
from dperm.codes import CodedTable, CodeLayout, Levels, Number
from dperm.datasets import load_adult
from dperm.engine import Table, engine_for
from dperm.engine.base.engine import Wanted
from dperm.engine.categorical.engine import CategoricalEngine
from dperm.engine.categorical.rows import CategoricalRows
from dperm.engine.dense.engine import DenseEngine
from dperm.errors import InvalidInput
from dperm.losses import Logistic
from dperm.mechanisms import DPGD, Auto, Objective
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.row_map import RowMap
from dperm_audit.neighbours import Pair
from dperm_audit.watch import WatchedTable

N = 1500
LOSS = Logistic()


def moving(seed=0, x_norm=2.0, columns=LAYOUT.n_columns):
    rng = np.random.default_rng(seed)
    return RowMap(
        x_norm=x_norm,
        intercept=0.5,
        centre=rng.uniform(-0.1, 0.1, columns),
        scale=rng.uniform(0.3, 1.5, columns),
    )


def opened(held, row_map, n_rows=None, **how):
    y = np.where(np.arange(len(held)) % 3 == 0, 1.0, -1.0)
    return CategoricalRows(held, y, row_map=row_map, n_rows=n_rows or len(held)).open(**how)


@pytest.mark.cover(1)
@pytest.mark.parametrize("x_norm", [0.3, 0.9, 1.3, 2.0])
@pytest.mark.parametrize("moves", [False, True])
def test_no_row_is_longer_than_its_bound_in_exact_arithmetic(x_norm, moves):
    row_map = moving(x_norm=x_norm) if moves else RowMap(x_norm=x_norm, intercept=0.5)
    rows = opened(table(200, 3), row_map, engine="reference")._rows
    entries, bound = rows.entries, Fraction(x_norm) ** 2
    codes, floats = rows.table.rows(0, 200)
    longest = Fraction(0)
    for i in range(200):
        exact = _exact_entries(entries, codes[i], floats[i])
        inner, outer = Fraction(float(rows.inner[i])), Fraction(float(rows.outer[i]))
        moved = [Fraction(float(m)) for m in rows.moved] or [Fraction(0)] * len(exact)
        square = sum((inner * v - outer * m) ** 2 for v, m in zip(exact, moved, strict=True))
        assert square <= bound
        whole = square + Fraction(0.5) ** 2
        assert Fraction(float(rows.inverse_norm[i])) ** 2 * whole <= 1
        longest = max(longest, square)
    assert longest > bound * Fraction(999, 1000) or x_norm == 2.0  # the bound is met where it binds


def _exact_entries(entries, codes, floats):
    """The row before its factors, as fractions of the stored numbers."""
    exact = [Fraction(float(v)) for v in entries.off]
    on, zero = ([Fraction(float(v)) for v in part] for part in (entries.on, entries.zero))
    for group, joint in zip(LAYOUT.groups, codes.tolist(), strict=True):
        for i in group:
            levels = LAYOUT.levels[i]
            code = joint // LAYOUT.strides[i] % levels.n_codes
            for j in range(levels.first, levels.first + levels.count):
                exact[j] = zero[j] if code == 0 else exact[j]
            if code:
                exact[levels.first + code - 1] = on[levels.first + code - 1]
    for number, value in zip(LAYOUT.numbers, floats.tolist(), strict=False):
        exact[number.column] = Fraction(value) * on[number.column] + exact[number.column]
    (spline,), place = LAYOUT.splines, Fraction(float(floats[-1]))
    slopes = [Fraction(float(v)) for v in entries.slopes]
    if place == 0:
        for j in (spline.linear, *range(spline.first, spline.first + spline.count)):
            exact[j] = zero[j]
        return exact
    left = min(int(place), spline.count - 1)
    share, j = place - left, spline.first + left - 1
    exact[spline.linear] = (1 - share) * slopes[left - 1] + share * slopes[left]
    exact[j] = (1 - share) * on[j] + share * exact[j]
    exact[j + 1] = share * on[j + 1] + (1 - share) * exact[j + 1]
    return exact


@pytest.mark.parametrize("models", [1, 20])
def test_parts_without_the_changed_row_round_alike(models, monkeypatch):
    """Bit for bit, as the allowance for shared rows assumes; the one other part differs."""
    held, n = table(30_000, 5), 30_000
    floats = held.floats.copy()
    floats[n // 128, 0, 3] *= -0.5
    other = CodedTable(held.layout, held.codes, floats, n)
    W = np.random.default_rng(1).standard_normal((LAYOUT.n_columns + 1, models))
    one, two = (opened(rows, moving(), threads=1) for rows in (held, other))
    sums = []
    for engine in (one, two):
        parts = engine._ranges(0, n, 4 if models == 1 else 1)
        assert len(parts) > 3
        alone = [engine._range_sums(LOSS, W, *_edges(part, models), Wanted(True, True)) for part in parts]
        sums.append([np.concatenate([value, gradient.ravel()]).tobytes() for value, gradient in alone])
    same = [a == b for a, b in zip(*sums, strict=True)]
    assert same.count(False) == 1


def _edges(part, models):
    return np.full(models, part[0], np.int64), np.full(models, part[1], np.int64)


def test_results_do_not_depend_on_threads():
    held, W = table(40_000, 5), np.ones((LAYOUT.n_columns + 1, 17))
    one, many = (opened(held, moving(), threads=threads) for threads in (1, 3))
    assert np.array_equal(one.gradient_sum(LOSS, W), many.gradient_sum(LOSS, W))
    assert np.array_equal(one.gradient_sum(LOSS, W[:, :1]), many.gradient_sum(LOSS, W[:, :1]))


def test_memory_maps_are_passed_over_in_place(tmp_path):
    held = table(N, 2)
    maps = {}
    for name, array in held.arrays().items():
        np.save(tmp_path / name, array)
        maps[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    mapped = CodedTable.from_arrays(LAYOUT, maps, N)
    engine = opened(mapped, moving())
    assert np.shares_memory(engine._rows.table.codes, maps["codes"])
    assert np.shares_memory(engine._rows.table.floats, maps["floats"])
    W = np.ones((LAYOUT.n_columns + 1, 1))
    assert np.array_equal(engine.gradient_sum(LOSS, W), opened(held, moving()).gradient_sum(LOSS, W))


def test_an_order_moves_rows():
    held, order = table(N, 2), np.random.default_rng(0).permutation(N + 30)
    engine = opened(held, RowMap(x_norm=2.0, intercept=0.5), N + 30, order=FixedOrder(order))
    expected = np.pad(np.column_stack([held.toarray(), np.full(N, 0.5)]), ((0, 30), (0, 0)))[order]
    np.testing.assert_allclose(engine._rows.densely(0, N + 30), expected, rtol=0, atol=1e-15)


def test_codes_that_the_layout_does_not_know_are_refused():
    held = table(N, 2)
    for name, place, wrong in (
        ("codes", 0, 65_000),
        ("floats", 0, 1.5),
        ("floats", 0, np.nan),
        ("floats", 2, 9.0),
    ):
        arrays = {key: array.copy() for key, array in held.arrays().items()}
        arrays[name][-1, place, -1] = wrong  # in what fills up the last block, too
        with pytest.raises(InvalidInput, match="layout"):
            opened(CodedTable.from_arrays(LAYOUT, arrays, N), moving())


def test_maps_that_would_cancel_are_opened_as_floats():
    """A far centre of rows that are cut first: parts would be long, and cancel."""
    held, near = table(N, 2), moving(x_norm=1.0)
    far = RowMap(x_norm=1.0, intercept=0.5, centre=np.full(LAYOUT.n_columns, 0.9), scale=near.scale / 5)
    assert isinstance(opened(held, near), CategoricalEngine)
    engine = opened(held, far)
    assert isinstance(engine, DenseEngine)
    few = CodeLayout(
        n_columns=2,
        levels=(),
        numbers=(Number(column=0, size=0.5), Number(column=1, size=0.5)),
        splines=(),
        reach=1.0,
    )
    floats = np.random.default_rng(0).uniform(-1, 1, (N, 2)).astype(np.float32)
    few_columns = CodedTable.from_rows(few, np.zeros((N, 0), np.uint16), floats)
    assert isinstance(opened(few_columns, RowMap(x_norm=1.0, intercept=0.5)), DenseEngine)


def test_many_levels_have_wider_codes():
    layout = CodeLayout(
        n_columns=70_000,
        levels=(Levels(first=0, count=70_000, zero=0.0, off=-1 / 70_000, on=1 - 1 / 70_000),),
        numbers=(),
        splines=(),
        reach=1.0,
    )
    codes = np.random.default_rng(0).integers(70_001, size=(50, 1)).astype(layout.code_type)
    held = CodedTable.from_rows(layout, codes, np.zeros((50, 0), np.float32))
    assert held.codes.dtype == np.uint32
    W = np.random.default_rng(1).standard_normal((70_000, 1))
    mine = opened(held, RowMap(x_norm=1.0))
    assert isinstance(mine, CategoricalEngine)
    np.testing.assert_allclose(mine.margins(W), held.toarray() @ W, rtol=0, atol=1e-12)


def test_standardised_adult_stays_coded():
    """The map that the default fits with neither cancels nor needs coarser arithmetic."""
    adult = load_adult().part("test")
    X = adult.coded.toarray()
    row_map = RowMap(x_norm=1.0, intercept=0.3, centre=X.mean(axis=0), scale=X.std(axis=0) * 4 + 0.02)
    rows = engine_for(adult.coded).of(adult.coded, np.ones(len(X)), row_map=row_map, n_rows=len(X))
    engine = rows.open(precise=True)
    assert isinstance(engine, CategoricalEngine)
    assert engine.arithmetic(100) == FLOAT64


class WatchedCodes(WatchedTable):
    """Watched rows that the coded engine opens."""

    def _stored(self, request):
        return self._codes()._stored(request)

    def _engine(self, request):
        return self._codes()._engine(request)

    def _codes(self):
        rows = CategoricalRows(
            native(self._X), self._y, row_map=self._map, n_rows=self._n_rows, mask=self._mask
        )
        return rows.noting(self._used)


@pytest.mark.parametrize(
    "mechanism",
    [Objective(), DPGD(steps=5), Auto(), Objective(standardise="bounded")],
    ids=lambda m: repr(m)[:40],
)
def test_neighbours_stay_within_the_declared_sensitivity(mechanism, monkeypatch):
    """Coded neighbours, replayed with the same randomness: every distance is within what the plan declares."""
    n = 300
    problem = Problem(loss=LOSS, l2=0.05, x_norm=1.0, n_rows=n, n_features=LAYOUT.n_columns, intercept=0.3)
    monkeypatch.setattr(
        replays,
        "table_of",
        lambda facts, rows, models=1: WatchedCodes(
            *rows,
            row_map=facts.row_map,
            n_rows=facts.n_rows,
            mask=None if models == 1 else np.ones((facts.n_rows, models), np.uint8),
        ),
    )
    held = table(n + 1, 8).toarray()
    X, y = held[:n], np.where(held[:n, 0] > 0, 1.0, -1.0)
    other, labels = X.copy(), y.copy()
    other[7], labels[7] = held[n], -y[7]
    pair = Pair(name="categorical", left=(X, y), right=(other, labels), row=7)
    report = replays.replay(mechanism, problem, Budget(1.0, 1e-6), pair)
    assert report.passed, str(report)
    assert report.events
    assert 0 < report.largest_share <= 1


def test_the_dense_engine_takes_it_as_an_array():
    held = table(20, 1)
    assert engine_for(held) is CategoricalRows
    assert np.array_equal(Table(held, np.ones(20), row_map=moving(), n_rows=20)._X, held.toarray())
