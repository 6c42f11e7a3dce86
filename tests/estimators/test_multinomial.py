"""More than two classes: one softmax fit, one budget, scikit-learn's shapes."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dperm import PrivateLinearSVC, PrivateLogisticRegression
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Softmax
from dperm.mechanisms import RSGDAR, NoPrivacy, Output
from dperm.models import load_model, save_model

N, FEATURES, CLASSES = 6000, 5, 4


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    y = rng.choice(CLASSES, p=[0.1, 0.2, 0.4, 0.3], size=N)
    X = 0.15 * rng.normal(size=(N, FEATURES))
    X[np.arange(N), y] += 0.7
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), y


@pytest.mark.parametrize(
    "mechanism", ["rsgd-ar", "rsgd", "nsgd", "output-gd", "bolt-on", "output", "none", "majority"]
)
def test_every_mechanism_fits_all_classes_in_one_budget(mechanism, blobs):
    X, y = blobs
    model = PrivateLogisticRegression(mechanism=mechanism, epsilon=4.0, l2=1e-2).fit(X, y)
    assert model.coef_.shape == (CLASSES, FEATURES)
    assert model.intercept_.shape == (CLASSES,)
    assert model.decision_function(X).shape == (N, CLASSES)
    report = model.privacy_
    private = mechanism not in ("none", "majority")
    assert report.guarantee == ({"epsilon": 4.0, "delta": 1e-6} if private else None)
    assert (report.loss, report.n_coefficients) == ("softmax", CLASSES * (FEATURES + 1))
    json.dumps(report.to_dict())
    if mechanism == "majority":
        assert set(model.predict(X)) == {2}
    else:
        assert model.score(X, y) > 0.9


def test_no_noise_equals_scikit_learn(blobs):
    X, y = blobs
    settings = {"fit_intercept": False, "l2": 1e-2}
    ours = PrivateLogisticRegression(mechanism=NoPrivacy(tolerance=1e-10), **settings).fit(X, y)
    theirs = LogisticRegression(fit_intercept=False, C=1 / (N * 1e-2), tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(ours.intercept_, np.zeros(CLASSES))


def test_probabilities_follow_the_margins(blobs):
    X, y = blobs
    model = PrivateLogisticRegression().fit(X, y)
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_allclose(np.log(chances), model.predict_log_proba(X))
    margins = model.decision_function(X)
    np.testing.assert_allclose(margins, X @ model.coef_.T + model.intercept_, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[chances.argmax(axis=1)])


def test_the_noise_is_that_of_the_softmax_constants(blobs):
    """Output perturbation moves by 2R / (n l2) with R = sqrt(2) times the row norm, whatever C."""
    X, y = blobs
    report = PrivateLogisticRegression(mechanism=Output(tolerance=1e-8), l2=0.1).fit(X, y).privacy_
    assert report.lipschitz == Softmax(CLASSES).lipschitz
    exact = 2 * np.sqrt(2) * report.row_norm / (N * 0.1)
    assert exact <= report.sensitivity <= 1.001 * exact


def test_two_classes_keep_a_loss_of_one_margin_and_its_shapes(blobs):
    X, y = blobs
    for model in (
        PrivateLogisticRegression().fit(X, y > 1),
        PrivateLogisticRegression(classes=["a", "b"]).fit(X, np.where(y > 1, "a", "b")),
    ):
        assert model.privacy_.loss == "soft-clipped-logistic"  # what auto trains a logistic model with
        assert (model.coef_.shape, model.intercept_.shape) == ((1, FEATURES), (1,))
        assert model.decision_function(X).shape == (N,)


def test_a_declared_class_that_does_not_occur_gets_a_row(blobs):
    X, y = blobs
    model = PrivateLogisticRegression(mechanism="none", classes=[0, 1, 9, 2, 3]).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2, 3, 9]
    assert model.class_order_.tolist() == [0, 1, 9, 2, 3]
    assert model.coef_.shape == (5, FEATURES)
    assert (model.predict_proba(X)[:, 4] < 0.2).all()
    assert model.score(X, y) > 0.9
    assert any("chosen without looking" in str(a) for a in model.privacy_.assumptions)
    three = PrivateLogisticRegression(mechanism="none", classes=[0, 1, 2]).fit(X[y < 2], y[y < 2])
    assert three.privacy_.loss == "softmax"


def test_classes_keep_their_type(blobs):
    X, y = blobs
    names = np.array(["south", "east", "north", "west"])
    model = PrivateLogisticRegression(mechanism="none", classes=list(names)).fit(X, names[y])
    plain = PrivateLogisticRegression(mechanism="none").fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_[np.argsort(names)], atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), names[plain.predict(X)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_precisions_are_certified(blobs, dtype):
    X, y = blobs
    model = PrivateLogisticRegression(mechanism=RSGDAR(epochs=2)).fit(X.astype(dtype), y)
    assert model.privacy_.guarantee is not None
    assert model.coef_.dtype == np.float64


def test_standardising_and_add_remove_work(blobs):
    X, y = blobs
    standardised = PrivateLogisticRegression(
        mechanism=RSGDAR(standardise=True), epsilon=8.0, classes=range(CLASSES)
    )
    assert standardised.fit(X, y).score(X, y) > 0.9
    assert standardised.privacy_.guarantee is not None
    hidden = {"neighbours": "add-remove", "classes": range(CLASSES)}
    open_ended = PrivateLogisticRegression(**hidden, max_rows=N + 500, epsilon=8.0).fit(X, y)
    assert open_ended.score(X, y) > 0.9
    majority = PrivateLogisticRegression(mechanism="majority", **hidden, max_rows=9 * N)
    assert set(majority.fit(X, y).predict(X)) == {2}  # empty rows have no label to count


def test_a_support_vector_classifier_stays_binary(blobs):
    X, y = blobs
    with pytest.raises(Unsupported, match=r"Only binary.*y holds 4 classes.*PrivateLogisticRegression"):
        PrivateLinearSVC().fit(X, y)
    with pytest.raises(Unsupported, match="classes declares 3 classes"):
        PrivateLinearSVC(classes=[0, 1, 2]).fit(X, y > 1)


@pytest.mark.parametrize(
    ("classes", "says"),
    [
        ([0, 1, 1, 2], "at least two different labels"),
        ([[0, 1], [2, 3]], "at least two different labels"),
        ([0, 1, 2], "outside classes"),
        (["0", "1", "2", "3"], "text that reads as numbers"),
    ],
)
def test_bad_declarations_are_refused(blobs, classes, says):
    X, y = blobs
    with pytest.raises(InvalidInput, match=says):
        PrivateLogisticRegression(classes=classes).fit(X, y)


@pytest.fixture
def saved(blobs, tmp_path):
    X, y = blobs
    model = PrivateLogisticRegression(mechanism=RSGDAR(epochs=2), classes=[3, 2, 1, 0]).fit(X, y)
    save_model(model, tmp_path / "model.json")
    return model, tmp_path / "model.json"


def test_a_saved_model_is_read_back_exactly(blobs, saved):
    model, path = saved
    copy = load_model(path)
    for name in ("coef_", "intercept_", "classes_"):
        assert getattr(copy, name).tobytes() == getattr(model, name).tobytes()
        assert getattr(copy, name).shape == getattr(model, name).shape
    assert copy.decision_function(blobs[0]).tobytes() == model.decision_function(blobs[0]).tobytes()
    assert copy.predict(blobs[0]).tolist() == model.predict(blobs[0]).tolist()
    assert copy.privacy_ == model.privacy_


HOSTILE = {
    "a class too few": lambda d: d["classes"].pop(),
    "a class twice": lambda d: d["classes"].__setitem__(0, 1),
    "one class": lambda d: d.update(classes=[3]),
    "a row too few": lambda d: d["coefficients"].pop(),
    "a short row": lambda d: d["coefficients"][1].pop(),
    "empty rows": lambda d: d.update(coefficients=[[]] * CLASSES),
    "a row that is a number": lambda d: d["coefficients"].__setitem__(0, 1.0),
    "text among numbers": lambda d: d["coefficients"][2].__setitem__(0, "1"),
    "flat coefficients": lambda d: d.update(coefficients=d["coefficients"][0]),
    "coefficients that are a number": lambda d: d.update(coefficients=1.0),
    "one intercept": lambda d: d.update(intercept=0.0),
    "an intercept too few": lambda d: d["intercept"].pop(),
    "an intercept that is no number": lambda d: d["intercept"].__setitem__(1, None),
    "two classes for four rows": lambda d: d.update(classes=[0, 1]),
    "intercepts without fit_intercept": lambda d: d["parameters"].update(fit_intercept=False),
    "an estimator for two classes": lambda d: d.update(estimator="PrivateLinearSVC"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_refused(saved, name):
    _, path = saved
    document = json.loads(path.read_text())
    HOSTILE[name](document)
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="not a usable model file"):
        load_model(path)
