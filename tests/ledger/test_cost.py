"""Prices as data, and their composition against routes that share no code with it."""

import json
import math
from itertools import combinations_with_replacement, cycle, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import exp, mp, mpf, ncdf

from dperm.errors import InvalidInput
from dperm.losses import ClippedSquared, Logistic
from dperm.mechanisms import DPSGD, mechanism_names, resolve
from dperm.privacy import Budget, GaussianProfile, poisson_epsilon
from dperm.privacy.cost import Cost, compose
from dperm.privacy.events import (
    Branches,
    Concentrated,
    FixedSizeSteps,
    Gaussian,
    Point,
    PoissonSteps,
    SampledCurve,
    Unbounded,
)
from dperm.privacy.loss_distribution import Curve, loss_masses
from dperm.problem import Problem
from dperm.unit import Neighbours

mp.dps = 50
DELTA = 1e-6

HALVES = Cost.of_profile(GaussianProfile.mixture([0.5, 0.5], [0.1, 0.3]))
EXAMPLES = [
    Cost.gaussian(0.2),
    HALVES,
    Cost((Branches((1.0,), (0.05,), ((0.0, 0.2),)),)),
    Cost((SampledCurve((0.0, 0.5, 1.0), (0.1, 0.01, 1e-7)),)),
    Cost((PoissonSteps(3.0, 0.1, 20, "replace-one"), Gaussian(0.1))),
    Cost((FixedSizeSteps(8.0, 10, 1000, 20),)),
    Cost.concentrated(0.01),
    Cost.point(0.3, 1e-8),
    Cost.unbounded("a reason"),
]


def exact_gaussian_delta(epsilon, mu):
    epsilon, mu = mpf(epsilon), mpf(mu)
    return ncdf(-epsilon / mu + mu / 2) - exp(epsilon) * ncdf(-epsilon / mu - mu / 2)


# As data.


@pytest.mark.together
@pytest.mark.parametrize("cost", EXAMPLES, ids=lambda cost: cost.parts[0].kind)
def test_a_cost_survives_json(cost):
    again = Cost.from_dict(json.loads(json.dumps(cost.to_dict(), allow_nan=False)))
    assert again == cost
    assert hash(again) == hash(cost)


@pytest.mark.together
@pytest.mark.parametrize(
    "stored",
    [
        None,
        [],
        {},
        {"parts": {}},
        {"parts": [1]},
        {"parts": [{"kind": "free"}]},
        {"parts": [{"kind": ["gaussian"], "mu": 1.0}]},
        {"parts": [{"kind": "gaussian", "mu": -1.0}]},
        {"parts": [{"kind": "gaussian", "mu": math.nan}]},
        {"parts": [{"kind": "gaussian", "mu": math.inf}]},
        {"parts": [{"kind": "gaussian", "mu": 10**400}]},
        {"parts": [{"kind": "gaussian", "mu": True}]},
        {"parts": [{"kind": "gaussian", "mu": "0"}]},
        {"parts": [{"kind": "gaussian", "mu": 0.1, "discount": 1}]},
        {"parts": [{"kind": "point", "epsilon": -1.0, "delta": 0.0}]},
        {"parts": [{"kind": "point", "epsilon": 1.0, "delta": 1.0}]},
        {"parts": [{"kind": "zcdp", "rho": 0.0}]},
        {"parts": [{"kind": "branches", "probability": [0.1], "offset": [0.0], "mu": [[0.1]]}]},
        {"parts": [{"kind": "branches", "probability": [0.5, 0.5], "offset": [0, 0], "mu": [[0.1], []]}]},
        {"parts": [{"kind": "branches", "probability": [], "offset": [], "mu": []}]},
        {"parts": [{"kind": "curve", "epsilon": [0.0, 1.0], "delta": [0.1, 0.2]}]},
        {"parts": [{"kind": "curve", "epsilon": [1.0], "delta": [0.1]}]},
        {
            "parts": [
                {
                    "kind": "poisson",
                    "noise_multiplier": 1.0,
                    "rate": 2.0,
                    "steps": 1,
                    "neighbours": "add-remove",
                }
            ]
        },
        {
            "parts": [
                {"kind": "poisson", "noise_multiplier": 1.0, "rate": 0.1, "steps": 1, "neighbours": "none"}
            ]
        },
        {
            "parts": [
                {
                    "kind": "poisson",
                    "noise_multiplier": 1.0,
                    "rate": 0.1,
                    "steps": 1.5,
                    "neighbours": "add-remove",
                }
            ]
        },
        {
            "parts": [
                {"kind": "fixed-size", "noise_multiplier": 1.0, "batch_size": 3, "n_rows": 2, "steps": 1}
            ]
        },
    ],
)
def test_hostile_data_is_refused(stored):
    with pytest.raises(InvalidInput):
        Cost.from_dict(stored)


