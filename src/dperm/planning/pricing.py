"""From sensitivities to a noise scale: the tight price and the papers' own."""

import math
from collections.abc import Callable, Sequence

from dperm.errors import NotCertified
from dperm.privacy import (
    Budget,
    GaussianNoise,
    GaussianProfile,
    calibrate,
    gaussian_mu,
    grid_exponent,
    padded,
)
from dperm.problem import Problem
from dperm.typing import Floats


def gaussian_noise(sensitivity: float, dimension: int, mu: float) -> GaussianNoise:
    """Noise with which a vector that moves by ``sensitivity`` costs at most ``mu``, the grid included."""
    with_grid = padded(sensitivity, dimension, grid_exponent(sensitivity, dimension))
    return GaussianNoise(
        sensitivity=sensitivity, scale=math.nextafter(with_grid / mu, math.inf), dimension=dimension
    )


def gaussian_price(mu: float, mu_spent: float) -> GaussianProfile:
    return GaussianProfile.gaussian(mu).compose_gaussian(mu_spent)


def price_of(noises: Sequence[GaussianNoise], mu_spent: float) -> GaussianProfile:
    """What a release with each of these noises costs, beside the ``mu_spent`` before them."""
    parts = [noise.padded(noise.sensitivity) / noise.scale for noise in noises]
    return gaussian_price(math.hypot(*parts), mu_spent)


def shortfall(reached: float, budget: Budget, what: str) -> str:
    """Why a paper's own noise is not certified, given its exact price."""
    return (
        f"{what} costs epsilon = {reached:.4g} at delta = {budget.delta:g} when computed exactly, above the "
        f"{budget.epsilon:g} asked for; use accounting='tight'."
    )


TIGHT = "exact Gaussian profile"
TIGHT_MIXTURE = "exact Gaussian profile, averaged over the hidden batch of the differing row"


def price_branches(
    problem: Problem,
    budget: Budget,
    probability: Floats,
    sensitivities: Floats,
    mu_spent: float = 0.0,
    paper_scale: Callable[[], float] | None = None,
) -> tuple[GaussianNoise, GaussianProfile]:
    r"""Noise for weights that move by ``sensitivities[j]`` in hidden branch j.

    Guarantee
    ---------
    Weights plus the noise returned, together with a Gaussian release of parameter ``mu_spent``, meet the budget:
    :math:`\delta(\varepsilon) \le \sum_j q_j\,\delta_{\mu_j}(\varepsilon)` with :math:`\mu_j^2 =
    (\Delta_j/\sigma)^2 + \mu_0^2` and the sensitivities padded for the noise grid
    (docs/proofs/accounting.md, docs/proofs/noise.md). A scale from a paper's formula is used only if it
    passes the same check.
    """
    budget.check_gaussian()
    largest = float(sensitivities.max())
    grid = grid_exponent(largest, problem.dimension)
    with_grid = padded(sensitivities, problem.dimension, grid)

    def profile(scale: float) -> GaussianProfile:
        return GaussianProfile.mixture(probability, with_grid / scale).compose_gaussian(mu_spent)

    if paper_scale is None:
        scale = calibrate(profile, budget, start=float(with_grid.max()) / gaussian_mu(budget))
    else:
        scale = paper_scale()
        if profile(scale).delta(budget.epsilon) > budget.delta:
            raise NotCertified(
                f"the paper's own noise scale {scale:.6g} does not reach epsilon = {budget.epsilon:g}, delta = "
                f"{budget.delta:g} when checked exactly; use accounting='tight'."
            )
    noise = GaussianNoise(sensitivity=largest, scale=scale, dimension=problem.dimension)
    return noise, profile(scale)


def mu_left(budget: Budget, mu_spent: float) -> float:
    """The Gaussian parameter that the budget leaves beside a release of parameter ``mu_spent``."""
    whole = gaussian_mu(budget)
    if not mu_spent < whole:
        raise NotCertified("the releases before training use up the whole budget; give them a smaller share.")
    return math.sqrt((whole - mu_spent) * (whole + mu_spent)) * (1 - 1e-12)
