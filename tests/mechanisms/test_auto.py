"""``auto``: a rule on public facts alone, whose choice is planned, run and reported like any other."""

import dataclasses

import numpy as np
import pytest

from dperm import PrivateLogisticRegression
from dperm.engine import open_rows
from dperm.errors import InvalidInput
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Softmax
from dperm.mechanisms import Auto, Job
from dperm.mechanisms.auto import choose
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, Gate
from dperm.problem import Problem

WIDE = Problem(loss=Logistic(), l2=1e-3, x_norm=1.0, n_rows=40_000, n_features=100, intercept=0.3)


def chosen(problem: Problem, epsilon: float) -> tuple[str, bool]:
    mechanism, why = choose(problem, Budget(epsilon, 1e-8))
    assert why
    return mechanism.name, bool(mechanism.standardise)


def test_the_rule() -> None:
    assert chosen(WIDE, 0.1) == ("ssp", True)
    assert chosen(WIDE, 2.0) == ("objective", True)
    assert chosen(dataclasses.replace(WIDE, n_features=8), 0.1) == ("objective", False)
    assert chosen(dataclasses.replace(WIDE, intercept=0.0), 0.1) == ("objective", False)
    assert chosen(dataclasses.replace(WIDE, n_features=1000), 0.1) == ("dp-gd", True)
    assert chosen(dataclasses.replace(WIDE, loss=HuberHinge()), 0.1) == ("dp-gd", True)
    assert chosen(dataclasses.replace(WIDE, loss=ClippedSquared()), 0.1) == ("dp-gd", False)
    assert chosen(dataclasses.replace(WIDE, loss=Softmax(5)), 0.1)[0] == "dp-gd"


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), ClippedSquared(), Softmax(3)], ids=repr)
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 50.0])
@pytest.mark.parametrize(("n_rows", "n_features"), [(30, 2), (1000, 50), (40_000, 100)])
def test_its_choice_can_always_be_planned_and_meets_the_budget(
    neighbours, loss, epsilon, n_rows, n_features
) -> None:
    problem = dataclasses.replace(
        WIDE, loss=loss, neighbours=neighbours, n_rows=n_rows, n_features=n_features
    )
    plan = Auto().plan(problem, Budget(epsilon, 1e-8))
    assert isinstance(plan.mechanism, Auto)
    assert plan.settings["mechanism"] == plan.chosen.mechanism.name
    assert plan.profile is not None
    assert plan.profile.delta(epsilon) <= 1e-8
    assert plan.not_certified is None


def test_jobs_with_different_choices_come_back_in_order() -> None:
    rng = np.random.default_rng(0)
    problem = dataclasses.replace(WIDE, n_rows=2000, n_features=30)
    X = rng.normal(size=(2000, 30)) / 10
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    budgets = [Budget(epsilon, 1e-6) for epsilon in (50.0, 0.5, 50.0, 0.5)]
    jobs = [Job(plan=Auto().plan(problem, budget)) for budget in budgets]
    assert len({job.plan.chosen.mechanism for job in jobs}) == 2
    outcomes = Auto().run(jobs, open_rows(X, y, problem), Gate.system())
    found = [np.append(*outcome.row_map.coefficients(outcome.weights)) for outcome in outcomes]
    spread = [np.linalg.norm(model - found[0]) for model in found]
    assert spread[2] < min(spread[1], spread[3])
    assert [len(outcome.records) for outcome in outcomes] == [4, 3, 4, 3]


def test_the_report_names_the_choice_and_the_reason() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 30)) / 10
    model = PrivateLogisticRegression().fit(X, X[:, 0] > 0)
    text = str(model.privacy_)
    assert "ssp, chosen by auto: the noise is large" in text
    assert "mean of the rows" in text
    assert model.privacy_.settings["mechanism"] == "ssp"


def test_it_takes_no_accounting_or_standardising() -> None:
    for bad in ({"standardise": True}, {"accounting": "paper"}):
        with pytest.raises(InvalidInput):
            Auto(**bad)
