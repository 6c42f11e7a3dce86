"""An evaluation sees the margins that a model predicts by, and no row's margin depends on another row."""

import numpy as np
import pytest
from scipy import sparse

import dperm
from dperm import PrivateLinearRegression, PrivateLogisticRegression
from dperm.datasets import load_adult
from dperm.engine import engine_for
from dperm.errors import Unsupported
from dperm.estimators.rows import margins_and_targets
from dperm.schema import encode, encode_rows
from dperm.unit import Neighbours

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 4)) * np.array([0.1, 0.5, 1.0, 3.0])
Y = (X[:, 0] + 0.1 * RNG.normal(size=500) > 0).astype(int)
THREE = np.digitize(X[:, 1], [-0.3, 0.3])
EASY = {"epsilon": 3.0, "delta": 1e-3, "random_state": 0}
MODELS = {
    "linear": PrivateLogisticRegression(classes=[0, 1], **EASY).fit(X, Y),
    "bounded": PrivateLogisticRegression(
        mechanism=dperm.mechanisms.Output(standardise=False), l2=0.1, classes=[0, 1], **EASY
    ).fit(X, Y),
    "standardised": PrivateLogisticRegression(
        mechanism=dperm.mechanisms.DPGD(standardise="bounded"), classes=[0, 1], **EASY
    ).fit(X, Y),
    "softmax": PrivateLogisticRegression(classes=[0, 1, 2], **EASY).fit(X, THREE),
    "regression": PrivateLinearRegression(y_range=(-1, 1), **EASY).fit(X, X[:, 0]),
}
ADD_REMOVE = Neighbours.ADD_REMOVE


def predicted(model, rows):
    return (model.predict if isinstance(model, PrivateLinearRegression) else model.decision_function)(rows)


def margins(model, rows, y=None):
    found, _ = margins_and_targets(model, rows, np.zeros(rows.shape[0]) if y is None else y, ADD_REMOVE)
    return found if isinstance(model, PrivateLinearRegression) or found.shape[1] > 1 else found[:, 0]


@pytest.mark.parametrize("name", MODELS)
def test_margins_are_those_of_the_model(name):
    np.testing.assert_allclose(margins(MODELS[name], X), predicted(MODELS[name], X), rtol=1e-9, atol=1e-11)


def test_the_maps_differ():
    assert MODELS["linear"].row_map_.linear
    assert not MODELS["bounded"].row_map_.linear
    assert not MODELS["bounded"].row_map_.moves
    assert MODELS["standardised"].row_map_.moves
    assert not MODELS["standardised"].row_map_.linear


@pytest.mark.cover(1)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", MODELS)
def test_a_row_has_the_same_bits_wherever_it_stands_and_whoever_is_beside_it(name, kind):
    whole = margins(MODELS[name], kind(X))
    for first in (1, 2, 3, 61):
        assert np.array_equal(margins(MODELS[name], kind(X[first:])), whole[first:])
    loud = X.copy()
    loud[0] = 1e150
    assert np.array_equal(margins(MODELS[name], kind(loud))[1:], whole[1:])


def test_columns_in_another_order_in_memory_change_no_bit():
    assert np.array_equal(margins(MODELS["bounded"], np.asfortranarray(X)), margins(MODELS["bounded"], X))


def test_coded_rows_and_their_array_agree():
    adult = load_adult()
    table = adult.table.slice(0, 700)
    coded, dense = encode_rows(table, adult.schema), encode(table, adult.schema)
    model = PrivateLogisticRegression(epsilon=3, delta=1e-3, classes=adult.classes, random_state=0)
    model.fit(dense, adult.y[:700])
    assert type(coded) is dperm.schema.CodedTable
    np.testing.assert_allclose(margins(model, coded), model.decision_function(coded), rtol=1e-6, atol=1e-6)
    assert np.array_equal(margins(model, coded[1:]), margins(model, coded)[1:])


def test_kinds_whose_rounding_follows_the_place_are_refused_under_add_remove(tmp_path):
    from dperm.data import write_shards

    source = write_shards(X, None, tmp_path / "shards", y=Y, classes=[0, 1])
    assert engine_for(source) is not None
    model = MODELS["linear"]
    found, labels = margins_and_targets(model, source, None, Neighbours.REPLACE_ONE)
    np.testing.assert_allclose(found[:, 0], model.decision_function(X), rtol=1e-5, atol=1e-6)
    assert np.array_equal(labels, Y)
    with pytest.raises(Unsupported, match="place"):
        margins_and_targets(model, source, None, ADD_REMOVE)


def test_there_may_be_no_rows():
    assert margins(MODELS["linear"], np.zeros((0, 4))).shape == (0,)
