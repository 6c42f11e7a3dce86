"""Objective perturbation: minimiser, certificate, price, and everything that must not happen."""

import math
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from objective_cases import (
    ADD_REMOVE,
    BUDGET,
    LOSSES,
    REPLACE_ONE,
    N,
    P,
    fit,
    gradient,
    make_problem,
    make_rows,
    passages,
    watching,
)
from scipy.optimize import minimize
from scipy.special import ndtr

from dperm.engine import open_rows
from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.losses import (
    ClippedSquared,
    HardClippedLogistic,
    HuberHinge,
    Logistic,
    MarginLogistic,
    SoftClippedLogistic,
    SoftClippedSquared,
    Softmax,
)
from dperm.mechanisms import minimiser
from dperm.mechanisms.base import Job
from dperm.mechanisms.objective.amp import AMP
from dperm.mechanisms.objective.family import (
    OBJECTIVE_NOISE,
    gradient_limits,
    gradient_reach,
    l2_of_noise,
)
from dperm.mechanisms.objective.objective import Objective
from dperm.mechanisms.objective.objective_kst import ObjectiveKST
from dperm.mechanisms.objective.objective_pure import ObjectivePure
from dperm.mechanisms.objective.profile import CoupledProfile, log_determinant_bound, objective_profile
from dperm.planning.rules import slope_for
from dperm.privacy import Budget, Gate, GaussianProfile, gaussian_mu
from dperm.solvers import Known, lbfgs, newton
from dperm_audit.gates import SilentGate

PLAIN = Objective(standardise=False, clip=None)
GAUSSIAN = [PLAIN, ObjectiveKST(standardise=False, clip=None), AMP(standardise=False, clip=None)]
FAMILY = [*GAUSSIAN, ObjectivePure(clip=None)]
BUDGETS = [Budget(e, d) for e in (0.05, 0.5, 1.0, 8.0) for d in (1e-8, 1e-5)]


# ---- the minimiser


@pytest.mark.parametrize(("mechanism", "loss"), [*product(GAUSSIAN, LOSSES), (PLAIN, Softmax(3))], ids=repr)
def test_without_noise_it_is_the_plain_minimiser(mechanism, loss):
    problem = make_problem(loss)
    plan = mechanism.plan(problem, BUDGET)
    rows = make_rows(problem)
    got = fit(mechanism, problem, rows, gate=SilentGate()).weights
    l2 = plan.settings["l2_used"]
    X, y = np.column_stack([rows[0], np.full(N, 0.3)]), rows[1]

    def plain(flat):
        w = flat.reshape(got.shape)
        value = loss.value(X @ w, y).sum() + N * l2 / 2 * np.sum(w * w)
        return value, gradient(problem, l2, rows, w).ravel()

    start = np.zeros(got.size)
    # Of a strongly convex function, the gradient norm bounds the distance.
    found = minimize(plain, start, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-8}).x
    distance = (np.linalg.norm(plain(found)[1]) + plan.perturbation.limit) / (N * l2)
    assert distance < 1e-3
    assert np.linalg.norm(got.ravel() - found) <= distance * (1 + 1e-6)
    assert np.linalg.norm(got) > 100 * distance


@pytest.mark.cover(1)
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("loss", [*LOSSES, ClippedSquared(1.0), Softmax(3)], ids=repr)
def test_the_returned_point_carries_its_gradient_certificate(loss, relation):
    """The gradient with the noise that was drawn, computed here, at the point before the gate."""
    problem = make_problem(loss, neighbours=relation)
    watch = watching()
    plan = PLAIN.plan(problem, BUDGET)
    rows = make_rows(problem)
    fit(PLAIN, problem, rows, gate=watch)
    (drawn, nothing, b), (_, point, released) = passages(watch)
    assert drawn.name == OBJECTIVE_NOISE
    assert not nothing.any()
    shape = (P + 1,) if loss.outputs == 1 else (P + 1, loss.outputs)
    residual = gradient(problem, plan.settings["l2_used"], rows, point.reshape(shape)).ravel() + b
    reach = (math.sqrt(problem.dimension) + 16) * plan.noise.scale
    limit, bound = gradient_limits(plan.perturbation.problem, reach, 1e-6)
    assert limit == plan.perturbation.limit
    assert np.linalg.norm(residual) <= bound <= 1.1 * 1e-6 * problem.gradient_bound
    assert np.linalg.norm(b) > 1  # the certificate is for the perturbed problem, not for the plain one
    assert (
        0
        < np.linalg.norm(released - point)
        < 20 * plan.perturbation.output.scale * math.sqrt(problem.dimension)
    )