# One release.


def plans(delta=DELTA):
    for name, relation in zip(mechanism_names(), cycle(Neighbours)):  # one relation each, to save time
        loss = ClippedSquared(1.0) if name == "adassp" else Logistic()
        problem = Problem(
            loss=loss, l2=1e-2, x_norm=1.0, n_rows=2000, n_features=5, intercept=0.3, neighbours=relation
        )
        mechanism = resolve(name)
        if mechanism.misfit(problem) is None:
            yield mechanism.plan(problem, Budget(0.8, delta))


def test_the_cost_of_every_plan_fits_its_budget_and_no_less():
    unpriced = set()
    for plan in plans():
        cost = Cost.from_dict(plan.cost.to_dict())
        if cost.why_unbounded is not None:
            unpriced.add(plan.mechanism.name)
            assert cost.epsilon(DELTA) == math.inf
            assert not cost.fits(Budget(100.0, 0.5))
        else:
            assert cost.fits(plan.budget), plan.mechanism.name
            # amp spends by the paper's split, which leaves a part unused
            least = 0.7 if plan.mechanism.name == "amp" else 0.79
            assert not cost.fits(Budget(least, DELTA)), plan.mechanism.name
    assert unpriced == {"none", "majority", "objective-pure"}


def test_a_papers_noise_that_falls_short_costs_what_it_costs():
    problem = Problem(
        loss=Logistic(),
        l2=1e-2,
        x_norm=1.0,
        n_rows=2000,
        n_features=5,
        intercept=0.3,
        neighbours=Neighbours.REPLACE_ONE,
    )
    plan = DPSGD(steps=50, accounting="paper").plan(problem, Budget(0.8, DELTA))
    assert plan.not_certified is not None
    assert 1.3 < plan.cost.epsilon(DELTA) < 1.6
    assert not plan.cost.fits(plan.budget)


def test_one_row_without_offset_is_gaussian():
    assert Cost.of_profile(GaussianProfile.gaussian(0.3)) == Cost.gaussian(0.3)
    assert not Cost.of_profile(GaussianProfile([1.0], [0.1], [[0.3]])).only_gaussian
    assert not HALVES.only_gaussian


def test_equal_branches_count_as_one():
    many = GaussianProfile.mixture(np.full(1000, 1e-3), np.repeat([0.1, 0.3], 500))
    (part,) = Cost.of_profile(many).parts
    assert len(part.probability) == 2
    assert Cost.of_profile(many).epsilon(DELTA) == pytest.approx(HALVES.epsilon(DELTA), rel=1e-9)


# Composition against independent routes.


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8))
def test_gaussians_compose_by_the_root_of_the_sum_of_squares(mus):
    total = compose(Cost.gaussian(mu) for mu in mus)
    epsilon = total.epsilon(DELTA)
    mu = mp.sqrt(sum(mpf(m) ** 2 for m in mus))
    exact = exact_gaussian_delta(epsilon, mu)
    assert exact <= mpf(DELTA)
    assert epsilon == 0 or exact > mpf(DELTA) * (1 - mpf(10) ** -6)


