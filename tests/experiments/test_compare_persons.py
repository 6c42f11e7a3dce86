"""A comparison by person: folds, models and figures are of persons with all their rows."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from dperm.errors import InvalidInput
from dperm.estimators.linear_classifier import PrivateLinearClassifier
from dperm.experiments.batches import Batch
from dperm.experiments.compare import compare, specify
from dperm.experiments.judging import area, number_scores
from dperm.experiments.results import Study
from dperm.experiments.tuning import oracle, search

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")

N = 900
RNG = np.random.default_rng(1)
X = RNG.uniform(-0.5, 0.5, (N, 2))
IDS = np.array([f"p{one}" for one in np.minimum(RNG.geometric(0.02, N), 250)])  # some have many rows
Y = (X[:, 0] + 0.2 * RNG.normal(size=N) > 0).astype(int)
PERSONS = len(set(IDS))
HOW = {"dataset": "visits", "epsilons": [2.0], "delta": 1e-6, "folds": 3, "repeats": 2}


def test_folds_hold_persons_and_figures_count_each_once():
    spec, rows = specify(X, Y, mechanisms=["none"], groups=IDS, **HOW)
    batch = Batch(spec=spec, rows=rows, repeats=range(2))
    assert (spec.unit, spec.n_rows) == ("person", PERSONS)
    for column in batch.mask.T:
        assert set(IDS[column]).isdisjoint(IDS[~column])
        assert len(set(IDS[~column])) in (PERSONS // 3, PERSONS // 3 + 1)
    table = compare(X, Y, mechanisms=["none"], groups=IDS, **HOW).to_pandas()
    assert len(table) == 6
    share = dict(zip(*np.unique(IDS, return_counts=True), strict=True))
    weights = np.array([1 / share[one] for one in IDS])
    for k, column in enumerate(batch.mask.T):
        model = PrivateLinearClassifier(classes=[0, 1], mechanism="none", epsilon=2.0, delta=1e-6)
        model.fit(X[column], Y[column], groups=IDS[column])
        tested, counted = ~column, {"sample_weight": weights[~column]}
        row = table[(table.repeat == k // 3) & (table.fold == k % 3)].iloc[0]
        told = model.predict_proba(X[tested])
        assert row.accuracy == pytest.approx(accuracy_score(Y[tested], model.predict(X[tested]), **counted))
        assert row.auc == pytest.approx(roc_auc_score(Y[tested], told[:, 1], **counted))
        assert row.log_loss == pytest.approx(log_loss(Y[tested], told, **counted))
        by_rows = accuracy_score(Y[tested], model.predict(X[tested]))
        assert abs(row.accuracy - by_rows) > 1e-6  # a control: rows that count alike give another figure


def test_every_way_of_choosing_settings_is_by_person():
    grid = {"tolerance": [1e-4, 1e-3]}
    table = compare(
        X,
        Y,
        mechanisms={
            "plain": "output",
            "amp": "amp",
            "best": oracle("output", **grid),
            "private": search("output", **grid),
        },
        groups=IDS,
        neighbours="add-remove",
        max_rows=PERSONS + 20,
        **(HOW | {"repeats": 1}),
    )
    study = Study.of(table)
    assert (study.unit, study.n_rows) == ("person", PERSONS)
    assert study.relation == f"add-remove, at most {PERSONS + 20} persons"
    assert set(table["label"].to_pylist()) == {"plain", "best (oracle, not private)", "private"}
    assert {part.label for part in study.skipped} == {"amp"}
    assert "training_persons" in table["settings"].to_pylist()[-1]


def test_a_study_of_rows_is_what_it_was_and_one_of_persons_is_another():
    by_rows, _ = specify(X, Y, mechanisms=["output"], **HOW)
    alone, _ = specify(X, Y, mechanisms=["output"], groups=np.arange(N), **HOW)
    others, _ = specify(X, Y, mechanisms=["output"], groups=np.arange(N) // 2, **HOW)
    assert "unit" not in by_rows.document
    assert len({by_rows.identity, alone.identity, others.identity}) == 3


def test_what_is_refused():
    with pytest.raises(InvalidInput, match="number of persons, 2"):
        compare(X, Y, mechanisms=["output"], groups=np.arange(N) % 2, **HOW)
    with pytest.raises(InvalidInput, match="rows of one person in both parts"):
        compare(X, Y, mechanisms=["output"], groups=IDS, held_out=np.arange(N) < 300, **HOW)
    with pytest.raises(InvalidInput, match="rows without the id of a person"):
        compare(X, Y, mechanisms=["output"], groups=[None, *IDS[1:]], **HOW)


def test_weighted_scores_are_those_of_rows_that_come_several_times():
    margins, targets, times = (
        RNG.normal(size=60).round(1),
        RNG.choice([-1.0, 1.0], 60),
        RNG.integers(1, 5, 60),
    )
    again = np.repeat(np.arange(60), times)
    assert area(margins, targets, times.astype(float)) == pytest.approx(area(margins[again], targets[again]))
    values = RNG.uniform(-1, 1, 60)
    found = number_scores(margins, values, 3.0, times.astype(float))
    for one, other in zip(found, number_scores(margins[again], values[again], 3.0), strict=True):
        assert (one is None and other is None) or one == pytest.approx(other)
