"""Settings by rule, by a private search, or by an oracle that is always called what it is."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dperm.estimators.search import PrivateSearchCV
from dperm.experiments.batches import sharing
from dperm.experiments.compare import compare
from dperm.experiments.results import Study, curves
from dperm.experiments.spec import ORACLE_MARK
from dperm.experiments.splits import assign_folds
from dperm.experiments.tuning import oracle, search
from dperm.mechanisms import DPGD, RSGD
from dperm.privacy import SeededEntropy
from dperm_audit.gates import SilentGate

EPSILONS = [0.5, 5.0]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 4)) / 3
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(X @ [1.0, -1.0, 0.5, 0.0] + 0.2 * rng.normal(size=400) > 0, 1, 0)


def run(rows, mechanisms, **settings):
    given = {"dataset": "toy", "epsilons": EPSILONS, "delta": 1e-5, "folds": 2, "repeats": 2, "l2": 1e-2}
    return compare(*rows, mechanisms=mechanisms, **{**given, **settings})


def test_the_oracle_is_the_best_candidate_at_each_epsilon_and_says_what_it_is(rows):
    candidates = {f"{epochs} epochs": RSGD(epochs=epochs, batch_size=50) for epochs in (1, 5, 40)}
    tried = {curve.label: curve for curve in curves(run(rows, candidates))}
    found = run(rows, [oracle(RSGD(batch_size=50), epochs=[1, 5, 40]), "none"])
    best, _ = curves(found)
    assert best.label == "rsgd" + ORACLE_MARK
    assert (best.tuning, best.mechanism) == ("oracle", "rsgd")
    chosen = []
    for k in range(len(EPSILONS)):
        expected = max(candidates, key=lambda name: tried[name].accuracy[k].mean())
        np.testing.assert_array_equal(best.accuracy[k], tried[expected].accuracy[k])
        chosen.append(expected)
    table = [row for row in found.to_pylist() if row["mechanism"] == "rsgd"]
    assert len(table) == 2 * 2 * len(EPSILONS)  # only what was chosen
    assert {row["tuning"] for row in table} == {"oracle"}
    used = {row["epsilon"]: json.loads(row["settings"])["epochs"] for row in table}
    assert [f"{used[epsilon]} epochs" for epsilon in EPSILONS] == chosen
    described = Study.of(found).configurations[0]
    assert (described["tuning"], len(described["candidates"])) == ("oracle", 3)


@pytest.mark.parametrize(
    "mechanism", [RSGD(batch_size=60, epochs=3, standardise=False), DPGD(steps=4, standardise=False)]
)
def test_step_sizes_train_side_by_side_as_they_would_alone(rows, mechanism, monkeypatch):
    monkeypatch.setattr("dperm.experiments.batches.Gate", lambda entropy: SilentGate())
    calls, run_jobs = [], type(mechanism).run
    monkeypatch.setattr(
        type(mechanism),
        "run",
        lambda self, jobs, *more: calls.append(len(jobs)) or run_jobs(self, jobs, *more),
    )
    monkeypatch.setattr(SeededEntropy, "permutation", lambda self, n: np.arange(n))
    steps = [0.3, 1.0, 3.0]
    given = {"epsilons": [1.0], "repeats": 1}
    alone = run(rows, {str(step): replace(mechanism, step_size=step) for step in steps}, **given)
    assert calls[1::2] == [2, 2, 2]  # every other call warms up
    calls.clear()
    monkeypatch.setattr("dperm.experiments.runner.best_on_test", lambda configuration, table: table)
    together = run(rows, [oracle(mechanism, step_size=steps)], **given)
    assert calls[1::2] == [6]
    for column in ("accuracy", "objective", "noise_scale"):
        np.testing.assert_allclose(together[column].to_numpy(), alone[column].to_numpy(), rtol=1e-5)
    assert together["settings"].to_pylist() == alone["settings"].to_pylist()
    assert len(set(np.round(alone["objective"].to_numpy(), 4))) > 3  # the step size matters


def test_wide_grids_are_cut_and_other_settings_run_alone():
    configuration = oracle(RSGD(standardise=False), step_size=[1.0, 2.0, 3.0], epochs=[1, 2])
    assert sharing(configuration, columns=10) == [[0, 2, 4], [1, 3, 5]]
    assert sharing(configuration, columns=50) == [[0, 2], [4], [1, 3], [5]]
    assert sharing(configuration, columns=500) == [[0], [2], [4], [1], [3], [5]]
    assert sharing(oracle("output", tolerance=[1e-4, 1e-5]), columns=10) == [[0], [1]]
    assert sharing(oracle("rsgd", step_size=[1.0, 2.0], standardise=[True]), columns=10) == [[0], [1]]
    assert sharing(oracle("rsgd", step_size=[1.0, 2.0]), columns=10) == [[0], [1]]  # it standardises
    assert sharing(oracle("rsgd:paper", step_size=[1.0, 2.0]), columns=10) == [[0, 1]]  # it does not


def test_an_oracle_gives_reasons_only_where_no_candidate_is_left(rows):
    found = run(rows, [oracle("rsgd", step_size=[1.0, 1e6]), "majority"])
    assert Study.of(found).skipped == ()
    found = run(rows, [oracle("rsgd", step_size=[1e5, 1e6]), "majority"])
    skipped = Study.of(found).skipped
    assert {part.name for part in skipped} == {"rsgd" + ORACLE_MARK}
    assert {part.epsilon for part in skipped} == set(EPSILONS)
    assert set(found["label"].to_pylist()) == {"majority"}


def test_settings_are_those_really_used(rows):
    found = run(rows, ["rsgd", "output"])
    used = {row["mechanism"]: json.loads(row["settings"]) for row in found.to_pylist()}
    assert used["rsgd"]["batches"] == 1
    assert used["rsgd"]["step_size"] > 0  # the rule's value, not None
    assert set(found["tuning"].to_pylist()) == {"rule"}


def test_the_private_search_takes_part(rows):
    given = {"epsilons": [3.0], "repeats": 1}
    found = run(rows, [search("output", tolerance=[1e-4, 1e-5]), "output", "majority"], **given)
    searched, plain, majority = curves(found)
    assert (searched.label, searched.tuning) == ("output (search)", "search")
    assert Study.of(found).skipped == ()
    table = [row for row in found.to_pylist() if row["tuning"] == "search"]
    assert [(row["repeat"], row["fold"]) for row in table] == [(0, 0), (0, 1)]
    assert {json.loads(row["settings"])["chosen"]["tolerance"] for row in table} <= {1e-4, 1e-5}
    # The choice is paid for: one candidate has less than the whole budget, and fewer rows.
    assert min(row["noise_scale"] for row in table) > 1.2 * plain.noise_scale[0].max()
    again = run(rows, [search("output", tolerance=[1e-4, 1e-5])], **given)
    assert again["accuracy"].to_pylist() == searched.accuracy[0].tolist()
    assert majority.label == "majority"


@pytest.mark.cover(1)
@pytest.mark.parametrize("standardise", [False, "linear", "bounded"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_search_is_judged_as_the_model_that_it_gives(rows, n_classes, standardise, monkeypatch):
    X, y = rows
    y = y if n_classes == 2 else np.where(X[:, 2] > 0.3, 2, y)
    models, fit = [], PrivateSearchCV.fit
    monkeypatch.setattr(PrivateSearchCV, "fit", lambda self, *rows: models.append(self) or fit(self, *rows))
    relation = "replace-one" if n_classes == 2 else "add-remove"
    configuration = search("output", tolerance=[1e-4], standardise=[standardise])
    found = run((X, y), [configuration], epsilons=[5.0], repeats=1, neighbours=relation)
    assert Study.of(found).skipped == ()
    targets = 2 * y - 1 if n_classes == 2 else y
    for fold, model in enumerate(models[-2:]):  # the first ones were to warm up
        held_out = assign_folds("toy", 0, len(X), 2) == fold
        assert found["accuracy"][fold].as_py() == pytest.approx(model.score(X[held_out], targets[held_out]))
        assert model.best_estimator_.privacy_.neighbours == relation


def test_the_relation_counts(rows):
    both = [run(rows, ["output"], neighbours=relation) for relation in ("replace-one", "add-remove")]
    replaced, added = (table["noise_scale"].to_numpy() for table in both)
    assert (added < 0.6 * replaced).all()
    assert Study.of(both[1]).neighbours == "add-remove"