def product_delta(epsilon, mixtures, mu_spent=0):
    """All branches of all mixtures side by side, in 50 digits."""
    total = mpf(0)
    for rows in product(*mixtures):
        chance = mp.fprod(mpf(q) for q, _ in rows)
        mu = mp.sqrt(sum(mpf(m) ** 2 for _, m in rows) + mpf(mu_spent) ** 2)
        total += chance * exact_gaussian_delta(epsilon, mu)
    return total


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("mu_spent", [0.0, 0.25])
@pytest.mark.parametrize(
    "mixtures",
    [
        [[(0.5, 0.1), (0.5, 0.3)]] * 2,
        [[(0.5, 0.1), (0.5, 0.3)], [(0.9, 0.05), (0.1, 0.6)]],
        [[(0.7, 0.02), (0.3, 0.4)]] * 5,
        [[(0.9, 0.2), (0.1, 2.0)], [(0.5, 0.01), (0.5, 0.02)]],
    ],
)
def test_mixtures_compose_to_a_tight_upper_bound(mixtures, mu_spent):
    costs = [
        Cost.of_profile(GaussianProfile.mixture([q for q, _ in rows], [mu for _, mu in rows]))
        for rows in mixtures
    ]
    total = compose([*costs, Cost.gaussian(mu_spent)])
    epsilon = total.epsilon(DELTA)
    exact = product_delta(epsilon, mixtures, mu_spent)
    assert exact <= mpf(DELTA)
    assert exact > mpf(DELTA) * mpf("0.995")
    # and as delta of epsilon
    assert product_delta(1.0, mixtures, mu_spent) <= total.delta(1.0)


def kairouz_delta(epsilon0, delta0, count, epsilon):
    """The optimal composition of equal promises, from the likelihoods of randomised response."""
    epsilon0, told = mpf(epsilon0), 1 - (1 - mpf(delta0)) ** count
    win = exp(epsilon0) / (1 + exp(epsilon0))
    kept = mpf(0)
    for wins in range(count + 1):
        p = mp.binomial(count, wins) * win**wins * (1 - win) ** (count - wins)
        q = mp.binomial(count, wins) * win ** (count - wins) * (1 - win) ** wins
        kept += max(mpf(0), p - exp(mpf(epsilon)) * q)
    return told + (1 - told) * kept


@pytest.mark.together
@pytest.mark.parametrize(
    ("epsilon0", "delta0", "count"), [(0.1, 0.0, 30), (0.05, 1e-9, 100), (0.5, 1e-8, 10)]
)
def test_points_compose_as_well_as_any_theorem_allows(epsilon0, delta0, count):
    total = compose([Cost.point(epsilon0, delta0)] * count)
    epsilon = total.epsilon(DELTA)
    assert kairouz_delta(epsilon0, delta0, count, epsilon) <= mpf(DELTA)
    assert kairouz_delta(epsilon0, delta0, count, 0.99 * epsilon) > mpf(DELTA)
    assert epsilon < epsilon0 * count


def test_few_points_simply_add_up():
    assert compose([Cost.point(0.1, 0.0)] * 3).epsilon(0.0) == pytest.approx(0.3)
    assert compose([Cost.point(0.1, 0.0)] * 10).fits(Budget(1.0, 0.0))
    assert not compose([Cost.point(0.1, 0.0)] * 11).fits(Budget(1.0, 0.0))
    assert compose([Cost.point(1.0, 5e-7)] * 2).fits(Budget(2.0, 1e-6))
    assert compose([Cost.point(1.0, 5e-7)] * 3).epsilon(1e-6) == math.inf


def test_gaussian_noise_has_no_pure_price():
    assert Cost.gaussian(0.1).epsilon(0.0) == math.inf
    assert not Cost.gaussian(0.1).fits(Budget(50.0, 0.0))


@pytest.mark.together
@pytest.mark.parametrize(("first", "second"), list(combinations_with_replacement(EXAMPLES[:-1], 2)))
def test_a_pair_costs_no_more_than_its_sum_and_no_less_than_each(first, second):
    pair = compose([first, second]).epsilon(DELTA)
    halves = [cost.epsilon(DELTA / 2) for cost in (first, second)]
    assert pair <= sum(halves) * (1 + 1e-9)
    assert pair >= max(first.epsilon(DELTA), second.epsilon(DELTA)) * (1 - 1e-6)


def test_an_unbounded_part_makes_everything_unbounded():
    total = compose([Cost.gaussian(0.1), Cost((Unbounded("no noise"),))])
    assert total.epsilon(DELTA) == math.inf
    assert total.delta(5.0) == 1.0
    assert total.why_unbounded == "no noise"


