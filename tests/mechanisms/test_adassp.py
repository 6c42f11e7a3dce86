"""AdaSSP: three releases, a ridge computed from what was released."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dperm.engine import open_rows
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, Logistic
from dperm.mechanisms import Job
from dperm.mechanisms.statistics.adassp import AdaSSP
from dperm.privacy import Budget, Gate, gaussian_mu
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate

BUDGET = Budget(1.0, 1e-6)
RELATIONS = list(Neighbours)


def task(n=500, p=4, **facts):
    known = {"loss": ClippedSquared(1.0), "l2": 1e-4, "x_norm": 1.0, "intercept": 0.3, **facts}
    return Problem(n_rows=n, n_features=p, **known)


def rows(n=500, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.uniform(0.1, 0.9, size=(n, 1))
    return X, X @ np.resize([0.8, -0.5, 0.2, 0.1], p) + 0.1 * rng.normal(size=n) + 0.2


def release(mechanism, problem, X, y, budget=BUDGET, gate=None):
    plan = mechanism.plan(problem, budget)
    (outcome,) = mechanism.run([Job(plan=plan)], open_rows(X, y, problem), gate or Gate.seeded(0))
    return plan, outcome


def plain_sums(problem, X, y, bound):
    moments, cross = 0.0, 0.0
    for x, target in zip(X, y, strict=True):
        x = x * min(1, problem.x_norm / np.linalg.norm(x))
        z = np.append(x, problem.intercept) if problem.intercept else x
        moments, cross = moments + np.outer(z, z), cross + min(max(target, -bound), bound) * z
    return moments, cross


@pytest.mark.cover(2)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("mechanism", "intercept"),
    [(AdaSSP(), 0.3), (AdaSSP(), 0.0), (AdaSSP(target_bound=0.4, failure=0.01), 0.3)],
)
@pytest.mark.parametrize("n", [120, 20_000])
def test_noise_off_equals_plain_numpy(n, mechanism, intercept, relation):
    """Few rows need the ridge against noise; many rows do not."""
    X, y = rows(n)
    problem = task(n + 50 * (relation is Neighbours.ADD_REMOVE), intercept=intercept, neighbours=relation)
    plan, outcome = release(mechanism, problem, X, y, gate=SilentGate())
    moments, cross = plain_sums(problem, X, y, mechanism.target_bound)
    p = len(cross)
    mu = gaussian_mu(BUDGET) / math.sqrt(3)
    r2 = problem.x_norm**2 + intercept**2
    sigma = (1 if relation is Neighbours.ADD_REMOVE else math.sqrt(2)) * r2 / mu
    sure = max(0, np.linalg.eigvalsh(moments)[0] - r2 / mu * norm.ppf(1 - mechanism.failure))
    ridge = max(
        problem.n_rows * problem.l2,
        sigma * (math.sqrt(2 * p) + math.sqrt(2 * math.log(1 / mechanism.failure))) - sure,
    )
    expected = np.linalg.solve(moments + ridge * np.eye(p), cross)
    np.testing.assert_allclose(outcome.weights, expected, rtol=1e-5)
    assert (ridge > problem.n_rows * problem.l2) == (n == 120)
    assert [record.dimension for record in outcome.records] == [1, p * (p + 1) // 2, p]
    assert plan.releases == 3
    assert outcome.certified


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_stay_within_each_sensitivity(relation):
    problem = task(60, p=3, x_norm=2.0, intercept=0.0, neighbours=relation)
    mechanism = AdaSSP(target_bound=0.7)
    X, y = rows(60, 3)
    rng = np.random.default_rng(1)
    orthogonal = [(np.array([2.0, 0, 0]), 0.7), (np.array([0, 2.0, 0]), 0.7)]
    opposite = [(np.array([2.0, 0, 0]), 5.0), (np.array([2.0, 0, 0]), -5.0)]
    pairs = [[(5 * rng.normal(size=3), 9 * rng.normal()) for _ in range(2)] for _ in range(15)]
    largest = np.zeros(3)
    for (x, target), (other, other_target) in [orthogonal, opposite, *pairs]:
        here, there = SilentGate(), SilentGate()
        table = np.vstack([X[1:], x]), np.append(y[1:], target)
        neighbour = np.vstack([X[1:], other]), np.append(y[1:], other_target)
        if relation is Neighbours.ADD_REMOVE:
            neighbour = X[1:], y[1:]
        _, outcome = release(mechanism, problem, *table, gate=here)
        release(mechanism, problem, *neighbour, gate=there)
        moved = [np.linalg.norm(a - b) for a, b in zip(here.exact, there.exact, strict=True)]
        declared = np.array([record.sensitivity for record in outcome.records])
        assert (moved <= declared).all()
        largest = np.maximum(largest, moved)
    assert (largest[1:] >= declared[1:] * (1 - 1e-9)).all()  # both moments attain theirs
    factors = [4.0, 4.0, 1.4] if relation is Neighbours.ADD_REMOVE else [4.0, 4 * math.sqrt(2), 2.8]
    np.testing.assert_allclose(declared, factors, rtol=1e-9)


def test_the_smallest_eigenvalue_attains_its_sensitivity():
    """Rows along the first axis alone, and one more along the second, of the largest norm."""
    problem = task(10, p=2, intercept=0.0, neighbours=Neighbours.ADD_REMOVE)
    X = np.tile([1.0, 0.0], (9, 1))
    without, with_one = SilentGate(), SilentGate()
    _, outcome = release(AdaSSP(), problem, X, np.zeros(9), gate=without)
    release(AdaSSP(), problem, np.vstack([X, [0.0, 1.0]]), np.zeros(10), gate=with_one)
    moved = abs(without.exact[0][0] - with_one.exact[0][0])
    declared = outcome.records[0].sensitivity
    assert declared * (1 - 1e-9) <= moved <= declared


def delta_of(mu, epsilon):
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


@pytest.mark.together
@pytest.mark.cover(2)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_price_by_another_route_meets_the_budget(epsilon, standardise, relation):
    plan = AdaSSP(standardise=standardise).plan(task(neighbours=relation), Budget(epsilon, 1e-6))
    r2 = 1 + 0.3**2
    replaced = relation is Neighbours.REPLACE_ONE
    exact = [r2, math.sqrt(2) * r2, 2 * math.sqrt(r2)] if replaced else [r2, r2, math.sqrt(r2)]
    parts = [s / noise.scale for s, noise in zip(exact, plan.noises, strict=True)]
    assert np.ptp(parts) <= 1e-5 * parts[0]
    if standardise:
        mean, moments = plan.standardisation.noises
        parts.append((2 if replaced else math.hypot(1, 0.5)) / 500 / mean.scale)
        parts.append((math.sqrt(2) if replaced else 1) / 500 / moments.scale)
    assert delta_of(math.hypot(*parts), epsilon) <= 1e-6 * (1 + 1e-6)
    assert plan.profile.delta(epsilon) <= 1e-6
    assert math.hypot(*parts) == pytest.approx(gaussian_mu(Budget(epsilon, 1e-6)), rel=1e-5)
    assert plan.not_certified is None


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 0.09), (20.0, 1e-6)])
def test_the_papers_noise_is_called_certified_only_if_it_is(epsilon, delta, relation):
    plan = AdaSSP(accounting="paper").plan(task(neighbours=relation), Budget(epsilon, delta))
    r2, factor = 1 + 0.3**2, 3 * math.sqrt(math.log(6 / delta)) / epsilon
    np.testing.assert_allclose(
        [n.scale for n in plan.noises], [factor * r2, factor * r2, factor * math.sqrt(r2)]
    )
    units = math.sqrt(1 + 2 + 4) if relation is Neighbours.REPLACE_ONE else math.sqrt(3)
    assert (plan.not_certified is None) == (delta_of(units / factor, epsilon) <= delta)


def test_the_papers_noise_can_fall_short_under_replace_one():
    refused = AdaSSP(accounting="paper").plan(task(), Budget(20.0, 1e-6))
    assert "does not reach" in refused.not_certified
    assert (
        AdaSSP(accounting="paper").plan(task(neighbours=Neighbours.ADD_REMOVE), BUDGET).not_certified is None
    )


def test_models_side_by_side_equal_models_alone():
    X, y = rows()
    mask = np.random.default_rng(3).random((500, 3)) < 0.7
    mechanism, jobs = AdaSSP(), []
    for k, budget in [(2, BUDGET), (0, BUDGET), (2, Budget(0.3, 1e-6)), (1, BUDGET)]:
        jobs.append(Job(plan=mechanism.plan(task(int(mask[:, k].sum())), budget), model=k))
    together = mechanism.run(jobs, open_rows(X, y, task(), mask), SilentGate())
    for job, outcome in zip(jobs, together, strict=True):
        own = mask[:, job.model]
        _, alone = release(mechanism, job.plan.problem, X[own], y[own], job.plan.budget, SilentGate())
        np.testing.assert_allclose(outcome.weights, alone.weights, rtol=1e-9)


@pytest.mark.parametrize("l2", [0.0, 1e-4])
def test_the_matrix_that_is_inverted_stays_positive(l2):
    """Weights are bounded by X'y over the noise on X'X, even where the noise swamps the data."""
    X, y = rows(40, 30)
    for seed in range(20):
        plan, outcome = release(AdaSSP(), task(40, p=30, l2=l2), X, y, Budget(0.01, 1e-8), Gate.seeded(seed))
        cross = 40 * 1.05 + 8 * math.sqrt(31) * plan.noises[2].scale
        assert np.linalg.norm(outcome.weights) <= cross / plan.noises[1].scale


def test_the_ridge_is_too_small_no_more_often_than_declared():
    """The event that the rule is made for: the noisy matrix plus the ridge is positive. Control: half the ridge."""
    X, y = rows(300, 12)
    problem, mechanism = task(300, p=12, l2=0.0), AdaSSP(failure=0.05)
    plan = mechanism.plan(problem, BUDGET)
    moments, _ = plain_sums(problem, X, y, 1.0)
    rng = np.random.default_rng(0)
    bad = worse = 0
    for _ in range(400):
        E = rng.normal(size=(13, 13)) * plan.noises[1].scale / math.sqrt(2)
        noisy = moments + np.triu(E, 1) + np.triu(E, 1).T + np.diag(math.sqrt(2) * np.diag(E))
        smallest = np.linalg.eigvalsh(moments)[0] + plan.noises[0].scale * rng.normal()
        ridge = mechanism.ridge(smallest, plan)
        lowest = np.linalg.eigvalsh(noisy)[0]
        bad, worse = bad + (lowest + ridge < 0), worse + (lowest + ridge / 4 < 0)
    assert bad <= 0.1 * 400  # 2 failure, an upper bound; the union bound behind it is loose
    assert worse > 0.1 * 400


def test_exact_noise_runs_and_is_accurate_with_enough_rows():
    X, y = rows(20_000)
    for mechanism in (AdaSSP(), AdaSSP(standardise=True)):
        _, outcome = release(mechanism, task(20_000), X, y, gate=Gate.system())
        bounded = X * np.minimum(1, 1 / np.linalg.norm(X, axis=1))[:, None]
        coefficients, constant = outcome.row_map.coefficients(outcome.weights)
        predicted = bounded @ coefficients + constant
        assert 1 - ((predicted - y) ** 2).mean() / y.var() > 0.7
        assert all(record.secure for record in outcome.records)
    assert len(outcome.records) == 5


@pytest.mark.together
@pytest.mark.parametrize(
    "settings",
    [
        {"target_bound": 0.0},
        {"target_bound": math.inf},
        {"failure": 0.0},
        {"failure": 0.5},
        {"failure": "0.1"},
        {"accounting": "loose"},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InvalidInput):
        AdaSSP(**settings)


def test_other_losses_are_refused():
    with pytest.raises(Unsupported, match="squared"):
        AdaSSP().plan(task(loss=Logistic()), BUDGET)
