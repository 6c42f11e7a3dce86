"""``classes_`` is sorted, as scikit-learn takes for granted; the declared order is told, and gives the direction."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, get_scorer, precision_score, recall_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV

import dperm
from dperm import (
    Budget,
    Ledger,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    load_model,
    save_model,
    verify,
)
from dperm.data import write_shards
from dperm.errors import InvalidInput, PrivacyWarning
from dperm.estimators.labels import label_set
from dperm.models.effects import effects_text
from dperm.schema import Schema

RNG = np.random.default_rng(0)
N = 3000
X = RNG.uniform(-0.5, 0.5, size=(N, 3))
NOISY = X[:, 0] + 0.3 * RNG.normal(size=N)
Y = np.where(NOISY > 0.25, "ja", "nein")  # "nein" is the last one of both when they are sorted
THREE = np.array(["tief", "mitte", "hoch"])[np.digitize(NOISY, [-0.2, 0.2])]
DECLARED = ["nein", "ja"]


def model(**settings):
    return PrivateLogisticRegression(**{"mechanism": "none", "classes": DECLARED, "l2": 1e-3, **settings})


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X, Y)


@pytest.fixture(scope="module")
def three():
    return model(classes=["tief", "mitte", "hoch"]).fit(X, THREE)


@pytest.mark.together
@pytest.mark.parametrize(
    ("declared", "ordered"),
    [
        (["nein", "ja"], ["ja", "nein"]),
        ([1, 0], [0, 1]),
        ([True, False], [False, True]),
        ([0.5, -1.0], [-1.0, 0.5]),
        (["c", "a", "b"], ["a", "b", "c"]),
        (range(3), [0, 1, 2]),
    ],
)
def test_classes_are_sorted_and_the_declared_order_is_kept(declared, ordered):
    found = label_set(declared)
    assert found.classes.tolist() == ordered == np.unique(np.asarray(declared)).tolist()
    assert found.order.tolist() == found.declared.tolist() == list(declared)


@pytest.mark.together
@pytest.mark.parametrize(
    "classes",
    [
        [1, "a"],
        np.array([1, "a"], dtype=object),
        [None, "a"],
        [True, "True"],
        [0.0, float("nan")],
        [{}, {1: 2}],
    ],
)
def test_labels_that_cannot_be_sorted_are_refused_before_anything_is_spent(classes, tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=9.0, delta=1e-3)
    with pytest.raises(InvalidInput, match="can be sorted"):
        model(mechanism="output", classes=classes, ledger=ledger).fit(X, Y)
    assert ledger.entries() == []


def test_a_positive_class_is_one_of_two(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=9.0, delta=1e-3)
    paying = {"mechanism": "output", "ledger": ledger}
    for wrong in ("vielleicht", 1, ["ja"]):
        with pytest.raises(InvalidInput, match="positive must be one of the classes"):
            model(positive=wrong, **paying).fit(X, Y)
    with pytest.raises(InvalidInput, match="leave it at None"):
        model(classes=["tief", "mitte", "hoch"], positive="hoch", **paying).fit(X, THREE)
    with pytest.raises(InvalidInput, match="leave it at None"):
        model(classes=None, positive="hoch").plan(N, 3, n_classes=3)
    assert ledger.entries() == []


def test_the_positive_class_is_the_second_declared_or_named(fitted):
    assert (fitted.classes_.tolist(), fitted.class_order_.tolist()) == (["ja", "nein"], DECLARED)
    assert fitted.positive_ == "ja"
    named = model(positive="nein").fit(X, Y)
    assert (named.positive_, named.class_order_.tolist()) == ("nein", ["ja", "nein"])
    np.testing.assert_array_equal(named.coef_, fitted.coef_)  # nothing is trained otherwise
    taken = model(classes=None).fit(X, Y)
    assert taken.positive_ == "nein"
    assert model(classes=None, positive="ja").fit(X, Y).positive_ == "ja"


def test_margins_probabilities_and_rows_follow_the_sorted_classes(fitted, three):
    ordered = model(classes=["ja", "nein"]).fit(X, Y)
    np.testing.assert_array_equal(fitted.coef_, ordered.coef_)
    chances, margins = fitted.predict_proba(X), fitted.decision_function(X)
    assert ((margins > 0) == (fitted.predict(X) == "nein")).all()
    assert chances[Y == "ja", 0].mean() > chances[Y == "nein", 0].mean() + 0.1
    other = model(classes=["hoch", "mitte", "tief"]).fit(X, THREE)
    np.testing.assert_array_equal(three.coef_, other.coef_)
    assert three.classes_.tolist() == ["hoch", "mitte", "tief"]
    assert three.positive_ is None
    assert (three.classes_[three.predict_proba(X).argmax(axis=1)] == three.predict(X)).all()


def test_scorers_judge_a_good_model_as_good(fitted):
    area = get_scorer("roc_auc")(fitted, X, Y)
    assert area == pytest.approx(roc_auc_score(Y == "ja", fitted.predict_proba(X)[:, 0]))
    assert area > 0.7
    private = model(mechanism="output", random_state=0)
    with pytest.warns(PrivacyWarning):
        found = GridSearchCV(private, {"epsilon": [0.01, 5.0]}, cv=3, scoring="roc_auc").fit(X, Y)
    assert found.best_params_ == {"epsilon": 5.0}
    with pytest.warns(PrivacyWarning):
        tuned = TunedThresholdClassifierCV(model(mechanism="output", epsilon=9.0), cv=2).fit(X, Y)
    assert recall_score(Y, tuned.predict(X), pos_label="ja") > 0.5  # of the rarer class, by balanced accuracy


OBJECTIVES = {
    "recall>=0.9": lambda said: recall_score(Y, said, pos_label="ja") > 0.87,
    "precision>=0.6": lambda said: precision_score(Y, said, pos_label="ja") > 0.57,
    "f1": lambda said: f1_score(Y, said, pos_label="ja") > 0.58,
}


@pytest.mark.together
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_threshold_is_for_the_positive_class(objective):
    """As that of a model whose positive class is the second of the sorted ones, and not for the other class."""
    here, there = (
        one.fit(X, labels).tune_threshold(X, labels, epsilon=50.0, objective=objective, random_state=0)
        for one, labels in ((model(), Y), (model(classes=[0, 1]), (Y == "ja").astype(int)))
    )
    said = here.predict(X)
    assert OBJECTIVES[objective](said)
    assert ((said == "ja") == there.predict(X)).mean() > 0.99
    assert here.threshold_.margin == pytest.approx(-there.threshold_.margin, abs=0.05)
    assert ((said == "ja") == (here.decision_function(X) < here.threshold_.margin)).all()
    other = (
        model(positive="nein")
        .fit(X, Y)
        .tune_threshold(X, Y, epsilon=50.0, objective="recall>=0.9", random_state=0)
    )
    assert recall_score(Y, other.predict(X), pos_label="nein") == pytest.approx(0.9, abs=0.03)


def test_evaluations_tell_of_the_positive_class(fitted, three):
    said, chances = fitted.predict(X), fitted.predict_proba(X)[:, 0]
    exact = dperm.evaluate(fitted, X, Y, local=True)
    assert exact.classes == DECLARED
    assert exact.metrics["auc"].estimate == pytest.approx(roc_auc_score(Y == "ja", chances))
    for name, score in (("recall", recall_score), ("precision", precision_score), ("f1", f1_score)):
        assert exact.metrics[name].estimate == pytest.approx(score(Y, said, pos_label="ja"))
    cells = [[np.mean((a == Y) & (said == b)) for b in DECLARED] for a in DECLARED]
    np.testing.assert_allclose([[cell.estimate for cell in row] for row in exact.confusion], cells)
    assert "Recall of ja" in str(exact) or "recall of ja" in str(exact).lower()
    noisy = dperm.evaluate(fitted, X, Y, Budget(20.0, 1e-6), random_state=0)
    assert noisy.metrics["auc"].estimate == pytest.approx(roc_auc_score(Y == "ja", chances), abs=0.02)
    other = dperm.evaluate(model(positive="nein").fit(X, Y), X, Y, local=True)
    assert other.classes == ["ja", "nein"]
    assert other.metrics["recall"].estimate == pytest.approx(recall_score(Y, said, pos_label="nein"))
    many = dperm.evaluate(three, X, THREE, local=True)
    assert many.classes == ["tief", "mitte", "hoch"]
    for label, rates in zip(many.classes, many.rates, strict=True):
        expected = recall_score(THREE, three.predict(X), labels=[label], average=None)[0]
        assert rates["recall"].estimate == pytest.approx(expected)


def test_an_evaluation_follows_a_tuned_threshold():
    tuned = model().fit(X, Y).tune_threshold(X, Y, epsilon=50.0, objective="recall>=0.9", random_state=0)
    exact = dperm.evaluate(tuned, X, Y, local=True)
    assert exact.metrics["recall"].estimate == pytest.approx(
        recall_score(Y, tuned.predict(X), pos_label="ja")
    )
    assert exact.metrics["accuracy"].estimate == pytest.approx((tuned.predict(X) == Y).mean())


def test_means_are_of_the_positive_class(fitted, three):
    spent = {"budget": Budget(20.0, 1e-6), "random_state": 0}
    found = dperm.mean_predictions(fitted, X, **spent)
    assert found.label == "ja"
    assert found.overall.mean.estimate == pytest.approx(fitted.predict_proba(X)[:, 0].mean(), abs=0.01)
    other = dperm.mean_predictions(fitted, X, label="nein", **spent)
    assert other.overall.mean.estimate == pytest.approx(fitted.predict_proba(X)[:, 1].mean(), abs=0.01)
    many = dperm.mean_predictions(three, X, label="tief", **spent)
    assert many.overall.mean.estimate == pytest.approx(three.predict_proba(X)[:, 2].mean(), abs=0.01)


def test_a_summary_tells_effects_on_the_positive_class(fitted, three):
    told = fitted.summary()
    assert told.score == "the log odds of 'ja'"
    assert told.rows[0].change == pytest.approx(-fitted.coef_[0, 0])
    assert told.rows[0].change > 0
    assert told.rows[-1].change == pytest.approx(-fitted.intercept_[0])
    assert (
        "Signs are turned: they are those of 'ja', and coef_ and decision_function are for 'nein'."
        in told.remarks
    )
    straight = model(positive="nein").fit(X, Y).summary()
    assert straight.score == "the log odds of 'nein'"
    assert straight.rows[0].change == fitted.coef_[0, 0]
    assert not any("turned" in line for line in straight.remarks)
    many = three.summary()
    assert [row.output for row in many.rows[:3]] == ["tief", "mitte", "hoch"]
    centred = three.coef_ - three.coef_.mean(axis=0)
    np.testing.assert_allclose([row.change for row in many.rows[:3]], centred[::-1, 0])


def test_intervals_in_a_summary_are_turned_with_it():
    known = model(mechanism="objective", l2="auto", inference=True, epsilon=20.0).fit(X, Y)
    (row, *_), own = known.summary().rows, known.confidence_intervals()["x0"]
    assert (row.interval.estimate, row.interval.low, row.interval.high) == (
        -own.estimate,
        -own.high,
        -own.low,
    )
    assert own.estimate * known.coef_[0, 0] > 0 > row.interval.estimate * known.coef_[0, 0]


SCHEMA = {
    "target": {"name": "krank", "classes": DECLARED},
    "rows": {"spline": 0},
    "features": {name: {"range": [-0.5, 0.5]} for name in "abc"},
}


def test_effects_are_those_of_the_positive_class():
    schema = Schema.parse(SCHEMA)
    encoded = dperm.PublicEncoder(schema).fit_transform(pd.DataFrame(X, columns=list("abc")))
    text = effects_text(model(mechanism="none").fit(encoded, Y), schema)
    assert "the score of 'ja'" in text
    line = next(line for line in text.splitlines() if line.strip().startswith("a "))
    assert line.index("▁") < line.index("█")  # more of a, more of "ja"


def test_a_file_keeps_classes_order_and_direction(tmp_path):
    for number, (settings, labels) in enumerate(
        (
            ({}, Y),
            ({"positive": "nein"}, Y),
            ({"classes": ["tief", "mitte", "hoch"]}, THREE),
            ({"classes": None}, Y),
        )
    ):
        one = model(mechanism="output", l2="auto", **settings).fit(X, labels)
        if number == 0:
            one.tune_threshold(X, labels, epsilon=1.0, objective="recall>=0.9")
        path = tmp_path / f"{number}.json"
        save_model(one, path)
        assert verify(path).ok, verify(path).failures
        again = load_model(path)
        assert again.classes_.tolist() == one.classes_.tolist() == sorted(set(labels))
        assert again.class_order_.tolist() == one.class_order_.tolist()
        assert again.positive_ == one.positive_
        np.testing.assert_array_equal(again.predict(X), one.predict(X))
        again.save(path)
        assert verify(path).ok


def test_weights_of_classes_go_by_label():
    heavy = {"class_weight": {"ja": 5.0}}
    here = model(**heavy).fit(X, Y)
    there = model(classes=[0, 1], class_weight={1: 5.0}).fit(X, (Y == "ja").astype(int))
    np.testing.assert_allclose(here.coef_, -there.coef_, atol=1e-5)
    assert (here.predict(X) == "ja").mean() > (model().fit(X, Y).predict(X) == "ja").mean() + 0.1


def test_shards_that_declare_their_classes_give_the_direction(tmp_path):
    folder = write_shards(X, None, tmp_path / "shards", y=Y, classes=DECLARED)
    one = PrivateLogisticRegression(epsilon=5.0).fit(folder)
    assert (one.classes_.tolist(), one.positive_) == (["ja", "nein"], "ja")
    assert get_scorer("roc_auc")(one, X, Y) > 0.7
    one.save(tmp_path / "model.json")
    assert verify(tmp_path / "model.json").ok
    assert load_model(tmp_path / "model.json").class_order_.tolist() == DECLARED


@pytest.mark.together
@pytest.mark.parametrize("scoring", [None, "balanced_accuracy", "roc_auc", "neg_log_loss"])
def test_a_private_search_keeps_classes_and_direction(scoring):
    settings = {"epsilon": 20.0, "delta": 1e-6, "mean_candidates": 3.0, "random_state": 1, "scoring": scoring}
    found = PrivateSearchCV(model(mechanism="output"), {"l2": [0.01, 0.1]}, **settings).fit(X, Y)
    assert found.classes_.tolist() == ["ja", "nein"]
    assert found.best_estimator_.positive_ == "ja"
    assert found.best_estimator_.class_order_.tolist() == DECLARED
    assert get_scorer("roc_auc")(found, X, Y) > 0.7
    if scoring == "roc_auc":
        assert found.best_score_ > 0.6


def test_a_tie_is_not_positive():
    for one, tied in (
        (model(fit_intercept=False), "nein"),
        (model(fit_intercept=False, positive="nein"), "ja"),
    ):
        assert one.fit(X, Y).predict(np.zeros((1, 3))).tolist() == [tied]


def test_margins_without_a_link_are_told_alike():
    one = PrivateLinearSVC(mechanism="none", l2=1e-3, classes=DECLARED).fit(X, Y)
    exact = dperm.evaluate(one, X, Y, local=True)
    assert exact.metrics["auc"].estimate == pytest.approx(roc_auc_score(Y == "ja", -one.decision_function(X)))
    assert one.summary().score == "the score of 'ja'"