def test_the_output_sensitivity_is_two_residuals_over_the_strength():
    plan = PLAIN.plan(make_problem(), BUDGET)
    used = plan.perturbation.problem
    one_point = plan.perturbation.limit / (N * used.l2)
    assert plan.perturbation.output.sensitivity >= 2 * one_point
    assert (
        plan.perturbation.output.sensitivity <= 2.2 * one_point
    )  # rounding and the grid of b are small against it


@pytest.mark.parametrize("mechanism", FAMILY, ids=lambda m: m.name)
def test_a_batch_gives_every_job_its_own_rows_noise_and_strength(mechanism):
    """Models and budgets side by side: each point solves its own problem."""
    rng = np.random.default_rng(5)
    mask = np.zeros((N, 3), np.uint8)
    for k in range(3):
        mask[rng.permutation(N)[:300], k] = 1
    problem = make_problem(n_rows=300, l2=0.1)
    whole = replace(problem, n_rows=N)
    X, y = make_rows(whole)
    budgets = [Budget(0.1, 1e-6), Budget(2.0, 1e-6)]
    jobs = [Job(plan=mechanism.plan(problem, b), model=k) for b in budgets for k in (2, 0, 1)]
    watch = watching(0)
    outcomes = mechanism.run(jobs, open_rows(X, y, whole, mask), watch)
    seen = passages(watch)
    b = np.column_stack([release.noisy for release in seen[: len(jobs)]])
    points = np.column_stack([release.exact for release in seen[len(jobs) :]])
    for k, job in enumerate(jobs):
        own = mask[:, job.model] == 1
        residual = gradient(problem, job.plan.settings["l2_used"], (X[own], y[own]), points[:, k]) + b[:, k]
        assert np.linalg.norm(residual) <= job.plan.perturbation.limit * 1.01
        assert len(outcomes[k].records) == 2
    assert len({tuple(column) for column in b.T}) == len(jobs)  # nobody shares noise


# ---- what must not happen


@pytest.mark.parametrize(
    ("loss", "solver"), [(Logistic(), newton), (Softmax(3), lbfgs)], ids=["newton", "lbfgs"]
)
def test_a_solver_cut_short_is_made_up_for_without_another_draw(monkeypatch, loss, solver):
    problem = make_problem(loss)
    watch = watching()
    monkeypatch.setattr(minimiser, solver.__name__, partial(solver, max_iterations=1))
    fit(PLAIN, problem, make_rows(problem), gate=watch)
    assert [release.record.name for release in passages(watch)] == [OBJECTIVE_NOISE, "objective weights"]


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=["newton", "lbfgs"])
def test_a_point_above_the_limit_is_never_released(monkeypatch, loss):
    """No solver is trusted: the gradient norm decides, and b is not drawn again."""
    problem = make_problem(loss)
    watch = watching()
    for name in ("newton", "lbfgs"):
        monkeypatch.setattr(minimiser, name, partial(getattr(minimiser, name), max_iterations=1))
    monkeypatch.setattr(Known, "most_steps", lambda *_: 3)
    with pytest.raises(NotCertified, match="nothing is released"):
        fit(PLAIN, problem, make_rows(problem), gate=watch)
    assert [release.record.name for release in passages(watch)] == [
        OBJECTIVE_NOISE
    ]  # drawn once, nothing left


