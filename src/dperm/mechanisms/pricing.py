"""From sensitivities to a noise scale: the tight price and the papers' own."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dperm.errors import NotCertified
from dperm.privacy import Budget, GaussianNoise, GaussianProfile, calibrate, gaussian_mu
from dperm.privacy.noise import grid_exponent, padded
from dperm.problem import Problem

Vector = NDArray[np.float64]

TIGHT = "exact Gaussian profile"
TIGHT_MIXTURE = "exact Gaussian profile, averaged over the hidden batch of the differing row"


def price_branches(
    problem: Problem,
    budget: Budget,
    probability: Vector,
    sensitivities: Vector,
    paper_scale: Callable[[], float] | None = None,
) -> tuple[GaussianNoise, GaussianProfile]:
    r"""Noise for weights that move by ``sensitivities[j]`` in hidden branch j.

    Guarantee
    ---------
    Weights plus the noise returned meet the budget: :math:`\delta(\varepsilon) \le \sum_j q_j\,
    \delta_{\Delta_j/\sigma}(\varepsilon)` with the sensitivities padded for the noise grid
    (docs/proofs/accounting.md, docs/proofs/noise.md). A scale from a paper's formula is used only if it
    passes the same check.
    """
    budget.check_gaussian()
    largest = float(sensitivities.max())
    grid = grid_exponent(largest, problem.dimension)
    with_grid = padded(sensitivities, problem.dimension, grid)

    def profile(scale: float) -> GaussianProfile:
        return GaussianProfile.mixture(probability, with_grid / scale)

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


def price_worst_case(
    problem: Problem, budget: Budget, sensitivity: float, paper_scale: Callable[[], float] | None = None
) -> tuple[GaussianNoise, GaussianProfile]:
    """Noise for weights that move by at most ``sensitivity``, with nothing hidden."""
    return price_branches(problem, budget, np.ones(1), np.array([sensitivity]), paper_scale)
