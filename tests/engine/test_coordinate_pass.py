"""A coordinate pass knows the derivative at its weights; losses along a segment are those at its points."""

import numpy as np
import pytest
from engine_tables import dense_table

from dperm.arithmetic import FLOAT32, FLOAT64
from dperm.engine.dense import engine as columns
from dperm.engine.dense.engine import ColumnPass
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Linear, Logistic, Loss, Softmax
from dperm.row_map import RowMap

N, FEATURES, MODELS = 1511, 6, 3
COMPILED = [Logistic(), HuberHinge(0.5), ClippedSquared(0.8), Linear()]


class OwnLogistic(Logistic):
    """Not the type that has compiled formulas."""


each_loss = pytest.mark.parametrize("loss", [*COMPILED, OwnLogistic()], ids=lambda loss: type(loss).__name__)
per_model_engine = pytest.mark.parametrize(
    ("kind", "storage"), [("reference", "float64"), ("dense", "float32"), ("dense", "float64")]
)
masked_or_not = pytest.mark.parametrize("masked", [False, True], ids=["all rows", "masked"])


def table(masked: bool, rows: int = N):
    rng = np.random.default_rng(0)
    X, y = 0.5 * rng.normal(size=(rows, FEATURES)), rng.choice([-1.0, 1.0], rows)
    mask = rng.random((N, MODELS)) < 0.7 if masked else None
    return dense_table(X, y, x_norm=1.0, intercept=0.5, n_rows=N, mask=mask)


def steps(count: int):
    rng = np.random.default_rng(4)
    for _ in range(count):
        yield int(rng.integers(FEATURES + 1)), 0.5 * rng.normal(size=MODELS)


@pytest.mark.together
@pytest.mark.cover(2)
@masked_or_not
@per_model_engine
@each_loss
def test_every_derivative_is_that_coordinate_of_the_gradient(loss, kind, storage, masked):
    rows = table(masked)
    oracle = rows.open(storage=storage, engine="reference")
    state = rows.open(storage=storage, engine=kind).coordinate_pass(loss, np.zeros((FEATURES + 1, MODELS)))
    slack = 1e-9 if isinstance(state, ColumnPass) or storage == "float64" else 1e-3
    for j, change in steps(40):  # far beyond one pass over the coordinates
        expected = oracle.gradient_sum(loss, state.weights)
        np.testing.assert_allclose(state.derivative(j), expected[j], rtol=0, atol=slack * N)
        state.move(j, change)
    assert np.abs(expected).max() > 1


@pytest.mark.parametrize("loss", COMPILED, ids=lambda loss: loss.name)
def test_moves_and_looks_in_any_order(loss):
    """Several looks without a move, several moves without a look, and the same coordinate twice."""
    rows = table(True)
    oracle, engine = rows.open(engine="reference"), rows.open()
    state = engine.coordinate_pass(loss, np.full((FEATURES + 1, MODELS), 0.3))
    assert isinstance(state, ColumnPass)
    for k, (j, change) in enumerate(steps(60)):
        if k % 7:
            state.move(j, change)
        if k % 3:
            for look in (j, 0):
                expected = oracle.gradient_sum(loss, state.weights)[look]
                np.testing.assert_allclose(state.derivative(look), expected, rtol=0, atol=1e-9 * N)


def test_a_walk_of_several_models_is_in_float64_and_others_say_what_they_are():
    for own, expected in ((Logistic(), {FLOAT64}), (OwnLogistic(), {FLOAT32})):
        used: set = set()
        state = table(True).noting(used).open().coordinate_pass(own, np.zeros((FEATURES + 1, MODELS)))
        state.derivative(0)
        assert used == expected


def test_empty_rows_have_no_derivative():
    for loss in COMPILED:
        state = table(False, rows=0).open().coordinate_pass(loss, np.ones((FEATURES + 1, 1)))
        assert not any(state.derivative(j).any() for j in range(FEATURES + 1))


def test_results_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(columns, "_WORK", 2**9)  # several parts
    found = []
    for threads in (1, 3):
        state = (
            table(True, rows=N)
            .open(threads=threads)
            .coordinate_pass(Logistic(), np.zeros((FEATURES + 1, MODELS)))
        )
        for j, change in steps(9):
            state.move(j, change)
            found.append(state.derivative(j).tobytes())
    assert found[:9] == found[9:]


def test_refusals():
    engine = table(True).open()
    for kind in ("dense", "reference"):
        with pytest.raises(Unsupported, match="one output"):
            table(False).open(engine=kind).coordinate_pass(Softmax(3), np.zeros((FEATURES + 1, 1, 3)))
    with pytest.raises(InvalidInput, match="models"):
        engine.coordinate_pass(Logistic(), np.zeros((FEATURES + 1, 1)))
    state = engine.coordinate_pass(Logistic(), np.zeros((FEATURES + 1, MODELS)))
    state.move(0, np.full(MODELS, np.inf))
    with pytest.raises(InvalidInput, match="not finite"):
        state.derivative(0)


@pytest.mark.together
@pytest.mark.cover(2)
@masked_or_not
@per_model_engine
@each_loss
def test_losses_along_a_segment(loss: Loss, kind, storage, masked):
    rows = table(masked)
    rng = np.random.default_rng(2)
    begin, end = rng.normal(size=(2, FEATURES + 1, MODELS))
    shares = np.linspace(0, 1, 21)
    oracle = rows.open(storage=storage, engine="reference")
    found = rows.open(storage=storage, engine=kind, precise=True).values_between(loss, begin, end, shares)
    assert found.shape == (21, MODELS)
    for share, value in zip(shares, found, strict=True):
        expected = oracle.value_sum(loss, begin + share * (end - begin))
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12 * N)


def test_losses_along_a_segment_through_maps_that_move_rows():
    rows = table(True).mapped(RowMap(x_norm=1.0, intercept=0.5, centre=np.full(FEATURES, 0.1)))
    begin, end = np.zeros((2, FEATURES + 1, MODELS))
    end += 1
    found = rows.open(precise=True).values_between(Logistic(), begin, end, np.array([0.0, 1.0]))
    counts = rows.open().evaluate(Logistic(), begin).training_rows
    np.testing.assert_allclose(found[0], np.log(2) * counts, rtol=1e-12)
