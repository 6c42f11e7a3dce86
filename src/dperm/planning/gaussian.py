"""Gaussian releases that cost a given mu, and what several of them cost together."""

import math
from collections.abc import Sequence

from dperm.privacy import Budget, GaussianNoise, GaussianProfile, grid_exponent, padded


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
