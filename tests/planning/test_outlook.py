"""What a plan expects: from public facts, the same for both ways to ask, and silent about what was not studied."""

import pytest

from dperm import Budget, PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.mechanisms import Auto
from dperm.planning.outlook import outlook
from dperm.planning.rules import noise_level


def looked(n=20_000, p=40, epsilon=0.5, classes=2, **settings):
    plan = PrivateLogisticRegression(
        epsilon=epsilon, delta=1e-7, classes=list(range(classes)), **settings
    ).plan(n, p)
    return outlook(plan.problem, plan.budget)


def test_more_rows_or_epsilon_lose_less_and_more_features_or_classes_more():
    base = looked().losses["accuracy"].expected
    assert looked(n=40_000).losses["accuracy"].expected < base
    assert looked(epsilon=1.0).losses["accuracy"].expected < base
    assert looked(p=300).losses["accuracy"].expected > base
    assert looked(classes=10).losses["accuracy"].expected > base


@pytest.mark.parametrize("classes", [2, 5])
def test_half_of_the_loss_is_reached_by_the_rows_or_the_epsilon_that_are_told(classes):
    found = looked(n=6_000, p=100, classes=classes)
    half = found.half()
    wanted = found.losses["accuracy"].expected / 2
    more_rows = looked(n=half.n_rows, p=100, classes=classes)
    more_epsilon = looked(n=6_000, p=100, epsilon=half.epsilon, classes=classes)
    for better in (more_rows, more_epsilon):
        assert better.losses["accuracy"].expected == pytest.approx(wanted, rel=0.01)


def test_every_other_way_to_spend_leaves_a_noisier_model():
    ways = looked().ways(0.1)
    assert [way.n_rows for way in ways] == [20_000, 16_000, 16_000, 16_000]
    assert ways[0].epsilon == ways[1].epsilon == 0.5
    assert 0.5 > ways[2].epsilon > ways[3].epsilon > 0.1
    expected = [way.losses["accuracy"].expected for way in ways]
    assert expected == sorted(expected)
    assert ways[0].losses == looked().losses
    assert len(looked().ways(0.5)) == 3  # an evaluation that would take it all is not offered


def test_the_noise_is_worth_so_many_rows():
    replaced = looked()
    assert replaced.rows_worth == pytest.approx(replaced.level * 20_000)
    hidden = looked(neighbours="add-remove", max_rows=20_000)
    assert hidden.level == pytest.approx(replaced.level / 2)
    assert hidden.rows_worth == pytest.approx(replaced.rows_worth)


def test_what_is_too_noisy_or_too_small_is_not_told():
    assert looked(n=300, p=500, epsilon=0.1).too_noisy
    assert looked(n=300, p=500, epsilon=0.1).half() is None
    assert looked(n=300, p=500, epsilon=0.1).ways(0.02) == []
    assert "n" in looked(n=3_000_000).beyond
    assert looked(n=3_000_000, epsilon=4.0).half() is None  # nothing to halve


def test_no_outlook_without_delta():
    plan = PrivateLogisticRegression(classes=[0, 1]).plan(1_000, 5)
    assert outlook(plan.problem, Budget(1.0, 0.0)) is None


@pytest.mark.together
@pytest.mark.parametrize(
    "estimator",
    [
        PrivateLogisticRegression(classes=[0, 1]),
        PrivateLogisticRegression(classes=[0, 1, 2]),
        PrivateLinearRegression(y_range=(0, 1)),
        PrivateLogisticRegression(classes=[0, 1], neighbours="add-remove", max_rows=9_000),
    ],
)
def test_a_plan_of_the_default_says_what_it_expects(estimator):
    text = str(estimator.plan(9_000, 30))
    assert text.count("  expects      a loss of points against the model without noise: ") == 1
    assert noise_level(estimator.plan(9_000, 30).problem, Budget(1.0, 1e-6)) < 1


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateLogisticRegression(classes=[0, 1], l2=0.1),
        PrivateLogisticRegression(classes=[0, 1], mechanism="output"),
        PrivateLogisticRegression(classes=[0, 1], mechanism="none"),
        PrivateLogisticRegression(classes=[0, 1], mechanism=Auto(standardise=False)),
        PrivateLinearSVC(classes=[0, 1]),
    ],
)
def test_a_plan_of_anything_else_expects_nothing(estimator):
    assert "expects" not in str(estimator.plan(9_000, 30))
