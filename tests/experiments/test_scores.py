"""Scores of margins are scikit-learn's, and a comparison's are those of separate fits through the same map."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax
from sklearn import metrics

from dperm import PrivateLinearSVC, PrivateLogisticRegression
from dperm.experiments.compare import compare
from dperm.experiments.judging import Model, area, judge, scores
from dperm.experiments.splits import assign_folds
from dperm.losses import HuberHinge, Logistic, Softmax
from dperm.mechanisms import NoPrivacy
from dperm.row_map import RowMap

RNG = np.random.default_rng(7)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=40))
def test_the_area_counts_ties_as_scikit_learn_does(rows):
    margins, positive = np.array([m for m, _ in rows], float), np.array([p for _, p in rows])
    found = area(margins, np.where(positive, 1.0, -1.0))
    if positive.all() or not positive.any():
        assert found is None
    else:
        assert found == pytest.approx(metrics.roc_auc_score(positive, margins), abs=1e-12)


def test_binary_scores_are_scikit_learns():
    margins, targets = 3 * RNG.normal(size=500), np.where(RNG.random(500) < 0.3, 1.0, -1.0)
    found = scores(margins, targets, Logistic())
    assert found.accuracy == metrics.accuracy_score(targets > 0, margins > 0)
    assert found.auc == pytest.approx(metrics.roc_auc_score(targets, margins), rel=1e-12)
    assert found.log_loss == pytest.approx(metrics.log_loss(targets > 0, expit(margins)), rel=1e-9)
    without = scores(margins, targets, HuberHinge())
    assert without.log_loss is None
    assert without[:2] == found[:2]
    assert scores(margins, targets, None).log_loss is None


def test_scores_of_several_classes_are_scikit_learns():
    targets = RNG.integers(0, 4, size=300).astype(float)
    margins = RNG.normal(size=(300, 4)) + np.eye(4)[targets.astype(int)]
    found, proba = scores(margins, targets, Softmax(4)), softmax(margins, axis=1)
    assert found.accuracy == metrics.accuracy_score(targets, margins.argmax(axis=1))
    assert found.auc == pytest.approx(metrics.roc_auc_score(targets, proba, multi_class="ovr"), rel=1e-9)
    assert found.log_loss == pytest.approx(metrics.log_loss(targets, proba), rel=1e-9)


def test_a_label_that_does_not_occur_is_left_out_of_the_mean():
    targets = RNG.integers(0, 3, size=200).astype(float)
    margins = RNG.normal(size=(200, 4))
    proba = softmax(margins, axis=1)
    each = [metrics.roc_auc_score(targets == c, proba[:, c]) for c in range(3)]
    assert area(margins, targets) == pytest.approx(np.mean(each), rel=1e-9)
    assert area(margins, np.zeros(200)) is None


class Doubled(Logistic):
    """Its margins stand for half the log-odds."""

    @property
    def has_log_odds(self):
        return True

    def log_odds(self, margin):
        return 2 * margin


def test_probabilities_are_those_of_the_loss_that_was_trained_with():
    margins, targets = RNG.normal(size=200), np.where(RNG.random(200) < 0.5, 1.0, -1.0)
    expected = metrics.log_loss(targets > 0, expit(2 * margins))
    assert scores(margins, targets, Doubled()).log_loss == pytest.approx(expected, rel=1e-9)
    assert scores(margins, targets, Logistic()).log_loss != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("outputs", [1, 3])
def test_every_model_is_judged_through_its_own_map(outputs, monkeypatch):
    monkeypatch.setattr("dperm.experiments.judging._CELLS", 2 * 80 * outputs)  # two models at once
    X = RNG.normal(size=(80, 3))
    targets = RNG.integers(0, 3, 80).astype(float) if outputs > 1 else np.where(X[:, 0] > 0, 1.0, -1.0)
    loss = Softmax(3) if outputs > 1 else Logistic()
    plain, moved, *linear = (
        RowMap(x_norm=1.0, intercept=0.3),
        RowMap(x_norm=1.0, intercept=0.3, centre=[0.1, 0.2, 0.0]),
        RowMap(x_norm=1.0, intercept=0.3, centre=[0.1, 0.2, 0.0], linear=True),
        RowMap(x_norm=1.0, intercept=0.3, scale=[0.5, 0.2, 1.0], linear=True),
    )
    models = [
        Model(
            weights=RNG.normal(size=(4, outputs) if outputs > 1 else 4),
            row_map=row_map, loss=loss, settings="", noise_scale=None, seconds=0.0, l2=0.1,
        )
        for row_map in (plain, moved, linear[0], plain, plain, linear[1], linear[0])
    ]  # fmt: skip
    mask = RNG.random((80, 7)) < 0.6
    for k, found in enumerate(judge(models, X, targets, mask, loss)):
        row_map, own = models[k].row_map, mask[:, k]
        if row_map.linear:  # rows as they came, none of them bounded
            centre = 0.0 if row_map.centre is None else row_map.centre
            features = (X - centre) / (1.0 if row_map.scale is None else row_map.scale)
        else:
            features = row_map.features(X)
        margins = np.column_stack([features, np.full(80, 0.3)]) @ models[k].weights
        expected = scores(margins[~own], targets[~own], loss)
        assert found[:3] == pytest.approx(expected[:3], rel=1e-9)
        assert found[3:6] == expected[3:6] == (None, None, None)
        objective = loss.value(margins[own], targets[own]).mean() + 0.05 * np.sum(models[k].weights ** 2)
        assert found.objective == pytest.approx(objective, rel=1e-9)


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
def test_a_comparison_reports_the_scores_of_separate_fits(kind):
    X = RNG.normal(size=(303, 3)) / 3
    y = np.where(X @ [1.0, -1.0, 0.5] + 0.3 * RNG.normal(size=303) > 0.2, "yes", "no")
    loss = "logistic" if kind is PrivateLogisticRegression else "svm"
    found = compare(
        X, y, dataset="toy", loss=loss, mechanisms=["none", "majority"], epsilons=[1.0], delta=1e-6, folds=3,
        repeats=1, l2=1e-2,
    )  # fmt: skip
    for row in found.to_pylist():
        held_out = assign_folds("toy", 0, 303, 3) == row["fold"]
        if row["mechanism"] == "majority":
            assert (row["auc"], row["log_loss"]) == (0.5, None)
            continue
        model = kind(mechanism=NoPrivacy(tolerance=1e-10), l2=1e-2).fit(X[~held_out], y[~held_out])
        margins = model.decision_function(X[held_out])
        assert row["auc"] == pytest.approx(metrics.roc_auc_score(y[held_out], margins), abs=1e-3)
        if loss == "svm":
            assert row["log_loss"] is None
        else:
            proba = model.predict_proba(X[held_out])
            assert row["log_loss"] == pytest.approx(metrics.log_loss(y[held_out], proba), rel=1e-4)
