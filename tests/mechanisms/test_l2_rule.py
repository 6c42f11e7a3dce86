"""``l2="auto"``: a public rule of every mechanism, with which a plan is there wherever a number would give one."""

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dperm import PrivateLinearRegression, PrivateLogisticRegression
from dperm.errors import DpermError, InvalidInput
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Loss, Softmax, example_losses
from dperm.mechanisms import BoltOn, Mechanism, Objective, mechanism_names, resolve
from dperm.mechanisms.objective.family import l2_of_noise
from dperm.planning.rules import AUTO, against_objective_noise, parse_l2
from dperm.privacy import Budget
from dperm.problem import LARGEST, Problem
from dperm.unit import Neighbours

STRONG = BoltOn(rule="strong-decreasing")
MECHANISMS = [*map(resolve, mechanism_names()), STRONG]
each_mechanism = pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda one: f"{one.name}, strong" if one == STRONG else one.name
)
BUDGET = Budget(0.5, 1e-6)
NUMBERS = (1e-5, 1e-3, 0.1, 1.0)
SHAPES = ((20, 1, 0.05), (500, 100, 1.0), (50_000, 10, 8.0))


def task(n_rows: int = 20_000, n_features: int = 30, x_norm: float = 1.0, **facts: object) -> Problem:
    facts = {"loss": Logistic(), "l2": 0.0, "intercept": 0.3 * x_norm, **facts}
    return Problem(n_rows=n_rows, n_features=n_features, x_norm=x_norm, **facts)


def budget_for(mechanism: Mechanism, epsilon: float = 0.5) -> Budget:
    return Budget(epsilon, 0.0 if mechanism.name == "objective-pure" else 1e-6)


def losses_for(mechanism: Mechanism) -> list[Loss]:
    losses = [Logistic(), HuberHinge(), HuberHinge(width=1e-3), ClippedSquared(), Softmax(3)]
    return [loss for loss in losses if mechanism.misfit(task(loss=loss, l2=1.0)) is None]


def added_by_the_determinant(
    budget: Budget, relation: Neighbours, standardise: bool, share: float = 1.0
) -> float:
    """Per cent of noise in the objective at a share of the l2 of its noise, beyond that at 1e4 times that l2."""
    mechanism = Objective(standardise=standardise, clip=None)
    problem = task(10_000, 20, neighbours=relation)
    problem = replace(problem, l2=l2_of_noise(problem, budget.epsilon))
    scales = [
        mechanism.plan(replace(problem, l2=factor * problem.l2), budget).settings["objective_noise"]
        for factor in (share, 1e4)
    ]
    return 100 * (scales[0] / scales[1] - 1)


def test_the_page_tells_what_the_log_determinant_adds_to_the_noise():
    """The last table of docs/proofs/objective.md, section 9, number by number."""
    page = Path(__file__).parents[2].joinpath("docs/proofs/objective.md").read_text(encoding="utf-8")
    table = page[page.index("What the log-determinant adds") :].partition("Softmax, ")[0]
    lines = [re.split(r" *\| *", line)[1:-1] for line in table.splitlines() if line.startswith("| ")]
    (_, _, *epsilons), *rows = lines
    epsilons = [float(text.strip("$").replace(r"\varepsilon = ", "")) for text in epsilons]
    exponents = [int(re.search(r"-\d+", row[0])[0]) for row in (rows[0], rows[4])]
    assert (len(epsilons), len(rows)) == (5, 8)
    for k, (_, name, *printed) in enumerate(rows):
        relation = Neighbours(name.partition(",")[0])
        found = [
            f"{added_by_the_determinant(Budget(e, 10.0 ** exponents[k // 4]), relation, 'stand' in name):.1f}"
            for e in epsilons
        ]
        assert found == printed, (name, found)
    half = [
        added_by_the_determinant(Budget(e, 1e-8), relation, standardise, 0.5)
        for e in epsilons
        for relation in Neighbours
        for standardise in (False, True)
    ]
    (low, high) = map(int, re.search(r"adds (\d+) to (\d+) %", table).groups())
    assert (math.floor(min(half)), round(max(half))) == (low, high)


@pytest.mark.parametrize("relation", Neighbours)
def test_objectives_take_more_l2_than_their_noise_costs_but_not_for_intervals(relation: Neighbours):
    for name in ("objective", "objective-kst", "amp"):
        mechanism = resolve(name)
        for problem in (task(1000, 100, neighbours=relation), task(10**6, 3, neighbours=relation)):
            least, rule = l2_of_noise(problem, BUDGET.epsilon), mechanism.l2_rule(problem, BUDGET)
            assert rule == max(least, against_objective_noise(problem, BUDGET))
            assert replace(mechanism, clip=None).regularised(problem, BUDGET).l2 == rule
            clipped = replace(problem, loss=mechanism.trained_loss(problem, BUDGET))
            assert clipped.loss.lipschitz <= 0.5
            assert mechanism.regularised(problem, BUDGET).l2 == mechanism.l2_rule(clipped, BUDGET)
            assert mechanism.regularised(problem, BUDGET, inference=True).l2 == least
        few, many = (mechanism.l2_rule(task(1000, p, neighbours=relation), BUDGET) for p in (2, 200))
        assert few < many


