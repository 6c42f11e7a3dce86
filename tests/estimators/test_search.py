"""PrivateSearchCV: what leaves, what it costs, and that neighbours differ in one part only."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dperm import (
    Budget,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
)
from dperm.datasets import load_cps
from dperm.errors import BudgetExceeded, InvalidInput, NotCertified, PrivacyWarning, Unsupported
from dperm.estimators.search import selection
from dperm.estimators.search.scoring import Scorer, scorer_for
from dperm.estimators.search.selection import as_noisy, priced_candidate
from dperm.ledger import Ledger
from dperm.mechanisms import Output
from dperm.privacy import GaussianProfile, SeededEntropy, SystemEntropy, gaussian_mu
from dperm.privacy.selection import RunCount, plan_selection
from dperm.unit import Neighbours

N = 3000
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
GRID = {"l2": [1e-3, 1.0]}


def by_accuracy(n_validation):
    return scorer_for(None, PrivateLogisticRegression(), 2, n_validation)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)) / 3
    y = np.where(X @ [2.0, -1.0, 0.5] + 0.1 * rng.normal(size=N) > 0, "yes", "no")
    return X, y


def searcher(estimator=None, grid=GRID, **settings):
    if estimator is None:
        estimator = PrivateLogisticRegression(mechanism="output", classes=["no", "yes"])
    return PrivateSearchCV(estimator, grid, **{**BUDGET, "mean_candidates": 6.0, **settings})


@pytest.fixture
def seen(monkeypatch):
    """All candidates that a search trains, with the rows they saw, and their scores before noise."""
    trained = []
    exact = Scorer.sums

    def sums(scorer, model, rows, targets, shares=None):
        value = exact(scorer, model, rows, targets)
        trained.append({"model": model, "rows": rows, "targets": targets, "score": value[0]})
        return value

    monkeypatch.setattr(Scorer, "sums", sums)
    return trained


def accuracy(model, rows, targets, n_validation):
    return by_accuracy(n_validation).sums(model, rows, targets)[0]


def test_a_search_on_cps_picks_what_works():
    cps = load_cps()
    estimator = PrivateLogisticRegression(mechanism="dp-gd", classes=list(cps.classes))
    found = searcher(estimator, {"l2": [1e-3, 0.1]}, mean_candidates=10.0, random_state=0)
    found.fit(cps.X[:20000], cps.y[:20000])
    assert found.best_params_ == {"l2": 1e-3}
    elsewhere = found.score(cps.X[20000:], cps.y[20000:])
    assert elsewhere > 0.68  # with l2 = 0.1 it would be 0.59
    assert abs(found.best_score_ - elsewhere) < 0.02


def test_the_report_states_the_whole(rows):
    found = searcher().fit(*rows)
    report = found.privacy_
    assert report.guarantee == BUDGET
    assert found.best_estimator_.privacy_ is report
    assert report.n_rows == N
    assert report.settings["training_rows"] + report.settings["validation_rows"] == N
    assert report.settings["model_epsilon"] < 1.0
    assert any("number of candidates" in str(line) for line in report.assumptions)
    assert "private search" in str(report)
    # The statement for machines is that of one fit: alone it promises nothing, and says where to look.
    stated = found.best_estimator_.certificate_
    assert stated["guarantee"] is None
    assert "private search" in stated["reason"]
    assert found.best_params_["l2"] in GRID["l2"]
    assert set(found.predict(rows[0])) <= {"no", "yes"}
    assert found.predict_proba(rows[0]).shape == (N, 2)
    assert found.decision_function(rows[0]).shape == (N,)


def test_sentences_are_made_of_values_and_not_of_each_other(rows):
    """The number of training rows occurs in another line too, and stays there."""
    found = searcher(validation=2900 / N, epsilon=8.0)
    Pipeline([("step100", FunctionTransformer(np.copy)), ("search", found)]).fit(*rows)
    assert found.privacy_.settings["training_rows"] == 100
    assert f"The number of rows, {N}, is public." in map(str, found.privacy_.assumptions)
    assert "The function of step step100 works row by row." in map(str, found.privacy_.assumptions)


def test_cautions_are_those_of_the_whole_search(rows):
    with pytest.warns(PrivacyWarning, match="not below 1 / 60"):
        found = searcher(validation=0.5, delta=0.09, epsilon=8.0).fit(rows[0][:60], rows[1][:60])
    (caution,) = found.privacy_.cautions
    assert "delta = 0.09 is not below 1 / 60" in caution.text
    assert found.privacy_.assumptions[-1] == caution


def test_a_seed_is_not_private(rows):
    first, second = (searcher(random_state=3).fit(*rows) for _ in range(2))
    assert first.privacy_.guarantee is None
    assert "random_state" in first.privacy_.reason
    np.testing.assert_array_equal(first.best_estimator_.coef_, second.best_estimator_.coef_)
    assert first.best_score_ == second.best_score_


def test_every_candidate_costs_what_the_selection_admits(rows, seen):
    searcher(runs="geometric").fit(*rows)
    plan = plan_selection(Budget(**BUDGET), RunCount(1.0, 6.0))
    for candidate in seen:
        model = candidate["model"]
        assert gaussian_mu(Budget(model.epsilon, model.delta)) <= plan.mu
        assert gaussian_mu(Budget(model.epsilon, model.delta)) > plan.mu * (1 - 1e-6)


def test_a_mechanism_with_a_curve_of_its_own_gets_less(rows, seen):
    searcher(PrivateLogisticRegression(mechanism="objective"), {"l2": [0.1]}).fit(*rows)
    plan = plan_selection(Budget(**BUDGET), RunCount(math.inf, 6.0))
    for candidate in seen:
        assert 0.5 * plan.mu < gaussian_mu(Budget(candidate["model"].epsilon, 1e-6)) < plan.mu


def test_neighbours_differ_in_training_or_in_validation_and_never_in_both(rows, seen):
    X, y = rows
    fixed = {"random_state": 5, "validation": 0.4, "runs": "geometric", "mean_candidates": 4.0}
    searcher(**fixed).fit(X, y)
    before, sides = list(seen), set()
    noise = by_accuracy(len(before[0]["rows"])).noise(1.0, Neighbours.REPLACE_ONE)
    for place in range(8):
        seen.clear()
        X_other, y_other = X.copy(), y.copy()
        X_other[place], y_other[place] = -X[place], "no" if y[place] == "yes" else "yes"
        searcher(**fixed).fit(X_other, y_other)
        assert len(seen) == len(before)
        same_models = all(
            np.array_equal(a["model"].coef_, b["model"].coef_) for a, b in zip(before, seen, strict=True)
        )
        same_rows = all(np.array_equal(a["rows"], b["rows"]) for a, b in zip(before, seen, strict=True))
        assert same_models != same_rows
        sides.add(same_models)
        if same_models:
            moved = max(abs(a["score"] - b["score"]) for a, b in zip(before, seen, strict=True))
            assert moved <= noise.sensitivity * (1 + 1e-9)
    assert sides == {True, False}


def test_the_score_moves_by_its_sensitivity_and_no_more(rows):
    X, y = rows
    model = PrivateLogisticRegression(mechanism="output", random_state=0).fit(X, y)
    noise = by_accuracy(100).noise(0.5, Neighbours.REPLACE_ONE)
    base = accuracy(model, X[:100], y[:100], 100)
    flipped = y[:100].copy()
    flipped[0] = "no" if flipped[0] == "yes" else "yes"
    moves = [abs(accuracy(model, X[:100], flipped, 100) - base)]
    moves.append(abs(accuracy(model, X[1:100], y[1:100], 100) - base))  # a removed row counts 0
    assert max(moves) == pytest.approx(noise.sensitivity)
    assert noise.scale >= noise.sensitivity / 0.5
    line = PrivateLinearRegression(mechanism="dp-gd", y_range=(0, 2), random_state=0).fit(X, X[:, 0] + 1)
    line.coef_, line.intercept_ = np.array([1e308, 1e308, 0.0]), 0.0
    wild = np.full((4, 3), 10.0)
    close = scorer_for(None, line, None, 4)
    scores = [close.sums(line, wild, np.full(4, target))[0] for target in (-1e9, 1e9)]
    assert abs(scores[0] - scores[1]) <= 1 + 1e-12


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(4)], ids=["system", "seeded"])
def test_candidates_have_noise_of_their_own(rows, entropy, seen, monkeypatch):
    X, y = rows[0][:60], rows[1][:60]
    estimator = PrivateLogisticRegression(mechanism=Output(standardise=False), classes=["no", "yes"])
    one = searcher(estimator, {"l2": [1.0]}, mean_candidates=60.0, runs="poisson", epsilon=20.0)
    task, _ = one._task(X, y, None)
    plan = selection.selection_plan(Budget(20.0, 1e-6), "poisson", 60.0)
    candidates = [priced_candidate(one.estimator, {"l2": 1.0}, task, plan)]
    scorer = by_accuracy(task.n_validation)
    noise = scorer.noise(plan.mu, task.neighbours)

    def correlation():
        seen.clear()
        selection.best_of(candidates, plan, scorer, noise, task, X, y, entropy)
        weights = np.array([candidate["model"].coef_[0] for candidate in seen])
        weights = (weights - weights.mean(axis=0)) / candidates[0].plan.noise.scale
        return float(np.sum(weights[1:] * weights[:-1]) / math.sqrt(weights[1:].size))

    assert abs(correlation()) < 7
    monkeypatch.setattr(selection, "stream", lambda entropy: np.random.default_rng(len(seen) // 10))
    assert abs(correlation()) > 7  # the control: ten candidates share each seed


def test_the_ledger_is_charged_once(rows, tmp_path, seen):
    ledger = Ledger.create(tmp_path / "ledger.sqlite", epsilon=1.5, delta=1e-5)
    found = searcher(ledger=ledger).fit(*rows)
    assert ledger.spent() == pytest.approx(1.0)
    assert len(ledger.entries()) == 1
    Ledger(ledger.path, expect=[found, found.best_estimator_])  # both cite the charge
    seen.clear()
    with pytest.raises(BudgetExceeded):
        searcher(ledger=ledger).fit(*rows)
    with pytest.raises(InvalidInput, match="give the ledger to PrivateSearchCV"):
        searcher(PrivateLogisticRegression(mechanism="output", ledger=ledger)).fit(*rows)
    assert not seen  # refused before anything was trained


def test_public_rows_cost_nothing(rows, tmp_path, seen):
    X, y = rows
    ledger = Ledger.create(tmp_path / "ledger.sqlite", epsilon=1.5, delta=1e-5)
    grid = {"mechanism": ["majority", "output"], "l2": [0.1]}
    found = searcher(grid=grid, public_data=(X[:1000], y[:1000]), ledger=ledger, cv=3).fit(X[1000:], y[1000:])
    assert not seen
    assert found.best_params_ == {"mechanism": "output", "l2": 0.1}
    assert found.privacy_.guarantee == BUDGET
    assert found.best_estimator_.epsilon == 1.0
    assert any("public_data" in str(line) for line in found.privacy_.assumptions)
    assert found.best_estimator_.certificate_["guarantee"] == BUDGET
    (entry,) = ledger.entries()
    assert entry.cost.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    assert entry.cost.only_gaussian


def test_public_rows_are_as_noisy_as_the_private_ones():
    whole = Budget(1.0, 1e-6)
    assert gaussian_mu(as_noisy(whole, 3.0)) == pytest.approx(3 * gaussian_mu(whole), rel=1e-6)
    assert as_noisy(whole, 1e6).epsilon == 50.0


def test_no_candidate_at_all_tells_nothing(rows, monkeypatch):
    monkeypatch.setattr(RunCount, "draw", lambda self, entropy: 0)
    found = searcher(runs="poisson").fit(*rows)
    assert not found.best_estimator_.coef_.any()
    assert found.best_score_ is None
    assert found.privacy_.guarantee == BUDGET
    assert set(found.predict(rows[0])) == {"no"}
    line = searcher(PrivateLinearRegression(y_range=(0, 4)), {"l2": [0.1]}, runs="poisson")
    assert set(line.fit(rows[0], rows[0][:, 0] + 2).predict(rows[0])) == {2.0}


def test_a_last_fit_on_all_rows_is_paid_for(rows, seen):
    found = searcher(refit_share=0.25).fit(*rows)
    assert found.best_estimator_.epsilon == pytest.approx(0.25)
    assert found.best_estimator_.delta == pytest.approx(0.25e-6)
    assert found.privacy_.guarantee == BUDGET
    rest = plan_selection(Budget(0.75, 0.75e-6), RunCount(math.inf, 6.0))
    for candidate in seen:
        assert gaussian_mu(Budget(candidate["model"].epsilon, 0.75e-6)) <= rest.mu


def test_regression_and_svm_and_several_classes(rows):
    X, y = rows
    line = searcher(
        PrivateLinearRegression(mechanism="dp-gd", y_range=(-1, 1)),
        {"residual_bound": [0.5, 1.0]},
        epsilon=8.0,
        random_state=0,
    )
    assert line.fit(X, X[:, 0]).score(X, X[:, 0]) > 0.3
    assert 0.8 < line.best_score_ < 1.05
    svm = searcher(
        PrivateLinearSVC(mechanism="output", classes=["no", "yes"]), epsilon=8.0, random_state=0
    ).fit(X, y)
    assert svm.classes_.tolist() == ["no", "yes"]
    three = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.2, 0.2])]
    several = searcher(PrivateLogisticRegression(), epsilon=8.0, random_state=0, grid={"l2": [1e-3]}).fit(
        X, three
    )
    assert several.score(X, three) > 0.5
    assert several.best_estimator_.classes is None
    assert any("taken from y" in str(line) for line in several.privacy_.assumptions)


def test_the_number_of_rows_may_be_private(rows, seen):
    X, y = rows
    hidden = PrivateLogisticRegression(
        mechanism="output", neighbours="add-remove", max_rows=4000, classes=["no", "yes"]
    )
    found = searcher(hidden, epsilon=8.0, random_state=0, validation=0.25).fit(X, y)
    assert found.privacy_.n_rows == 4000
    assert found.privacy_.settings["validation_rows"] == 1000
    assert {candidate["model"].max_rows for candidate in seen} == {3000}
    assert 700 < len(seen[0]["rows"]) < 800  # about a quarter of the rows there are
    # Scores are over the public number, so that about a quarter of the places count as wrong.
    assert max(candidate["score"] for candidate in seen) < 0.8
    with pytest.raises(InvalidInput, match="max_rows"):
        searcher(clone(hidden).set_params(max_rows=100)).fit(X, y)


def test_scikit_learn_can_copy_and_set_it(rows):
    search_ = searcher(validation=0.3)
    copied = clone(search_).set_params(estimator__l2=0.5, mean_candidates=4.0)
    assert copied.estimator.l2 == 0.5
    assert search_.estimator.l2 == "auto"
    assert copied.get_params()["validation"] == 0.3
    piped = make_pipeline(FunctionTransformer(), searcher()).fit(*rows)
    assert piped.predict(rows[0]).shape == (N,)


@pytest.mark.together("seen")
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"grid": {"epsilon": [1.0]}}, InvalidInput, "may not vary epsilon"),
        ({"grid": {"max_rows": [1]}}, InvalidInput, "may not vary max_rows"),
        ({"grid": {"C": [1.0]}}, InvalidInput, "no parameter C"),
        ({"grid": {"mechanism": ["none"]}}, Unsupported, "baseline"),
        ({"grid": {"mechanism": ["dp-sgd"]}}, Unsupported, "dp-gd"),
        ({"estimator": LogisticRegression()}, Unsupported, "put the search into the pipeline"),
        ({"runs": "often"}, InvalidInput, "runs must be"),
        ({"runs": -1.0}, InvalidInput, "shape"),
        ({"mean_candidates": 1.0}, InvalidInput, "mean number"),
        ({"mean_candidates": "many"}, InvalidInput, "mean_candidates"),
        ({"validation": 1.0}, InvalidInput, "validation"),
        ({"validation": True}, InvalidInput, "validation"),
        ({"refit_share": 1.5}, InvalidInput, "refit_share"),
        ({"epsilon": 1e-3}, NotCertified, "no budget is left"),
        ({"delta": 0.0}, InvalidInput, "delta"),
        ({"public_data": 3}, InvalidInput, "public_data"),
        ({"dataset": "survey"}, InvalidInput, "give the ledger too"),
        ({"ledger": "file"}, InvalidInput, "must be a dperm.Ledger"),
    ],
)
def test_refusals(rows, settings, error, message, seen):
    with pytest.raises(error, match=message):
        searcher(**settings).fit(*rows)
    assert not seen


def test_the_gaussian_budget_of_a_candidate_is_no_epsilon_to_add_up():
    """Ten candidates at the price of one would be far outside the budget; the plan leaves each less."""
    plan = plan_selection(Budget(**BUDGET), RunCount(math.inf, 10.0))
    assert GaussianProfile.gaussian(plan.mu).epsilon(1e-6) < 0.6
