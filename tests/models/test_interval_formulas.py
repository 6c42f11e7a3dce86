"""The formulas behind intervals, each against a simulation or brute force, with a control that must fail."""

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from dperm.errors import Unsupported
from dperm.losses import ClippedSquared, Logistic, SoftClippedSquared
from dperm.mechanisms import DPGD, AdaSSP, Objective
from dperm.mechanisms.inference import Curvature, Information
from dperm.models.intervals.equations import _cheapest, equation_of, step_effects
from dperm.models.intervals.first_order import MOST_BENDING, CurvedRows, Equation, ends
from dperm.problem import Problem

HESSIAN = np.array([[60.0, 8.0, 3.0], [8.0, 30.0, -4.0], [3.0, -4.0, 20.0]])
NOISE = np.sqrt([5.0, 5.0, 2.0])
UNITS = np.eye(3)
REACH = norm.ppf(0.975)


def symmetric(rng, count, noise):
    """Draws of the noise of a Hessian."""
    drawn = rng.standard_normal((count, len(noise), len(noise))) / math.sqrt(2)
    drawn = np.triu(drawn) + np.transpose(np.triu(drawn, 1), (0, 2, 1))
    places = np.arange(len(noise))
    drawn[:, places, places] *= math.sqrt(2)
    return drawn * np.outer(noise, noise)


def equation(hessian=HESSIAN, noise=NOISE, pull=(0.0, 0.0, 0.0), **facts):
    identity = np.eye(len(hessian))
    given = {"scores": 0 * identity, "privacy": 9.0 * identity, **facts}
    return Equation(
        weights=np.zeros(len(hessian)), hessian=hessian, noise=noise, pull=np.asarray(pull), **given
    )


def test_the_noise_of_the_curvature_moves_the_correction_as_far_as_is_said():
    """First order: a thirtieth of the noise, so that the second order is out of sight."""
    rng = np.random.default_rng(0)
    noise, pull = NOISE / math.sqrt(30), np.array([40.0, -20.0, 30.0])
    moved = np.linalg.solve(HESSIAN + symmetric(rng, 40_000, noise), pull)
    found = equation(noise=noise, pull=pull).by_curvature
    np.testing.assert_allclose(np.cov(moved.T), found, rtol=0.05, atol=0.01 * found.max())
    wrong = equation(noise=np.sqrt(2) * noise, pull=pull).by_curvature  # control: twice the deviation
    assert not np.allclose(np.cov(moved.T), wrong, rtol=0.05, atol=0.01 * found.max())


def covers(hessian, noise, count, rng):
    """Shares of intervals that hold what noise of deviation 3 does, plain and widened."""
    g = 3.0 * rng.standard_normal((count, len(hessian)))
    off = np.abs(np.linalg.solve(hessian, g.T).T)
    told = hessian + symmetric(rng, count, noise)
    units, held = np.eye(len(hessian)), np.zeros((2, len(hessian)))
    for k in range(count):
        one = equation(hessian=told[k], noise=noise, pull=np.zeros(len(hessian)))
        spread = REACH * np.sqrt(np.diag(one.by_noise))
        held += np.stack([off[k] <= spread, off[k] <= spread * one.widening(units, REACH)])
    return held / count


def test_widened_intervals_cover_where_plain_ones_do_not():
    rng = np.random.default_rng(1)
    plain, widened = covers(np.array([[10.0]]), np.sqrt([3.0]), 20_000, rng)
    assert plain[0] < 0.938  # control
    assert 0.943 < widened[0] < 0.957
    _, widened = covers(np.diag([60.0, 30.0, 6.0]), np.sqrt([5.0, 5.0, 1.5]), 10_000, rng)
    assert (widened > 0.942).all()
    assert (widened < 0.965).all()


