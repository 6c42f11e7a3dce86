"""``dperm.evaluate``: close to the exact figures, paid for before a row is read, quoting nobody."""

import traceback

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import metrics
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dperm
from dperm import Budget, Ledger, PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.errors import BudgetExceeded, InvalidInput, PrivacyWarning, Unsupported

RNG = np.random.default_rng(0)
N = 6000
X = RNG.uniform(-0.5, 0.5, (2 * N, 3))
SCORE = X[:, 0] + 0.2 * RNG.normal(size=2 * N)
Y, FOUR, REAL = (SCORE > 0).astype(int), np.digitize(SCORE, [-0.3, 0, 0.3]), np.clip(50 + 60 * SCORE, 0, 100)
EASY = {"epsilon": 3.0, "delta": 1e-5, "random_state": 0}
BINARY = PrivateLogisticRegression(classes=[0, 1], **EASY).fit(X[:N], Y[:N])
SVM = PrivateLinearSVC(classes=[0, 1], **EASY).fit(X[:N], Y[:N])
MANY = PrivateLogisticRegression(classes=[0, 1, 2, 3], **EASY).fit(X[:N], FOUR[:N])
REGRESSION = PrivateLinearRegression(y_range=(0, 100), **EASY).fit(X[:N], REAL[:N])
TEST = X[N:]
BUDGET = Budget(2.0, 1e-6)
CASES = {"binary": (BINARY, Y), "svm": (SVM, Y), "many": (MANY, FOUR), "regression": (REGRESSION, REAL)}


def exact(model, y):
    """As scikit-learn computes them."""
    said = model.predict(TEST)
    if model is REGRESSION:
        return {
            "r2": metrics.r2_score(y, said),
            "rmse": metrics.root_mean_squared_error(y, said),
            "mae": metrics.mean_absolute_error(y, said),
        }
    found = {
        "accuracy": metrics.accuracy_score(y, said),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, said),
    }
    if model is MANY:
        chances = model.predict_proba(TEST)
        found["auc"] = np.mean([metrics.roc_auc_score(y == k, chances[:, k]) for k in range(4)])
        found["log_loss"] = metrics.log_loss(y, chances)
        return found
    found |= {
        "precision": metrics.precision_score(y, said),
        "recall": metrics.recall_score(y, said),
        "f1": metrics.f1_score(y, said),
        "auc": metrics.roc_auc_score(y, model.decision_function(TEST)),
    }
    if model is BINARY:
        chances = model.predict_proba(TEST)[:, 1]
        found |= {"log_loss": metrics.log_loss(y, chances), "brier": metrics.brier_score_loss(y, chances)}
    return found


@pytest.mark.together
@pytest.mark.parametrize("case", CASES)
def test_noisy_figures_are_near_the_exact_ones_and_say_how_near(case):
    model, y = CASES[case]
    found = dperm.evaluate(model, TEST, y[N:], BUDGET)
    for name, value in exact(model, y[N:]).items():
        figure = found.metrics[name]
        assert abs(figure.estimate - value) < 4 * figure.noise + 0.002, name
        assert figure.low <= figure.estimate <= figure.high
        assert 0 < figure.noise <= (figure.high - figure.low) / 2 + 1e-9
    assert found.private
    assert found.rows == N
    assert found.budget == {"epsilon": 2.0, "delta": 1e-6}
    assert found.model == model.certificate_["model"]["sha256"]


@pytest.mark.together
@pytest.mark.parametrize("case", CASES)
def test_local_figures_are_those_of_scikit_learn(case):
    model, y = CASES[case]
    found = dperm.evaluate(model, TEST, y[N:], local=True)
    for name, value in exact(model, y[N:]).items():
        rough = 2e-3 if (case, name) == ("many", "auc") else 1e-6  # of several classes from bins
        assert found.metrics[name].estimate == pytest.approx(value, abs=rough), name
        assert found.metrics[name].noise == 0
    assert found.local
    assert not found.private
    assert found.budget is None
    assert "must not be published" in str(found)


def test_confusion_and_curves_follow_the_counts():
    found = dperm.evaluate(BINARY, TEST, Y[N:], local=True)
    shares = metrics.confusion_matrix(Y[N:], BINARY.predict(TEST)) / N
    np.testing.assert_allclose([[cell.estimate for cell in line] for line in found.confusion], shares)
    chances = BINARY.predict_proba(TEST)[:, 1]
    for point in found.roc[::5]:
        above = chances > point.threshold
        assert point.true_positive_rate.estimate == pytest.approx(above[Y[N:] == 1].mean(), abs=2e-3)
    for group in found.calibration:
        inside = (chances > group.low) & (chances <= group.high)
        assert group.observed.estimate == pytest.approx(Y[N:][inside].mean(), abs=1e-2)
        assert group.predicted == pytest.approx(chances[inside].mean(), abs=0.02)


