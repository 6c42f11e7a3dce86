"""The encoder hands coded rows to private models and arrays to all others; results are the same."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from dperm import PrivateLinearSVC, PrivateLogisticRegression, PrivateSearchCV, PublicEncoder
from dperm.datasets import load_adult
from dperm.engine.categorical.engine import CategoricalEngine
from dperm.schema import CodedTable, encode


@pytest.fixture(scope="module")
def adult():
    return load_adult().part("test")


def private(adult, **more):
    return PrivateLogisticRegression(classes=list(adult.classes), random_state=0, **more)


def test_transform_gives_codes_or_floats(adult):
    encoder = PublicEncoder(adult.schema)
    coded, floats = (
        encoder.transform(adult.table),
        PublicEncoder(adult.schema, coded=False).transform(adult.table),
    )
    assert isinstance(coded, CodedTable)
    assert isinstance(floats, np.ndarray)
    assert coded.shape[1] == len(encoder.get_feature_names_out())
    np.testing.assert_array_equal(floats, encode(adult.table, adult.schema))
    np.testing.assert_allclose(coded, floats, rtol=0, atol=1e-6)


def test_other_containers_are_made_of_it(adult):
    for name in ("pandas", "polars"):
        kind = pytest.importorskip(name)
        encoder = clone(PublicEncoder(adult.schema).set_output(transform=name))
        frame = encoder.fit_transform(adult.table.slice(0, 50).to_pandas())
        assert isinstance(frame, kind.DataFrame)
        assert list(frame.columns) == encoder.get_feature_names_out().tolist()


@pytest.mark.parametrize("mechanism", ["auto", "rsgd-ar", "dp-gd"])
def test_a_private_pipeline_trains_on_codes_to_the_same_model(adult, mechanism, monkeypatch):
    passes = []
    sums = CategoricalEngine._range_sums
    monkeypatch.setattr(CategoricalEngine, "_range_sums", lambda *given: passes.append(1) or sums(*given))
    models = [
        make_pipeline(PublicEncoder(adult.schema, coded=coded), private(adult, mechanism=mechanism)).fit(
            adult.table, adult.y
        )
        for coded in (True, False)
    ]
    assert passes
    mine, dense = (model[-1] for model in models)
    np.testing.assert_allclose(mine.coef_, dense.coef_, rtol=0, atol=1e-5 * np.abs(dense.coef_).max())
    assert mine.n_features_in_ == dense.n_features_in_
    assert mine.feature_names_in_.tolist() == models[0][0].get_feature_names_out().tolist()
    np.testing.assert_allclose(
        models[0].predict_proba(adult.table), models[1].predict_proba(adult.table), rtol=0, atol=1e-5
    )
    assert mine.privacy_.statement["problem"] == dense.privacy_.statement["problem"]


def test_a_default_fit_on_codes_is_certified(adult):
    model = PrivateLogisticRegression(classes=list(adult.classes)).fit(adult.coded, adult.y)
    assert model.privacy_.statement["certified_arithmetic"] is True


def test_scikit_learn_models_take_it_as_an_array(adult):
    pipeline = make_pipeline(PublicEncoder(adult.schema), LogisticRegression(max_iter=500))
    table, y = adult.table.slice(0, 2000), adult.y[:2000]
    expected = LogisticRegression(max_iter=500).fit(encode(table, adult.schema), y)
    np.testing.assert_allclose(pipeline.fit(table, y)[-1].coef_, expected.coef_, rtol=0, atol=1e-3)


def test_folds_and_searches_take_parts_of_it(adult):
    coded, y = adult.coded[:3000], adult.y[:3000]
    scores = cross_val_score(private(adult), coded, y, cv=3)
    assert scores.min() > 0.7
    search = PrivateSearchCV(
        PrivateLogisticRegression(classes=list(adult.classes)),
        {"mechanism": ["dp-gd", "rsgd-ar"]},
        epsilon=2.0,
        delta=1e-6,
        random_state=0,
    )
    assert search.fit(coded, y).score(coded, y) > 0.6


def test_predictions_are_those_for_floats(adult):
    model = private(adult).fit(adult.coded, adult.y)
    floats = adult.coded.toarray()
    for rows in (adult.coded, adult.coded[7:300], adult.coded[:1]):
        expected = model.decision_function(np.asarray(rows))
        np.testing.assert_allclose(model.decision_function(rows), expected, rtol=0, atol=1e-9)
    assert model.score(adult.coded, adult.y) == model.score(floats, adult.y)
    bounded = PrivateLinearSVC(classes=list(adult.classes), random_state=0, mechanism="dp-gd").fit(
        adult.coded, adult.y
    )
    np.testing.assert_allclose(
        bounded.decision_function(adult.coded), bounded.decision_function(floats), rtol=0, atol=1e-9
    )


def test_another_number_of_columns_is_refused(adult):
    model = private(adult).fit(adult.coded, adult.y)
    other = PublicEncoder(adult.schema.plain()).transform(adult.table)
    with pytest.raises(ValueError, match="features"):
        model.predict(other)