def test_the_widening_of_one_number_is_the_one_by_hand():
    r"""One column: 1 + (z^2/2 - 1) r^2 with r the noise over the curvature."""
    one = equation(
        hessian=np.array([[50.0]]),
        noise=np.sqrt([5.0]),
        pull=[0.0],
        scores=np.zeros((1, 1)),
        privacy=np.eye(1),
    )
    share = (5.0 / 50.0) ** 2
    assert one.widening(np.eye(1), REACH)[0] == pytest.approx(1 + (REACH**2 / 2 - 1) * share)
    assert one.noise_level == pytest.approx(share / 2)


@pytest.mark.together
@pytest.mark.parametrize(("momentum", "tail"), [(0.0, 0.0), (0.5, 0.25), (0.9, 0.5)])
def test_what_a_step_leaves_is_what_descent_shows(momentum, tail):
    """A unit put into the gradient of one step, against the descent without it."""
    curvatures, steps, size = np.array([0.05, 0.3, 0.9]), 40, 0.7
    kept = max(1, round(tail * steps))

    def descended(at):
        weights, velocity, total = np.zeros(3), np.zeros(3), np.zeros(3)
        for t in range(steps):
            gradient = curvatures * weights + (-1.0 if t == at else 0.0)
            velocity = momentum * velocity + gradient
            weights = weights - size * velocity
            total += weights if steps - t <= kept else 0.0
        return total / kept

    found = step_effects(curvatures, steps, size, momentum, tail)
    for at in (0, 1, 17, steps - kept - 1, steps - 1):
        np.testing.assert_allclose(found[at], descended(at), rtol=1e-10, atol=1e-12)


def test_descent_without_noise_on_squares_gives_back_the_truth():
    """Also when it stopped early: the map from truth to weights is inverted."""
    rng = np.random.default_rng(2)
    n, truth = 4000, np.array([0.4, -0.3, 0.5])
    X = rng.uniform(-0.5, 0.5, (n, 2))
    problem = Problem.for_table(n, 2, loss=ClippedSquared(1.0), l2=1e-2, x_norm=1.0)
    Z = np.column_stack([X, np.full(n, problem.intercept)])
    y, hessian = Z @ truth, Z.T @ Z
    used = {"steps": 150, "step_size": 1.5, "momentum": 0.5, "tail_average": 0.25}
    used |= {"l2_used": problem.l2, "clip": None}
    weights, velocity, total = np.zeros(3), np.zeros(3), np.zeros(3)
    for t in range(used["steps"]):
        velocity = 0.5 * velocity + Z.T @ (Z @ weights - y) / n + problem.l2 * weights
        weights = weights - used["step_size"] * velocity
        total += weights if used["steps"] - t <= 38 else 0.0
    released = total / 38
    told = Curvature(hessian=hessian, noise=1e-6, score_square=1e-9, score_noise=1e-12)
    found = equation_of(DPGD(), problem, used, 1.0, released, told)
    assert np.abs(released - truth).max() > 0.02  # control: penalty and early stop are there
    np.testing.assert_allclose(released + found.moved, truth, atol=1e-8)


def test_descent_that_stopped_early_is_refused_for_log_odds():
    problem = Problem.for_table(1000, 2, loss=Logistic(), l2=1e-3, x_norm=1.0)
    used = {"steps": 3, "step_size": 1.0, "momentum": 0.5, "tail_average": 0.0}
    used |= {"l2_used": 1e-3, "clip": None}
    told = Curvature(hessian=np.diag([40.0, 40.0, 10.0]), noise=1.0)
    with pytest.raises(Unsupported, match="stopped before"):
        equation_of(DPGD(), problem, used, 1.0, np.ones(3), told)
    with pytest.raises(Unsupported, match="split"):
        equation_of(DPGD(split=0.1), problem, used, 1.0, np.ones(3), told)
    many = {**used, "steps": 2000}
    assert equation_of(DPGD(), problem, many, 1.0, np.ones(3), told).privacy.shape == (3, 3)
    with pytest.raises(Unsupported, match="bends on the way"):
        equation_of(DPGD(), problem, many, 100.0, np.ones(3), told)


