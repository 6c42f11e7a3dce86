"""The estimators keep scikit-learn's contract and say truly what they guarantee."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dperm import PrivateLinearSVC, PrivateLogisticRegression
from dperm.errors import DpermError, InvalidInput, NotCertified
from dperm.mechanisms import RSGDAR, NoPrivacy, Objective, Output
from dperm.problem import INTERCEPT_SCALE

ESTIMATORS = [PrivateLogisticRegression, PrivateLinearSVC]


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    X = rng.normal(size=(4000, 5)) * 0.2
    X[:, 0] += 0.5 * (2 * y - 1)
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), y


@pytest.mark.cover(1)
@pytest.mark.parametrize(
    "mechanism", ["rsgd-ar", "rsgd", "nsgd", "output-gd", "bolt-on", "output", "none", "majority"]
)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_every_mechanism_fits_and_reports(Estimator, mechanism, blobs):
    X, y = blobs
    # At epsilon = 20 the noise of every mechanism is far below the weights, so the score cannot fail by chance.
    model = Estimator(mechanism=mechanism, epsilon=20.0, classes=[0, 1]).fit(X, y)
    assert model.coef_.shape == (1, 5)
    assert model.intercept_.shape == (1,)
    assert np.isfinite(model.coef_).all()
    report = model.privacy_.to_dict()
    json.dumps(report)
    private = mechanism not in ("none", "majority")
    assert report["mechanism"] == mechanism
    assert (report["guarantee"] == {"epsilon": 20.0, "delta": 1e-6}) is private
    assert str(model.privacy_).startswith("(20, 1e-06)-differentially private" if private else "NOT PRIVATE")
    if mechanism != "majority":
        assert model.score(X, y) > 0.8


def test_a_seed_is_repeatable_and_never_called_private(blobs):
    X, y = blobs
    first, second = (PrivateLogisticRegression(random_state=3).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.privacy_.guarantee is None
    assert "NOT PRIVATE" in str(first.privacy_)
    assert "random_state" in first.privacy_.reason


def test_two_fits_differ_without_a_seed(blobs):
    X, y = blobs
    first, second = (PrivateLogisticRegression().fit(X, y) for _ in range(2))
    assert (first.coef_ != second.coef_).all()
    assert (first.intercept_ != second.intercept_).all()


def test_label_set_is_an_assumption_only_when_taken_from_y(blobs):
    X, y = blobs
    inferred = PrivateLogisticRegression().fit(X, y).privacy_.assumptions
    declared = PrivateLogisticRegression(classes=[0, 1]).fit(X, y).privacy_.assumptions
    assert any("taken from y" in str(a) for a in inferred)
    assert not any("taken from y" in str(a) for a in declared)


def test_the_second_class_is_positive(blobs):
    X, y = blobs
    forward = PrivateLogisticRegression(mechanism="none", classes=[0, 1]).fit(X, y)
    backward = PrivateLogisticRegression(mechanism="none", classes=[1, 0]).fit(X, y)
    np.testing.assert_array_equal(forward.coef_, backward.coef_)  # which follow the sorted classes
    np.testing.assert_array_equal(forward.predict(X), backward.predict(X))
    assert (forward.positive_, backward.positive_) == (1, 0)


def test_probabilities_follow_the_margin(blobs):
    X, y = blobs
    model = PrivateLogisticRegression().fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(proba[:, 1] > 0.5, model.decision_function(X) > 0)
    np.testing.assert_allclose(np.log(proba), model.predict_log_proba(X))


def test_no_noise_equals_scikit_learn(blobs):
    X, y = blobs
    ours = PrivateLogisticRegression(mechanism=NoPrivacy(tolerance=1e-10), l2=1e-3, fit_intercept=False)
    ours.fit(X, y)
    theirs = LogisticRegression(fit_intercept=False, C=1 / (len(y) * 1e-3), tol=1e-10, max_iter=10_000).fit(
        X, y
    )
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


def test_the_intercept_is_a_penalised_column_inside_the_row_norm(blobs):
    X, y = blobs
    ours = PrivateLogisticRegression(mechanism=NoPrivacy(tolerance=1e-10), l2=1e-3).fit(X, y + 0)
    column = np.column_stack([X, np.full(len(X), INTERCEPT_SCALE)])
    theirs = LogisticRegression(fit_intercept=False, C=1 / (len(y) * 1e-3), tol=1e-10, max_iter=10_000).fit(
        column, y
    )
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_[0, :-1], atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, INTERCEPT_SCALE * theirs.coef_[0, -1], atol=1e-6)
    assert ours.privacy_.row_norm >= np.hypot(1, INTERCEPT_SCALE)


def test_long_rows_are_scaled_down_to_x_norm(blobs):
    X, y = blobs
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    a = PrivateLogisticRegression(mechanism="none").fit(units * 1000, y)
    b = PrivateLogisticRegression(mechanism="none").fit(units, y)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)


def test_float32_and_float64_are_both_certified(blobs):
    X, y = blobs
    for dtype in (np.float32, np.float64):
        model = PrivateLogisticRegression(mechanism="rsgd-ar").fit(X.astype(dtype), y)
        assert model.privacy_.guarantee is not None
        assert model.coef_.dtype == np.float64


def test_noise_grows_as_epsilon_shrinks(blobs):
    X, y = blobs
    scales = [PrivateLogisticRegression(epsilon=e).fit(X, y).privacy_.noise_scale for e in (0.1, 1, 10)]
    assert scales[0] > scales[1] > scales[2] > 0


def test_accuracy_rises_with_epsilon(blobs):
    X, y = blobs
    X = X[:600]
    means = [
        np.mean(
            [
                PrivateLogisticRegression(epsilon=e, random_state=s).fit(X, y[:600]).score(X, y[:600])
                for s in range(6)
            ]
        )
        for e in (0.05, 0.5, 20)
    ]
    assert means[0] < means[1] < means[2]


@pytest.mark.parametrize("frame", [pd.DataFrame, lambda X, columns: pl.DataFrame(X, schema=columns)])
def test_frames_and_feature_names(frame, blobs):
    X, y = blobs
    names = [f"f{i}" for i in range(5)]
    model = PrivateLogisticRegression().fit(frame(X, columns=names), y)
    assert list(model.feature_names_in_) == names
    assert model.n_features_in_ == 5
    np.testing.assert_array_equal(
        model.predict(frame(X, columns=names)), X @ model.coef_[0] + model.intercept_ > 0
    )
    with pytest.raises(InvalidInput, match="feature names"):
        model.predict(frame(X, columns=names[::-1]))


def test_pipeline_clone_and_cross_validation(blobs):
    X, y = blobs
    pipeline = make_pipeline(
        FunctionTransformer(),
        PrivateLogisticRegression(mechanism=RSGDAR(epochs=3, batch_size=500), epsilon=5),
    )
    copy = clone(pipeline)
    assert copy[-1].mechanism == pipeline[-1].mechanism
    assert cross_val_score(copy, X, y, cv=3).mean() > 0.8


def test_fit_leaves_parameters_alone(blobs):
    X, y = blobs
    model = PrivateLogisticRegression(mechanism=RSGDAR(batch_size=10**6))
    before = dict(model.get_params())
    model.fit(X, y)
    assert model.get_params() == before
    assert model.privacy_.settings["batch_size"] == 4000


def test_add_remove_needs_a_public_capacity_and_costs_half_the_gap(blobs):
    X, y = blobs
    hidden = {"neighbours": "add-remove", "classes": np.unique(y).tolist()}
    with pytest.raises(InvalidInput, match="max_rows"):
        PrivateLogisticRegression(**hidden).fit(X, y)
    with pytest.raises(InvalidInput, match="max_rows"):
        PrivateLogisticRegression(max_rows=10).fit(X, y)
    one = (
        PrivateLogisticRegression(**hidden, max_rows=4000, mechanism=Objective(clip=None)).fit(X, y).privacy_
    )
    two = PrivateLogisticRegression(mechanism=Objective(clip=None)).fit(X, y).privacy_
    assert one.sensitivity == pytest.approx(two.sensitivity / 2, rel=1e-6)
    larger = PrivateLogisticRegression(**hidden, max_rows=5000).fit(X, y)
    assert larger.score(X, y) > 0.8
    with pytest.raises(InvalidInput):
        PrivateLogisticRegression(**hidden, max_rows=3999).fit(X, y)


MARKER = 123454321.5


def bad_rows():
    X = np.full((20, 2), 0.1)
    X[7] = MARKER
    y = np.arange(20) % 2
    nan, inf = X.copy(), X.copy()
    nan[3, 1] = np.nan
    inf[3, 1] = np.inf
    yield "epsilon zero", {"epsilon": 0}, X, y, "epsilon"
    yield "epsilon negative", {"epsilon": -1.0}, X, y, "epsilon"
    yield "epsilon nan", {"epsilon": float("nan")}, X, y, "epsilon"
    yield "epsilon infinite", {"epsilon": float("inf")}, X, y, "epsilon"
    yield "epsilon text", {"epsilon": "1"}, X, y, "epsilon"
    yield "epsilon too small", {"epsilon": 1e-4}, X, y, "epsilon"
    yield "epsilon too large", {"epsilon": 51}, X, y, "epsilon"
    yield "delta zero", {"delta": 0}, X, y, "delta"
    yield "delta one", {"delta": 1.0}, X, y, "delta"
    yield "delta negative", {"delta": -1e-6}, X, y, "delta"
    yield "delta too large", {"delta": 0.2}, X, y, "delta"
    yield "NaN feature", {}, nan, y, "NaN"
    yield "infinite feature", {}, inf, y, "infinity"
    yield "one class", {}, X, np.zeros(20), "class"
    yield "label outside classes", {"classes": [0, 2]}, X, y, "outside classes"
    yield "classes of one", {"classes": [0]}, X, y, "two different labels"
    yield "classes equal", {"classes": [1, 1]}, X, y, "two different labels"
    yield "NaN label", {}, X, np.where(np.arange(20) == 3, np.nan, y), "NaN"
    yield "continuous label", {}, X, X[:, 0] + np.arange(20) / 7, "label"
    yield "lengths differ", {}, X, y[:-1], "inconsistent"
    yield "one-dimensional X", {}, X[:, 0], y, "2D"
    yield "two-dimensional y", {}, X, np.column_stack([y, y]), "1d"
    yield "empty", {}, X[:0], y[:0], "sample"
    yield "no features", {}, X[:, :0], y, "feature"
    yield "text features", {}, np.full((20, 2), "a"), y, "string"
    yield "x_norm zero", {"x_norm": 0}, X, y, "x_norm"
    yield "x_norm text", {"x_norm": "1"}, X, y, "x_norm"
    yield "l2 negative", {"l2": -1}, X, y, "l2"
    yield "l2 nan", {"l2": float("nan")}, X, y, "l2"
    yield "l2 zero for output", {"l2": 0, "mechanism": "output"}, X, y, "l2 > 0"
    yield "unknown mechanism", {"mechanism": "magic"}, X, y, "rsgd-ar"
    yield "mechanism of a wrong type", {"mechanism": 3}, X, y, "mechanism"
    yield "unknown accounting", {"mechanism": "rsgd-ar:loose"}, X, y, "accounting"
    yield "unknown relation", {"neighbours": "next-door"}, X, y, "replace-one"
    yield "step above 2/L", {"mechanism": RSGDAR(step_size=100.0)}, X, y, "2/L"
    yield "seed of a wrong type", {"random_state": "seed"}, X, y, "random_state"


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize(
    ("name", "params", "X", "y", "says"), list(bad_rows()), ids=lambda v: v if isinstance(v, str) else ""
)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_bad_input_is_refused_clearly(Estimator, name, params, X, y, says):
    with pytest.raises((DpermError, ValueError, TypeError), match=f"(?i){says}") as caught:
        Estimator(**params).fit(X, y)
    assert "12345" not in str(caught.value)


def test_a_failed_fit_leaves_nothing_fitted():
    X = np.full((20, 2), 0.1)
    model = PrivateLogisticRegression(mechanism=RSGDAR(step_size=100.0))
    with pytest.raises(NotCertified):
        model.fit(X, np.arange(20) % 2)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "privacy_")


def test_mechanism_settings_are_checked_when_made():
    for bad in (
        {"epochs": 0},
        {"batch_size": -1},
        {"average_every": 1.5},
        {"step_size": 0.0},
        {"step_size": float("nan")},
    ):
        with pytest.raises(InvalidInput):
            RSGDAR(**bad)
    with pytest.raises(InvalidInput):
        Output(tolerance=-1.0)
    with pytest.raises(InvalidInput):
        NoPrivacy(accounting="paper")


def test_an_error_about_complex_rows_quotes_none():
    rows = np.array([[773100.25 + 1j, 0.0], [0.0, 1.0], [0.0, 0.5]])
    with pytest.raises(InvalidInput, match="Complex data") as refused:
        PrivateLogisticRegression(classes=[0, 1]).fit(rows, [0, 1, 1])
    assert "773100" not in str(refused.value)
