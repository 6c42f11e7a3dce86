"""A plan that was made is kept on every table: whether a minimiser is found tells nothing of the rows."""

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dperm.engine import open_rows
from dperm.errors import DpermError, NotCertified
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Loss, Softmax
from dperm.mechanisms import AMP, Job, Mechanism, Objective, ObjectiveKST, Output, minimiser
from dperm.mechanisms.minimiser import LARGEST_CONDITION, minimise_surely
from dperm.mechanisms.objective.family import gradient_limits
from dperm.mechanisms.output.output import gradient_error
from dperm.privacy import Budget, Gate
from dperm.problem import Problem
from dperm.solvers import Known, Solution, certain, lbfgs
from dperm.unit import Neighbours

BUDGET = Budget(1.0, 1e-6)
certain_module = sys.modules["dperm.solvers.base"]


def make(loss: Loss, l2: float, n: int, p: int, **facts: object) -> Problem:
    declared = {"x_norm": 1.0, "intercept": 0.3, **facts}
    return Problem(loss=loss, l2=l2, n_rows=n, n_features=p, **declared)


def fading(seed: int, problem: Problem, decades: float) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows whose features shrink from the first to the last by so many powers of ten."""
    rng = np.random.default_rng(seed)
    n, p = problem.n_rows, problem.n_features
    X = rng.normal(size=(n, p)) * np.logspace(0, -decades, p)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    if problem.loss.labels == "binary":
        return X, rng.choice([-1.0, 1.0], n)
    if problem.loss.labels == "classes":
        return X, rng.integers(0, problem.loss.outputs, n).astype(float)
    return X, rng.uniform(-1, 1, n)


@pytest.mark.parametrize(
    ("loss", "l2", "n", "p", "decades", "seed"),
    [
        (Softmax(10), 2e-8, 50, 5, 6, 5),
        (HuberHinge(0.001), 1e-5, 300, 10, 2, 4),
        (ClippedSquared(1e-6), 1e-7, 10, 3, 0, 3),
    ],
    ids=["softmax", "huber-hinge", "squared"],
)
def test_one_row_does_not_decide_whether_there_is_a_release(loss, l2, n, p, decades, seed):
    """The neighbours of a review: with one row the solver stopped above its limit and raised, without it it did not."""
    problem, mechanism = make(loss, l2, n, p), Output()
    plan = mechanism.plan(problem, BUDGET)
    X, y = fading(seed, problem, decades)
    emptied = X.copy()
    emptied[0] = 0.0
    for rows in (X, emptied):
        (outcome,) = mechanism.run([Job(plan=plan)], open_rows(rows, y, problem), Gate.seeded(0))
        assert outcome.certified


def hard_rows(rng: np.random.Generator, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Rows at the bound, alike, cancelling, separable, on axes, fading, tiny, with one that differs."""
    n, p, loss = problem.n_rows, problem.n_features, problem.loss
    X = rng.normal(size=(n, p))
    kind = rng.integers(0, 8)
    if kind == 1:
        X = np.tile(X[:1], (n, 1))
    elif kind == 2:
        X = np.eye(p)[rng.integers(0, p, n)]
    elif kind == 3:
        X = X * np.logspace(0, -rng.integers(1, 13), p)
    elif kind == 4:
        X = np.tile(X[:1], (n, 1)) + 1e-7 * rng.normal(size=(n, p))
    elif kind == 5:
        X = X * 10.0 ** rng.uniform(-12, 0, size=(n, 1))
    elif kind == 6:
        X = np.repeat(X[: (n + 1) // 2], 2, axis=0)[:n]
    elif kind == 7:
        X = np.tile(X[:1], (n, 1))
        X[0] = rng.normal(size=p)
    if rng.random() < 0.7:
        X = X / np.linalg.norm(X, axis=1, keepdims=True) * rng.choice([1.0, 1.0, 0.5, 2.0])
    guess = X @ rng.normal(size=(p, loss.outputs))
    if loss.labels == "real":
        y = [rng.uniform(-1, 1, n), rng.choice([-1.0, 0.0, 1.0], n), np.clip(guess[:, 0], -1, 1)][
            rng.integers(0, 3)
        ]
    elif loss.labels == "classes":
        y = [guess.argmax(axis=1), rng.integers(0, loss.outputs, n), np.zeros(n)][rng.integers(0, 3)]
    else:
        alternate = np.where(np.arange(n) % 2, 1.0, -1.0)
        y = [np.where(guess[:, 0] > 0, 1.0, -1.0), rng.choice([-1.0, 1.0], n), alternate, np.ones(n)][
            rng.integers(0, 4)
        ]
    return X * problem.x_norm, np.asarray(y, float)


def hard_problem(rng: np.random.Generator) -> tuple[Output, Problem]:
    """Settings that a plan accepts, half of them as badly conditioned as it accepts."""
    while True:
        loss = [
            Logistic(),
            HuberHinge(10 ** rng.uniform(-6, 0.5)),
            ClippedSquared(10 ** rng.uniform(-12, 2)),
            Softmax(int(rng.choice([2, 3, 10]))),
        ][rng.integers(0, 4)]
        n, p = int(rng.choice([1, 2, 3, 10, 100, 1000])), int(rng.choice([1, 2, 5, 20]))
        facts = {"x_norm": float(rng.choice([1.0, 1e-3, 1e3])), "intercept": float(rng.choice([0.0, 0.3]))}
        steepest = loss.smoothness * (facts["x_norm"] ** 2 + facts["intercept"] ** 2)
        worst = steepest / (LARGEST_CONDITION - 1) * (1 + 1e-6)
        problem = make(loss, worst if rng.random() < 0.5 else worst * 10 ** rng.uniform(0, 8), n, p, **facts)
        mechanism = Output(tolerance=float(10 ** rng.uniform(-9, -2)))
        try:
            mechanism.plan(problem, BUDGET)
        except DpermError:
            continue
        return mechanism, problem


@pytest.mark.parametrize("seed", range(4))
def test_the_limit_is_reached_on_hard_tables_just_inside_what_plans_accept(seed, monkeypatch):
    """And soon: the proof allows billions of passes over the rows, none of these needs many."""
    passes = 0
    call = minimiser._Objectives.__call__

    def counted(self, W):
        nonlocal passes
        passes += 1
        assert passes < 60_000
        return call(self, W)

    monkeypatch.setattr(minimiser._Objectives, "__call__", counted)
    rng = np.random.default_rng(seed)
    for _ in range(150):
        mechanism, problem = hard_problem(rng)
        engine = open_rows(*hard_rows(rng, problem), problem).open(precise=True)
        passes = 0
        minimise_surely(engine, [problem], np.array([mechanism.residual(problem)]))  # raises if it is missed


@pytest.mark.parametrize("seed", range(2))
def test_the_limit_is_reached_with_noise_in_the_objective(seed):
    rng = np.random.default_rng(100 + seed)
    done = 0
    while done < 150:
        mechanism, problem = hard_problem(rng)
        b = rng.normal(size=(problem.dimension, 1)) * 10 ** rng.uniform(-2, 3) * problem.gradient_bound
        problem = replace(problem, l2=problem.l2 * 10 ** rng.uniform(0, 4))
        try:
            limit, _ = gradient_limits(problem, float(np.linalg.norm(b)), mechanism.tolerance)
        except NotCertified:
            continue
        engine = open_rows(*hard_rows(rng, problem), problem).open(precise=True)
        n = problem.n_rows
        minimise_surely(engine, [problem], np.array([limit / n]), b / n)
        done += 1


def test_below_what_rounding_allows_one_row_would_decide():
    """Why a limit is at least three times the error: far below it one table is solved and its neighbour is not."""
    problem = make(Logistic(), 0.1, 40, 3, intercept=0.0)
    limit = np.array([1e-6 * gradient_error(problem)])
    rng = np.random.default_rng(0)
    half = rng.normal(size=(20, 3)) / 3
    y = np.r_[np.ones(20), -np.ones(20)]
    X = np.vstack([half, half])  # every row cancels its double, so the gradient at zero weights is zero
    neighbour = X.copy()
    neighbour[0] = rng.normal(size=3) / 3
    minimise_surely(open_rows(X, y, problem).open(precise=True), [problem], limit)
    with pytest.raises(NotCertified, match="nothing is released"):
        minimise_surely(open_rows(neighbour, y, problem).open(precise=True), [problem], limit)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.001), ClippedSquared(1e-6), Softmax(3)], ids=repr)