def test_the_charge_is_one_and_comes_before_a_row_is_read(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=3, delta=1e-5)
    ledger.set_cap("test", 2.0, 1e-5)
    seen = []

    class Watched:
        shape = TEST.shape

        def read(self):
            seen.append([entry.status for entry in ledger.entries("test")])
            return TEST

    found = dperm.evaluate(BINARY, Watched(), Y[N:], Budget(1.0, 1e-6), ledger=ledger, dataset="test")
    assert seen == [["open"]]
    (entry,) = ledger.entries()
    assert entry.dataset == "test"
    assert found.model[:12] in entry.label
    assert entry.mechanism == "evaluation"
    assert ledger.spent("test") <= 1.0
    assert entry.cost.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    ledger.check(found.ledger_entry)


def test_an_empty_purse_reads_nothing(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=0.5, delta=1e-6)

    class Untouched:
        shape = TEST.shape

        def read(self):
            raise AssertionError("read")

    with pytest.raises(BudgetExceeded):
        dperm.evaluate(BINARY, Untouched(), Y[N:], Budget(1.0, 1e-6), ledger=ledger)
    assert ledger.entries() == []


def test_a_strict_ledger_says_one_thing_whatever_was_wrong(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=5, delta=1e-5, strict=True)
    said = set()
    for y in (np.full(N, 7), np.full(N, "x")):
        with pytest.raises(InvalidInput) as caught:
            dperm.evaluate(BINARY, TEST, y, Budget(1.0, 1e-6), ledger=ledger)
        said.add(str(caught.value))
    assert len(said) == 1
    assert [entry.status for entry in ledger.entries()] == ["spent", "spent"]


def test_labels_outside_the_classes_are_not_quoted():
    y = Y[N:].astype(object)
    y[17] = "zebra-4711"
    with pytest.raises(InvalidInput, match="labels outside classes") as caught:
        dperm.evaluate(BINARY, TEST, y, BUDGET)
    assert "zebra" not in "".join(traceback.format_exception(caught.value))


def test_targets_that_are_missing_are_refused():
    y = REAL[N:].copy()
    y[3] = np.nan
    with pytest.raises(InvalidInput):
        dperm.evaluate(REGRESSION, TEST, y, BUDGET)


@pytest.mark.together
@pytest.mark.parametrize(
    "rows", [sparse.csr_array, pd.DataFrame, lambda x: x.tolist(), lambda x: x.astype(np.float32)]
)
def test_rows_of_every_kind_give_the_same_counts(rows):
    first = dperm.evaluate(BINARY, TEST, Y[N:], BUDGET, random_state=3)
    again = dperm.evaluate(BINARY, rows(TEST), list(Y[N:]), BUDGET, random_state=3)
    np.testing.assert_allclose(again.release["numbers"], first.release["numbers"], atol=2.0)
    assert not first.private
    assert "NOT PRIVATE" in str(first)


def test_pipelines_of_an_encoder_and_a_search_are_opened():
    schema = {
        "target": {"name": "sick", "classes": ["no", "yes"]},
        "features": {"age": {"range": [0, 100]}, "job": {"categories": ["desk", "farm"]}},
    }
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"age": rng.uniform(0, 100, 4000), "job": rng.choice(["desk", "farm"], 4000)})
    sick = np.where(table["age"] + 20 * rng.normal(size=4000) > 50, "yes", "no")
    model = PrivateLogisticRegression(classes=["no", "yes"], **EASY)
    pipeline = make_pipeline(dperm.PublicEncoder(schema), model).fit(table[:2000], sick[:2000])
    found = dperm.evaluate(pipeline, table[2000:], sick[2000:], BUDGET)
    assert found.metrics["accuracy"].low > 0.7
    assert found.classes == ["no", "yes"]
    search = dperm.PrivateSearchCV(
        PrivateLogisticRegression(classes=[0, 1]), {"l2": [0.01, 0.1]}, **EASY
    ).fit(X[:N], Y[:N])
    assert (
        dperm.evaluate(search, TEST, Y[N:], BUDGET).model
        == search.best_estimator_.certificate_["model"]["sha256"]
    )