def test_noise_is_drawn_once_and_before_any_row_is_looked_at():
    problem = make_problem()
    watch, other = watching(), watching()
    outcome = fit(PLAIN, problem, make_rows(problem), gate=watch)
    assert [release.record for release in passages(watch)] == list(outcome.records)
    assert [record.name for record in outcome.records] == [OBJECTIVE_NOISE, "objective weights"]
    fit(PLAIN, problem, make_rows(problem, seed=9), gate=other)
    first, second = passages(watch)[0], passages(other)[0]
    np.testing.assert_array_equal(first.noisy, second.noisy)  # the same whatever the rows
    record, plan = outcome.records[0], PLAIN.plan(problem, BUDGET)
    assert (record.sensitivity, record.noise_scale) == (problem.gradient_gap, plan.noise.scale)


def test_the_intercept_carries_noise_and_penalty():
    """Rows that say nothing: the minimiser is -b / strength in every coordinate, the intercept's too."""
    problem = make_problem(neighbours=ADD_REMOVE)
    watch = watching()
    l2 = PLAIN.plan(problem, BUDGET).settings["l2_used"]
    empty = (np.zeros((0, P)), np.zeros(0))
    fit(PLAIN, problem, empty, gate=watch)
    drawn, solved = passages(watch)
    b, point = drawn.noisy, solved.exact
    assert b.shape == (P + 1,)
    assert (np.abs(b) > 0).all()
    np.testing.assert_allclose(point, -b / (N * l2), rtol=1e-4)


@pytest.mark.parametrize("mechanism", GAUSSIAN, ids=lambda m: m.name)
def test_the_row_norm_counts_the_intercept(mechanism):
    with_it, without = make_problem(intercept=1.0), make_problem(intercept=0.0)
    noises = [mechanism.plan(problem, BUDGET).noise for problem in (with_it, without)]
    assert noises[0].sensitivity == pytest.approx(math.sqrt(2) * noises[1].sensitivity)
    assert noises[0].dimension == noises[1].dimension + 1


# ---- neighbours


def neighbours_of(problem, rows, rng):
    """A row replaced by its opposite, or taken away."""
    X, y = rows[0].copy(), rows[1].copy()
    if problem.neighbours is ADD_REMOVE:
        return X[1:], y[1:]
    X[0] = -X[0] if rng.random() < 0.5 else rng.normal(size=X.shape[1])
    X[0] *= 0.999 * problem.x_norm / max(np.linalg.norm(X[0]), problem.x_norm)
    y[0] = -y[0] if problem.loss.labels == "binary" else (y[0] + 1) % problem.loss.outputs
    return X, y


@pytest.mark.cover(1)
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("loss", [*LOSSES, Softmax(3)], ids=repr)
def test_the_noise_that_explains_a_release_moves_by_at_most_the_gap(loss, relation):
    """The same point under D and its neighbour: the two noise vectors that lead to it are a gap apart."""
    problem = make_problem(loss, neighbours=relation, n_rows=60, l2=0.2)
    rng = np.random.default_rng(3)
    plan = PLAIN.plan(problem, BUDGET)
    l2, gap, longest = plan.settings["l2_used"], plan.noise.sensitivity, 0.0
    for seed in range(5):
        rows = make_rows(problem, seed)
        rows[0][0] *= 0.999 / np.linalg.norm(rows[0][0])
        watch = watching()
        fit(PLAIN, problem, rows, gate=watch)
        drawn, solved = passages(watch)
        point = solved.exact
        shape = (P + 1,) if loss.outputs == 1 else (P + 1, loss.outputs)
        implied = [
            -gradient(problem, l2, data, point.reshape(shape)).ravel()
            for data in (rows, neighbours_of(problem, rows, rng))
        ]
        assert np.linalg.norm(implied[0] - drawn.noisy) <= 2 * plan.perturbation.limit
        longest = max(longest, float(np.linalg.norm(implied[0] - implied[1])))
    assert 0.3 * gap < longest <= gap


