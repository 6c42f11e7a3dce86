"""One classifier for every loss; those with a name of their own are the same model."""

import numpy as np
import pytest

from dperm import (
    PrivateLinearClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    load_model,
    verify,
)
from dperm.certificate.verification import KINDS
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.linear_classifier import classifier_for
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Softmax
from dperm.mechanisms import NoPrivacy
from dperm.models import read_document
from dperm.models.format import KINDS as SAVED

X = np.random.default_rng(0).normal(size=(300, 3)) / 3
TWO = (X[:, 0] > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.2, 0.2])
EXACT = {"mechanism": NoPrivacy(tolerance=1e-10)}


@pytest.mark.parametrize(
    ("loss", "named"),
    [
        ("logistic", PrivateLogisticRegression),
        (Logistic(), PrivateLogisticRegression),
        ("huber-hinge", PrivateLinearSVC),
    ],
)
def test_the_named_classifiers_are_this_one_with_their_loss(loss, named):
    one, other = PrivateLinearClassifier(loss=loss, **EXACT).fit(X, TWO), named(**EXACT).fit(X, TWO)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.privacy_.loss == other.privacy_.loss


def test_several_classes_take_the_softmax_form():
    one = PrivateLinearClassifier(**EXACT).fit(X, THREE)
    for other in (PrivateLogisticRegression(**EXACT), PrivateLinearClassifier(loss=Softmax(3), **EXACT)):
        np.testing.assert_array_equal(one.coef_, other.fit(X, THREE).coef_)
    with pytest.raises(Unsupported, match="binary classification"):
        PrivateLinearClassifier(loss="huber-hinge").fit(X, THREE)
    with pytest.raises(Unsupported, match="does not fit 2 classes"):
        PrivateLinearClassifier(loss="softmax").fit(X, TWO)
    with pytest.raises(Unsupported, match="does not fit 3 classes"):
        PrivateLinearClassifier(loss=Softmax(4)).fit(X, THREE)


@pytest.mark.parametrize("loss", ["logistic", Logistic(), "huber-hinge", HuberHinge(0.2)])
def test_probabilities_are_there_only_with_a_link(loss):
    model = PrivateLinearClassifier(loss=loss, **EXACT).fit(X, TWO)
    linked = getattr(loss, "name", loss) == "logistic"
    assert hasattr(model, "predict_proba") is hasattr(model, "predict_log_proba") is linked
    if linked:
        assert model.predict_proba(X).shape == (300, 2)
    else:
        with pytest.raises(AttributeError):
            model.predict_proba(X)
    assert not hasattr(PrivateLinearSVC(), "predict_proba")


def test_the_loss_of_a_regression():
    bounds = {"y_range": (-2, 2), "fit_intercept": False, **EXACT}
    by_name = PrivateLinearRegression(residual_bound=0.1, **bounds).fit(X, X[:, 0])
    by_object = PrivateLinearRegression(loss=ClippedSquared(0.1), **bounds).fit(X, X[:, 0])
    np.testing.assert_array_equal(by_name.coef_, by_object.coef_)
    with pytest.raises(InvalidInput, match="residual_bound is for loss='squared'"):
        PrivateLinearRegression(loss=ClippedSquared(0.1), residual_bound=0.2, **bounds).fit(X, X[:, 0])
    with pytest.raises(Unsupported, match="use PrivateLinearClassifier"):
        PrivateLinearRegression(loss="logistic", **bounds).fit(X, X[:, 0])
    with pytest.raises(Unsupported, match="use PrivateLinearRegression"):
        PrivateLinearClassifier(loss=ClippedSquared()).fit(X, TWO)
    with pytest.raises(InvalidInput, match="name or a loss object"):
        PrivateLinearClassifier(loss=3).fit(X, TWO)


@pytest.mark.parametrize(
    "model",
    [
        PrivateLinearClassifier(loss="logistic", mechanism="output", classes=[0, 1]),
        PrivateLinearClassifier(loss=HuberHinge(0.2), mechanism="output", classes=[0, 1]),
        PrivateLinearRegression(loss=ClippedSquared(0.5), mechanism="output", y_range=(0, 1)),
        PrivateLinearClassifier(loss=Softmax(3), mechanism="output", classes=[0, 1, 2]),
    ],
    ids=str,
)
def test_a_loss_is_saved_verified_and_read_back(model, tmp_path):
    targets = THREE if np.size(getattr(model, "classes", 0)) == 3 else TWO
    model.fit(X, targets).save(tmp_path / "m.json")
    assert verify(tmp_path / "m.json").ok
    copy = load_model(tmp_path / "m.json")
    assert copy.get_params() == model.get_params()
    assert copy.predict(X).tobytes() == model.predict(X).tobytes()


def test_the_certificate_knows_every_estimator_by_its_own_loss():
    assert set(KINDS) == set(SAVED)
    for name, kind in SAVED.items():
        settings = kind().get_params()
        targets, loss = KINDS[name]
        assert (loss is None) == ("loss" in settings)
        if loss is not None:
            assert kind.loss == loss
        assert (targets == "classes") == ("classes" in settings)


def test_a_loss_of_tests_makes_no_model():
    with pytest.raises(Unsupported, match="tests and audits"):
        PrivateLinearClassifier(loss="linear").fit(X, TWO)


def test_a_loss_is_made_of_its_alias_or_with_its_settings(tmp_path):
    by_alias = PrivateLinearClassifier(loss="svm", **EXACT).fit(X, TWO)
    np.testing.assert_array_equal(by_alias.coef_, PrivateLinearSVC(**EXACT).fit(X, TWO).coef_)
    set_by_name = PrivateLinearClassifier(loss="huber-hinge:width=0.25", mechanism="output", classes=[0, 1])
    set_by_name.fit(X, TWO).save(tmp_path / "m.json")
    assert set_by_name.certificate_["problem"]["loss_parameters"] == [0.25]
    assert verify(tmp_path / "m.json").ok
    assert load_model(tmp_path / "m.json").loss == "huber-hinge:width=0.25"


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        ("logistic", PrivateLogisticRegression),
        ("svm", PrivateLinearSVC),
        (HuberHinge(), PrivateLinearSVC),
        ("huber-hinge:width=0.1", PrivateLinearClassifier),
    ],
)
def test_the_classifier_for_a_loss_is_the_one_named_after_it(loss, kind):
    assert type(classifier_for(loss, epsilon=0.5)) is kind
    assert classifier_for(loss, epsilon=0.5).epsilon == 0.5


@pytest.mark.parametrize("place", ["certificate", "parameters"])
def test_a_certificate_about_another_width_is_refused(place, tmp_path):
    model = PrivateLinearClassifier(loss=HuberHinge(0.2), mechanism="output", classes=[0, 1]).fit(X, TWO)
    model.save(tmp_path / "m.json")
    document = read_document(tmp_path / "m.json")
    if place == "certificate":
        document["certificate"]["problem"]["loss_parameters"] = [0.4]
        document["certificate"]["problem"]["smoothness"] = 1.25
    else:
        document["parameters"]["loss"]["parameters"] = [0.4]
    (failure, *_) = [line for line in verify(document).failures if "digest" not in line]
    assert "the loss is not that of the estimator" in failure