@pytest.mark.filterwarnings("ignore::dperm.PrivacyWarning")
def test_steps_that_may_look_at_several_rows_are_refused():
    pipeline = make_pipeline(StandardScaler(), PrivateLogisticRegression(classes=[0, 1], **EASY)).fit(
        X[:N], Y[:N]
    )
    with pytest.raises(Unsupported, match="StandardScaler"):
        dperm.evaluate(pipeline, TEST, Y[N:], BUDGET)


def test_what_is_no_private_model_is_refused():
    with pytest.raises(Unsupported, match="StandardScaler"):
        dperm.evaluate(StandardScaler(), TEST, Y[N:], BUDGET)


def test_add_remove_hides_the_number_of_rows_and_takes_none():
    hidden = {"neighbours": "add-remove", "max_rows": 10_000}
    found = dperm.evaluate(BINARY, TEST, Y[N:], BUDGET, **hidden)
    assert found.rows is None
    assert found.row_count.low <= N + 100
    assert found.row_count.high >= N - 100
    empty = dperm.evaluate(BINARY, TEST[:0], Y[:0], BUDGET, **hidden)
    assert not empty.metrics["auc"].known
    assert "too noisy to say" in str(empty)
    assert not dperm.evaluate(REGRESSION, TEST[:0], REAL[:0], BUDGET, **hidden).metrics["r2"].known


WRONG = {
    "neither budget nor local": ({}, "local=True"),
    "both": ({"budget": BUDGET, "local": True}, "spend nothing"),
    "no capacity": ({"budget": BUDGET, "neighbours": "add-remove"}, "max_rows"),
    "capacity of replace-one": ({"budget": BUDGET, "max_rows": 10}, "max_rows"),
    "too small a capacity": ({"budget": BUDGET, "neighbours": "add-remove", "max_rows": 10}, "max_rows"),
    "one bin": ({"budget": BUDGET, "bins": 1}, "bins"),
    "dataset without ledger": ({"budget": BUDGET, "dataset": "test"}, "ledger"),
    "pure budget": ({"budget": Budget(1.0, 0.0)}, "delta"),
    "a number for a budget": ({"budget": 1.0}, "Budget"),
}


@pytest.mark.together
@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_say_what_to_do(call):
    options, words = WRONG[call]
    with pytest.raises(InvalidInput, match=words):
        dperm.evaluate(BINARY, TEST, Y[N:], **options)


def test_an_error_bound_is_for_regressions_and_brings_less_noise():
    whole, cut = (
        dperm.evaluate(REGRESSION, TEST, REAL[N:], BUDGET, error_bound=bound) for bound in (None, 40.0)
    )
    for name in ("rmse", "mae", "r2"):
        assert cut.metrics[name].noise < 0.75 * whole.metrics[name].noise
    assert any("40" in note for note in cut.notes)
    assert cut.release["error_bound"] == 40.0
    for model, bound in ((BINARY, 1.0), (REGRESSION, 0.0), (REGRESSION, 101.0), (REGRESSION, "1")):
        with pytest.raises(InvalidInput, match="error_bound"):
            dperm.evaluate(model, TEST, Y[N:], BUDGET, error_bound=bound)


def test_seeded_noise_is_not_charged(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=5, delta=1e-5)
    with pytest.raises(InvalidInput, match="random_state"):
        dperm.evaluate(BINARY, TEST, Y[N:], BUDGET, ledger=ledger, random_state=1)


def test_a_large_delta_is_warned_of():
    with pytest.warns(PrivacyWarning, match="delta"):
        dperm.evaluate(BINARY, TEST, Y[N:], Budget(1.0, 1e-2))


def test_fewer_bins_where_noise_is_large():
    bins = [dperm.evaluate(BINARY, TEST, Y[N:], Budget(eps, 1e-6)).release["bins"] for eps in (0.1, 10.0)]
    assert bins == [12, 64]
    assert dperm.evaluate(BINARY, TEST, Y[N:], BUDGET, bins=50).release["bins"] == 50


def test_the_default_number_of_bins_does_not_tell_how_many_rows_there_are_where_that_is_private():
    hidden = {"neighbours": "add-remove", "max_rows": 40_000}
    found = [dperm.evaluate(BINARY, TEST[:n], Y[N : N + n], BUDGET, **hidden).release for n in (500, N)]
    assert found[0]["bins"] == found[1]["bins"]
    assert len(found[0]["numbers"]) == len(found[1]["numbers"])
    assert found[0]["scales"] == found[1]["scales"]
    told = [dperm.evaluate(BINARY, TEST[:n], Y[N : N + n], BUDGET).release["bins"] for n in (500, N)]
    assert told[0] != told[1]  # where it is public, it is used
