"""``auto``: a rule on public facts alone, whose choice is planned, run and reported like any other."""

import dataclasses

import numpy as np
import pytest

from dperm import PrivateLinearRegression, PrivateLogisticRegression
from dperm.engine import open_rows
from dperm.errors import InvalidInput
from dperm.losses import (
    ClippedSquared,
    HuberHinge,
    Logistic,
    SoftClippedLogistic,
    SoftClippedSquared,
    Softmax,
)
from dperm.mechanisms import Auto, Job, Objective
from dperm.mechanisms.auto import choose
from dperm.planning.rules import SLOPE_RANGE
from dperm.privacy import Budget, Gate
from dperm.problem import Problem
from dperm.unit import Neighbours

WIDE = Problem(loss=Logistic(), l2=0.0, x_norm=1.0, n_rows=40_000, n_features=100, intercept=0.3)
LOSSES = [Logistic(), HuberHinge(), ClippedSquared(), Softmax(3)]


def planned(problem: Problem, epsilon: float, mechanism: Auto | None = None):
    mechanism, budget = mechanism or Auto(), Budget(epsilon, 1e-8)
    return mechanism.plan(mechanism.regularised(problem, budget), budget)


def test_the_rule() -> None:
    for loss, name, trained in (
        (Logistic(), "objective", SoftClippedLogistic),
        (HuberHinge(), "objective", HuberHinge),
        (ClippedSquared(), "objective", SoftClippedSquared),
        (Softmax(5), "dp-gd", Softmax),
    ):
        for epsilon in (0.1, 2.0):
            plan = planned(dataclasses.replace(WIDE, loss=loss), epsilon)
            assert plan.settings["mechanism"] == plan.chosen.mechanism.name == name
            assert plan.settings["why"]
            assert type(plan.problem.loss) is trained
            assert plan.standardisation.variant == "linear"


def test_the_clip_grows_as_the_noise_falls_within_its_range() -> None:
    clips = [
        Auto().trained_loss(WIDE, Budget(epsilon, 1e-8)).clip for epsilon in (0.01, 0.1, 0.3, 0.5, 1.0, 4.0)
    ]
    assert clips == sorted(clips)
    assert clips[0] == SLOPE_RANGE[0] < clips[3] < clips[-1] == SLOPE_RANGE[1]


@pytest.mark.parametrize(
    "loss", [SoftClippedLogistic(0.2, 0.5), ClippedSquared(0.7), HuberHinge(0.1)], ids=repr
)
def test_a_loss_with_settings_of_its_own_is_kept(loss) -> None:
    problem = dataclasses.replace(WIDE, loss=loss)
    assert Auto().trained_loss(problem, Budget(1.0, 1e-8)) == loss
    assert planned(problem, 1.0).problem.loss == loss


@pytest.mark.together
@pytest.mark.cover(2)
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 50.0])
@pytest.mark.parametrize(("n_rows", "n_features"), [(30, 2), (1000, 50), (40_000, 100), (1_000_000, 120)])
def test_its_choice_can_always_be_planned_and_meets_the_budget(
    neighbours, loss, epsilon, n_rows, n_features
) -> None:
    problem = dataclasses.replace(
        WIDE, loss=loss, neighbours=neighbours, n_rows=n_rows, n_features=n_features
    )
    plan = planned(problem, epsilon)
    assert isinstance(plan.mechanism, Auto)
    assert plan.profile is not None
    assert plan.profile.delta(epsilon) <= 1e-8
    assert plan.not_certified is None


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_planning_again_from_the_resolved_problem_gives_the_same_plan(loss) -> None:
    budget = Budget(0.3, 1e-6)
    plan = planned(dataclasses.replace(WIDE, loss=loss), 0.3)
    again = Auto().plan(plan.problem, plan.budget)
    assert Auto().l2_rule(plan.problem, plan.budget) == plan.problem.l2
    assert (again.problem, again.settings) == (plan.problem, plan.settings)
    assert Auto().plan(plan.problem, budget).settings != plan.settings  # another budget, another plan


@pytest.mark.cover(1)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("l2", [0.0, 1e-6, 1e-3, 1.0])
def test_any_given_l2_is_used_as_it_is(l2, loss) -> None:
    problem, budget = (
        dataclasses.replace(WIDE, l2=l2, loss=loss, n_rows=1000, n_features=20),
        Budget(0.1, 1e-8),
    )
    plan = Auto().plan(problem, budget)
    assert plan.problem.l2 == l2 == plan.settings["l2_used"]
    small = l2 < Auto().l2_rule(problem, budget) / 2
    assert plan.settings["mechanism"] == ("dp-gd" if small or loss.outputs > 1 else "objective")
    assert Auto().plan(plan.problem, budget).settings == plan.settings


@pytest.mark.parametrize("variant", [False, "linear", "bounded"])
def test_rows_may_be_standardised_or_not(variant) -> None:
    plan = planned(WIDE, 1.0, Auto(standardise=variant))
    assert plan.chosen.mechanism == Objective(standardise=variant)
    assert (plan.standardisation is None) == (variant is False)
    assert choose(plan.problem, plan.budget, variant)[0] == plan.chosen.mechanism


def test_jobs_with_different_choices_come_back_in_order() -> None:
    rng = np.random.default_rng(0)
    problem = dataclasses.replace(WIDE, n_rows=2000, n_features=30)
    X = rng.normal(size=(2000, 30)) / 10
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    jobs = [Job(plan=planned(problem, epsilon)) for epsilon in (50.0, 0.5, 50.0, 0.5)]
    assert len({job.plan.problem.loss for job in jobs}) == 2
    outcomes = Auto().run(jobs, open_rows(X, y, problem), Gate.system())
    found = [np.append(*outcome.row_map.coefficients(outcome.weights)) for outcome in outcomes]
    spread = [np.linalg.norm(model - found[0]) for model in found]
    assert spread[2] < min(spread[1], spread[3])
    assert [len(outcome.records) for outcome in outcomes] == [4, 4, 4, 4]


def test_the_report_names_the_choice_and_the_reason() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 30)) / 10
    model = PrivateLogisticRegression().fit(X, X[:, 0] > 0)
    text = str(model.privacy_)
    assert "objective, chosen by auto: one margin" in text
    assert "soft-clipped-logistic" in text
    assert "mean of the rows" in text
    assert model.privacy_.settings["mechanism"] == "objective"


def test_the_default_is_linear_in_the_rows_as_they_came() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 5))  # mostly longer than x_norm
    model = PrivateLogisticRegression(epsilon=4.0).fit(X, X[:, 0] > 0)
    assert np.array_equal(model.decision_function(X), X @ model.coef_[0] + model.intercept_[0])
    regression = PrivateLinearRegression(epsilon=4.0, y_range=(-3, 3)).fit(X, X[:, 0])
    assert np.array_equal(regression.predict(X), X @ regression.coef_ + regression.intercept_)
    classes = PrivateLogisticRegression(epsilon=4.0).fit(X, np.digitize(X[:, 0], [-1, 1]))
    assert np.allclose(classes.decision_function(X), X @ classes.coef_.T + classes.intercept_)
    bounded = PrivateLogisticRegression(epsilon=4.0, mechanism=Auto(standardise="bounded")).fit(
        X, X[:, 0] > 0
    )
    assert not np.allclose(bounded.decision_function(X), X @ bounded.coef_[0] + bounded.intercept_[0])


def test_it_takes_no_accounting() -> None:
    with pytest.raises(InvalidInput):
        Auto(accounting="paper")