def test_a_perturbed_objective_is_corrected_for_its_penalty():
    """Without noise on squares the equation gives back least squares."""
    rng = np.random.default_rng(3)
    n = 2000
    X = rng.uniform(-0.5, 0.5, (n, 2))
    problem = Problem.for_table(n, 2, loss=ClippedSquared(1.0), l2=0.01, x_norm=1.0)
    Z = np.column_stack([X, np.full(n, problem.intercept)])
    y = Z @ [0.4, -0.3, 0.5] + 0.1 * rng.standard_normal(n)
    hessian, strength = Z.T @ Z, n * problem.l2
    weights = np.linalg.solve(hessian + strength * np.eye(3), Z.T @ y)
    told = Curvature(hessian=hessian, noise=1e-6, score_square=0.01 * n, score_noise=1e-6)
    used = {"objective_noise": 2.0, "output_noise": 0.0, "l2_used": problem.l2}
    found = equation_of(Objective(), problem, used, 2.0, weights, told)
    best = np.linalg.solve(hessian, Z.T @ y)
    np.testing.assert_allclose(weights + found.moved, best, rtol=1e-9)
    assert np.abs(weights - best).max() > 0.01  # control: there was something to correct
    np.testing.assert_allclose(found.privacy, 4.0 * np.eye(3))
    np.testing.assert_allclose(found.scores, 0.01 * hessian, rtol=1e-9)


def test_moments_are_solved_without_the_ridge_of_the_weights():
    hessian, cross = np.diag([50.0, 40.0]), np.array([20.0, -10.0])
    problem = Problem.for_table(100, 1, loss=ClippedSquared(1.0), l2=0.0, x_norm=1.0)
    told = Curvature(
        hessian=hessian, noise=1.0, score_square=4.0, score_noise=0.5, cross=cross, cross_noise=3.0
    )
    found = equation_of(AdaSSP(), problem, {}, 1.0, np.array([9.0, 9.0]), told)
    np.testing.assert_allclose(found.weights + found.moved, [0.4, -0.25])
    np.testing.assert_allclose(found.scores, 0.04 * hessian)
    np.testing.assert_allclose(found.privacy, 9.0 * np.eye(2))
    assert (found.widening(np.eye(2), REACH) == 1).all()


@pytest.mark.parametrize(
    "loss",
    [
        ClippedSquared(0.7),
        SoftClippedSquared(0.4, 0.5),
        SoftClippedSquared(0.4, 0.2),
        SoftClippedSquared(1, 0.9),
    ],
)
def test_lost_curvature_shows_in_squared_slopes(loss):
    """As much as the constant says, and it is reached."""
    problem = Problem.for_table(10, 1, loss=loss, l2=0.0, x_norm=1.0)
    margin = np.linspace(-5, 5, 200_001)
    lost = 1 - Information(loss).curvature(margin, np.zeros_like(margin))
    slopes = loss.slope(margin, np.zeros_like(margin))
    share = lost * _cheapest(problem) ** 2 - slopes**2
    assert share.max() <= 1e-9
    assert (
        lost * (1.05 * _cheapest(problem)) ** 2 - slopes**2
    ).max() > 0  # control: no larger constant would do


def gaussian_rows(rng, n=200_000):
    """Rows with an intercept column, and weights on them."""
    Z = np.column_stack([0.4 * rng.standard_normal(n) + 0.1, np.full(n, 0.3)])
    return Z, np.array([1.5, 1.0])


