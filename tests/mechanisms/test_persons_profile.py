"""Theorems 1 and 2 of docs/proofs/persons.md against the exact cost of persons with several rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from exact_minimiser import (
    RELATIONS,
    REPLACE_ONE,
    composed_delta,
    delta_bounds,
    exact_deltas,
    make,
    worst_ratio,
)
from scipy.integrate import quad
from scipy.stats import norm

from dperm.certificate.accountant import gaussian_excess
from dperm.losses import (
    HuberHinge,
    Logistic,
    SoftClippedLogistic,
    SoftClippedSquared,
    Softmax,
    Weighted,
)
from dperm.losses.base import weighted_targets
from dperm.mechanisms import Objective
from dperm.mechanisms.objective.profile import (
    PersonsProfile,
    calibrate_objective,
    log_mean_excess,
    objective_profile,
)
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.unit import Neighbours, PersonLoss, Persons

SMOOTH = [Logistic(), SoftClippedLogistic(0.5, 0.7), SoftClippedSquared(1.0, 0.5)]
MANY = Persons(rows_per_person=50)
# Rows (x, y) of the two persons.
ON_A_LINE = [
    ([(1, 1)] * 3, [(-1, 1)] * 50),
    ([(1, 1), (-1, 1), (0.5, -1)], [(1, -1), (0.3, 1)]),
    ([(1, 1), (0.9, 1), (1, -1)], [(-1, 1)]),
]


def problem_of(loss, Lambda, relation, n_features=1, persons=MANY):
    return replace(make(Weighted(loss, 1.0), Lambda, relation, n_features=n_features), persons=persons)


def table(*persons):
    """Rows of some persons, each by its share."""
    X = np.array([x for person in persons for x, _ in person], float).reshape(sum(map(len, persons)), -1)
    y = np.array([y for person in persons for _, y in person], float)
    shares = np.concatenate([np.full(len(person), 1 / len(person)) for person in persons])
    return X, weighted_targets(y, shares)


def pairs_on_a_line(relation, background=(((0.7, 1),), ((-0.4, 1), (0.9, -1)))):
    for one, other in ON_A_LINE:
        yield table(*background, one), table(*background, *([other] if relation is REPLACE_ONE else []))


@pytest.mark.cover(1)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_the_profile_bounds_the_exact_cost_on_a_line(loss, relation):
    worst, control = 0.0, 0.0
    for Lambda in (0.3, 1.0, 4.0):
        for scale in (0.5 * loss.lipschitz, 1.5 * loss.lipschitz, 4 * loss.lipschitz):
            problem = problem_of(loss, Lambda, relation)
            profile = objective_profile(problem, scale)
            assert isinstance(profile, PersonsProfile)
            bound, less = delta_bounds(profile), delta_bounds(profile.scaled(0.35))
            for D, E in pairs_on_a_line(relation):
                exact = exact_deltas(D, E, problem.loss, Lambda, scale)
                worst, control = max(worst, worst_ratio(exact, bound)), max(control, worst_ratio(exact, less))
    assert 0.3 < worst <= 1
    assert control > 1.5


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", [Logistic(), SoftClippedSquared(1.0, 0.5)], ids=repr)
def test_the_profile_bounds_the_exact_cost_in_the_plane(loss, relation):
    """Here the rows of one person point in several directions, and its Hessian has rank two."""
    worst = 0.0
    background = [[((0.3, -0.2), -1)], [((-0.5, 0.4), 1), ((0.1, 0.6), 1)]]
    for angle in np.pi * np.array([0.3, 0.5, 0.9]):
        turned = (math.cos(angle), math.sin(angle))
        one = [((1.0, 0.0), 1), (turned, 1), (turned, -1)]
        other = [((-1.0, 0.0), 1), ((0.0, -1.0), 1)]
        D = table(*background, one)
        E = table(*background, *([other] if relation is REPLACE_ONE else []))
        for Lambda, scale in ((1.0, 1.0), (1.0, 3.0), (3.0, 2.0)):
            problem = problem_of(loss, Lambda, relation, n_features=2)
            exact = exact_deltas(D, E, problem.loss, Lambda, scale * loss.lipschitz)
            worst = max(
                worst, worst_ratio(exact, delta_bounds(objective_profile(problem, scale * loss.lipschitz)))
            )
    assert 0.01 < worst <= 1


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_release_that_follows_is_covered(relation):
    worst, epsilons = 0.0, np.array([0.3, 1.0, 2.0])
    for Lambda, scale, mu in ((0.5, 1.5, 0.3), (2.0, 1.0, 1.0), (1.0, 4.0, 0.1)):
        problem = problem_of(Logistic(), Lambda, relation)
        bound = delta_bounds(objective_profile(problem, scale).compose_gaussian(mu), epsilons)
        for D, E in pairs_on_a_line(relation):
            worst = max(
                worst, worst_ratio(composed_delta(D, E, problem.loss, Lambda, scale, mu, epsilons), bound)
            )
    assert 0.3 < worst <= 1


def test_mean_excess_against_quadrature():
    for mu in (0.01, 0.2, 1.0, 5.0):
        for t in (0.0, 0.1, 1.0, 4.0):
            tau = t / mu - mu / 2
            found = float(log_mean_excess(t, np.array([mu]))[0])
            if tau < 30:
                integral = quad(lambda s, tau=tau: s * norm.pdf(tau + s), 0, 40, epsabs=0, limit=400)[0]
                assert found == pytest.approx(math.log(mu * integral), rel=1e-9)
                second = float(gaussian_excess(np.array([t]), np.array([mu]))[0])
                assert math.log(second) == pytest.approx(found, rel=1e-7)
            assert found > float(log_mean_excess(t, np.array([mu * 0.99]))[0])
    assert log_mean_excess(1.0, np.array([0.0]))[0] == -math.inf


@pytest.mark.cover(1)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", [*SMOOTH, HuberHinge(0.5), Softmax(3)], ids=repr)
def test_a_person_costs_about_as_much_as_a_row(loss, relation):
    """As the page says: at the strength of the rule, between 0.95 and 1.015 times the noise."""
    mechanism = Objective(clip=None)
    facts = {"x_norm": 1.0, "n_rows": 20_000, "n_features": 20, "intercept": 0.3, "neighbours": relation}
    for epsilon in (0.1, 1.0, 3.0):
        budget = Budget(epsilon, 1e-8)
        row = mechanism.regularised(Problem(loss=loss, l2=0.0, **facts), budget)
        person = replace(row, loss=Weighted(loss, 1.0), persons=Persons(rows_per_person=1000))
        ratio = calibrate_objective(person, budget, 0.01) / calibrate_objective(row, budget, 0.01)
        assert 0.95 <= ratio <= 1.015, (epsilon, ratio)


def test_one_row_each_is_priced_as_rows():
    for relation in Neighbours:
        row = make(Logistic(), 2.0, relation)
        one = replace(row, persons=Persons(rows_per_person=1, loss=PersonLoss.SUM))
        assert not one.many_rows
        assert (
            delta_bounds(objective_profile(one, 2.0)).tolist()
            == delta_bounds(objective_profile(row, 2.0)).tolist()
        )
