"""The inner solvers reach their tolerance, agree with scipy, and report the gradient norm they have."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dperm.losses import HuberHinge, Logistic, Loss
from dperm.solvers import Solution, lbfgs, newton
from dperm.solvers.base import Objective

Array = NDArray[np.float64]


class Batch:
    """K regularised mean losses, each on its own rows, as the solvers see them."""

    def __init__(self, rows: list[tuple[Array, Array]], l2: list[float], loss: Loss) -> None:
        self.rows, self.l2, self.loss = rows, l2, loss
        self.calls = 0

    def __call__(self, W: Array) -> tuple[Array, Array]:
        self.calls += 1
        parts = [self.one(k, W[:, k]) for k in range(W.shape[1])]
        return np.array([value for value, _ in parts]), np.stack([g for _, g in parts], axis=1)

    def one(self, k: int, w: Array) -> tuple[float, Array]:
        X, y = self.rows[k]
        m = X @ w
        value = self.loss.value(m, y).mean() + self.l2[k] / 2 * w @ w
        return float(value), X.T @ self.loss.slope(m, y) / len(y) + self.l2[k] * w

    def hessian(self, k: int, w: Array) -> Array:
        X, y = self.rows[k]
        curvature = self.loss.curvature(X @ w, y)
        return X.T @ (curvature[:, None] * X) / len(y) + self.l2[k] * np.eye(len(w))

    @property
    def start(self) -> Array:
        return np.zeros((self.rows[0][0].shape[1], len(self.rows)))


def table(seed: int, n: int = 200, p: int = 6, scales: Array | None = None) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) / np.sqrt(p)
    y = np.where(X @ rng.normal(size=p) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return (X if scales is None else X * scales), y


def scipy_minimiser(batch: Batch, k: int) -> tuple[Array, float]:
    """A minimiser by another code, and the gradient norm it reached."""
    start = np.zeros(batch.rows[k][0].shape[1])
    found = minimize(
        lambda w: batch.one(k, w),
        start,
        jac=True,
        hess=lambda w: batch.hessian(k, w),
        method="trust-exact",
        options={"gtol": 1e-10, "maxiter": 5000},
    )
    return found.x, float(np.linalg.norm(batch.one(k, found.x)[1]))


def assert_solved(solution: Solution, batch: Batch, tolerance: float, columns: range | None = None) -> None:
    """The reported norms are the true ones, and the points are as close to scipy's as the norms prove."""
    for k in columns or range(len(batch.rows)):
        norm = np.linalg.norm(batch.one(k, solution.points[:, k])[1])
        assert solution.gradient_norms[k] == pytest.approx(norm, rel=1e-9, abs=1e-16)
        assert norm <= tolerance
        point, reached = scipy_minimiser(batch, k)
        assert reached < 1e-6  # else the comparison says nothing
        assert np.linalg.norm(solution.points[:, k] - point) <= (norm + reached) / batch.l2[k] * (1 + 1e-6)
    assert solution.reached == solution.gradient_norms.max()


def similar(loss: Loss) -> Batch:
    """Ten models, each without another tenth of one table, as in cross-validation."""
    X, y = table(0, n=300)
    folds = [np.arange(300) % 10 != k for k in range(10)]
    return Batch([(X[keep], y[keep]) for keep in folds], [1e-3] * 10, loss)


def dissimilar(loss: Loss) -> Batch:
    """Different rows, different spread and penalties from 1e-4 to 1: one Hessian cannot serve all."""
    spread = [1.0, 10.0, 0.1, 1.0, 30.0]
    rows = [(X * s, y) for s, (X, y) in zip(spread, (table(k) for k in range(5)), strict=True)]
    return Batch(rows, [1e-3, 1e-2, 1e-4, 1.0, 1e-1], loss)


def badly_scaled(loss: Loss) -> Batch:
    return Batch([table(3, scales=np.logspace(-3, 2, 6))], [1e-5], loss)


LOSSES = [Logistic(), HuberHinge(0.5), HuberHinge(0.05)]
CASES = [similar, dissimilar, badly_scaled]


@pytest.mark.cover(1)
@pytest.mark.parametrize("make", CASES)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_newton_reaches_the_tolerance(loss: Loss, make: Callable[[Loss], Batch]) -> None:
    batch = make(loss)
    assert_solved(newton(batch, batch.hessian, batch.start, 1e-9), batch, 1e-9)


@pytest.mark.cover(1)
@pytest.mark.parametrize("distance", [10.0, 1e4])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_newton_from_a_start_far_away(loss: Loss, distance: float) -> None:
    batch = similar(loss)
    start = distance * np.random.default_rng(1).normal(size=batch.start.shape)
    before = start.copy()
    assert_solved(newton(batch, batch.hessian, start, 1e-9), batch, 1e-9)
    np.testing.assert_array_equal(start, before)