def test_concentrated_costs_add_up_and_take_gaussians_in():
    together = compose([Cost.concentrated(0.01), Cost.concentrated(0.02)])
    assert together.epsilon(DELTA) == pytest.approx(Cost.concentrated(0.03).epsilon(DELTA), rel=1e-9)
    mixed = compose([Cost.concentrated(0.01), Cost.gaussian(0.2)])
    assert mixed.epsilon(DELTA) <= Cost.concentrated(0.03).epsilon(DELTA) * (1 + 1e-9)
    # a Gaussian of the same rho is a lower bound for what zCDP may hide
    assert mixed.epsilon(DELTA) >= Cost.gaussian(math.sqrt(0.06)).epsilon(DELTA)


def test_steps_of_one_sampling_are_counted_together():
    twice = compose([Cost((PoissonSteps(3.0, 0.1, 20, "add-remove"),))] * 2)
    assert twice.epsilon(DELTA) == poisson_epsilon(3.0, 0.1, 40, DELTA, "add-remove")


def test_a_curve_stands_for_its_profile_in_composition():
    profile = GaussianProfile.gaussian(0.3)
    grid = np.unique(np.append(np.linspace(0.0, profile.epsilon(1e-17), 400), 1.0))
    dots = Cost((SampledCurve(tuple(grid.tolist()), tuple(profile.delta(e) for e in grid)),))
    assert dots.delta(1.0) == pytest.approx(profile.delta(1.0), rel=1e-9)
    both = compose([dots, Cost.gaussian(0.4)])
    exact = Cost.gaussian(0.5).epsilon(DELTA)
    assert exact <= both.epsilon(DELTA) < 1.002 * exact


# The masses behind the composition.


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("spacing", [0.003, 0.05])
@pytest.mark.parametrize(
    "profile",
    [
        GaussianProfile.gaussian(0.5),
        GaussianProfile.mixture([0.9, 0.1], [0.1, 1.5]),
        GaussianProfile([1.0], [0.2], [[0.0, 0.3]]),  # costs 1 below its offset, so its hull is not itself
    ],
)
def test_masses_are_a_distribution_with_a_curve_at_least_as_bad(profile, spacing):
    curve = Curve(lambda e: np.array([profile.delta(v) for v in e]), profile.epsilon(1e-12))
    step = loss_masses(curve, spacing)
    masses, unbounded = {step.first + k: mass for k, mass in enumerate(step.mass.tolist())}, step.unbounded
    assert min(masses.values()) >= 0
    assert sum(masses.values()) + unbounded == pytest.approx(1.0, abs=1e-9)
    # in both orders the loss has mass exp(-loss) times that of its mirror image
    assert sum(m * math.exp(-k * spacing) for k, m in masses.items()) <= 1 + 1e-9
    dots = np.arange(1, 40) * spacing * 2
    found = np.array(
        [
            unbounded + sum(m * -math.expm1(e - k * spacing) for k, m in masses.items() if k * spacing > e)
            for e in dots
        ]
    )
    true = np.array([profile.delta(e) for e in dots])
    if profile.offset.max() == 0:
        assert (found >= true * (1 - 1e-7) - 1e-13).all()
        assert (found <= true * (1 + 1e-7) + 2e-12).all()  # exact at the dots
    else:
        assert (found <= true + 1e-12).all()  # the hull is lower than the bound, and still one
        assert (found >= [float(exact_gaussian_delta(e, 0.3)) * (1 - 1e-7) - 1e-13 for e in dots]).all()


def test_the_control_masses_without_the_hull_are_no_distribution():
    """A bound that jumps has no distribution by itself: second differences of it go negative."""
    profile = GaussianProfile([1.0], [0.2], [[0.0, 0.3]])
    loss = 0.003 * np.arange(500)
    bound, ratio = np.array([profile.delta(e) for e in loss]), np.exp(loss)
    assert np.diff(np.diff(bound) / np.diff(ratio)).min() < -1e-3


def test_every_kind_is_among_the_examples():
    assert {type(cost.parts[0]) for cost in EXAMPLES} == {
        Gaussian,
        Branches,
        SampledCurve,
        PoissonSteps,
        FixedSizeSteps,
        Concentrated,
        Point,
        Unbounded,
    }