@pytest.mark.together
@each_mechanism
def test_more_rows_or_more_budget_never_ask_for_more(mechanism):
    for loss in losses_for(mechanism):
        by_rows = [
            mechanism.l2_rule(task(n, loss=loss), budget_for(mechanism)) for n in (1, 10, 1000, 10**5, 10**9)
        ]
        by_budget = [
            mechanism.l2_rule(task(loss=loss), budget_for(mechanism, epsilon))
            for epsilon in (1e-3, 0.01, 0.1, 1, 5, 50)
        ]
        for rules in (by_rows, by_budget):
            assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(rules))
            if mechanism.private and not (mechanism.name == "auto" and loss.labels == "classes"):
                assert rules[-1] < rules[0]


@pytest.mark.together
@each_mechanism
def test_it_follows_the_units_of_the_features(mechanism):
    for loss in losses_for(mechanism):
        one = mechanism.l2_rule(task(loss=loss), budget_for(mechanism))
        for unit in (1e-20, 1e-3, 1000.0, 1e20):
            scaled = mechanism.l2_rule(task(loss=loss, x_norm=unit), budget_for(mechanism))
            assert scaled == pytest.approx(one * unit**2, rel=1e-9)


@pytest.mark.together
@each_mechanism
def test_it_does_not_look_at_the_l2_of_the_problem(mechanism):
    budget = budget_for(mechanism)
    assert mechanism.l2_rule(task(), budget) == mechanism.l2_rule(task(l2=7.0), budget)


@pytest.mark.together
@each_mechanism
def test_it_is_a_positive_number_for_extreme_facts(mechanism):
    budgets = Budget(1e-9, 1e-300), Budget(1e9, 0.9), Budget(1e-9, 0.0), Budget(1e9, 0.0)
    sizes = itertools.product((1, 10**12), (1, 10**6), (1 / LARGEST, LARGEST), Neighbours)
    for turn, (loss, (n, p, x_norm, neighbours)) in enumerate(itertools.product(example_losses(), sizes)):
        problem = task(n, p, x_norm, loss=loss, neighbours=neighbours)
        for budget in (budgets[turn % 4], budgets[(turn // 4) % 4]):
            assert 0 < mechanism.l2_rule(problem, budget) <= LARGEST


def plans(mechanism: Mechanism, problem: Problem, budget: Budget) -> bool:
    try:
        mechanism.plan(problem, budget)
    except DpermError:
        return False
    return True


@pytest.mark.cover(1)
@each_mechanism
@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_plan_is_there_wherever_a_number_gives_one(mechanism, neighbours):
    some = 0
    for loss, facts in itertools.product(losses_for(mechanism)[:2], SHAPES):
        n, p, epsilon = facts
        problem, budget = task(n, p, loss=loss, neighbours=neighbours), budget_for(mechanism, epsilon)
        if mechanism.misfit(replace(problem, l2=1.0)) is not None:
            continue
        if plans(mechanism, mechanism.regularised(problem, budget), budget):
            some += 1
        else:
            assert not any(plans(mechanism, replace(problem, l2=l2), budget) for l2 in NUMBERS)
    assert some or neighbours not in mechanism.relations


@pytest.mark.together
@each_mechanism
def test_planning_again_with_the_number_changes_nothing(mechanism):
    checked = 0
    for loss in losses_for(mechanism)[:2]:
        budget = budget_for(mechanism)
        regularised = mechanism.regularised(task(2000, loss=loss), budget)
        if not plans(mechanism, regularised, budget):
            continue
        plan = mechanism.plan(regularised, budget)
        assert mechanism.regularised(plan.problem, budget) == plan.problem
        again = mechanism.plan(plan.problem, budget)
        assert again.settings == plan.settings
        assert str(again) == str(plan)
        checked += 1
    assert checked


def test_an_estimator_asks_the_mechanism_and_a_number_means_that_number():
    model = PrivateLogisticRegression(epsilon=0.5, mechanism="output")
    assert model.l2 == AUTO
    problem = model.plan(20_000, 30).problem
    assert problem.l2 == resolve("output").l2_rule(problem, Budget(0.5, 1e-6))
    for number in (1e-9, 1, 0.25):
        for mechanism in ("dp-gd", "ssp", "rsgd-ar"):
            plan = PrivateLogisticRegression(mechanism=mechanism, l2=number).plan(20_000, 30)
            assert plan.problem.l2 == plan.settings.get("l2_used", number) == number


def test_the_rule_depends_on_all_that_it_should():
    def l2(**settings):
        return PrivateLogisticRegression(mechanism="output", **settings).plan(20_000, 30).problem.l2

    assert l2(epsilon=2.0) < l2() < l2(epsilon=0.1)
    removed = l2(neighbours="add-remove", max_rows=20_000, classes=[0, 1])
    assert removed == pytest.approx(l2() / 2, rel=1e-9)  # half the gap
    assert l2(x_norm=2.0) == pytest.approx(4 * l2(), rel=1e-9)
    assert l2(delta=1e-9) > l2()


@pytest.mark.together
@pytest.mark.parametrize(
    "bad", ["Auto", "", "1e-3", None, True, [1.0], 1j, math.nan, math.inf, -1.0, 10**400]
)
def test_anything_else_is_refused(bad):
    model = PrivateLinearRegression(l2=bad, y_range=(0, 1))
    with pytest.raises(InvalidInput, match="l2"):
        model.plan(1000, 3)


def test_what_is_parsed():
    assert parse_l2("auto") == AUTO
    assert parse_l2(1) == 1.0
    assert type(parse_l2(1)) is float
