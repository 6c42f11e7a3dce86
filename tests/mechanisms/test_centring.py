"""Private centring: what the mean costs, what it does to rows and weights, and when it is refused."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dperm.audit.gates import SilentGate
from dperm.engine import open_rows
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Logistic
from dperm.mechanisms import RSGDAR, Job, Output, OutputGD
from dperm.mechanisms.baselines import NoPrivacy
from dperm.mechanisms.centring import RADIUS, SHARE, plan_centring
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, gaussian_mu
from dperm.problem import Problem

BUDGET = Budget(0.5, 1e-8)
RELATIONS = list(Neighbours)


def task(n=200, p=3, **facts):
    known = {"loss": Logistic(), "l2": 1e-2, "x_norm": 2.0, "intercept": 0.6, **facts}
    return Problem(n_rows=n, n_features=p, **known)


def rows(n=200, p=3, seed=0):
    """Rows around a common mean, some beyond the norm of 2."""
    rng = np.random.default_rng(seed)
    X = 0.8 + 0.6 * rng.normal(size=(n, p))
    return X, np.where(X[:, 0] - 0.8 + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def bounded(X, bound):
    return X * np.minimum(1, bound / np.linalg.norm(X, axis=1))[:, None]


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_mean_moves_within_its_sensitivity_and_attains_it(relation):
    problem = task(neighbours=relation)
    centring = plan_centring(problem, BUDGET)
    X, y = rows()
    rng = np.random.default_rng(1)
    opposite = (np.array([2.0, 0, 0]), np.array([-2.0, 0, 0]))
    largest = 0.0
    for one, other in [opposite, *((9 * rng.normal(size=3), 9 * rng.normal(size=3)) for _ in range(20))]:
        rest = X[1:], y[1:]
        with_one = np.vstack([rest[0], one]), np.append(rest[1], 1.0)
        neighbour = rest
        if relation is Neighbours.REPLACE_ONE:
            neighbour = np.vstack([rest[0], other]), np.append(rest[1], -1.0)
        gate = SilentGate()
        first, second = (
            centring.row_map(open_rows(*data, problem), gate).centre for data in (with_one, neighbour)
        )
        record = gate.records()[0]
        np.testing.assert_allclose(first, bounded(with_one[0], 2.0).sum(axis=0) / 200, rtol=1e-12)
        largest = max(largest, np.linalg.norm(first - second))
        assert np.linalg.norm(first - second) <= record.sensitivity
    assert largest >= record.sensitivity * (1 - 1e-9)


def delta_of(mu, epsilon):
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_mean_and_weights_together_meet_the_budget(epsilon, relation):
    budget = Budget(epsilon, 1e-8)
    problem = task(neighbours=relation)
    plan = OutputGD(iterations=3, center=True).plan(problem, budget)
    rows_changed = 1 if relation is Neighbours.ADD_REMOVE else 2
    mu_mean = rows_changed * 2.0 / 200 / plan.centring.noise.scale
    mu_weights = plan.noise.sensitivity / plan.noise.scale
    both = math.hypot(mu_mean, mu_weights)
    assert mu_mean**2 == pytest.approx(SHARE * gaussian_mu(budget) ** 2, rel=1e-5)
    assert delta_of(both, epsilon) <= 1e-8 * (1 + 1e-6)
    assert plan.profile.delta(epsilon) <= 1e-8
    assert both == pytest.approx(gaussian_mu(budget), rel=1e-5)  # nothing is wasted
    alone = OutputGD(iterations=3).plan(problem, budget)
    assert plan.noise.scale == pytest.approx(alone.noise.scale / math.sqrt(1 - SHARE), rel=1e-6)


def test_a_hidden_branch_that_costs_nothing_pays_for_the_mean_too():
    plan = RSGDAR(epochs=2, batch_size=20, center=True).plan(task(), BUDGET)
    assert plan.profile.delta(BUDGET.epsilon) <= BUDGET.delta
    assert (plan.profile.mu >= plan.centring.mu).all()


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_way_back_is_exact(outputs):
    """Weights said in the rows as they came give the margins of the centred rows, clip apart."""
    problem = task()
    centring = plan_centring(problem, BUDGET)
    rng = np.random.default_rng(2)
    centre = rng.normal(size=3)
    weights = rng.normal(size=(4,) if outputs == 1 else (4, outputs))
    before = weights.copy()
    X = rng.normal(size=(50, 3))
    b = np.full((50, 1), problem.intercept)
    centred = np.hstack([(X - centre) / RADIUS, b]) @ weights
    coefficients, constant = centring.map_by(centre).coefficients(weights)
    np.testing.assert_allclose(X @ coefficients + constant, centred, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(weights, before)
    assert np.abs(np.hstack([X, b]) @ weights - centred).max() > 1  # it does change something


@pytest.mark.parametrize("relation", RELATIONS)
def test_centred_rows_keep_the_bound_and_empty_rows_stay_empty(relation):
    problem = task(230 if relation is Neighbours.ADD_REMOVE else 200, neighbours=relation)
    X, y = rows()
    X[0] = 1e200
    centre = np.array([0.8, 0.7, 0.9])
    row_map = plan_centring(problem, BUDGET).map_by(centre)
    opened = open_rows(X, y, problem).mapped(row_map).open(precise=True)
    stored = opened._rows.X
    assert np.linalg.norm(stored[:, :-1], axis=1).max() <= 2.0
    assert (stored[:200, -1] == problem.intercept).all()
    assert (stored[200:] == 0).all()
    short = np.linalg.norm(bounded(X[1:], 2.0) - centre, axis=1) < 0.99 * RADIUS * 2.0
    assert 20 < short.sum() < 190  # the clip acts, on some
    expected = (bounded(X[1:], 2.0) - centre) / RADIUS
    np.testing.assert_allclose(stored[1:200, :-1][short], expected[short], rtol=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_centred_run_is_mean_then_training_on_the_rows_seen_from_there(relation):
    problem = task(220 if relation is Neighbours.ADD_REMOVE else 200, neighbours=relation)
    X, y = rows()
    mechanism = Output(center=True, tolerance=1e-8)
    plan = mechanism.plan(problem, BUDGET)
    silent = SilentGate()
    (outcome,) = mechanism.run([Job(plan=plan)], open_rows(X, y, problem), silent)
    assert [record.name for record in outcome.records] == ["mean of the rows", "output weights"]
    mean = bounded(X, 2.0).sum(axis=0) / problem.n_rows
    np.testing.assert_allclose(silent.exact[0], mean, rtol=1e-12)
    np.testing.assert_array_equal(outcome.row_map.centre, silent.exact[0])
    np.testing.assert_array_equal(outcome.row_map.scale, [0.6] * 3)

    Z = np.column_stack([bounded((bounded(X, 2.0) - mean) / 0.6, 2.0), np.full(200, 0.6)])
    w = outcome.weights
    gradient = Z.T @ (-y / (1 + np.exp(y * (Z @ w)))) / problem.n_rows + problem.l2 * w
    assert np.linalg.norm(gradient) < 1e-8
    assert np.linalg.norm(w) > 0.1


def test_each_model_gets_the_mean_of_its_own_rows():
    X, y = rows()
    mask = np.zeros((200, 2), bool)
    mask[:90, 0] = mask[80:, 1] = True
    mechanism = Output(center=True)
    jobs = [Job(plan=mechanism.plan(task(int(mask[:, k].sum())), BUDGET), model=k) for k in (1, 0)]
    silent = SilentGate()
    outcomes = mechanism.run(jobs, open_rows(X, y, task(), mask), silent)
    means = [values for values in silent.exact if len(values) == 3]
    np.testing.assert_allclose(means[0], bounded(X[80:], 2.0).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(means[1], bounded(X[:90], 2.0).mean(axis=0), rtol=1e-12)
    for outcome, own in zip(outcomes, (slice(80, 200), slice(0, 90)), strict=True):
        problem = task(own.stop - own.start)
        plan = mechanism.plan(problem, BUDGET)
        (alone,) = mechanism.run([Job(plan=plan)], open_rows(X[own], y[own], problem), SilentGate())
        np.testing.assert_allclose(outcome.weights, alone.weights, rtol=1e-4)


def test_it_is_refused_where_it_has_no_meaning():
    with pytest.raises(Unsupported, match="fit_intercept"):
        Output(center=True).plan(task(intercept=0.0), BUDGET)
    with pytest.raises(InvalidInput, match="center"):
        Output(center="yes")
    with pytest.raises(InvalidInput, match="centring"):
        NoPrivacy(center=True)
    with pytest.raises(InvalidInput, match="delta"):
        Output(center=True).plan(task(), Budget(1.0, 0.0))
