import math

import numpy as np
import pytest
from fifty_digits import gaussian_delta, mixture_delta
from mpmath import exp, log, mpf

from dperm.errors import InvalidInput
from dperm.privacy import (
    Budget,
    best_epsilon,
    budget_to_rho,
    calibrate_rdp,
    epsilon_cks,
    epsilon_mironov,
    gaussian_mu,
    mixture_rdp,
    rho_to_epsilon,
)

CORNERS = [(e, d) for e in (1e-3, 50.0) for d in (1e-15, 0.1)]


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("alpha", [1.001, 2.0, 17.5, 1e4])
@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_mixture_divergence_against_fifty_digits(alpha, scale):
    probability, sensitivity = [0.2, 0.0, 0.8], [1.0, 9.0, 0.25]
    total = sum(
        mpf(q) * exp(mpf(alpha) * (mpf(alpha) - 1) / 2 * (mpf(s) / mpf(scale)) ** 2)
        for q, s in zip(probability, sensitivity, strict=True)
    )
    exact = log(total) / (mpf(alpha) - 1)
    assert mixture_rdp(probability, sensitivity, scale, alpha) == pytest.approx(float(exact), rel=1e-9)


def test_one_branch_is_the_gaussian():
    assert mixture_rdp([1.0], [3.0], 2.0, 5.0) == pytest.approx(5 * (3.0 / 2.0) ** 2 / 2)


def test_conversions_are_the_published_formulas():
    assert epsilon_mironov(0.5, 11.0, 1e-8) == pytest.approx(0.5 + math.log(1e8) / 10)
    assert epsilon_cks(0.5, 11.0, 1e-8) == pytest.approx(
        0.5 + math.log(10 / 11) - (math.log(1e-8) + math.log(11)) / 10
    )
    assert epsilon_cks(0.0, 2.0, 0.9) == 0


def test_best_order_agrees_with_a_fine_grid_and_with_dp_accounting():
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    orders = 1 + np.exp(np.linspace(-3, 8, 4000))
    for conversion, convert in (("mironov", epsilon_mironov), ("cks", epsilon_cks)):
        grid = min(convert(alpha / 50, alpha, 1e-8) for alpha in orders)
        best = best_epsilon(lambda alpha: alpha / 50, 1e-8, conversion)
        assert grid * (1 - 1e-5) < best <= grid * (1 + 1e-12)
    accountant = RdpAccountant(orders=list(orders)).compose(GaussianDpEvent(5.0))
    assert best_epsilon(lambda alpha: alpha / 50, 1e-8, "cks") == pytest.approx(
        accountant.get_epsilon(1e-8), rel=1e-5
    )


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("conversion", ["mironov", "cks"])
@pytest.mark.parametrize(("epsilon", "delta"), [*CORNERS, (1.0, 1e-8)])
def test_calibration_is_on_the_private_side(epsilon, delta, conversion):
    probability, sensitivity, budget = [0.5, 0.5], [1.0, 0.5], Budget(epsilon, delta)
    scale = calibrate_rdp(probability, sensitivity, budget, conversion)

    def reached(s):
        return best_epsilon(lambda a: mixture_rdp(probability, sensitivity, s, a), delta, conversion)

    assert reached(scale) <= epsilon < reached(0.999 * scale)
    assert mixture_delta(epsilon, probability, [s / scale for s in sensitivity]) <= delta


@pytest.mark.together
@pytest.mark.parametrize(
    ("epsilon", "mironov", "cks"), [(0.05, "1.364", "1.068"), (0.1, "1.323", "1.065"), (1, "1.206", "1.057")]
)
def test_noise_relative_to_the_exact_gaussian(epsilon, mironov, cks):
    budget = Budget(epsilon, 1e-8)
    exact = 1 / gaussian_mu(budget)
    assert f"{calibrate_rdp([1.0], [1.0], budget, 'mironov') / exact:.3f}" == mironov
    assert f"{calibrate_rdp([1.0], [1.0], budget, 'cks') / exact:.3f}" == cks


@pytest.mark.parametrize("conversion", ["mironov", "cks"])
def test_a_gaussian_release_beside_the_noise_is_paid_for(conversion):
    """The squared parameters of Gaussian releases add up."""
    budget = Budget(0.5, 1e-8)
    whole = calibrate_rdp([1.0], [1.0], budget, conversion)
    spent = 0.6 / whole
    left = calibrate_rdp([1.0], [1.0], budget, conversion, spent)
    assert math.hypot(1 / left, spent) == pytest.approx(1 / whole, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "cks", "gaussian"),
    [
        (0.05, "1.63", "1.86"),
        (0.1, "1.54", "1.75"),
        (0.2, "1.46", "1.65"),
        (0.4, "1.39", "1.56"),
        (0.8, "1.32", "1.48"),
        (1.6, "1.26", "1.40"),
    ],
)
def test_usable_rho_relative_to_bun_and_steinke(epsilon, cks, gaussian):
    budget = Budget(epsilon, 1e-8)
    old = budget_to_rho(budget, "bun-steinke")
    assert f"{budget_to_rho(budget, 'cks') / old:.2f}" == cks
    assert f"{gaussian_mu(budget) ** 2 / 2 / old:.2f}" == gaussian


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("conversion", ["bun-steinke", "cks"])
@pytest.mark.parametrize(("epsilon", "delta"), [*CORNERS, (1.0, 1e-8)])
def test_rho_is_on_the_private_side(epsilon, delta, conversion):
    rho = budget_to_rho(Budget(epsilon, delta), conversion)
    assert rho_to_epsilon(rho, delta, conversion) <= epsilon < rho_to_epsilon(1.001 * rho, delta, conversion)
    assert gaussian_delta(epsilon, math.sqrt(2 * rho)) <= delta


def test_bun_steinke_is_its_formula():
    assert rho_to_epsilon(0.02, 1e-8, "bun-steinke") == pytest.approx(
        0.02 + 2 * math.sqrt(0.02 * math.log(1e8))
    )
    epsilon, log_term = 0.7, math.log(1e8)
    closed = (math.sqrt(log_term + epsilon) - math.sqrt(log_term)) ** 2
    assert budget_to_rho(Budget(epsilon, 1e-8), "bun-steinke") == pytest.approx(closed, rel=1e-9)


def test_laws_of_rho():
    for conversion in ("bun-steinke", "cks"):
        costs = [rho_to_epsilon(rho, 1e-6, conversion) for rho in (1e-4, 1e-2, 1.0, 10.0)]
        assert costs == sorted(costs)


def test_refusals():
    with pytest.raises(InvalidInput, match="conversion"):
        best_epsilon(lambda alpha: alpha, 1e-8, "magic")
    with pytest.raises(InvalidInput, match="conversion"):
        rho_to_epsilon(1.0, 1e-8, "magic")
    with pytest.raises(InvalidInput, match="delta"):
        best_epsilon(lambda alpha: alpha, 0.0, "cks")
    with pytest.raises(InvalidInput, match="rho"):
        rho_to_epsilon(0.0, 1e-8, "cks")
    with pytest.raises(InvalidInput, match="sensitivity"):
        calibrate_rdp([1.0], [0.0], Budget(1, 1e-8), "cks")
    with pytest.raises(InvalidInput, match="delta > 0"):
        calibrate_rdp([1.0], [1.0], Budget(1, 0), "cks")
