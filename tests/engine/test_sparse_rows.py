"""Sparse rows: the same sums as dense ones, bounds that hold exactly, and nothing that depends on other rows."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from engine_tables import FixedOrder, FixedSample, between
from scipy import sparse

from dperm.arithmetic import FLOAT64
from dperm.engine import Table, engine_for
from dperm.engine.sparse.engine import SparseEngine, arithmetic_at
from dperm.engine.sparse.rows import SparseRows
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Softmax
from dperm.row_map import RowMap

N, FEATURES, MODELS = 1500, 40, 11
RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((N, FEATURES)) < 0.15, RNG.standard_normal((N, FEATURES)) * 0.6, 0.0)
CENTRE, SCALE = RNG.standard_normal(FEATURES) * 0.1, RNG.uniform(0.5, 2.0, FEATURES)
LOSSES = [Logistic(), HuberHinge(0.5), ClippedSquared(0.8), type("Plain", (Logistic,), {})(), Softmax(3)]
MAPS = {
    "bounded": RowMap(x_norm=1.0, intercept=0.3),
    "no intercept": RowMap(x_norm=1.0),
    "centred": RowMap(x_norm=1.0, intercept=0.3, centre=CENTRE, scale=SCALE),
    "scaled": RowMap(x_norm=1.0, intercept=0.3, scale=SCALE),
    "far": RowMap(x_norm=1.0, intercept=0.3, centre=50 * CENTRE, scale=SCALE),
}


@pytest.fixture(autouse=True)
def always_sparse(monkeypatch):
    """Few columns with a far centre would otherwise be held densely."""
    monkeypatch.setattr("dperm.engine.sparse.rows._DENSE_AT_MOST", 0)


each_map = pytest.mark.parametrize("row_map", MAPS.values(), ids=MAPS.keys())
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


def labels(loss):
    rng = np.random.default_rng(1)
    return rng.integers(3, size=N).astype(float) if loss.outputs > 1 else rng.choice([-1.0, 1.0], N)


def weights(loss, row_map, models):
    columns = FEATURES + (row_map.intercept > 0)
    shape = (columns, models) if loss.outputs == 1 else (columns, models, loss.outputs)
    return np.random.default_rng(2).standard_normal(shape)


def held(row_map, loss=LOSSES[0], X=DENSE, **facts):
    given = sparse.csr_array(X)
    return SparseRows(given, labels(loss)[: given.shape[0]], row_map=row_map, **{"n_rows": N, **facts})


def agree(found, expected, row_map):
    """To some roundings of a sum, of rows as long as the centre is far."""
    reach = 1.0 if row_map.centre is None else 1 + 2 * np.linalg.norm(row_map.centre / row_map.scale)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12 * N * reach)


@pytest.mark.cover(1)
@pytest.mark.parametrize("storage", ["float32", "float64"])
@each_map
def test_stored_rows_are_those_of_a_dense_table(row_map, storage):
    found = held(row_map).open(storage=storage)._rows.densely(0, N)
    dense = Table(DENSE, labels(LOSSES[0]), row_map=row_map, n_rows=N)
    expected = dense.open(storage="float64", engine="reference")._rows.densely(0, N)
    reach = np.abs(expected).max() + (0 if row_map.centre is None else np.abs(row_map.centre).max())
    np.testing.assert_allclose(found, expected, atol=(1e-8 if storage == "float64" else 3e-7) * reach)


@pytest.mark.cover(2)
@pytest.mark.parametrize("models", [1, MODELS])
@each_map
@each_loss
def test_every_sum_equals_the_oracle(loss, row_map, models):
    rng = np.random.default_rng(3)
    mask = rng.random((N, models)) < 0.7
    W = weights(loss, row_map, models)
    cases = product([None, mask], [None, rng.uniform(0.05, 0.4, models)], [False, True])
    for own, clip, part in cases:
        rows = held(row_map, loss, mask=own)
        engine, oracle = rows.open(), rows.open(engine="reference")
        batch = between(rng.integers(0, 500, models), rng.integers(900, N + 1, models)) if part else None
        found, expected = (side.gradient_sum(loss, W, clip=clip, batch=batch) for side in (engine, oracle))
        agree(found, expected, row_map)
        assert np.linalg.norm(expected) > 1
    for found, expected in zip(
        *(side.value_and_gradient_sum(loss, W) for side in (engine, oracle)), strict=True
    ):
        agree(found, expected, row_map)
    for found, expected in zip(engine.evaluate(loss, W), oracle.evaluate(loss, W), strict=True):
        agree(found, expected, row_map)
    np.testing.assert_allclose(engine.margins(W), oracle.margins(W), rtol=1e-9, atol=1e-10)
    if loss.outputs == 1:
        agree(engine.curvature_sum(loss, W), oracle.curvature_sum(loss, W), row_map)


@pytest.mark.cover(1)
@pytest.mark.parametrize("masked", [False, True])
@each_map
def test_sums_and_moments_of_rows(row_map, masked):
    mask = np.random.default_rng(4).random((N, 3)) < 0.5 if masked else None
    rows = held(row_map, mask=mask)
    engine, oracle = rows.open(), rows.open(engine="reference")
    agree(engine.row_sum(), oracle.row_sum(), row_map)
    agree(engine.square_sum(), oracle.square_sum(), row_map)
    agree(engine.row_moments(), oracle.row_moments(), row_map)


def exact_squares(stored, i):
    """The squared norm of a row's features in exact arithmetic on the stored numbers."""
    row = dict.fromkeys(range(stored.n_features), Fraction(0))
    for q in range(stored.edges[i], stored.edges[i + 1]):
        row[int(stored.index[q])] += Fraction(float(stored.data[q]))
    if stored.centre.size:
        for j, c in enumerate(stored.centre):
            row[j] -= Fraction(float(stored.far[i])) * Fraction(float(c))
    return sum(value * value for value in row.values())


