"""Probabilities are those of the loss that was really trained with, for a loaded model too."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from dperm import PrivateLinearClassifier, PrivateLogisticRegression
from dperm.estimators import classifier
from dperm.losses import HardClippedLogistic, Logistic, MarginLogistic, SoftClippedLogistic
from dperm.models import load_model, save_model

LOSSES = [SoftClippedLogistic(0.4, 0.6), MarginLogistic(2.0), HardClippedLogistic(0.6)]


def table(n=20_000):
    rng = np.random.default_rng(0)
    X = np.zeros((n, 2))  # two kinds of rows, whose chances any two margins can express
    X[:, 0] = rng.choice([-0.8, 0.8], size=n)
    chance = np.where(X[:, 0] > 0, 0.9, 0.25)
    return X, (rng.random(n) < chance).astype(int), chance


def fitted(loss, **settings):
    X, y, _ = table()
    settings = {"epsilon": 20.0, "mechanism": "objective", "l2": 2e-5, "classes": [0, 1], **settings}
    return PrivateLinearClassifier(loss=loss, **settings).fit(X, y)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_probabilities_are_calibrated_and_the_margins_alone_are_not(loss, tmp_path):
    X, _, chance = table()
    model = fitted(loss)
    margins, found = model.decision_function(X), model.predict_proba(X)
    np.testing.assert_allclose(found[:, 1], expit(loss.log_odds(margins)), rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), found, rtol=1e-9)
    assert np.abs(found[:, 1] - chance).mean() < 0.02
    assert np.abs(expit(margins) - chance).mean() > 0.04
    save_model(model, tmp_path / "model.json")
    np.testing.assert_array_equal(load_model(tmp_path / "model.json").predict_proba(X), found)


def test_the_logistic_loss_keeps_its_plain_link():
    X, y, _ = table(2000)
    model = PrivateLogisticRegression(epsilon=20.0, mechanism="objective", l2=1e-2, classes=[0, 1]).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], expit(model.decision_function(X)))


def test_the_link_is_that_of_the_statement_not_of_the_parameter():
    """A rule may train with another loss than it was asked for; then that one says what margins mean."""
    X, _, _ = table(100)
    model = fitted(SoftClippedLogistic(0.4, 0.6))
    found = model.predict_proba(X)
    model.loss = Logistic.name
    np.testing.assert_array_equal(model.predict_proba(X), found)
    assert classifier._gives_probabilities(model)
    model.loss = replace(LOSSES[0], clip=0.9)
    np.testing.assert_array_equal(model.predict_proba(X), found)


@pytest.mark.parametrize(
    "name", ["soft-clipped-logistic", "margin-logistic:shift=2", "hard-clipped-logistic:clip=0.8"]
)
def test_losses_by_name(name):
    model = fitted(name)
    assert model.privacy_.loss == name.partition(":")[0]
    assert model.predict_proba([[0.5, 0.0]]).shape == (1, 2)
