"""scikit-learn's tools around models of declared text, whose labels many of them encode by themselves."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

from dperm import Ledger, PrivateLogisticRegression, PrivateSearchCV, load_model, verify
from dperm.errors import InvalidInput, Unsupported

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(900, 3))
NOISY = X[:, 0] + 0.1 * RNG.normal(size=900)
LABELS = {
    "two": (["nein", "ja"], np.where(NOISY > 0, "ja", "nein")),
    "three": (
        ["tief", "mitte", "hoch"],
        np.array(["tief", "mitte", "hoch"])[np.digitize(NOISY, [-0.2, 0.2])],
    ),
}
pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")


def model(classes, **settings):
    return PrivateLogisticRegression(
        **{"mechanism": "output", "epsilon": 50.0, "classes": classes, **settings}
    )


def search(classes):
    return PrivateSearchCV(
        model(classes, epsilon=1.0), {"l2": [1e-3, 1e-2]}, epsilon=20.0, delta=1e-6, random_state=0
    )


TOOLS = {
    "voting": lambda c: VotingClassifier([("a", model(c)), ("b", model(c)), ("c", LogisticRegression())]),
    "soft voting": lambda c: VotingClassifier([("a", model(c)), ("b", model(c))], voting="soft"),
    "stacking": lambda c: StackingClassifier([("a", model(c))], final_estimator=LogisticRegression(), cv=2),
    "bagging": lambda c: BaggingClassifier(model(c, sample_weight_bound=4.0), n_estimators=2),
    "calibration": lambda c: CalibratedClassifierCV(model(c), cv=2),
    "calibration of one model": lambda c: CalibratedClassifierCV(model(c), cv=2, ensemble=False),
    "search in voting": lambda c: VotingClassifier([("a", search(c))]),
    "search in bagging": lambda c: BaggingClassifier(search(c), n_estimators=2, random_state=0),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_fits_and_predicts_the_labels(tool, kind):
    classes, y = LABELS[kind]
    fitted = TOOLS[tool](classes).fit(X, y)
    assert fitted.classes_.tolist() == sorted(classes)
    assert accuracy_score(y, fitted.predict(X)) > (0.8 if kind == "two" else 0.55)
    if hasattr(fitted, "predict_proba") and tool != "voting":
        assert (fitted.classes_[fitted.predict_proba(X).argmax(axis=1)] == y).mean() > 0.55


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "decision_function"])
def test_cross_val_predict_puts_columns_in_their_order(kind, method):
    classes, y = LABELS[kind]
    found = cross_val_predict(model(classes), X, y, cv=2, method=method)
    places = found.argmax(axis=1) if found.ndim == 2 else (found > 0).astype(int)
    assert accuracy_score(y, np.unique(y)[places]) > (0.8 if kind == "two" else 0.55)


def test_whole_numbers_are_codes_of_the_sorted_labels(tmp_path):
    classes, y = LABELS["two"]
    codes = np.unique(y, return_inverse=True)[1]
    one = model(classes, class_weight={"ja": 2.0}).fit(X, codes)
    assert (one.classes_.tolist(), one.class_order_.tolist(), one.positive_) == ([0, 1], [1, 0], 0)
    assert (one.predict(X) == codes).mean() > 0.8
    one.save(tmp_path / "model.json")
    assert verify(tmp_path / "model.json").ok
    again = load_model(tmp_path / "model.json")
    assert (again.classes_.tolist(), again.positive_) == ([0, 1], 0)
    np.testing.assert_array_equal(again.predict(X), one.predict(X))


def test_codes_are_told_by_the_type_of_y_before_the_charge(tmp_path):
    _, y = LABELS["two"]
    codes = np.unique(y, return_inverse=True)[1]
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=200.0, delta=1e-3)
    with pytest.raises(InvalidInput, match="reads as numbers"):
        model(["1", "0"], ledger=ledger).fit(X, codes)
    assert ledger.entries() == []
    for given in (codes.astype(np.uint8), codes.astype(np.int32)):
        assert model(["nein", "ja"], ledger=ledger).fit(X, given).classes_.tolist() == [0, 1]
    for given in (codes.tolist(), codes.astype(float), codes.astype(object)):  # no array of whole numbers
        with pytest.raises(InvalidInput, match="outside classes|Unknown label type"):
            model(["nein", "ja"]).fit(X, given)
    assert model(["nein", "ja"]).fit(X, y).classes_.tolist() == ["ja", "nein"]


@pytest.mark.parametrize("tool", [OneVsRestClassifier, OneVsOneClassifier])
def test_one_model_for_each_class_is_refused_in_words(tool, tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=900.0, delta=1e-3)
    for classes, y in (LABELS["three"], ([0, 1, 2], np.digitize(NOISY, [-0.2, 0.2]))):
        with pytest.raises(Unsupported, match="fits all classes in one budget"):
            tool(model(classes, ledger=ledger)).fit(X, y)
    assert ledger.entries() == []
    classes, y = LABELS["two"]
    assert accuracy_score(y, tool(model(classes)).fit(X, y).predict(X)) > 0.8
    assert accuracy_score(LABELS["three"][1], tool(model(None)).fit(X, LABELS["three"][1]).predict(X)) > 0.55


def test_weights_that_a_tool_makes_need_a_bound_and_boosting_is_refused(tmp_path):
    classes, y = LABELS["two"]
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=900.0, delta=1e-3)
    with pytest.raises(InvalidInput, match=r"BaggingClassifier and its like .* declare a bound too"):
        BaggingClassifier(model(classes)).fit(X, y)
    with pytest.raises(InvalidInput, match="Boosting makes weights of other rows"):
        AdaBoostClassifier(model(classes)).fit(X, y)
    with pytest.raises(
        Unsupported, match="AdaBoostClassifier makes the sample_weight of a row of all other rows"
    ):
        AdaBoostClassifier(model(classes, sample_weight_bound=1.0, ledger=ledger)).fit(X, y)
    assert ledger.entries() == []
    inner = (
        BaggingClassifier(model(classes, sample_weight_bound=4.0), n_estimators=1).fit(X, y).estimators_[0]
    )
    assert any(
        "NOT MET: this model was fitted inside BaggingClassifier" in str(a)
        for a in inner.privacy_.assumptions
    )