def in_parts(X, parts, kind=sparse.csr_array):
    """CSR rows with every number as ``parts`` equal ones at one place, which SciPy does not sum by itself."""
    whole = sparse.csr_array(X)
    data, indices = (np.repeat(values, parts) for values in (whole.data / parts, whole.indices))
    made = kind((data, indices, parts * whole.indptr), shape=whole.shape)
    assert made.nnz == parts * whole.nnz
    return made


@pytest.mark.together("always_sparse")
@pytest.mark.cover(2)
@pytest.mark.parametrize("flag", [None, "has_canonical_format", "has_sorted_indices"])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@each_map
def test_numbers_at_one_place_are_added_up_before_the_bound(row_map, kind, flag):
    """A row of k parts has the root of k of their norm; no flag of the matrix is believed."""
    X = in_parts(DENSE[:100] * 20, 16, kind)
    if flag is not None:
        setattr(X, flag, True)
    kept = X.data.copy()
    y = labels(LOSSES[0])[:100]
    stored = SparseRows(X, y, row_map=row_map, n_rows=100).open(storage="float64")._rows
    plain = SparseRows(sparse.csr_array(DENSE[:100] * 20), y, row_map=row_map, n_rows=100)
    expected = plain.open(storage="float64")._rows.densely(0, 100)
    np.testing.assert_allclose(stored.densely(0, 100), expected, rtol=1e-9, atol=1e-14)
    squares = [exact_squares(stored, i) for i in range(100)]
    assert Fraction(999, 1000) < max(squares) <= Fraction(row_map.x_norm) ** 2
    np.testing.assert_array_equal(X.data, kept)


@pytest.mark.cover(1)
@pytest.mark.parametrize("storage", ["float32", "float64"])
@each_map
def test_no_stored_row_is_longer_than_its_bounds(row_map, storage):
    """Rows that reach the bound, rows near it, rows near the centre and a huge one, in exact arithmetic."""
    rng = np.random.default_rng(5)
    X = DENSE[:200] * np.geomspace(0.1, 30, 200)[:, None]
    X[:20] /= np.linalg.norm(X[:20], axis=1)[:, None] + 1e-300
    X[20:40] = (row_map.centre if row_map.centre is not None else CENTRE) + 1e-9 * rng.standard_normal(
        (20, 1)
    )
    X[40] *= 1e200
    stored = held(row_map, X=X, n_rows=210).open(storage=storage)._rows
    bound = Fraction(row_map.x_norm) ** 2
    squares = [exact_squares(stored, i) for i in range(210)]
    assert max(squares) <= bound
    assert max(squares[:200]) > bound * Fraction(999, 1000)
    assert max(squares[200:]) == 0
    for i in range(200):
        whole = squares[i] + Fraction(row_map.intercept) ** 2
        assert Fraction(float(stored.inverse_norm[i])) ** 2 * whole <= 1


@each_map
def test_one_row_adds_at_most_the_clip(row_map):
    engine, clip = held(row_map).open(), 0.03
    W = weights(LOSSES[0], row_map, 1)
    for i in range(60):
        found = engine.gradient_sum(LOSSES[0], W, clip=[clip], batch=between([i], [i + 1]))
        assert np.linalg.norm(found) <= clip * (1 + 1e-12)