@pytest.mark.parametrize("mechanism", [*GAUSSIAN, Objective(standardise=True)], ids=repr)
def test_neighbours_stay_within_the_declared_sensitivity_at_the_gate(mechanism):
    """Given the exact minimiser both data sets know their own noise; what they then release is close."""
    problem = make_problem(n_rows=200)
    rows = make_rows(problem)
    other = neighbours_of(problem, rows, np.random.default_rng(0))
    watch = watching()
    fit(mechanism, problem, rows, gate=watch)
    plan = mechanism.plan(problem, BUDGET)
    if mechanism.standardise:
        moved = watching()
        fit(mechanism, problem, other, gate=moved)
        distance = np.linalg.norm(passages(watch)[0].exact - passages(moved)[0].exact)
        assert 0 < distance <= plan.standardisation.noises[0].sensitivity
        return
    point, l2 = passages(watch)[1].exact, plan.settings["l2_used"]
    implied = -gradient(
        problem, l2, other, point
    )  # the noise with which the neighbour's minimiser is this point

    class Planted(SilentGate):
        def _noisy(self, columns, noises, name):
            return implied[:, None] if name == OBJECTIVE_NOISE else super()._noisy(columns, noises, name)

    outcome = fit(mechanism, problem, other, gate=Planted())
    assert np.linalg.norm(outcome.weights - point) <= plan.perturbation.output.sensitivity


# ---- the price


def gaussian_delta(mu, epsilon):
    return float(ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2))


def vertex_delta(problem, scale, extra, epsilon):
    """Theorem 1, written out again for losses of one sign."""
    r, left = (
        problem.gradient_bound,
        epsilon - math.log1p(problem.loss.smoothness * problem.row_norm**2 / (problem.n_rows * problem.l2)),
    )
    lengths = [0, r, r, 2 * r] if problem.neighbours is REPLACE_ONE else [0, r]
    return sum(gaussian_delta(math.hypot(length / scale, extra), left) for length in lengths)


@pytest.mark.together
@pytest.mark.cover(2)
@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_whole_meets_the_budget_by_a_second_route(budget, relation, standardise):
    """Huber hinge, whose price is Theorem 1: all of it, and no more than needed."""
    problem = make_problem(HuberHinge(0.5), neighbours=relation, n_rows=20_000, l2=5e-3)
    plan = Objective(standardise=standardise).plan(problem, budget)
    out = plan.perturbation.output
    extra = math.hypot(
        out.padded(out.sensitivity) / out.scale, plan.standardisation.mu if standardise else 0.0
    )
    assert vertex_delta(plan.perturbation.problem, plan.noise.scale, extra, budget.epsilon) <= budget.delta
    assert (
        vertex_delta(plan.perturbation.problem, plan.noise.scale / 1.002, extra, budget.epsilon)
        > budget.delta
    )
    assert plan.profile.delta(budget.epsilon) <= budget.delta
    assert plan.not_certified is None


@pytest.mark.cover(2)
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("budget", BUDGETS[::3], ids=str)
@pytest.mark.parametrize(
    "mechanism", [ObjectiveKST(clip=None), ObjectiveKST(accounting="paper"), AMP(clip=None)], ids=repr
)
@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_older_mechanisms_meet_their_budget_too(loss, standardise, mechanism, budget, relation):
    problem = make_problem(loss, neighbours=relation, n_rows=20_000, l2=1e-5)
    plan = replace(mechanism, standardise=standardise).plan(problem, budget)
    out, used = plan.perturbation.output, plan.perturbation.problem
    extra = math.hypot(
        out.padded(out.sensitivity) / out.scale, plan.standardisation.mu if standardise else 0.0
    )
    if mechanism.accounting == "paper" and standardise:  # the formula sets nothing aside for the mean
        assert (plan.not_certified is None) == (plan.profile.delta(budget.epsilon) <= budget.delta)
        return
    assert plan.not_certified is None
    assert plan.profile.delta(budget.epsilon) <= budget.delta
    assert used.n_rows * used.l2 * (1 + 1e-9) >= 2 * loss.smoothness * used.row_norm**2 / budget.epsilon
    if isinstance(loss, HuberHinge):
        assert vertex_delta(used, plan.noise.scale, extra, budget.epsilon) <= budget.delta


