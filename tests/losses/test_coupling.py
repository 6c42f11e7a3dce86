"""Couplings of slope and curvature: true and attained. Links: exact, and stable far out."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logit

from dperm.errors import InvalidInput
from dperm.losses import (
    HardClippedLogistic,
    HuberHinge,
    Logistic,
    MarginLogistic,
    SoftClippedLogistic,
    SoftClippedSquared,
    Softmax,
    registered_losses,
)
from dperm.losses.base import Weighted

SHARES = (0.05, 0.335, 0.5, 0.7, 0.95)
COUPLED = [
    Logistic(),
    MarginLogistic(1.0),
    MarginLogistic(4.0),
    *(SoftClippedLogistic(clip, knee) for clip, knee in product(SHARES, SHARES)),
    *(SoftClippedSquared(bound, knee) for bound, knee in product((0.1, 3.0), SHARES)),
]
LINKED = [Logistic(), MarginLogistic(1.0), MarginLogistic(3.0)]
LINKED += [SoftClippedLogistic(clip, knee) for clip, knee in product((0.1, 0.335, 0.9), (0.5, 0.8))]


def ratios(loss):
    """Curvature over what a coupling of one would allow, at margins close and far, the knee among them."""
    knee = [0.0]
    if isinstance(loss, SoftClippedLogistic):
        knee = [np.log(1 / (loss.clip * loss.knee) - 1)]
    elif isinstance(loss, SoftClippedSquared):
        knee = [loss.knee * loss.residual_bound, -loss.knee * loss.residual_bound]
    m = np.concatenate([np.linspace(-12, 12, 20_001), *(at + np.linspace(-1e-3, 1e-3, 21) for at in knee)])
    y = np.zeros_like(m) if loss.labels == "real" else np.ones_like(m)
    share = np.abs(loss.slope(m, y)) / loss.lipschitz
    most = share * (1 - share) if loss.sign_definite else 1 - share**2
    seen = most > 1e-6
    return loss.curvature(m, y)[seen] / most[seen]


@pytest.mark.together
@pytest.mark.parametrize("loss", COUPLED, ids=repr)
def test_couplings_hold_and_no_smaller_one_does(loss):
    found = ratios(loss).max()
    assert 0.9999 * loss.coupling < found <= loss.coupling * (1 + 1e-9)


NEAR_ENDS = (*SHARES, 1e-6, 1 / 3, 0.999, 1 - 1e-10, math.nextafter(1.0, 0.0))


def test_couplings_are_the_exact_ones_rounded_up():
    """To the next float, also where 1 - q or 1 - q c is a small difference. Rounded to nearest, half are too small."""
    nearest = 0
    for clip, knee in product(NEAR_ENDS, NEAR_ENDS):
        c, q = Fraction(clip), Fraction(knee)
        for loss, exact in (
            (SoftClippedLogistic(clip, knee), c * (1 - q * c) / (1 - q)),
            (SoftClippedSquared(3.0, knee), 1 / (1 - q * q)),
            (Weighted(SoftClippedSquared(3.0, knee), 0.3), Fraction(0.3) / (1 - q * q)),
        ):
            assert exact <= Fraction(loss.coupling)
            below = math.nextafter(loss.coupling, 0.0)
            if isinstance(loss, Weighted):  # rounded up twice
                below = math.nextafter(math.nextafter(below, 0.0), 0.0)
            assert Fraction(below) < exact
            nearest += Fraction(float(exact)) < exact
    assert nearest > 100


def test_losses_whose_curvature_jumps_have_none():
    uncoupled = {kind.name for kind in registered_losses() if kind.examples()[0].coupling is None}
    assert uncoupled == {"hard-clipped-logistic", "huber-hinge", "squared", "softmax", "linear"}
    for loss in (HardClippedLogistic(0.35), HuberHinge(0.5)):
        assert ratios(loss).max() > 1e3  # the curvature where the slope is largest


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("loss", LINKED, ids=repr)
@pytest.mark.parametrize("chance", [0.001, 0.2, 0.5, 0.9, 0.9999])
def test_the_margin_of_least_expected_loss_stands_for_the_chance(loss, chance):
    def slope(margin):
        m = np.array([margin])
        one = np.ones(1)
        return float((chance * loss.slope(m, one) + (1 - chance) * loss.slope(m, -one))[0])

    best = brentq(slope, -60, 60, xtol=1e-13)
    assert loss.log_odds(np.array([best]))[0] == pytest.approx(logit(chance), abs=1e-6)


@pytest.mark.together
@pytest.mark.parametrize("loss", [*LINKED, HardClippedLogistic(0.35), HardClippedLogistic(0.8)], ids=repr)
def test_log_odds_are_odd_and_grow_and_are_finite_far_out(loss):
    m = np.concatenate([-np.geomspace(1000, 1e-3, 400), [0.0], np.geomspace(1e-3, 1000, 400)])
    for dtype in (np.float32, np.float64):
        odds = loss.log_odds(m.astype(dtype))
        assert odds.dtype == dtype
        assert np.isfinite(odds).all()
        assert (np.diff(odds) >= 0).all()
        np.testing.assert_allclose(odds, -odds[::-1], atol=1e-6)
    assert odds[-1] > 900


def test_a_hard_clip_says_nothing_of_margins_at_which_both_slopes_are_cut():
    loss = HardClippedLogistic(0.35)
    knot = np.log(1 / 0.35 - 1)
    inside, outside = np.linspace(-0.99, 0.99, 21) * knot, np.array([1.2, 3.0]) * knot
    assert (loss.log_odds(inside) == 0).all()
    np.testing.assert_allclose(loss.log_odds(outside), np.log(0.35 * (1 + np.exp(outside))), rtol=1e-12)


def test_losses_without_a_link_say_so():
    margin = np.zeros(2)
    assert Softmax(3).log_odds(margin) is margin
    assert not HuberHinge().has_log_odds
    with pytest.raises(InvalidInput, match="huber-hinge loss do not stand for probabilities"):
        HuberHinge().log_odds(margin)


@pytest.mark.together
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (SoftClippedLogistic, {"clip": 1.0}),
        (SoftClippedLogistic, {"knee": 0.0}),
        (SoftClippedLogistic, {"clip": float("nan")}),
        (HardClippedLogistic, {"clip": 0.0}),
        (MarginLogistic, {"shift": -1.0}),
        (MarginLogistic, {"shift": float("inf")}),
        (SoftClippedSquared, {"residual_bound": 0.0}),
        (SoftClippedSquared, {"knee": 1.0}),
    ],
)
def test_bad_settings_are_refused(kind, settings):
    with pytest.raises(InvalidInput, match=next(iter(settings))):
        kind(**settings)