@pytest.mark.cover(1)
@pytest.mark.parametrize("models", [1, MODELS])
@each_map
def test_empty_rows_add_exactly_zero(row_map, models):
    engine = held(row_map, n_rows=N + 40).open()
    last = between(np.full(models, N), np.full(models, N + 40))
    assert not engine.gradient_sum(LOSSES[0], weights(LOSSES[0], row_map, models), batch=last).any()
    few, many = held(row_map, n_rows=N + 40).open(), held(row_map).open()
    np.testing.assert_allclose(few.row_sum(), many.row_sum(), atol=1e-9)


@each_map
def test_order_samples_and_batches(row_map):
    order = np.random.default_rng(6).permutation(N)
    W = weights(LOSSES[0], row_map, 1)
    shuffled, plain = held(row_map).open(FixedOrder(order)), held(row_map).open()
    np.testing.assert_allclose(shuffled.margins(W), plain.margins(W)[order], rtol=1e-12, atol=1e-10)
    for chosen in (np.arange(100), np.arange(0, N, 2), np.arange(1200), np.empty(0, int)):
        oracle = held(row_map).open(engine="reference").sample([FixedSample(chosen)])
        agree(
            plain.sample([FixedSample(chosen)]).gradient_sum(LOSSES[0], W),
            oracle.gradient_sum(LOSSES[0], W),
            row_map,
        )


