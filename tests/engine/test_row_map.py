"""The row map: what it makes of a row, its way back, and what a standardised training sees."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dperm.engine import Table, open_rows
from dperm.engine.base.rows import OpenRequest, StoredDense
from dperm.errors import InvalidInput
from dperm.losses import Logistic
from dperm.mechanisms import RSGDAR, Job, Output
from dperm.privacy import Budget, Gate
from dperm.problem import Problem
from dperm.row_map import RowMap
from dperm_audit.gates import SilentGate

P = 3
CENTRE, SCALE = np.array([0.4, -0.3, 0.1]), np.array([0.5, 2.0, 0.7])
MAPS = [
    RowMap(x_norm=1.5),
    RowMap(x_norm=1.5, intercept=0.7),
    RowMap(x_norm=1.5, intercept=0.7, centre=CENTRE),
    RowMap(x_norm=1.5, intercept=0.7, scale=SCALE),
    RowMap(x_norm=1.5, intercept=0.7, centre=CENTRE, scale=SCALE),
    RowMap(x_norm=1.5, centre=CENTRE, scale=SCALE),
]
NAMES = ["bounded", "intercept", "standardised", "scaled", "both", "no intercept"]
each_map = pytest.mark.parametrize("row_map", MAPS, ids=NAMES)
ordinary = st.floats(-1e3, 1e3)
any_row = arrays(np.float64, (4, P), elements=st.floats(allow_nan=False, allow_infinity=False))


def plain_length(row: np.ndarray) -> float:
    return math.hypot(*row.tolist())


def plain(row_map: RowMap, row: np.ndarray) -> np.ndarray:
    """One row of ordinary size, by the words of the docstring."""
    row = row * min(1.0, row_map.x_norm / max(plain_length(row), 1e-300))
    if row_map.centre is not None:
        row = row - row_map.centre
    if row_map.scale is not None:
        row = row / row_map.scale
    return row * min(1.0, row_map.x_norm / max(plain_length(row), 1e-300))


def random_rows(n: int = 60, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, P)) * rng.choice([0.01, 0.5, 3.0], size=(n, 1))


# What a row becomes.


@pytest.mark.together
@each_map
@given(X=arrays(np.float64, (4, P), elements=ordinary))
def test_features_are_bounded_moved_scaled_and_bounded_again(row_map: RowMap, X: np.ndarray) -> None:
    np.testing.assert_allclose(
        row_map.features(X), [plain(row_map, row) for row in X], rtol=1e-12, atol=1e-15
    )


@pytest.mark.together
@each_map
@given(X=any_row)
def test_no_row_is_longer_than_the_bound_whatever_came(row_map: RowMap, X: np.ndarray) -> None:
    features = row_map.features(X)
    assert np.isfinite(features).all()
    assert np.linalg.norm(features, axis=1).max() <= 1.5 * (1 + 1e-14)


@pytest.mark.together
@each_map
@given(X=any_row, other=any_row)
def test_a_row_is_mapped_without_a_look_at_the_others(
    row_map: RowMap, X: np.ndarray, other: np.ndarray
) -> None:
    together = row_map.features(np.vstack([X[:1], other]))
    np.testing.assert_array_equal(together[:1], row_map.features(X[:1]))


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("size", [1e150, 1e200, 1e300, 1.7e308])
@each_map
def test_squares_and_norms_that_overflow_keep_their_direction(row_map: RowMap, size: float) -> None:
    directions = np.array([[1.0, -1.0, 0.5], [1.0, 1.0, 1.0], [0.0, -1.0, 0.0]])
    np.testing.assert_allclose(
        row_map.features(size * directions), row_map.features(1e3 * directions), rtol=1e-14
    )


def test_rows_of_other_types_are_mapped_in_float64() -> None:
    for dtype in (np.float32, np.int64, np.bool_):
        X = np.array([[3, 4, 0], [0, 1, 0]], dtype)
        for row_map in MAPS:
            features = row_map.features(X)
            assert features.dtype == np.float64
            np.testing.assert_array_equal(features, row_map.features(X.astype(np.float64)))


def test_rows_that_came_are_not_changed() -> None:
    X = random_rows()
    before = X.copy()
    for row_map in MAPS:
        row_map.features(X)
        row_map.margins(X, np.ones(P), 0.5)
    np.testing.assert_array_equal(X, before)


def test_only_a_centre_or_a_scale_moves_rows() -> None:
    assert [row_map.moves for row_map in MAPS] == [False, False, True, True, True, True]


# Weights on mapped rows, and coefficients in the units of the rows as they came.


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("outputs", [1, 4])
@each_map
def test_margins_are_those_of_the_features_with_the_intercept_column(row_map: RowMap, outputs: int) -> None:
    """Also where a bound cuts a row."""
    X = random_rows()
    columns = P + (row_map.intercept > 0)
    weights = np.random.default_rng(1).normal(size=columns if outputs == 1 else (columns, outputs))
    Z = row_map.features(X)
    if row_map.intercept:
        Z = np.column_stack([Z, np.full(len(X), row_map.intercept)])
    margins = row_map.margins(X, *row_map.coefficients(weights))
    np.testing.assert_allclose(margins, Z @ weights, rtol=1e-12, atol=1e-12)
    cut = np.linalg.norm(Z[:, :P], axis=1) > 1.5 * (1 - 1e-9)
    assert 5 < cut.sum() < 55


@pytest.mark.together
@each_map
@given(X=arrays(np.float64, (4, P), elements=st.floats(-0.1, 0.1)))
def test_where_no_bound_cuts_a_margin_is_a_linear_function_of_the_row(row_map: RowMap, X: np.ndarray) -> None:
    weights = np.arange(1.0, P + 1 + (row_map.intercept > 0))
    coefficients, constant = row_map.coefficients(weights)
    np.testing.assert_allclose(
        row_map.margins(X, coefficients, constant), X @ coefficients + constant, rtol=1e-12, atol=1e-12
    )


@pytest.mark.together
@each_map
@given(values=arrays(np.float64, (P + 1, 2), elements=ordinary))
def test_coefficients_and_weights_are_each_others_way_back(row_map: RowMap, values: np.ndarray) -> None:
    for weights in (values, values[:, 0]):
        weights = weights if row_map.intercept else weights[:-1]
        before = weights.copy()
        back = row_map.weights(*row_map.coefficients(weights))
        np.testing.assert_allclose(back, weights, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(weights, before)
        if row_map.intercept:
            coefficients, constant = row_map.coefficients(row_map.weights(weights[:-1], weights[-1]))
            np.testing.assert_allclose(coefficients, weights[:-1], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(constant, weights[-1], rtol=1e-9, atol=1e-9)


# A value that can be written down and read again.


@pytest.mark.together
@each_map
def test_it_survives_json(row_map: RowMap) -> None:
    read = RowMap.from_dict(json.loads(json.dumps(row_map.to_dict())))
    assert read == row_map
    assert hash(read) == hash(row_map)
    X = random_rows()
    np.testing.assert_array_equal(read.features(X), row_map.features(X))


def test_maps_that_differ_are_not_equal() -> None:
    for k, row_map in enumerate(MAPS):
        assert [row_map == other for other in MAPS] == [j == k for j in range(len(MAPS))]
    assert MAPS[0] != RowMap(x_norm=1.6)
    assert MAPS[0] != "RowMap"


def test_nobody_can_change_it_afterwards() -> None:
    centre = CENTRE.copy()
    row_map = RowMap(x_norm=1.0, centre=centre)
    centre[0] = 99.0
    assert row_map.centre is not None
    np.testing.assert_array_equal(row_map.centre, CENTRE)
    with pytest.raises(ValueError, match="read-only"):
        row_map.centre[0] = 99.0


@pytest.mark.together
@pytest.mark.parametrize(
    "wrong",
    [
        {"centre": [np.nan, 0.0]},
        {"centre": [[1.0, 2.0]]},
        {"scale": [1.0, 0.0]},
        {"scale": [1.0, -1.0]},
        {"scale": [1.0, np.inf]},
        {"centre": [0.0, 0.0], "scale": [1.0]},
        {"scale": [1.0, 1e-309]},
        {"centre": [1.7e308, 0.0], "scale": [0.6, 0.6]},
    ],
    ids=str,
)
def test_impossible_maps_are_refused(wrong: dict) -> None:
    """The last two would make rows overflow, and whether they do depends on the row."""
    with pytest.raises(InvalidInput):
        RowMap(x_norm=1.0, **wrong)


# Tables seen through a map.


@pytest.mark.together
@each_map
def test_what_is_stored_is_the_image_of_each_row(row_map: RowMap) -> None:
    X = np.vstack([random_rows(), 1e300 * random_rows(5, seed=1)])
    y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)
    table = Table(X, y, row_map=RowMap(x_norm=1.5, intercept=row_map.intercept), n_rows=len(X) + 3)
    stored = table.mapped(row_map).open(precise=True)._rows.X  # type: ignore[attr-defined]
    np.testing.assert_allclose(stored[: len(X), :P], row_map.features(X), rtol=1e-13, atol=1e-300)
    assert np.linalg.norm(stored[:, :P].astype(np.longdouble), axis=1).max() <= 1.5
    assert (stored[len(X) :] == 0).all()


class OpenedTable(Table):
    """Keeps the rows of every engine that it opened."""

    def __init__(self, *rows: object, **facts: object) -> None:
        super().__init__(*rows, **facts)  # type: ignore[arg-type]
        self.opened: list[StoredDense] = []

    def _stored(self, request: OpenRequest) -> StoredDense:
        self.opened.append(super()._stored(request))
        return self.opened[-1]


PROBLEM = Problem(loss=Logistic(), l2=0.05, x_norm=1.5, n_rows=60, n_features=P, intercept=0.7)


@pytest.mark.parametrize("gate", [SilentGate(), Gate.seeded(0)], ids=["no noise", "noise"])
def test_a_standardised_training_sees_the_rows_through_the_map_that_it_returns(gate: Gate) -> None:
    """By mean and moments as released, noise and all; first for the mean alone, as they were declared."""
    X = random_rows() + 0.4
    y = np.where(X[:, 0] > 0.4, 1.0, -1.0)
    mechanism = Output(standardise=True)
    table = OpenedTable(X, y, row_map=PROBLEM.row_map, n_rows=60)
    plan = mechanism.plan(PROBLEM, Budget(20.0, 1e-6))
    (outcome,) = mechanism.run([Job(plan=plan)], table, gate)
    mean, _, training = table.opened
    seen = outcome.row_map.features(X)
    for stored, features in ((mean, PROBLEM.row_map.features(X)), (training, seen)):
        inside = np.linalg.norm(features, axis=1) < 1.5 * (1 - 1e-9)
        assert 5 < inside.sum() < 60
        np.testing.assert_array_equal(stored.X[inside, :P], features[inside])
        np.testing.assert_allclose(stored.X[:, :P], features, rtol=1e-13)
    assert (training.X[:, P] == 0.7).all()
    assert np.abs(mean.X - training.X[:, :P]).max() > 0.1


def test_a_training_in_secret_order_sees_them_too() -> None:
    X = random_rows() + 0.4
    y = np.where(X[:, 0] > 0.4, 1.0, -1.0)
    mechanism = RSGDAR(epochs=2, batch_size=20, standardise=True)
    table = OpenedTable(X, y, row_map=PROBLEM.row_map, n_rows=60)
    (outcome,) = mechanism.run([Job(plan=mechanism.plan(PROBLEM, Budget(1.0, 1e-6)))], table, Gate.seeded(0))
    stored = np.sort(table.opened[-1].X[:, 0].astype(np.float64))
    np.testing.assert_allclose(stored, np.sort(outcome.row_map.features(X)[:, 0]), rtol=1e-6, atol=1e-8)


def test_no_copy_of_the_table_is_kept() -> None:
    X, y = random_rows(), np.ones(60)
    rows = open_rows(X, y, PROBLEM)
    assert isinstance(rows, Table)
    seen = rows.mapped(MAPS[4]).noting(set())
    assert np.shares_memory(seen._X, X)
    assert np.shares_memory(seen._y, y)
    before = X.copy()
    seen.open(precise=True)
    np.testing.assert_array_equal(X, before)


def test_the_map_of_one_view_is_not_that_of_the_other() -> None:
    rows = open_rows(random_rows(), np.ones(60), PROBLEM)
    seen = rows.mapped(MAPS[4])
    plain_rows, moved = (view.open(precise=True)._rows.X for view in (rows, seen))  # type: ignore[attr-defined]
    assert np.abs(plain_rows - moved).max() > 0.1
    seen.check_matches(PROBLEM, 0)  # the bounds are still those of the problem


def test_a_linear_map_bounds_rows_in_training_alone() -> None:
    X = 30 * random_rows()
    centre, scale, rng = np.full(P, 0.1), np.linspace(0.2, 0.7, P), np.random.default_rng(3)
    bounded_map, linear = (
        RowMap(x_norm=1.5, intercept=0.7, centre=centre, scale=scale, linear=choice)
        for choice in (False, True)
    )
    np.testing.assert_array_equal(linear.features(X), bounded_map.features(X))
    coefficients, constant = rng.normal(size=(P, 2)), rng.normal(size=2)
    np.testing.assert_array_equal(linear.margins(X, coefficients, constant), X @ coefficients + constant)
    assert (
        np.abs(
            bounded_map.margins(X, coefficients, constant) - linear.margins(X, coefficients, constant)
        ).max()
        > 1
    )
    assert linear != bounded_map


def test_a_map_is_written_with_all_that_it_was_made_of() -> None:
    row_map = RowMap(
        x_norm=1.5, centre=np.ones(P), scale=np.ones(P), linear=True, released=(np.ones(P), np.zeros(P))
    )
    assert RowMap.from_dict(row_map.to_dict()) == row_map
    with pytest.raises(ValueError, match="read-only"):
        row_map.released[0][0] = 2.0
    with pytest.raises(InvalidInput, match="linear"):
        RowMap(x_norm=1.5, linear=1)  # type: ignore[arg-type]
