import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from dperm.errors import InvalidInput, Unsupported
from dperm.losses import HuberHinge, Logistic
from dperm.planning.sensitivity import (
    gradient_gap,
    gradient_spread,
    joint_statistic_sensitivity,
    label_statistic_gap,
    remainder_gap,
    remainder_spread,
)
from dperm.problem import Problem
from dperm.unit import Neighbours

NORMS = (0, 0.5, 1, 2, 3, 5, 8, 10, 20)
G_PRINTED = (1.000, 1.029, 1.099, 1.270, 1.419, 1.617, 1.767, 1.821, 1.927)
H_PRINTED = (0, 0.124, 0.240, 0.434, 0.573, 0.736, 0.847, 0.885, 0.955)


def gradients(rows, weights):
    """Logistic gradients of rows y x, one per line."""
    return -expit(-rows @ weights)[:, None] * rows


def remainders(rows, weights):
    return np.tanh(rows @ weights / 2)[:, None] * rows / 2


@pytest.mark.together
@pytest.mark.parametrize(("s", "g", "h"), list(zip(NORMS, G_PRINTED, H_PRINTED, strict=True)))
def test_printed_values(s, g, h):
    assert gradient_spread(s) == pytest.approx(g, abs=6e-4)
    assert remainder_spread(s) == pytest.approx(h, abs=6e-4)


@pytest.mark.together
@pytest.mark.parametrize("s", [1e-300, 1e-9, 1e-3, 0.3, 1, 7, 50, 1000, 9999, 1e6])
def test_upper_bounds_in_forty_digits_and_tight(s):
    with mpmath.workdps(40):
        exact_s = mpmath.mpf(s)
        for bound, value in (
            (gradient_spread, lambda a: 2 * mpmath.sqrt(1 - a * a) / (1 + mpmath.exp(-exact_s * a))),
            (remainder_spread, lambda a: mpmath.sqrt(1 - a * a) * mpmath.tanh(exact_s * a / 2)),
        ):
            low, high = mpmath.mpf(0), mpmath.mpf(1)
            for _ in range(300):
                left, right = low + 0.45 * (high - low), low + 0.55 * (high - low)
                low, high = (left, high) if value(left) < value(right) else (low, right)
            exact = value((low + high) / 2)
            assert exact <= bound(s) <= exact * (1 + (1e-13 if s <= 1e4 else 1e-8))


@settings(max_examples=200, deadline=None)
@given(s=st.floats(0, 2e4), step=st.floats(1e-3, 1))
def test_monotone_and_within_the_limits(s, step):
    assert 1 <= gradient_spread(s) <= gradient_spread(s + step) <= 2
    assert 0 <= remainder_spread(s) <= remainder_spread(s + step) <= 1


def spread(points):
    return math.sqrt(max(((points[i] - points) ** 2).sum(axis=1).max() for i in range(len(points))))


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("s", [0.01, 0.5, 1.0, 3.0, 10.0, 40.0])
@pytest.mark.parametrize(
    ("map_rows", "bound"), [(gradients, gradient_spread), (remainders, remainder_spread)]
)
def test_no_pair_of_rows_lies_further_apart(s, map_rows, bound):
    """All pairs on a fine circle, which holds the worst one, and many at random in five dimensions."""
    angles = np.linspace(0, 2 * math.pi, 2001)
    circle = np.c_[np.cos(angles), np.sin(angles)]
    widest = spread(map_rows(circle, np.array([s, 0.0])))
    assert 0.9999 * bound(s) < widest <= bound(s)
    rng = np.random.default_rng(int(100 * s))
    rows = rng.normal(size=(800, 5))
    rows *= (rng.random(800) ** 0.2 / np.linalg.norm(rows, axis=1))[:, None]
    weights = rng.normal(size=5)
    assert spread(map_rows(rows, s * weights / np.linalg.norm(weights))) <= bound(s)


def test_the_inequalities_of_the_proof():
    """The two that docs/proofs/dp-gd.md rests on, at random points; outside their conditions they fail."""
    rng = np.random.default_rng(0)
    size = 200_000
    s = np.exp(rng.uniform(math.log(0.05), math.log(40), size))
    m = rng.uniform(0, math.pi / 2, size)
    d = rng.uniform(0, 1, size) * m
    u, v = np.sin(m) ** 2, np.sin(d) ** 2
    chi, c = np.cosh(s * np.cos(m) * np.cos(d)), np.cosh(s * np.sin(m) * np.sin(d))
    growth = np.exp(s * np.cos(m) * np.cos(d))

    def first(growth, u, v):
        """Left minus right side, in units of the right one (or a small number where that vanishes)."""
        right = (c * c - 1) * (1 + chi)
        return (2 * growth * ((c - 1) * u + (1 - u) * v * (chi + c)) * (chi + c) - right) / (right + 1e-3)

    def second(u, at_middle):
        right = (c * c - 1) * (at_middle + 1)
        return (2 * u * (c * at_middle - chi) * (chi + c) - right) / (right + 1e-3)

    assert first(growth, u, v).min() >= -1e-9
    assert second(u, np.cosh(s * np.cos(m))).min() >= -1e-9
    assert first(1 / growth, u, v).min() < -0.1
    assert second(v, np.cosh(s * np.cos(d))).min() < -0.1


