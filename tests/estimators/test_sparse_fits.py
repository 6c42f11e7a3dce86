"""Sparse rows through every estimator: the same models as dense ones, and errors that quote no record."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

from dperm import (
    Ledger,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    check_pipeline,
    load_model,
    save_model,
)
from dperm.errors import InvalidInput, Unsupported
from dperm.experiments.compare import compare

N, FEATURES = 800, 60
RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((N, FEATURES)) < 0.1, RNG.standard_normal((N, FEATURES)) * 0.5, 0.0)
SPARSE = sparse.csr_array(DENSE)
SCORES = DENSE @ RNG.standard_normal(FEATURES)
Y = (SCORES > 0).astype(int)
THREE = np.digitize(SCORES, [-0.5, 0.5])


def agree(model, y, **tolerance):
    """One model on sparse and one on dense rows, with the same noise."""
    on_sparse, on_dense = clone(model).fit(SPARSE, y), clone(model).fit(DENSE, y)
    np.testing.assert_allclose(on_sparse.coef_, on_dense.coef_, **tolerance)
    np.testing.assert_allclose(on_sparse.intercept_, on_dense.intercept_, **tolerance)
    np.testing.assert_array_equal(on_sparse.predict(SPARSE), on_sparse.predict(DENSE))
    assert on_sparse.score(sparse.coo_matrix(SPARSE), y) == on_sparse.score(DENSE, y)
    return on_sparse


@pytest.mark.parametrize("mechanism", ["auto", "dp-gd", "dp-sgd", "objective", "output", "rsgd-ar", "ssp"])
def test_a_fit_on_sparse_rows_is_that_on_dense_ones(mechanism):
    model = PrivateLogisticRegression(epsilon=2.0, mechanism=mechanism, random_state=0)
    fitted = agree(model, Y, rtol=1e-3, atol=2e-4)
    np.testing.assert_allclose(fitted.predict_proba(SPARSE), fitted.predict_proba(DENSE), atol=1e-9)


def test_every_estimator_takes_them():
    agree(PrivateLinearSVC(random_state=0), Y, rtol=1e-3, atol=2e-4)
    agree(PrivateLogisticRegression(mechanism="dp-gd", random_state=0), THREE, rtol=1e-3, atol=2e-4)
    model = PrivateLinearRegression(y_range=(-2.0, 2.0), random_state=0).fit(SPARSE, SCORES)
    np.testing.assert_allclose(model.predict(SPARSE), model.predict(DENSE), atol=1e-9)


def test_a_release_on_sparse_rows_is_certified_and_can_be_saved(tmp_path):
    for mechanism in ("auto", "dp-gd"):
        model = PrivateLogisticRegression(classes=[0, 1], mechanism=mechanism).fit(SPARSE, Y)
        assert str(model.privacy_).startswith("(1, 1e-06)-differentially private")
        save_model(model, tmp_path / "model.json")
        loaded = load_model(tmp_path / "model.json")
        np.testing.assert_array_equal(loaded.predict(SPARSE), model.predict(SPARSE))


def test_a_table_below_its_capacity():
    settings = {"neighbours": "add-remove", "max_rows": 1000, "classes": [0, 1], "random_state": 0}
    agree(PrivateLogisticRegression(**settings), Y, rtol=1e-3, atol=2e-4)
    PrivateLogisticRegression(**settings).fit(SPARSE[:0], Y[:0])


def test_names_of_sparse_columns():
    frame = pd.DataFrame(DENSE, columns=[f"w{j}" for j in range(FEATURES)]).astype(pd.SparseDtype(float, 0.0))
    model = PrivateLogisticRegression(random_state=0).fit(frame, Y)
    assert model.feature_names_in_[3] == "w3"
    np.testing.assert_allclose(model.coef_, PrivateLogisticRegression(random_state=0).fit(SPARSE, Y).coef_)
    with pytest.raises(InvalidInput, match="feature names"):
        model.predict(frame.rename(columns={"w3": "other"}))


def test_search_and_ledger(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.jsonl", epsilon=5.0, delta=1e-4)
    search = PrivateSearchCV(
        PrivateLogisticRegression(classes=[0, 1]), {"l2": [0.01, 0.1]}, epsilon=2.0, delta=1e-6, ledger=ledger
    ).fit(SPARSE.tocoo(), Y)
    assert search.score(SPARSE, Y) > 0.4
    assert search.ledger_entry_ is not None
    public = PrivateSearchCV(
        PrivateLogisticRegression(classes=[0, 1]),
        {"l2": [0.01, 0.1]},
        epsilon=2.0,
        delta=1e-6,
        random_state=0,
        public_data=(SPARSE[:200], Y[:200]),
    ).fit(SPARSE[200:], Y[200:])
    assert public.predict(SPARSE).shape == (N,)


def test_a_comparison_gives_the_same_results():
    facts = {"dataset": "made", "mechanisms": ["dp-gd", "auto", "rsgd-ar", "none"], "epsilons": [1.0]}
    tables = [
        compare(X, Y, delta=1e-6, folds=3, repeats=1, **facts).to_pandas() for X in (SPARSE.tocsc(), DENSE)
    ]
    np.testing.assert_allclose(tables[0]["accuracy"], tables[1]["accuracy"], atol=0.01)
    np.testing.assert_allclose(tables[0]["log_loss"], tables[1]["log_loss"], rtol=1e-3)


@pytest.mark.together
@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        (SPARSE, sparse.csr_array(Y[:, None]), "(?i)sparse"),
        (SPARSE, Y[:-1], "one number per row|inconsistent"),
        (SPARSE * np.nan, Y, "NaN"),
        (SPARSE.astype(complex), Y, "real numbers"),
        (SPARSE[:0], Y[:0], "(?i)sample|class"),
    ],
)
def test_what_is_no_sparse_table_is_refused(X, y, said):
    with pytest.raises((InvalidInput, TypeError), match=said):
        PrivateLogisticRegression(classes=[0, 1]).fit(X, y)


def test_rows_of_another_width_are_refused():
    model = PrivateLogisticRegression(random_state=0).fit(SPARSE, Y)
    with pytest.raises(InvalidInput, match="59 features"):
        model.predict(SPARSE[:, :59])


def test_moments_of_wide_rows_are_refused_before_a_row_is_read():
    for mechanism in ("ssp", "adassp"):
        model = PrivateLogisticRegression(mechanism=mechanism, classes=[0, 1])
        if mechanism == "adassp":
            model = PrivateLinearRegression(mechanism=mechanism, y_range=(0.0, 1.0), loss="squared")
        with pytest.raises(Unsupported, match="PublicHasher"):
            model.plan(10_000, 47_236)


def test_text_steps_before_a_model():
    """Words and weights that TF-IDF learns are learned from the rows; a hash learns nothing."""
    model = PrivateLogisticRegression()
    (finding,) = check_pipeline(make_pipeline(TfidfVectorizer(), model))
    assert "words that occur" in finding.learns
    assert check_pipeline(make_pipeline(HashingVectorizer(n_features=64), model)) == []
    texts = ["good fine", "bad poor"] * 200
    pipe = make_pipeline(
        HashingVectorizer(n_features=64), PrivateLogisticRegression(classes=[0, 1], epsilon=4.0)
    )
    assert pipe.fit(texts, [1, 0] * 200).score(texts, [1, 0] * 200) > 0.9
