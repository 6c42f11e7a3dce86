import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.errors import InvalidInput
from dperm.privacy import Budget, budget_to_rho
from dperm.privacy.renyi import ZcdpFilter


@settings(max_examples=150, deadline=None)
@given(
    rho=st.floats(1e-12, 1e3),
    costs=st.lists(st.floats(1e-15, 1e3), min_size=1, max_size=60),
    greedy=st.booleans(),
)
def test_never_spends_more_than_it_has(rho, costs, greedy):
    """An adversary asks for what it likes, or for exactly what is left; the sum is checked as a fraction."""
    budget = ZcdpFilter(rho)
    spent = Fraction(0)
    for cost in costs:
        if greedy and budget.left > 0:
            cost = max(min(cost, budget.left), 5e-324)
        before = budget.left
        if budget.admit(cost):
            spent += Fraction(cost)
        else:
            assert spent + Fraction(cost) > Fraction(rho)
            assert budget.left == before
    assert spent <= Fraction(rho)
    assert 0 <= budget.left <= float(Fraction(rho) - spent) * (1 + 1e-15)


def accept_and_reject(rho, rng, rho_gradient, rho_choice, growth=0.3):
    """The spending pattern of adaptive gradient descent, with choices made by chance; the admitted costs."""
    budget, charged = ZcdpFilter(rho), []
    while True:
        precision = rho_gradient
        if not budget.admit(precision):
            return charged
        charged.append(precision)
        while True:
            if not budget.admit(rho_choice):
                return charged
            charged.append(rho_choice)
            if rng.random() < 0.4:  # the step was accepted
                break
            more = growth * precision  # refine the same gradient instead
            if not budget.admit(more):
                return charged
            charged.append(more)
            precision += more


@pytest.mark.together
@pytest.mark.parametrize("seed", range(20))
def test_adaptive_descent_stays_within_its_budget_and_uses_it(seed):
    rho = budget_to_rho(Budget(1, 1e-8), "cks")
    charged = accept_and_reject(rho, np.random.default_rng(seed), rho / 37, rho / 411)
    assert sum(map(Fraction, charged)) <= Fraction(rho)
    assert len(charged) > 10
    assert math.fsum(charged) > 0.4 * rho


def test_a_filter_in_floating_point_would_overspend():
    """The control: subtracting floats lets through five times 0.1, which is more than 0.5."""
    rho, cost = 0.5, 0.1
    left, spent = rho, Fraction(0)
    budget, admitted = ZcdpFilter(rho), Fraction(0)
    for _ in range(6):
        if left >= cost:
            left -= cost
            spent += Fraction(cost)
        if budget.admit(cost):
            admitted += Fraction(cost)
    assert spent > Fraction(rho)
    assert admitted <= Fraction(rho)


@pytest.mark.together
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_refusals(bad):
    with pytest.raises(InvalidInput, match="rho"):
        ZcdpFilter(bad)
    with pytest.raises(InvalidInput, match="cost"):
        ZcdpFilter(1.0).admit(bad)