def test_newton_on_similar_problems_is_cheap() -> None:
    """What the shared factor is for: few passes and very few Hessians for a whole batch."""
    batch = similar(Logistic())
    factors = 0

    def hessian(k: int, w: Array) -> Array:
        nonlocal factors
        factors += 1
        return batch.hessian(k, w)

    solution = newton(batch, hessian, batch.start, 1e-9)
    assert solution.reached <= 1e-9
    assert batch.calls <= 40
    assert factors <= 15  # one by one, ten models need about sixty


def test_newton_batched_equals_newton_one_by_one() -> None:
    batch = dissimilar(Logistic())
    together = newton(batch, batch.hessian, batch.start, 1e-11)
    for k, rows in enumerate(batch.rows):
        alone = Batch([rows], [batch.l2[k]], batch.loss)
        single = newton(alone, alone.hessian, alone.start, 1e-11)
        assert np.linalg.norm(single.points[:, 0] - together.points[:, k]) <= 2e-11 / batch.l2[k]


@pytest.mark.together
@pytest.mark.parametrize("max_iterations", [0, 1, 2])
def test_newton_reports_the_norm_it_stopped_at_when_cut_short(max_iterations: int) -> None:
    batch = similar(Logistic())
    solution = newton(batch, batch.hessian, batch.start, 1e-12, max_iterations=max_iterations)
    for k in range(len(batch.rows)):
        norm = np.linalg.norm(batch.one(k, solution.points[:, k])[1])
        assert solution.gradient_norms[k] == pytest.approx(norm, rel=1e-12)
    assert solution.reached > 1e-12


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_newton_never_climbs(loss: Loss) -> None:
    """A smaller gradient far up the hill is no progress: with a hinge it is flat there."""
    batch = badly_scaled(loss)
    values = []
    for max_iterations in range(12):
        points = newton(batch, batch.hessian, batch.start, 1e-9, max_iterations=max_iterations).points
        values.append(batch(points)[0][0])
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] < values[0] - 0.1


def test_newton_does_not_claim_success_on_a_lying_objective() -> None:
    """Gradients of the wrong sign: no step lowers the value, so the solver stops and says where it is."""
    batch = similar(Logistic())

    def lying(W: Array) -> tuple[Array, Array]:
        values, gradients = batch(W)
        return values, -gradients

    solution = newton(lying, batch.hessian, batch.start, 1e-9, max_iterations=5)
    true = [np.linalg.norm(batch.one(k, solution.points[:, k])[1]) for k in range(len(batch.rows))]
    np.testing.assert_allclose(solution.gradient_norms, true, rtol=1e-12)
    assert solution.reached > 1e-3


def test_newton_keeps_models_that_start_solved() -> None:
    batch = similar(Logistic())
    solved = newton(batch, batch.hessian, batch.start, 1e-10)
    start = solved.points.copy()
    start[:, 3] += 1.0
    again = newton(batch, batch.hessian, start, 1e-10)
    others = [k for k in range(10) if k != 3]
    np.testing.assert_array_equal(again.points[:, others], solved.points[:, others])
    assert again.reached <= 1e-10


@pytest.mark.cover(1)
@pytest.mark.parametrize("make", CASES)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_lbfgs_reaches_the_tolerance(loss: Loss, make: Callable[[Loss], Batch]) -> None:
    batch = make(loss)
    for k, rows in enumerate(batch.rows[:3]):
        alone = Batch([rows], [batch.l2[k]], loss)
        solution = lbfgs(alone, alone.start[:, 0], 1e-7)
        assert solution.points.shape == alone.start.shape
        assert_solved(solution, alone, 1e-7)


def test_lbfgs_reports_the_norm_it_stopped_at_when_cut_short() -> None:
    alone = badly_scaled(Logistic())
    solution = lbfgs(alone, alone.start[:, 0], 1e-12, max_iterations=3)
    assert solution.reached == pytest.approx(
        np.linalg.norm(alone.one(0, solution.points[:, 0])[1]), rel=1e-12
    )
    assert solution.reached > 1e-12


def test_a_solution_without_models_or_with_nan_never_passes_a_limit() -> None:
    nowhere = Solution(points=np.zeros((2, 1)), gradient_norms=np.array([np.nan]))
    assert not nowhere.reached <= 1e300


def test_objectives_of_the_solvers_are_plain_callables() -> None:
    """A quadratic with a known minimiser, written by hand: nothing of ours inside."""
    A, b = np.diag([1.0, 100.0]), np.array([[1.0], [-3.0]])
    objective: Objective = lambda W: (  # noqa: E731
        0.5 * np.sum(W * (A @ W), axis=0) - np.sum(b * W, axis=0),
        A @ W - b,
    )
    exact = np.array([1.0, -0.03])
    by_newton = newton(objective, lambda k, w: A, np.zeros((2, 1)), 1e-12)
    by_lbfgs = lbfgs(objective, np.zeros(2), 1e-9)
    np.testing.assert_allclose(by_newton.points[:, 0], exact, atol=1e-12)
    np.testing.assert_allclose(by_lbfgs.points[:, 0], exact, atol=1e-9)
