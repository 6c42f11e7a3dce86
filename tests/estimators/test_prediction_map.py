"""Prediction sees rows through the very map that training saw them through."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import log_loss

from dperm import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.mechanisms import RSGD, AdaSSP, NoPrivacy, Objective, Output

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 3)) / 4
LABELS = (X[:, 0] > 0).astype(int)
SHORT, LONG = X[np.linalg.norm(X, axis=1) < 0.9][:50], 40 * X[:50]


def bounded(rows, x_norm):
    return rows * np.minimum(1, x_norm / np.linalg.norm(rows, axis=1))[:, None]


def linear(model, rows):
    return np.ravel(rows @ model.coef_.T + model.intercept_)


PLAIN = Output(standardise=False, clip=None)
MODELS = {
    "logistic": PrivateLogisticRegression(mechanism=PLAIN, classes=[0, 1]),
    "svm": PrivateLinearSVC(mechanism=RSGD(standardise=False), classes=[0, 1], x_norm=0.95),
    "regression": PrivateLinearRegression(mechanism="adassp", y_range=(-3, 5)),
    "no intercept": PrivateLogisticRegression(mechanism=PLAIN, classes=[0, 1], fit_intercept=False),
}


def margins(model, rows):
    return (
        model.predict(rows) if isinstance(model, PrivateLinearRegression) else model.decision_function(rows)
    )


@pytest.mark.parametrize("name", MODELS)
def test_short_rows_get_the_linear_function_and_long_ones_that_of_the_row_as_trained_on(name):
    model = MODELS[name].fit(X, LABELS)
    np.testing.assert_allclose(margins(model, SHORT), linear(model, SHORT), rtol=1e-12)
    np.testing.assert_allclose(margins(model, LONG), linear(model, bounded(LONG, model.x_norm)), rtol=1e-12)
    assert np.abs(linear(model, LONG) - margins(model, LONG)).max() > 1e-3  # the bound does cut
    assert (model.row_map_.x_norm, model.row_map_.centre) == (model.x_norm, None)


@pytest.mark.parametrize(
    ("model", "targets"),
    [
        (PrivateLogisticRegression(classes=[0, 1]), LABELS),
        (PrivateLogisticRegression(classes=[0, 1, 2]), np.digitize(X[:, 0], [-0.2, 0.2])),
        (PrivateLinearSVC(classes=[0, 1]), LABELS),
        (PrivateLinearRegression(y_range=(-1, 1)), LABELS),
        (PrivateLogisticRegression(mechanism="output", classes=[0, 1]), LABELS),
    ],
    ids=["binary", "three classes", "svm", "regression", "output"],
)
def test_by_default_rows_of_any_length_get_the_linear_function(model, targets):
    """As the docstrings of predict and decision_function say; with bounded rows it would differ."""
    model.fit(X, targets)
    assert model.row_map_.linear
    expected = np.squeeze(LONG @ model.coef_.T + model.intercept_)
    np.testing.assert_allclose(margins(model, LONG), expected, rtol=1e-12)
    cut = np.squeeze(bounded(LONG, 1.0) @ model.coef_.T + model.intercept_)
    assert np.abs(cut - expected).max() > 1e-3


def test_raw_ages_are_predicted_as_well_as_they_were_learned():
    """A column that nobody scaled: training saw bounded rows, and so does prediction."""
    rng = np.random.default_rng(1)
    ages = rng.integers(18, 90, size=(4000, 1)).astype(float)
    hours = rng.integers(0, 60, size=(4000, 1)).astype(float)
    rows = np.hstack([ages, hours])
    chance = expit(8 * (bounded(rows, 1.0)[:, 0] - 0.9))
    labels = (rng.random(4000) < chance).astype(int)
    model = PrivateLogisticRegression(mechanism=NoPrivacy(), l2=1e-3).fit(rows, labels)
    found = log_loss(labels, model.predict_proba(rows))
    base = log_loss(labels, np.full(len(labels), labels.mean()))
    assert found < base
    assert (
        log_loss(labels, expit(linear(model, rows))) > 4 * found
    )  # what predict gave before it bounded rows


@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(mechanism=Objective(standardise="bounded"), classes=[0, 1], epsilon=20.0),
        PrivateLogisticRegression(mechanism=Output(standardise="bounded"), classes=[0, 1, 2], epsilon=20.0),
        PrivateLinearRegression(mechanism=AdaSSP(standardise="bounded"), y_range=(-1, 4), epsilon=20.0),
    ],
    ids=["binary", "three classes", "regression"],
)
def test_standardised_models_see_rows_moved_and_bounded_again(model):
    rows = X + 0.5
    targets = np.digitize(X[:, 0], [-0.2, 0.2]) if np.size(getattr(model, "classes", 0)) == 3 else LABELS
    model.fit(rows, targets)
    centre, scale = model.row_map_.centre, model.row_map_.scale
    assert np.abs(centre - bounded(rows, 1.0).mean(axis=0)).max() < 0.2
    seen = bounded((bounded(rows, 1.0) - centre) / scale, 1.0)
    assert (
        np.linalg.norm((bounded(rows, 1.0) - centre) / scale, axis=1) > 1
    ).any()  # the second bound does cut
    coefficients = np.atleast_2d(model.coef_) * scale
    constant = np.atleast_1d(model.intercept_) + np.atleast_2d(model.coef_) @ centre
    np.testing.assert_allclose(
        margins(model, rows), np.squeeze(seen @ coefficients.T + constant), rtol=1e-9, atol=1e-9
    )


@pytest.mark.cover(1)
@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(mechanism=Objective(standardise=True), classes=[0, 1]),
        PrivateLogisticRegression(mechanism=Output(standardise="linear"), classes=[0, 1, 2]),
        PrivateLinearRegression(mechanism=AdaSSP(standardise=True), y_range=(-1, 4)),
        PrivateLogisticRegression(mechanism=Objective(standardise=True), classes=[0, 1], fit_intercept=False),
    ],
    ids=["binary", "three classes", "regression", "no intercept"],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_linear_models_are_exactly_what_their_coefficients_say(model, dtype):
    """For rows of any length, to the last bit; a bounded model is not."""
    model.fit(X + 0.5, LABELS)
    far = (40 * X).astype(dtype)
    expected = np.squeeze(far @ model.coef_.T + model.intercept_)
    np.testing.assert_array_equal(margins(model, far), expected)
    cut = clone(model).set_params(mechanism=replace(model.mechanism, standardise="bounded"))
    cut.fit(X + 0.5, LABELS)
    assert np.abs(margins(cut, far) - np.squeeze(far @ cut.coef_.T + cut.intercept_)).max() > 1e-3


def test_probabilities_and_labels_follow_the_mapped_rows():
    model = MODELS["logistic"].fit(X, LABELS)
    np.testing.assert_allclose(model.predict_proba(LONG)[:, 1], expit(model.decision_function(LONG)))
    np.testing.assert_array_equal(model.predict(LONG), (model.decision_function(LONG) > 0).astype(int))
