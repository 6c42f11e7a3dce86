"""Scores of a private search: what one row changes of them, what they are without noise, and what they choose."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    mean_absolute_error,
    mean_squared_error,
    roc_auc_score,
)

from dperm import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, PrivateSearchCV
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.search import scoring
from dperm.privacy import Gate
from dperm.unit import Neighbours

N = 4000
BOTH = pytest.mark.parametrize("neighbours", list(Neighbours), ids=lambda relation: relation.value)


@pytest.fixture(scope="module")
def rare():
    """One row in eleven is positive."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 4)) / 4
    return X, (rng.random(N) < 1 / (1 + np.exp(-(8 * X[:, 0] - 4 * X[:, 1] - 3)))).astype(int)


def models(rare):
    X, y = rare
    seeded = {"random_state": 0, "epsilon": 4.0}
    two = PrivateLogisticRegression(classes=[0, 1], **seeded).fit(X, y)
    three = PrivateLogisticRegression(classes=[0, 1, 2], **seeded).fit(X, y + (X[:, 2] > 0.2))
    line = PrivateLinearRegression(y_range=(-2.0, 3.0), **seeded).fit(X, 4 * X[:, 0])
    return {"two": (two, X, y), "three": (three, X, y + (X[:, 2] > 0.2)), "line": (line, X, 4 * X[:, 0])}


def cases(rare):
    for kind, (model, X, y) in models(rare).items():
        for name, metric in scoring.scores_by_name().items():
            if metric.classifies == (kind != "line") and not (name == "roc_auc" and kind == "three"):
                yield name, model, None if kind == "line" else len(model.classes_), X, y


@BOTH
def test_one_row_moves_every_score_by_at_most_its_sensitivity(rare, neighbours):
    rng, n, reached = np.random.default_rng(0), 60, {}
    for name, model, n_classes, X, y in cases(rare):
        scorer = scoring.scorer_for(name, model, n_classes, n)
        noise = scorer.noise(1.0, neighbours)
        extreme = np.concatenate([X[:30], 50 * X[30:60]])
        before = scorer.sums(model, extreme, y[:n])
        for _ in range(60):
            place, rows, targets = rng.integers(n), extreme.copy(), y[:n].copy()
            if neighbours is Neighbours.REPLACE_ONE:
                other = rng.integers(N)
                rows[place], targets[place] = rng.choice([1.0, 100.0]) * X[other], rng.choice(y)
            else:
                rows, targets = np.delete(rows, place, axis=0), np.delete(targets, place)
            moved = float(np.linalg.norm(scorer.sums(model, rows, targets) - before))
            assert moved <= noise.sensitivity * (1 + 1e-9)
            reached[name] = max(reached.get(name, 0.0), moved / noise.sensitivity)
    # The control: half of what is declared would not be enough, for any of them but the squared error of few rows.
    assert all(share > 0.5 for name, share in reached.items() if name != "neg_mean_squared_error"), reached


def cut(values):
    return np.clip(values, -2.0, 3.0)


def test_without_noise_scores_are_those_of_scikit_learn(rare):
    known = {
        "accuracy": lambda model, X, y: accuracy_score(y, model.predict(X)),
        "neg_mean_absolute_error": lambda model, X, y: -mean_absolute_error(cut(y), cut(model.predict(X))),
        "balanced_accuracy": lambda model, X, y: balanced_accuracy_score(y, model.predict(X)),
        "neg_mean_squared_error": lambda model, X, y: -mean_squared_error(cut(y), cut(model.predict(X))),
    }
    seen = set()
    for name, model, n_classes, X, y in cases(rare):
        scorer = scoring.scorer_for(name, model, n_classes, N)
        value = scorer.value(scorer.sums(model, X, y), 1e-12)
        if name == "roc_auc":
            assert value == pytest.approx(roc_auc_score(y, model.decision_function(X)), abs=0.01)
        elif name == "neg_log_loss":
            with np.errstate(all="ignore"):
                told = model.predict_log_proba(X)[np.arange(N), y]
            assert value == pytest.approx(np.maximum(told, -5).mean())
        else:
            assert value == pytest.approx(known[name](model, X, y), rel=1e-9)
        seen.add(name)
    assert seen == set(scoring.scores_by_name())


@BOTH
def test_noise_is_added_to_every_sum_at_the_price_of_the_candidate(neighbours):
    noise = scoring.scorer_for("balanced_accuracy", PrivateLogisticRegression(), 3, 500).noise(
        0.25, neighbours
    )
    assert noise.dimension == 6
    assert noise.sensitivity == pytest.approx(np.sqrt(neighbours.rows_changed) / 500)
    assert noise.scale == pytest.approx(4 * noise.sensitivity, rel=1e-6)
    gate = Gate.from_random_state(0)
    drawn = [gate.release_one(np.zeros(6), noise, "score") for _ in range(400)]
    assert np.std(drawn) == pytest.approx(noise.scale, rel=0.1)


def test_balanced_accuracy_chooses_weights_that_accuracy_does_not(rare):
    X, y = rare
    model = PrivateLogisticRegression(classes=[0, 1], mechanism="objective")
    grid = {"class_weight": [None, {0: 1.0, 1: 10.0}]}

    def chosen(scoring):
        found = PrivateSearchCV(
            model, grid, epsilon=8.0, delta=1e-6, mean_candidates=12.0, scoring=scoring, random_state=1
        ).fit(X, y)
        return found.best_params_["class_weight"], found

    assert chosen("accuracy")[0] is None
    weights, found = chosen("balanced_accuracy")
    assert weights == {0: 1.0, 1: 10.0}
    assert found.privacy_.settings["scoring"] == "balanced_accuracy"
    assert found.best_score_ == pytest.approx(balanced_accuracy_score(y, found.predict(X)), abs=0.1)


@pytest.mark.together
@pytest.mark.parametrize(
    ("estimator", "name", "error", "message"),
    [
        (PrivateLogisticRegression(), "f1", InvalidInput, "balanced_accuracy"),
        (PrivateLogisticRegression(), lambda *_: 1.0, InvalidInput, "sensitivity is proved"),
        (PrivateLogisticRegression(), "neg_mean_squared_error", Unsupported, "regression"),
        (PrivateLinearRegression(y_range=(0, 1)), "accuracy", Unsupported, "classifier"),
        (PrivateLinearSVC(), "neg_log_loss", Unsupported, "probabilities"),
        (PrivateLogisticRegression(sample_weight_bound=2.0), None, Unsupported, "sample_weight"),
    ],
)
def test_scores_that_are_not_proved_or_do_not_fit_are_refused(estimator, name, error, message):
    search = PrivateSearchCV(estimator, {"l2": [0.1]}, epsilon=1.0, delta=1e-6, scoring=name)
    with pytest.raises(error, match=message):
        search.fit(np.zeros((40, 2)), np.arange(40) % 2)


def test_auc_of_three_classes_is_refused():
    with pytest.raises(Unsupported, match="two classes"):
        scoring.scorer_for("roc_auc", PrivateLogisticRegression(), 3)


def test_public_rows_are_scored_alike(rare):
    X, y = rare
    found = PrivateSearchCV(
        PrivateLogisticRegression(classes=[0, 1]),
        {"class_weight": [None, {1: 10.0}]},
        epsilon=4.0,
        delta=1e-6,
        public_data=(X[:1500], y[:1500]),
        scoring="balanced_accuracy",
        random_state=0,
    ).fit(X[1500:], y[1500:])
    assert found.best_params_["class_weight"] == {1: 10.0}