def problem(neighbours, loss=None, **changes):
    arguments = {"loss": loss or Logistic(), "l2": 0.01, "x_norm": 2.0, "n_rows": 100, "n_features": 3}
    return Problem(**(arguments | {"neighbours": neighbours} | changes))


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_gaps_bound_every_pair_and_are_reached(neighbours):
    """Rows of norm up to 2, weights of norm 1.5; under add/remove the other row is empty."""
    task = problem(neighbours)
    rng = np.random.default_rng(2)
    weights = np.array([1.5, 0.0])
    angles = np.linspace(0, 2 * math.pi, 1001)
    rows = 2.0 * np.c_[np.cos(angles), np.sin(angles)]
    inner = rows * rng.random((1001, 1))
    for map_rows, gap in ((gradients, gradient_gap(task, 1.5)), (remainders, remainder_gap(task, 1.5))):
        moved = [map_rows(part, weights) for part in (rows, inner)]
        if neighbours is Neighbours.REPLACE_ONE:
            widest = spread(np.concatenate(moved))
        else:
            widest = max(np.linalg.norm(part, axis=1).max() for part in moved)
        assert 0.999 * gap < widest <= gap
    halves = rows / 2
    widest = spread(halves) if neighbours is Neighbours.REPLACE_ONE else np.linalg.norm(halves, axis=1).max()
    assert label_statistic_gap(task) == pytest.approx(widest)


def test_gaps_never_exceed_the_general_one_and_reach_it_far_out():
    for neighbours in Neighbours:
        task = problem(neighbours, intercept=0.6)
        gaps = [gradient_gap(task, norm) for norm in (0, 0.1, 1, 10, 1e3, 1e9, math.inf)]
        assert gaps == sorted(gaps)
        assert gaps[0] == pytest.approx(task.gradient_gap / 2, rel=1e-9)
        assert gaps[-1] == task.gradient_gap
        # the whole gradient moves at most as much as its two parts together
        assert gradient_gap(task, 1.0) <= (label_statistic_gap(task) + remainder_gap(task, 1.0)) * (1 + 1e-12)


def test_other_losses_have_the_general_gap_and_no_remainder():
    task = problem(Neighbours.REPLACE_ONE, loss=HuberHinge())
    assert gradient_gap(task, 0.1) == task.gradient_gap
    for function in (lambda: remainder_gap(task, 1.0), lambda: label_statistic_gap(task)):
        with pytest.raises(Unsupported, match="logistic"):
            function()


def test_a_smaller_gap_would_be_exceeded():
    """The control: the gap at half the norm is too small, and two rows show it."""
    task = problem(Neighbours.REPLACE_ONE)
    angles = np.linspace(0, 2 * math.pi, 1001)
    rows = 2.0 * np.c_[np.cos(angles), np.sin(angles)]
    assert spread(gradients(rows, np.array([1.5, 0.0]))) > gradient_gap(task, 0.75)
    assert spread(remainders(rows, np.array([1.5, 0.0]))) > remainder_gap(task, 0.75)


@pytest.mark.together
@pytest.mark.parametrize("c", [0.0, 0.2, math.sqrt(1 / 8), 0.4, 0.5, 0.7, 2.0])
def test_joint_statistic(c):
    """Search over pairs in the unit disc; the worst pair is on the circle."""
    angles = np.linspace(0, math.pi, 20_001)
    first = np.array([1.0, 0.0])
    others = np.c_[np.cos(angles), np.sin(angles)]
    others = np.concatenate([others, others * np.random.default_rng(1).random((20_001, 1))])

    def statistic(u):
        return np.concatenate(
            [u / 2, c * (u[..., :, None] * u[..., None, :]).reshape(*u.shape[:-1], 4)], axis=-1
        )

    replaced = joint_statistic_sensitivity(c)
    widest = np.linalg.norm(statistic(others) - statistic(first), axis=1).max()
    assert replaced * (1 - 1e-6) < widest <= replaced * (1 + 1e-12)
    added = joint_statistic_sensitivity(c, "add-remove")
    assert np.linalg.norm(statistic(others), axis=1).max() == pytest.approx(added, rel=1e-9)
    assert joint_statistic_sensitivity(c + 0.01) >= replaced


def test_the_second_moment_is_free_up_to_a_weight():
    assert joint_statistic_sensitivity(0.3535) == 1
    assert joint_statistic_sensitivity(0.36) > 1


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_refusals(bad):
    for function in (gradient_spread, remainder_spread, joint_statistic_sensitivity):
        with pytest.raises(InvalidInput):
            function(bad)
    with pytest.raises(InvalidInput, match="norm"):
        gradient_gap(problem(Neighbours.REPLACE_ONE), bad)
