"""The batched comparison gives what separate fits would, on the same splits, and hides nothing."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm import PrivateLinearSVC, PrivateLogisticRegression
from dperm.arithmetic import FLOAT64
from dperm.engine import open_rows
from dperm.errors import InvalidInput
from dperm.experiments.compare import compare
from dperm.experiments.results import NOT_PRIVATE, Study, curves
from dperm.experiments.splits import assign_folds, training_mask
from dperm.losses import SoftClippedLogistic, resolve_loss
from dperm.mechanisms import RSGD, RSGDAR, NoPrivacy, Output, resolve
from dperm.privacy import Budget
from dperm.problem import INTERCEPT_SCALE, Problem
from dperm_audit.gates import SilentGate

N, FOLDS = 403, 5
COLUMNS = ["dataset", "loss", "mechanism", "accounting", "epsilon", "delta", "repeat", "fold"]
COLUMNS += [
    "accuracy",
    "auc",
    "log_loss",
    "r2",
    "rmse",
    "mae",
    "objective",
    "noise_scale",
    "seconds",
    "label",
    "tuning",
    "settings",
    "l2",
    "certified",
]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, 4)) / 3
    y = np.where(X @ [1.0, -1.0, 0.5, 0.0] + 0.2 * rng.normal(size=N) > -0.1, "yes", "no")
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), y


def run(rows, mechanisms=("rsgd-ar", "none", "majority"), epsilons=(0.5, 2.0), **settings):
    given = {"dataset": "toy", "delta": 1e-5, "folds": FOLDS, "repeats": 2, "l2": 1e-2, "seed": 3, **settings}
    return compare(*rows, mechanisms=mechanisms, epsilons=epsilons, **given)


def problem(n_rows, loss="logistic", l2=1e-2):
    return Problem(
        loss=resolve_loss(loss), l2=l2, x_norm=1.0, n_rows=n_rows, n_features=4, intercept=INTERCEPT_SCALE
    )


def values(results, mechanism, column, epsilon=None):
    """{(repeat, fold): value} of one mechanism."""
    return {
        (row["repeat"], row["fold"]): row[column]
        for row in results.to_pylist()
        if row["mechanism"] == mechanism and epsilon in (None, row["epsilon"])
    }


@pytest.fixture(scope="module")
def results(rows):
    return run(rows)


def test_the_table_has_exactly_the_promised_columns_and_rows(results):
    assert results.column_names == COLUMNS
    assert results.num_rows == 3 * 2 * 2 * FOLDS
    keys = {tuple(row[c] for c in ("mechanism", "epsilon", "repeat", "fold")) for row in results.to_pylist()}
    assert len(keys) == results.num_rows
    assert set(results["dataset"].to_pylist()) == {"toy"}
    assert set(results["delta"].to_pylist()) == {1e-5}
    assert min(results["seconds"].to_pylist()) > 0
    certified = {row["mechanism"]: row["certified"] for row in results.to_pylist()}
    assert certified == {"rsgd-ar": True, "none": False, "majority": False}  # float64, baselines


def test_several_models_in_float32_are_not_certified(rows):
    found = run(rows, [RSGDAR(standardise=False)], epsilons=[0.5])
    assert set(found["certified"].to_pylist()) == {False}


def test_the_study_travels_with_the_table(results, tmp_path):
    pq.write_table(results, tmp_path / "r.parquet")
    study = Study.of(pq.read_table(tmp_path / "r.parquet"))
    assert (study.n_rows, study.n_features, study.folds, study.repeats, study.seed) == (N, 4, FOLDS, 2, 3)
    assert study.skipped == ()
    with pytest.raises(InvalidInput, match="description"):
        Study.of(pa.table({"accuracy": [1.0]}))


def test_baselines_appear_unchanged_at_every_epsilon(results):
    for mechanism in ("none", "majority"):
        for column in ("accuracy", "objective"):
            assert values(results, mechanism, column, 0.5) == values(results, mechanism, column, 2.0)
    baselines = [row for row in results.to_pylist() if row["mechanism"] != "rsgd-ar"]
    assert {(row["accounting"], row["noise_scale"]) for row in baselines} == {(NOT_PRIVATE, None)}


@pytest.mark.parametrize(
    ("loss", "kind"), [("logistic", PrivateLogisticRegression), ("svm", PrivateLinearSVC)]
)
def test_the_minimiser_agrees_with_separate_fits_fold_by_fold(rows, loss, kind):
    X, y = rows
    found = run(rows, mechanisms=["none"], epsilons=[1.0], loss=loss)
    for (repeat, fold), accuracy in values(found, "none", "accuracy").items():
        held_out = assign_folds("toy", repeat, N, FOLDS) == fold
        model = kind(mechanism=NoPrivacy(tolerance=1e-10), l2=1e-2).fit(X[~held_out], y[~held_out])
        assert accuracy == pytest.approx(model.score(X[held_out], y[held_out]), abs=1.5 / held_out.sum())
        w = np.append(model.coef_[0], model.intercept_ / INTERCEPT_SCALE)
        margin = model.decision_function(X[~held_out])
        signs = np.where(y[~held_out] == "yes", 1.0, -1.0)
        objective = resolve_loss(loss).value(margin, signs).mean() + 1e-2 / 2 * w @ w
        assert values(found, "none", "objective")[repeat, fold] == pytest.approx(objective, rel=1e-5)


def test_majority_shows_that_splits_follow_dataset_and_repeat_alone(rows, results):
    _, y = rows
    others = run(rows, mechanisms=["output", "majority"], epsilons=[0.1], seed=99, loss="svm", l2=0.1)
    counted = {}
    for repeat in range(2):
        fold_of = assign_folds("toy", repeat, N, FOLDS)
        for fold in range(FOLDS):
            train, test = y[fold_of != fold], y[fold_of == fold]
            majority = "yes" if np.mean(train == "yes") >= 0.5 else "no"
            counted[repeat, fold] = pytest.approx(np.mean(test == majority))
    assert values(results, "majority", "accuracy", 0.5) == counted
    assert values(others, "majority", "accuracy") == counted
    assert values(run(rows, mechanisms=["majority"], dataset="other"), "majority", "accuracy") != counted


class FixedOrder(SilentGate):
    """A gate whose order of the rows is known and which gives no noise."""

    def __init__(self, order):
        super().__init__()
        self.known = np.asarray(order)

    def order(self):
        return self

    def permutation(self, n_rows):
        assert n_rows == len(self.known)
        return self.known


@pytest.mark.parametrize("name", ["rsgd-ar", "rsgd", "nsgd", "output-gd", "bolt-on", "output"])
def test_batched_training_equals_single_training_on_the_rows_of_the_fold(rows, name):
    X, y = rows
    signs = np.where(y == "yes", 1.0, -1.0)
    small = {"batch_size": 50, "epochs": 4, "passes": 10, "step_size": 0.5}
    known = {setting: value for setting, value in small.items() if setting in resolve(name).settings}
    mechanism, budget = replace(resolve(name), standardise=False, **known), Budget(1.0, 1e-5)
    order = np.random.default_rng(0).permutation(N)
    mask = training_mask("toy", range(2), N, FOLDS)
    plans = [mechanism.plan(problem(int(n)), budget) for n in mask.sum(axis=0)]
    used = set()
    batched = mechanism._train(plans, open_rows(X, signs, problem(N), mask).noting(used), FixedOrder(order))
    assert (used == {FLOAT64}) is (name == "output")  # float32 products: not certified here
    permuted = getattr(mechanism, "permuted", False)
    for model in (0, 4, 7):
        own = np.flatnonzero(mask[:, model])
        rank = np.full(N, -1)
        rank[own] = np.arange(len(own))
        alone = open_rows(X[own], signs[own], problem(len(own)))
        own_order = rank[order[np.isin(order, own)]]
        single = mechanism._train([plans[model]], alone, FixedOrder(own_order))
        np.testing.assert_allclose(batched[:, model], single[:, 0], atol=2e-5)
        if permuted:  # the comparison would notice another order
            other = mechanism._train([plans[model]], alone, FixedOrder(own_order[::-1]))
            assert np.abs(other[:, 0] - single[:, 0]).max() > 2e-4


def test_without_noise_the_comparison_is_the_training(rows, monkeypatch):
    monkeypatch.setattr("dperm.experiments.batches.Gate", lambda entropy: SilentGate())
    found = run(rows, mechanisms=[Output(standardise=False, clip=None), "none"])
    for column, tolerance in (("objective", 1e-6), ("accuracy", 1.5 * FOLDS / N)):
        expected = values(found, "none", column, 0.5)
        for epsilon in (0.5, 2.0):
            assert values(found, "output", column, epsilon) == pytest.approx(expected, abs=tolerance)


def test_noise_follows_each_models_own_number_of_rows(results):
    for epsilon in (0.5, 2.0):
        for (repeat, fold), scale in values(results, "rsgd-ar", "noise_scale", epsilon).items():
            n_training = int((assign_folds("toy", repeat, N, FOLDS) != fold).sum())
            plan = RSGDAR().plan(problem(n_training), Budget(epsilon, 1e-5))
            assert scale == plan.noise.scale
    assert len(set(values(results, "rsgd-ar", "noise_scale", 0.5).values())) == 2


def test_a_seed_repeats_the_numbers_and_another_changes_the_noise(rows, results):
    def numbers(table):
        return table.select(["mechanism", "epsilon", "repeat", "fold", "accuracy", "objective"])

    assert numbers(run(rows)).equals(numbers(results))
    other = run(rows, seed=4)
    assert values(other, "rsgd-ar", "objective", 0.5) != values(results, "rsgd-ar", "objective", 0.5)
    assert values(other, "none", "objective", 0.5) == values(results, "none", "objective", 0.5)


def test_the_two_accountings_differ_in_their_noise_scale_alone(rows):
    ours = RSGD(standardise=False, clip=None, step_size=1.0)  # on the rows and with the loss of the paper
    found = run(rows, mechanisms=[ours, replace(ours, accounting="paper")], epsilons=[0.5], l2=1e-2)
    tight, paper = curves(found)
    assert (tight.label, paper.label) == ("rsgd", "rsgd:paper")
    assert paper.objective[0].mean() > tight.objective[0].mean()
    assert np.corrcoef(paper.objective[0], tight.objective[0])[0, 1] > 0.9  # one stream for both


def test_by_rule_the_two_accountings_differ_in_their_rows_and_their_loss_too(rows):
    found = run(rows, mechanisms=["rsgd", "rsgd:paper"], epsilons=[0.5])
    used = {row["label"]: json.loads(row["settings"]) for row in found.to_pylist()}
    assert {label: settings["standardise"] for label, settings in used.items()} == {
        "rsgd": "linear",
        "rsgd:paper": False,
    }
    plan = RSGD().plan(problem(N - N // FOLDS), Budget(0.5, 1e-5))
    assert isinstance(plan.problem.loss, SoftClippedLogistic)
    assert used["rsgd"]["clip"] == plan.problem.loss.clip
    assert used["rsgd:paper"]["clip"] is None


def test_without_a_seed_two_runs_differ(rows):
    first, second = (run(rows, mechanisms=["output"], epsilons=[1.0], repeats=1, seed=None) for _ in range(2))
    assert values(first, "output", "objective") != values(second, "output", "objective")


def test_many_repeats_run_in_groups_with_streams_of_their_own(rows, monkeypatch):
    monkeypatch.setattr("dperm.experiments.splits.WIDEST_BATCH", 20)
    found = run(rows, mechanisms=["output"], epsilons=[1.0], folds=20, repeats=3)
    assert found.num_rows == 60
    assert sorted(set(found["repeat"].to_pylist())) == [0, 1, 2]
    noise = values(found, "output", "objective")
    assert len(set(noise.values())) == 60


def test_refusals_are_collected_with_their_reason(rows):
    found = run(rows, mechanisms=["output:paper", "none"], epsilons=[0.5, 2.0])
    (skipped,) = Study.of(found).skipped
    assert (skipped.mechanism, skipped.accounting, skipped.epsilon) == ("output", "paper", 2.0)
    assert "epsilon" in skipped.reason
    assert set(values(found, "output", "accuracy", 2.0)) == set()
    assert len(values(found, "output", "accuracy", 0.5)) == 2 * FOLDS


def test_a_mechanism_that_never_fits_is_skipped_not_fatal(rows):
    found = run(rows, mechanisms=["output", "nsgd"], l2=0.0)
    assert {s.epsilon for s in Study.of(found).skipped if s.mechanism == "output"} == {0.5, 2.0}
    assert set(found["mechanism"].to_pylist()) == {"nsgd"}


def test_a_refusal_while_training_is_collected_too(rows):
    found = run(rows, mechanisms=[NoPrivacy(tolerance=1e-99), "majority"])
    assert {s.mechanism for s in Study.of(found).skipped} == {"none"}
    assert set(found["mechanism"].to_pylist()) == {"majority"}


def test_progress_is_reported_for_every_mechanism_and_group(rows, monkeypatch):
    monkeypatch.setattr("dperm.experiments.splits.WIDEST_BATCH", 5)
    seen = []
    run(rows, mechanisms=["majority", "output"], repeats=2, progress=lambda *step: seen.append(step))
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.together
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"folds": 1}, "folds"),
        ({"folds": N + 1}, "folds"),
        ({"repeats": 0}, "repeats"),
        ({"loss": "hinge"}, "no loss is named 'hinge'"),
        ({"loss": "squared"}, "for numbers, and the target has 2 classes"),
        ({"loss": "softmax"}, "for more than two classes, and the target has 2"),
        ({"y_range": (0, 1), "loss": "svm"}, "finite numbers"),
        ({"mechanisms": []}, "at least one mechanism"),
        ({"epsilons": []}, "one epsilon"),
        ({"epsilons": [-1.0]}, "epsilon"),
        ({"delta": 2.0}, "delta"),
        ({"mechanisms": ["magic"]}, "rsgd-ar"),
        ({"mechanisms": ["rsgd", "rsgd:tight"]}, "same name"),
        ({"l2": -1.0}, "l2"),
        ({"x_norm": 0.0}, "x_norm"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(rows, settings, says):
    with pytest.raises(InvalidInput, match=says):
        run(rows, **settings)


def test_labels_and_shapes_are_checked(rows):
    X, y = rows
    with pytest.raises(InvalidInput, match="at least two labels; it holds 1"):
        run((X, np.zeros(N)))
    with pytest.raises(InvalidInput, match="one row per label"):
        run((X[:-1], y))