def test_beyond_the_largest_condition_number_nothing_is_planned(loss):
    unit = make(loss, 0.0, 1000, 4).smoothness / LARGEST_CONDITION
    inside, outside = make(loss, 1.01 * unit, 1000, 4), make(loss, 0.99 * unit, 1000, 4)
    Output(clip=None).plan(inside, BUDGET)
    gradient_limits(inside, 0.0, 1e-6)
    with pytest.raises(NotCertified, match="condition number"):
        Output(clip=None).plan(outside, BUDGET)
    with pytest.raises(NotCertified, match="condition number"):
        gradient_limits(outside, 0.0, 1e-6)
    with pytest.raises(NotCertified, match="condition number"):  # noise makes weights longer
        gradient_limits(inside, 1000 * inside.gradient_bound, 1e-6)


def test_the_refusal_says_what_to_do():
    with pytest.raises(
        NotCertified, match=r"condition number 2\.73e\+09 .* raise l2, here 1e-10, or take a loss"
    ):
        Output(clip=None).plan(make(Logistic(), 1e-10, 1000, 4), BUDGET)


def test_where_rounding_is_the_larger_it_is_reached_and_paid_for():
    """A table so long that a ten-thousandth of a row's weight is below the error of a sum."""
    problem = make(Logistic(), 1e-6, 30_000_000, 20)
    mechanism, asked = Output(), 1e-4 * make(Logistic(), 1e-6, 1, 20).gradient_bound / 30_000_000
    assert mechanism.residual(problem) == 3 * gradient_error(problem) > asked
    exact = problem.gradient_gap / (problem.n_rows * problem.l2)
    paid = mechanism.minimiser_sensitivity(problem) - exact
    assert paid == pytest.approx(2 * 4 * gradient_error(problem) / problem.l2)
    small = make(Logistic(), 1e-3, 1000, 20)
    assert mechanism.residual(small) == pytest.approx(1e-4 * small.gradient_bound / 1000)