@pytest.mark.parametrize("loss", [Logistic(), SoftClippedLogistic(), SoftClippedSquared()], ids=repr)
def test_the_sharper_price_of_a_coupled_loss_is_used_after_a_release_too(loss):
    problem, budget = make_problem(loss, n_rows=20_000, l2=5e-3), Budget(0.1, 1e-8)
    for standardise in (False, True):
        plan = Objective(standardise=standardise).plan(problem, budget)
        by_vertices = GaussianProfile(plan.profile.probability, plan.profile.offset, plan.profile.mu)
        assert type(plan.profile) is CoupledProfile
        assert plan.profile.delta(0.1) <= 1e-8 < 0.9 * by_vertices.delta(0.1)


def test_a_scale_is_found_for_the_profile_that_it_is_checked_by():
    """Three releases at the smallest epsilon: rounded in another order, a parameter is off by a step, and delta by more
    than the search leaves."""
    rng = np.random.default_rng(3)
    losses = [Logistic(), SoftClippedSquared(3.0, 0.7), SoftClippedLogistic(), HuberHinge(0.5), Softmax(3)]
    for k in range(150):
        budget = Budget(0.001, float(10 ** rng.uniform(-10, -4)))
        mechanism = Objective(standardise=bool(k % 2))
        problem = make_problem(
            losses[k % (5 if k % 2 else 2)],  # the others have no intervals
            x_norm=float(np.exp(rng.uniform(-3, 3))),
            n_rows=int(10 ** rng.uniform(2, 7)),
            n_features=int(rng.integers(1, 200)),
            neighbours=(ADD_REMOVE, REPLACE_ONE)[k // 2 % 2],
        )
        inference = k % 2 == 0
        regularised = mechanism.regularised(problem, budget, inference=inference)
        plan = mechanism.plan(regularised, budget, inference=inference)
        assert plan.not_certified is None
        assert 0 <= budget.delta - plan.profile.delta(budget.epsilon) < 1e-6 * budget.delta


def test_standardising_leaves_less_for_the_objective():
    problem, budget = make_problem(n_rows=20_000), Budget(0.5, 1e-6)
    plain, standardised = (Objective(standardise=c).plan(problem, budget).noise.scale for c in (False, True))
    assert 1 / math.sqrt(0.9) * 0.99 < standardised / plain < 1.12


@pytest.mark.parametrize("mechanism", [replace(m, standardise=True) for m in GAUSSIAN], ids=repr)
def test_standardised_runs_release_moments_and_a_model_in_the_rows_as_they_came(mechanism):
    problem = make_problem(n_rows=2000)
    X, y = make_rows(problem)
    outcome = fit(mechanism, problem, (X, y), Budget(8.0, 1e-5))
    assert len(outcome.records) == 4
    assert outcome.certified
    coefficients, constant = outcome.row_map.coefficients(outcome.weights)
    correct = np.mean((X @ coefficients + constant > 0) == (y > 0))
    assert correct > 0.7


# ---- the rule for l2


def test_the_rule_is_as_little_as_can_be_paid_for():
    """For intervals; and otherwise where there are few coefficients."""
    problem = make_problem(n_rows=30_000, n_features=50, l2=0.0)
    for epsilon in (0.05, 0.1, 0.5, 1.0):
        budget = Budget(epsilon, 1e-8)
        want = 2.0 * 1.09 / (30_000 * epsilon)
        rule = Objective().regularised(problem, budget, inference=True).l2
        assert rule == pytest.approx(want, rel=1e-12)
        few = replace(problem, n_features=1, n_rows=10**6)
        assert Objective().l2_rule(few, budget) == pytest.approx(want * 30_000 / 10**6, rel=1e-12)
        least = problem.gradient_gap / gaussian_mu(budget)
        assert PLAIN.plan(replace(problem, l2=want), budget).noise.scale < 1.05 * least
        assert PLAIN.plan(replace(problem, l2=want / 2), budget).noise.scale > 1.08 * least


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("kind", [Objective, ObjectiveKST, AMP])
def test_noise_on_many_coefficients_asks_for_more(kind, relation):
    """Half of nu^(5/4), with nu the length of noise on a mean gradient over how far one row moves it."""
    problem = make_problem(n_rows=30_000, n_features=50, l2=0.0, neighbours=relation)
    for epsilon in (0.05, 0.1, 0.5, 1.0):
        budget = Budget(epsilon, 1e-8)
        nu = math.sqrt(51) / (30_000 * gaussian_mu(budget)) / (1 if relation is REPLACE_ONE else 2)
        want = nu**1.25 / 2 * 1.09
        for standardise in ("auto", False):
            mechanism = kind(standardise=standardise)
            rule = replace(mechanism, clip=None).regularised(problem, budget).l2
            assert rule == pytest.approx(want, rel=1e-12)
            assert rule > 1.2 * kind().regularised(problem, budget, inference=True).l2
            clipped = replace(problem, loss=mechanism.trained_loss(problem, budget))
            by_noise = want * slope_for(problem, budget)
            rule = mechanism.regularised(problem, budget)
            assert rule.loss == problem.loss  # the plan clips it
            assert rule.l2 == pytest.approx(max(by_noise, l2_of_noise(clipped, epsilon)), rel=1e-12)


def test_the_rule_follows_the_scale_of_the_rows():
    budget = Budget(0.1, 1e-8)
    small, large = (
        Objective().l2_rule(make_problem(n_rows=30_000, l2=0.0, x_norm=r, intercept=0.3 * r), budget)
        for r in (1.0, 10.0)
    )
    assert large == pytest.approx(100 * small)


@pytest.mark.parametrize(
    "loss", [HuberHinge(0.05), Softmax(5), HardClippedLogistic(), ClippedSquared()], ids=repr
)
def test_few_coefficients_do_not_let_the_hessian_eat_the_budget(loss):
    problem, budget = make_problem(loss, n_features=1, l2=0.0, n_rows=20_000), Budget(0.05, 1e-8)
    used = replace(problem, l2=Objective().l2_rule(problem, budget))
    assert log_determinant_bound(used) <= 0.05 / 11


def test_an_l2_that_is_given_is_the_l2_that_is_used():
    budget = Budget(0.1, 1e-8)
    problem = make_problem(n_rows=30_000, l2=0.5)
    for l2 in (0.5, 0.02, 1e-4):
        assert PLAIN.plan(replace(problem, l2=l2), budget).settings["l2_used"] == l2
    with pytest.raises(NotCertified, match="Raise l2"):
        PLAIN.plan(replace(problem, l2=1e-7), budget)


# ---- how far away a minimiser may be


@pytest.mark.cover(1)
@pytest.mark.parametrize("loss", [*LOSSES, SoftClippedLogistic(), MarginLogistic(2.0), Softmax(3)], ids=repr)
@pytest.mark.parametrize("l2", [1e-5, 1e-3, 0.3])
def test_every_minimiser_lies_in_the_ball_for_which_rounding_is_bounded(loss, l2):
    """Rows that pull one way, and noise that pulls with them: by the gradient at zero or by the value there."""
    problem = make_problem(loss, l2=l2, n_rows=50, n_features=1, intercept=0.0)
    X, y = np.full((50, 1), 0.999), np.ones(50)
    share = 0.0
    for length in (0.0, 1.0, 1000.0):
        reach, ball = gradient_reach(problem, length)
        steep = 50 * problem.gradient_bound + length
        assert ball <= 2 * steep / (50 * l2)
        b = np.zeros((1, loss.outputs))
        b[0, -1] = -length

        def objective(flat, b=b):
            w = flat.reshape(b.shape)
            margins = X @ w
            value = loss.value(margins[:, 0] if loss.outputs == 1 else margins, y).sum()
            slope = loss.slope(margins[:, 0] if loss.outputs == 1 else margins, y).reshape(50, -1)
            value += 25 * l2 * np.sum(w * w) + np.sum(b * w)
            return value, (X.T @ slope + 50 * l2 * w + b).ravel()

        found = minimize(objective, np.zeros(b.size), jac=True, method="L-BFGS-B", options={"maxiter": 5000})
        assert objective(np.zeros(b.size))[0] - found.fun <= reach**2 / (2 * 50 * l2) * (1 + 1e-9)
        assert np.linalg.norm(found.x) <= 2 / 3 * ball * (1 + 1e-6)
        share = max(share, np.linalg.norm(found.x) / ball)
    assert share > 0.3


def test_a_small_l2_on_a_large_table_is_neither_refused_nor_drowned_in_noise_for_rounding():
    problem = make_problem(SoftClippedLogistic(), n_rows=1_000_000, n_features=150, l2=1e-6)
    plan = PLAIN.plan(problem, Budget(4.0, 1e-8))
    reach, ball = gradient_reach(problem, plan.noise.scale * (math.sqrt(151) + 16))
    assert ball < 0.02 * 2 * problem.gradient_bound / problem.l2
    assert plan.perturbation.reach == reach
    for loss in (
        ClippedSquared(),
        SoftClippedSquared(),
    ):  # labels without a bound: nothing is known of the value
        far = gradient_reach(replace(problem, loss=loss), 1.0)
        assert far[1] == 2 * far[0] / 1.0


# ---- known errors and refusals


def test_the_smoothness_is_that_of_the_loss():
    """The authors' code of AMP takes r^2 for a Huber hinge of width 0.1, where 5 r^2 is right."""
    budget = Budget(0.5, 1e-6)
    for mechanism in GAUSSIAN[1:]:
        wide, narrow = (
            mechanism.plan(make_problem(HuberHinge(h), l2=1e-9), budget).settings["l2_used"]
            for h in (0.5, 0.1)
        )
        assert narrow == pytest.approx(5 * wide, rel=1e-6)


def test_amp_counts_both_minimisers_and_the_paper_does_not():
    problem, budget = make_problem(n_rows=20_000, l2=1e-9), Budget(0.1, 1e-8)
    tight, paper = (AMP(accounting=a, standardise=False).plan(problem, budget) for a in ("tight", "paper"))
    assert tight.not_certified is None
    assert "two may be off" in paper.not_certified
    for plan in (tight, paper):
        used = plan.perturbation.problem
        # a tolerance of 1/n of R on the sum, and the rounding error that is part of both
        assert plan.perturbation.limit == pytest.approx(used.gradient_bound / 20_000, rel=1e-9)
        assert plan.perturbation.output.sensitivity > 2 * plan.perturbation.limit / (20_000 * used.l2)
    for plan, enough in ((tight, True), (paper, False)):
        out = plan.perturbation.output
        mu = out.padded(out.sensitivity) / out.scale
        assert (GaussianProfile.gaussian(mu).delta(0.01 * 0.1) <= 0.01 * 1e-8) is enough
    # what the paper prints: tolerance over strength, once
    multiplier = (1 + math.sqrt(2 * math.log(1 / (0.01 * 1e-8)))) / (0.01 * 0.1)
    printed = multiplier / (20_000 * 20_000 * paper.settings["l2_used"]) * problem.gradient_bound
    assert paper.settings["output_noise"] == pytest.approx(printed, rel=0.01)
    assert tight.noise.scale < paper.noise.scale / 1.4


def test_the_papers_noise_is_usable_but_never_called_certified():
    problem = make_problem()
    outcome = fit(AMP(accounting="paper"), problem, make_rows(problem))
    assert not outcome.certified
    assert fit(AMP(), problem, make_rows(problem)).certified


def test_the_published_bound_of_redberg_koskela_and_wang():
    problem = make_problem(neighbours=ADD_REMOVE, n_rows=20_000, l2=40 / 20_000)
    budget = Budget(0.1, 1e-8)
    paper, tight = (
        Objective(accounting=a, standardise=False, clip=None).plan(problem, budget)
        for a in ("paper", "tight")
    )
    used = paper.perturbation.problem
    assert used == tight.perturbation.problem
    assert paper.noise.scale > 1.03 * tight.noise.scale
    assert paper.not_certified is None
    assert objective_profile(used, paper.noise.scale).delta(0.1) < budget.delta
    with pytest.raises(Unsupported, match="add-remove"):
        Objective(accounting="paper").plan(replace(problem, neighbours=REPLACE_ONE), budget)
    with pytest.raises(NotCertified, match="the Hessian alone"):
        Objective(accounting="paper").plan(replace(problem, l2=1e-4), budget)
    weak = replace(problem, l2=2e-4)
    for standardise, reached in (
        (False, True),
        (True, False),
    ):  # the paper's noise leaves nothing for the mean
        plan = Objective(accounting="paper", standardise=standardise).plan(weak, budget)
        assert (plan.not_certified is None) == reached


def test_kst_in_the_papers_own_noise():
    problem, budget = make_problem(n_rows=20_000, l2=1e-9), Budget(0.1, 1e-8)
    paper, tight = (
        ObjectiveKST(accounting=a, standardise=False, clip=None).plan(problem, budget)
        for a in ("paper", "tight")
    )
    printed = problem.gradient_gap * math.sqrt(8 * math.log(2 / 1e-8) + 4 * 0.1) / 0.1
    assert paper.noise.scale == pytest.approx(printed, rel=1e-8)
    assert paper.settings["l2_used"] * 20_000 == pytest.approx(2 * 0.25 * 1.09 / 0.1, rel=1e-6)
    assert 1.3 < paper.noise.scale / tight.noise.scale < 3


@pytest.mark.parametrize("mechanism", [ObjectiveKST(), AMP(), ObjectivePure()], ids=lambda m: m.name)
def test_softmax_is_refused_where_it_is_not_proved(mechanism):
    with pytest.raises(Unsupported, match="softmax"):
        mechanism.plan(make_problem(Softmax(3)), BUDGET)


@pytest.mark.cover(1)
@pytest.mark.parametrize("kind", [Objective, ObjectiveKST, AMP, ObjectivePure])
@pytest.mark.parametrize("bad", [{"tolerance": 0.0}, {"tolerance": math.nan}, {"tolerance": True}], ids=str)
def test_bad_settings_are_refused(kind, bad):
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        kind(**bad)


@pytest.mark.cover(1)
@pytest.mark.parametrize("kind", [Objective, ObjectiveKST, ObjectivePure])
@pytest.mark.parametrize("share", [0.0, 1.0, math.nan])
def test_bad_shares_are_refused(kind, share):
    with pytest.raises(InvalidInput, match="output_share"):
        kind(output_share=share)


def test_a_tolerance_that_bounds_nothing_is_refused():
    with pytest.raises(NotCertified, match="tolerance"):
        Objective(tolerance=1e9).plan(make_problem(), BUDGET)


def test_a_tolerance_below_rounding_becomes_one_that_can_be_reached():
    problem = make_problem()
    plan = Objective(tolerance=1e-30).plan(problem, BUDGET)
    assert 0 < plan.perturbation.limit < 1e-6
    assert fit(Objective(tolerance=1e-30), problem, make_rows(problem)).certified


def test_exact_noise_from_the_operating_system():
    problem = make_problem()
    plan = Objective().plan(problem, BUDGET)
    rows = open_rows(*make_rows(problem), problem)
    first, second = (Objective().run([Job(plan=plan)], rows, Gate.system())[0] for _ in range(2))
    assert first.certified
    assert len(first.records) == 4
    assert all(record.secure for record in first.records)
    assert (first.weights != second.weights).all()