@pytest.mark.cover(1)
@pytest.mark.parametrize("batch", [1, 5, 300])
@each_map
def test_an_epoch_is_the_same_however_it_steps(row_map, batch, monkeypatch):
    """Few rows to a step take the road on which a step moves only what it touches."""
    monkeypatch.setattr("dperm.engine.sparse.engine._ENTRIES", 6)
    rows = held(row_map, mask=np.random.default_rng(7).random((N, 1)) < 0.8)
    engine, oracle = rows.open(), rows.open(engine="reference")
    owned = int(engine._own_counts(1)[0])
    sizes = np.array([[batch]] * (owned // batch) + ([[owned % batch]] if owned % batch else []))
    steps = 1.0 / (1 + np.arange(len(sizes)))[:, None]
    results = []
    for side in (engine, oracle):
        W, total = weights(LOSSES[0], row_map, 1) * 0.1, np.zeros((engine.n_columns, 1))
        for l2 in (1e-3, 0.4, 0.4):
            side.descend(LOSSES[0], W, side.batches(sizes), steps, l2, total)
        results.append((W, total))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())


@each_map
def test_chunks_without_the_changed_row_are_the_same_bit_for_bit(row_map):
    """One entry more in one row moves all places behind it, and no sum of a batch that does not hold it."""
    other = DENSE.copy()
    other[700] = 0.01
    sides = [held(row_map, X=X).open() for X in (DENSE, other)]
    for models in (1, MODELS):
        W = weights(LOSSES[0], row_map, models)
        for first in range(0, N, 100):
            batch = between(np.full(models, first), np.full(models, first + 100))
            one, two = (side.gradient_sum(LOSSES[0], W, batch=batch) for side in sides)
            assert np.array_equal(one, two) == (first != 700)


@pytest.mark.parametrize("models", [1, 9])
def test_results_do_not_depend_on_the_number_of_threads(models, monkeypatch):
    monkeypatch.setattr("dperm.engine.sparse.engine._WORK", 2**12)
    monkeypatch.setattr("dperm.engine.sparse.engine.SparseEngine._chunk", lambda self, power: 97)
    row_map = MAPS["centred"]
    W = weights(LOSSES[0], row_map, models)
    one, two = (held(row_map).open(threads=threads).gradient_sum(LOSSES[0], W) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_the_additions_of_a_sum_are_within_the_contract():
    for n, reach in product([10, 1000, 5000, 27_695, 10**5, 2 * 10**5, 10**6, 10**8], [1.0, 1.5, 3.0, 8.0]):
        stored = type("", (), {"reach": reach, "n_rows": n, "radius": 1.0})()
        chunk = SparseEngine(stored, None)._chunk(1)
        chunks = -(-n // chunk)
        assert (min(chunk, n) + chunks + 16) * reach <= 2 * (min(n, 1024) + n / 64 + 1024)


def test_a_far_centre_is_not_stated_as_float64_and_few_columns_are_then_held_densely(monkeypatch):
    assert held(MAPS["scaled"]).open().arithmetic(1) == FLOAT64
    assert not held(MAPS["far"]).open().arithmetic(1).within(FLOAT64)
    assert arithmetic_at(7.0, 1024, 10_000) == FLOAT64
    assert not arithmetic_at(7.0, 10, 10_000).within(FLOAT64)
    monkeypatch.setattr("dperm.engine.sparse.rows._DENSE_AT_MOST", 2**20)
    engine = held(MAPS["far"]).open(precise=True)
    assert engine.arithmetic(1) == FLOAT64
    W = weights(LOSSES[0], MAPS["far"], 1)
    oracle = held(MAPS["far"]).open(engine="reference")
    np.testing.assert_allclose(
        engine.gradient_sum(LOSSES[0], W), oracle.gradient_sum(LOSSES[0], W), atol=1e-3
    )


NAMES = product(("csr", "csc", "coo", "lil", "dok", "bsr", "dia"), ("array", "matrix"))
FORMATS = [getattr(sparse, f"{name}_{kind}") for name, kind in NAMES]


@pytest.mark.together("always_sparse")
@pytest.mark.parametrize("made", FORMATS, ids=lambda made: made.__name__)
def test_any_format_is_accepted(made):
    X = made(DENSE[:60])
    assert engine_for(X) is SparseRows
    rows = SparseRows(X, np.ones(60), row_map=MAPS["centred"], n_rows=60).open()
    expected = SparseRows(
        sparse.csr_array(DENSE[:60]), np.ones(60), row_map=MAPS["centred"], n_rows=60
    ).open()
    np.testing.assert_array_equal(rows.row_sum(), expected.row_sum())


def test_frames_of_sparse_columns():
    frame = pd.DataFrame(DENSE[:60]).astype(pd.SparseDtype(float, 0.0))
    assert engine_for(frame) is SparseRows
    assert engine_for(pd.DataFrame(DENSE[:60])) is Table
    assert engine_for(frame.assign(sparse=1.0)) is Table
    rows = SparseRows(frame, np.ones(60), row_map=MAPS["bounded"], n_rows=60).open()
    np.testing.assert_allclose(rows._rows.densely(0, 60)[:, :-1].any(axis=1), DENSE[:60].any(axis=1))
    filled = pd.DataFrame(DENSE[:60]).astype(pd.SparseDtype(float, 1.0))
    with pytest.raises(InvalidInput, match="left out"):
        SparseRows(filled, np.ones(60), row_map=MAPS["bounded"], n_rows=60).open()


def test_places_that_occur_twice_are_added_up_and_zeros_are_nothing():
    X = sparse.coo_array(([0.25, 0.5, 0.0], ([0, 0, 1], [3, 3, 2])), shape=(2, FEATURES))
    stored = SparseRows(X, np.ones(2), row_map=RowMap(x_norm=1.0), n_rows=2).open()._rows.densely(0, 2)
    expected = np.zeros((2, FEATURES))
    expected[0, 3] = 0.75
    np.testing.assert_array_equal(stored, expected)


@pytest.mark.together("always_sparse")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_without_naming_a_record(bad):
    X = DENSE[:50].copy()
    X[17, 3] = bad
    with pytest.raises(InvalidInput, match="NaN or infinite") as error:
        held(MAPS["bounded"], X=X, n_rows=50).open()
    assert "17" not in str(error.value)
    with pytest.raises(InvalidInput, match="NaN or infinite"):
        SparseRows.margins_of(sparse.csr_array(X), MAPS["bounded"], np.ones(FEATURES), 0.0)


def test_what_is_no_sparse_table_is_refused():
    broken = sparse.csr_array(DENSE[:50])
    broken.indices[0] = FEATURES + 7
    for X in (broken, sparse.csr_array(DENSE[:50] + 1j)):
        with pytest.raises(InvalidInput, match="sparse matrix"):
            held(MAPS["bounded"], X=X, n_rows=50).open()
    with pytest.raises(InvalidInput, match="two dimensions"):
        engine_for(sparse.coo_array(np.ones(5))).shape_of(sparse.coo_array(np.ones(5)))


def test_wide_rows_have_no_matrix_of_all_pairs():
    X = sparse.random_array((20, 5000), density=0.01, rng=np.random.default_rng(8))
    engine = SparseRows(X, np.ones(20), row_map=RowMap(x_norm=1.0), n_rows=20).open()
    with pytest.raises(Unsupported, match="PublicHasher"):
        engine.row_moments()
    with pytest.raises(Unsupported, match="PublicHasher"):
        engine.curvature_sum(Logistic(), np.zeros((5000, 1)))


@pytest.mark.cover(1)
@pytest.mark.parametrize("linear", [False, True])
@each_map
def test_margins_for_prediction_equal_those_of_dense_rows(row_map, linear):
    row_map = replace(row_map, linear=linear)
    X = DENSE * np.geomspace(1e-3, 1e3, N)[:, None]
    X[5] *= 1e200
    for coefficients, constant in ((CENTRE, 0.5), (np.stack([CENTRE, SCALE], axis=1), np.array([0.5, 2.0]))):
        found = SparseRows.margins_of(sparse.csr_array(X), row_map, coefficients, constant)
        expected = row_map.margins(X, coefficients, constant)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