@pytest.mark.cover(1)
@pytest.mark.parametrize("mechanism", [Output(), Objective(), ObjectiveKST(), AMP()], ids=lambda m: m.name)
@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_broken_fast_solver_costs_time_only(mechanism: Mechanism, neighbours, monkeypatch):
    """What the proof rests on: descent alone gets there, with no help from Newton or L-BFGS."""

    def useless(objective, start, *_, **__):
        raise np.linalg.LinAlgError("singular")

    problem = make(Logistic(), 0.02, 60, 3, neighbours=neighbours)
    plan = mechanism.plan(problem, BUDGET)
    X, y = fading(0, problem, 1)
    released = []
    for solvers in ((), ("newton", "lbfgs")):
        for name in solvers:
            monkeypatch.setattr(minimiser, name, useless)
        (outcome,) = mechanism.run([Job(plan=plan)], open_rows(X, y, problem), Gate.seeded(0))
        released.append(outcome.weights)
    np.testing.assert_allclose(*released, rtol=5e-3, atol=5e-3)


def quadratic(spectrum: np.ndarray, target: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    away = W - target[:, None]
    return 0.5 * (spectrum[:, None] * away**2).sum(axis=0), spectrum[:, None] * away


def test_descent_alone_keeps_to_its_proven_number_of_steps():
    spectrum = np.logspace(-3, 0, 8)
    target = np.ones(8)
    known = Known(smoothness=1.0, strong_convexity=1e-3, reach=float(np.linalg.norm(spectrum)))
    steps = 0

    def counted(W):
        nonlocal steps
        steps += 1
        return quadratic(spectrum, target, W)

    def useless(start):
        return Solution(points=start[:, None], gradient_norms=np.array([np.inf]))

    found = certain(counted, known, 8, 1e-9, useless)
    assert found.reached <= 1e-9
    assert steps <= 4 * known.most_steps(1e-9)  # all runs together


def test_a_function_unlike_what_is_known_of_it_ends_without_success():
    """Twice as much curvature as declared: steps overshoot, and the loop still ends."""
    known = Known(smoothness=0.5, strong_convexity=0.1, reach=4.0)
    function = partial(quadratic, np.ones(3), np.ones(3))
    found = certain(
        function,
        known,
        3,
        1e-9,
        lambda start: Solution(points=start[:, None], gradient_norms=np.array([1.0])),
    )
    assert not found.reached <= 1e-9


def test_a_fast_solver_that_runs_away_is_not_followed():
    known = Known(smoothness=1.0, strong_convexity=1e-3, reach=1.0)
    assert known.allows(np.full(4, 100.0), 0.4)
    assert not known.allows(np.full(4, 100.0), 0.6)
    assert not known.allows(np.full(4, 2000.0), 0.4)
    assert not known.allows(np.full(4, np.nan), np.nan)


def test_help_from_a_fast_solver_is_taken():
    spectrum, target = np.logspace(-6, 0, 8), np.ones(8)
    known = Known(smoothness=1.0, strong_convexity=1e-6, reach=float(np.linalg.norm(spectrum)))
    function = partial(quadratic, spectrum, target)
    calls = []

    def fast(start):
        calls.append(start)
        return lbfgs(function, start, 1e-12)

    assert certain(function, known, 8, 1e-12, fast).reached <= 1e-12
    assert len(calls) < 5
