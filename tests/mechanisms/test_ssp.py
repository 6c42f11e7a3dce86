"""SSP: one joint release of two moments, and a quadratic solved from what was released."""

import math

import numpy as np
import pytest

from dperm.engine import open_rows
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Logistic
from dperm.mechanisms import Job
from dperm.mechanisms.statistics.ssp import SSP
from dperm.privacy import Budget, Gate, gaussian_mu
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate

BUDGET = Budget(0.5, 1e-8)
RELATIONS = list(Neighbours)


def task(n=400, p=4, **facts):
    known = {"loss": Logistic(), "l2": 1e-3, "x_norm": 1.0, "intercept": 0.3, **facts}
    return Problem(n_rows=n, n_features=p, **known)


def rows(n=400, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.uniform(0.1, 0.9, size=(n, 1))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def release(mechanism, problem, X, y, budget=BUDGET, gate=None):
    plan = mechanism.plan(problem, budget)
    (outcome,) = mechanism.run([Job(plan=plan)], open_rows(X, y, problem), gate or Gate.seeded(0))
    return plan, outcome


def plain_ssp(problem, X, y, ridge):
    """Row by row: sums of y z / 2 and z z^T, then the quadratic's minimiser."""
    first, second = 0.0, 0.0
    for x, label in zip(X, y, strict=True):
        x = x * min(1, problem.x_norm / np.linalg.norm(x))
        z = np.append(x, problem.intercept) if problem.intercept else x
        first, second = first + label * z / 2, second + np.outer(z, z)
    n = problem.n_rows
    return np.linalg.solve(second / (4 * n) + ridge * np.eye(len(first)), first / n)


@pytest.mark.cover(2)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("x_norm", "intercept"), [(1.0, 0.3), (5.0, 0.0)])
@pytest.mark.parametrize(
    "mechanism",
    [SSP(standardise=False), SSP(weight=0.2, ridge=0.01, standardise=False)],
    ids=["default", "settings"],
)
def test_noise_off_equals_plain_numpy(mechanism, x_norm, intercept, relation):
    X, y = rows()
    problem = task(
        450 if relation is Neighbours.ADD_REMOVE else 400,
        x_norm=x_norm,
        intercept=intercept,
        neighbours=relation,
    )
    silent = SilentGate()
    plan, outcome = release(mechanism, problem, X * x_norm, y, gate=silent)
    expected = plain_ssp(problem, X * x_norm, y, plan.settings["l2_used"])
    np.testing.assert_allclose(outcome.weights, expected, rtol=1e-9, atol=1e-12)
    assert outcome.certified
    p = problem.n_columns
    assert len(silent.exact) == len(outcome.records) == plan.releases == 1
    assert silent.exact[0].shape == (p + p * (p + 1) // 2,) == (outcome.record.dimension,)


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("weight", [0.2, 0.5, 2.0])
def test_neighbours_stay_within_the_sensitivity_and_the_worst_pair_attains_it(weight, relation):
    problem = task(60, p=3, x_norm=2.0, intercept=0.0, neighbours=relation)
    mechanism = SSP(weight=weight, standardise=False)
    X, y = rows(60, 3)
    rng = np.random.default_rng(1)
    # The pair of rows that the proof names: unit vectors with inner product -1/(8 c^2), at least -1.
    t = max(-1.0, -1 / (8 * weight**2))
    worst = [(np.array([2.0, 0, 0]), 1.0), (2 * np.array([t, math.sqrt(1 - t * t), 0]), 1.0)]
    pairs = [
        [(5 * rng.normal(size=3), s), (5 * rng.normal(size=3), -s)] for s in (1.0, -1.0) for _ in range(10)
    ]
    largest = 0.0
    for (x, label), (other, other_label) in [worst, *pairs]:
        silent = SilentGate()
        table = np.vstack([X[1:], x]), np.append(y[1:], label)
        neighbour = np.vstack([X[1:], other]), np.append(y[1:], other_label)
        if relation is Neighbours.ADD_REMOVE:
            neighbour = X[1:], y[1:]
        plan, _ = release(mechanism, problem, *table, gate=silent)
        release(mechanism, problem, *neighbour, gate=silent)
        one, two = silent.exact
        largest = max(largest, np.linalg.norm(one - two))
        assert np.linalg.norm(one - two) <= plan.noise.sensitivity
    assert largest >= plan.noise.sensitivity * (1 - 1e-9)


@pytest.mark.together
@pytest.mark.cover(2)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_price_by_another_route_meets_the_budget(epsilon, standardise, relation):
    from scipy.stats import norm

    budget = Budget(epsilon, 1e-8)
    plan = SSP(standardise=standardise).plan(task(neighbours=relation), budget)
    c, r = 0.5, math.hypot(1, 0.3)
    joint = (
        math.sqrt(0.25 + c * c)
        if relation is Neighbours.ADD_REMOVE
        else math.sqrt(0.5 + 1 / (32 * c * c) + 2 * c * c)
    )
    assert plan.noise.sensitivity == pytest.approx(r * joint, rel=1e-8)
    mean, moments = (math.hypot(1, 0.5), 1.0) if relation is Neighbours.ADD_REMOVE else (2.0, math.sqrt(2))
    mu_0 = 0.0
    if standardise:
        mu_0 = math.hypot(
            *(
                s / 400 / noise.scale
                for s, noise in zip((mean, moments), plan.standardisation.noises, strict=True)
            )
        )
    mu = math.hypot(r * joint / plan.noise.scale, mu_0)
    delta = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
    assert delta <= 1e-8 * (1 + 1e-6)
    assert plan.profile.delta(epsilon) <= 1e-8
    assert mu == pytest.approx(gaussian_mu(budget), rel=1e-5)  # and nothing is wasted


def test_the_second_moment_is_free_up_to_the_root_of_an_eighth():
    scales = [
        SSP(weight=c, standardise=False).plan(task(), BUDGET).noise.scale
        for c in (0.01, math.sqrt(1 / 8) - 1e-12, 0.5)
    ]
    assert scales[0] == pytest.approx(scales[1], rel=1e-6)
    assert scales[2] > 1.05 * scales[1]


def test_units_of_the_features_do_not_matter():
    X, y = rows()
    one, thousand = task(), task(x_norm=1000.0, intercept=300.0)
    for mechanism in (SSP(), SSP(standardise=False)):
        small, large = (
            release(mechanism, mechanism.regularised(problem, BUDGET), rows, y, gate=SilentGate())[1].weights
            for problem, rows in ((one, X), (thousand, 1000 * X))
        )
        np.testing.assert_allclose(1000 * large, small, rtol=1e-9)


@pytest.mark.parametrize("standardise", [False, "auto"])
def test_models_side_by_side_equal_models_alone(standardise):
    X, y = rows()
    mask = np.random.default_rng(3).random((400, 3)) < 0.7
    mechanism, jobs = SSP(standardise=standardise), []
    for k, budget in [(2, BUDGET), (0, BUDGET), (2, Budget(1.0, 1e-6)), (1, BUDGET)]:
        jobs.append(Job(plan=mechanism.plan(task(int(mask[:, k].sum())), budget), model=k))
    together = mechanism.run(jobs, open_rows(X, y, task(), mask), SilentGate())
    for job, outcome in zip(jobs, together, strict=True):
        own = mask[:, job.model]
        _, alone = release(mechanism, job.plan.problem, X[own], y[own], job.plan.budget, SilentGate())
        np.testing.assert_allclose(outcome.weights, alone.weights, rtol=1e-9)


def test_a_noisy_matrix_with_negative_eigenvalues_is_mended():
    """At a tiny budget the noisy second moments are not positive; weights stay near those of the ridge alone."""
    X, y = rows(50, 30)
    problem = task(50, p=30)
    for seed in range(20):
        plan, outcome = release(SSP(standardise=False), problem, X, y, Budget(0.01, 1e-8), Gate.seeded(seed))
        first = 8 * math.sqrt(31) * plan.noise.scale + 50 * problem.row_norm
        assert np.linalg.norm(outcome.weights) <= first / 50 / plan.settings["l2_used"]


def test_exact_noise_runs_and_differs():
    X, y = rows()
    first, second = (release(SSP(), task(), X, y, gate=Gate.system())[1] for _ in range(2))
    assert (first.weights != second.weights).all()
    assert first.record.secure


def test_accuracy_at_a_moderate_budget():
    X, y = rows(20_000)
    for mechanism in (SSP(standardise=False), SSP()):
        _, outcome = release(mechanism, task(20_000), X, y, Budget(1.0, 1e-8))
        coefficients, constant = outcome.row_map.coefficients(outcome.weights)
        predicted = np.sign(X @ coefficients + constant)
        assert (predicted == y).mean() > 0.77  # without noise 0.80
    assert (y > 0).mean() < 0.6  # what a constant answer would reach
    assert len(outcome.records) == 3


def test_the_ridge_is_l2_which_a_rule_sets_unless_the_user_does():
    mu = gaussian_mu(BUDGET)
    rule = math.sqrt(5) * 2 * math.hypot(1, 0.3) ** 2 / (400 * mu * 5) / 2
    assert SSP(standardise=False).l2_rule(task(), BUDGET) == pytest.approx(rule, rel=1e-12)
    for standardised in (SSP(), SSP(standardise=True)):
        assert standardised.l2_rule(task(), BUDGET) == pytest.approx(3 * rule, rel=1e-12)
    for l2 in (1e-6, 3.0):
        assert SSP().plan(task(l2=l2), BUDGET).settings["l2_used"] == l2
    assert SSP(ridge=0.25).plan(task(l2=3.0), BUDGET).settings["l2_used"] == 0.25
    assert SSP(ridge=0.25).plan(task(l2=0.0), BUDGET).settings["l2_used"] == 0.25
    assert SSP().misfit(task(l2=0.0)) == "it needs l2 > 0 or a ridge"


@pytest.mark.together
@pytest.mark.parametrize(
    "settings",
    [
        {"weight": 0.0},
        {"weight": -1.0},
        {"weight": math.inf},
        {"weight": "1"},
        {"ridge": 0.0},
        {"ridge": math.nan},
        {"accounting": "paper"},
        {"standardise": 1},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InvalidInput):
        SSP(**settings)


@pytest.mark.parametrize("loss", [HuberHinge(), ClippedSquared()])
def test_other_losses_are_refused(loss):
    with pytest.raises(Unsupported, match="logistic"):
        SSP().plan(task(loss=loss), BUDGET)