def test_bending_finds_where_the_gradient_has_come_to():
    """Of rows that are Gaussian once they are weighed by their curvature: by brute force over those rows."""
    rng = np.random.default_rng(4)
    Z, weights = gaussian_rows(rng)
    chance = expit(Z @ weights)
    rows = CurvedRows(mean=Z.mean(axis=0), covariance=np.cov(Z.T))
    for move in ([1.5, 0.5], [-2.0, 1.0], [0.01, 0.0], [-0.5, -6.0]):
        step = Z @ np.array(move)
        t = rows.factors(weights, np.array(move)[:, None])[0]
        grown = np.expm1(t * step)
        reached = np.mean(step * grown / (1 + chance * grown))
        assert reached == pytest.approx(np.mean(step**2), rel=0.02)
        assert (
            np.mean(step * np.expm1(step) / (1 + chance * np.expm1(step)))
            != pytest.approx(np.mean(step**2), rel=0.02)
            or abs(t - 1) < 0.03
        )  # control: without bending it has not come there


def test_moments_of_curved_rows_are_those_that_made_the_hessian():
    rng = np.random.default_rng(5)
    Z, weights = gaussian_rows(rng)
    chance = expit(Z @ weights)
    curvature = chance * (1 - chance)
    hessian = (Z * curvature[:, None]).T @ Z
    rows = CurvedRows.of(hessian, 0.3, 10.0, len(Z))
    mean = curvature @ Z / curvature.sum()
    np.testing.assert_allclose(rows.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(rows.covariance, hessian / curvature.sum() - np.outer(mean, mean), atol=1e-9)
    without = CurvedRows.of(hessian[:1, :1], 0.0, 10.0, len(Z))
    assert without.mean == [0.0]
    assert without.covariance[0, 0] == pytest.approx(100.0)  # as long as rows can be


def test_a_move_beyond_what_gradients_reach_is_open():
    rows = CurvedRows(mean=np.array([0.0, 0.3]), covariance=np.diag([0.3, 0.0]))
    small, large = rows.factors(np.array([1.0, 0.5]), np.array([[0.05, 30.0], [0.0, 0.0]]))
    assert small == pytest.approx(1, abs=0.05)
    assert large == np.inf
    assert MOST_BENDING > 1


def test_ends_of_a_straight_loss_are_estimate_and_reach():
    one = equation(noise=1e-6 * NOISE, pull=[10.0, 0.0, -5.0], scores=HESSIAN)
    found = ends(one, np.array([[1.0, 0.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 0.0]]), 0.95, None)
    inverse = np.linalg.inv(HESSIAN)
    spread = inverse @ (HESSIAN + 9 * np.eye(3)) @ inverse
    assert found.estimate[0] == pytest.approx((inverse @ [10.0, 0.0, -5.0])[0])
    contrast = np.array([1.0, -1.0, 0.0])
    assert found.error[1] == pytest.approx(math.sqrt(contrast @ spread @ contrast), rel=1e-6)
    assert found.high[1] - found.low[1] == pytest.approx(2 * REACH * found.error[1], rel=1e-6)
    assert found.privacy[0] == pytest.approx(1 - inverse[0, 0] / spread[0, 0], rel=1e-6)
    assert found.low[2] == found.high[2] == found.error[2] == 0


def test_a_curvature_that_is_noise_says_nothing():
    assert equation(hessian=np.diag([10.0, 5.0, -1.0])).noise_level == np.inf
    assert equation(hessian=np.diag([10.0, 5.0, -1.0])).too_noisy
    assert equation(hessian=np.diag([6.0, 6.0, 2.0])).too_noisy
    assert not equation(hessian=10 * HESSIAN).too_noisy


def test_public_facts_may_say_that_nothing_can_be_told():
    """However large the released curvature is: no table of so few rows has it."""
    problem = Problem.for_table(500, 1, loss=Logistic(), l2=0.01, x_norm=1.0)
    used = {"objective_noise": 90.0, "output_noise": 0.0, "l2_used": 0.01}
    for noise, told in ((45.0, False), (5.0, True)):
        lucky = Curvature(hessian=np.diag([1e6, 1e6]), noise=noise, constant=2.0)
        found = equation_of(Objective(), problem, used, 1.0, np.ones(2), lucky)
        assert found.too_noisy is not told
        assert found.within(np.eye(2)).too_noisy is not told
