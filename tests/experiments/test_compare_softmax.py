"""Comparisons with more than two classes, and on a published split."""

import numpy as np
import pytest

from dperm import PrivateLogisticRegression
from dperm.errors import InvalidInput
from dperm.experiments.compare import compare
from dperm.experiments.results import Study
from dperm.experiments.splits import WIDEST_BATCH, assign_folds, group_repeats
from dperm.losses import Softmax
from dperm.mechanisms import NoPrivacy
from dperm.problem import INTERCEPT_SCALE

N, FOLDS = 600, 3
NAMES = np.array(["a", "b", "c"])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    y = rng.choice(3, p=[0.2, 0.5, 0.3], size=N)
    X = 0.25 * rng.normal(size=(N, 4))
    X[np.arange(N), y] += 0.5
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), NAMES[y]


def run(rows, mechanisms, **settings):
    given = {"dataset": "toy", "epsilons": [1.0], "delta": 1e-5, "folds": FOLDS, "repeats": 2, "l2": 1e-2}
    return compare(*rows, mechanisms=mechanisms, **{**given, **settings})


def objective(model, X, y):
    w = np.column_stack([model.coef_, model.intercept_ / INTERCEPT_SCALE])
    loss = Softmax(3).value(model.decision_function(X), np.searchsorted(NAMES, y)).mean()
    return loss + 1e-2 / 2 * np.sum(w * w)


def test_the_minimiser_agrees_with_separate_fits_fold_by_fold(rows):
    X, y = rows
    found = run(rows, ["none", "majority"])
    assert set(found["loss"].to_pylist()) == {"softmax"}
    assert (Study.of(found).loss, Study.of(found).n_classes) == ("softmax", 3)
    table = found.to_pylist()
    assert len(table) == 2 * 2 * FOLDS
    for row in table:
        held_out = assign_folds("toy", row["repeat"], N, FOLDS) == row["fold"]
        mechanism = NoPrivacy(tolerance=1e-10) if row["mechanism"] == "none" else "majority"
        model = PrivateLogisticRegression(mechanism=mechanism, l2=1e-2).fit(X[~held_out], y[~held_out])
        assert row["accuracy"] == pytest.approx(
            model.score(X[held_out], y[held_out]), abs=1.5 / held_out.sum()
        )
        assert row["objective"] == pytest.approx(objective(model, X[~held_out], y[~held_out]), rel=1e-5)


def test_every_mechanism_takes_part(rows):
    names = ["rsgd-ar", "rsgd-ar:paper", "rsgd", "nsgd", "output-gd", "bolt-on", "output", "none", "majority"]
    found = run(rows, names, epsilons=[0.5, 20.0], repeats=1)
    assert [(s.mechanism, s.accounting, s.epsilon) for s in Study.of(found).skipped if s.epsilon < 1] == []
    assert set(found["mechanism"].to_pylist()) == {name.partition(":")[0] for name in names}
    accuracy = {}
    for row in found.to_pylist():
        accuracy.setdefault((row["mechanism"], row["epsilon"]), []).append(row["accuracy"])
    assert np.mean(accuracy["none", 0.5]) > np.mean(accuracy["output", 0.5]) + 0.02
    assert np.mean(accuracy["rsgd-ar", 20.0]) > np.mean(accuracy["majority", 0.5]) + 0.2


def test_the_linear_svm_is_for_two_classes(rows):
    with pytest.raises(InvalidInput, match="two classes, and the target has 3 classes"):
        run(rows, ["none"], loss="svm")


def test_a_published_split_is_used_as_it_is(rows):
    X, y = rows
    tested = np.arange(N) >= 450
    found = run(rows, ["none", "output"], held_out=tested)
    assert Study.of(found).folds == 1
    table = found.to_pylist()
    assert [(row["mechanism"], row["repeat"], row["fold"]) for row in table] == [
        (name, repeat, 0) for name in ("none", "output") for repeat in (0, 1)
    ]
    model = PrivateLogisticRegression(mechanism=NoPrivacy(tolerance=1e-10), l2=1e-2).fit(
        X[~tested], y[~tested]
    )
    for row in table[:2]:
        assert row["accuracy"] == pytest.approx(model.score(X[tested], y[tested]), abs=1.5 / tested.sum())
        assert row["objective"] == pytest.approx(objective(model, X[~tested], y[~tested]), rel=1e-5)
    assert table[2]["objective"] != table[3]["objective"]  # each repeat has noise of its own


@pytest.mark.parametrize(
    "held_out", [np.zeros(N, bool), np.ones(N, bool), np.ones(N - 1, bool), np.arange(N) % 2], ids=str
)
def test_a_bad_split_is_refused(rows, held_out):
    with pytest.raises(InvalidInput, match="held_out"):
        run(rows, ["none"], held_out=held_out)


def test_batches_count_classes_as_columns():
    widths = [len(group) * 5 * 10 for group in group_repeats(8, 5, 10)]
    assert sum(widths) == 8 * 5 * 10
    assert max(widths) == 100 <= WIDEST_BATCH
    assert group_repeats(4, 5, 50) == [range(i, i + 1) for i in range(4)]  # never less than one repeat
