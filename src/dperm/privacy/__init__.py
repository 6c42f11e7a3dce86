"""Budgets, prices and noise. Knows nothing of losses, data or models."""

from dperm.privacy.budget import Budget
from dperm.privacy.entropy import Entropy, SeededEntropy, SystemEntropy, entropy_from
from dperm.privacy.gate import Gate, ReleaseRecord
from dperm.privacy.noise import GaussianNoise, add_noise, grid_exponent, padded
from dperm.privacy.profile import GaussianProfile, calibrate, gaussian_mu
from dperm.privacy.renyi import (
    best_epsilon,
    budget_to_rho,
    calibrate_rdp,
    epsilon_cks,
    epsilon_mironov,
    mixture_rdp,
    rho_to_epsilon,
)
from dperm.privacy.subsampled import poisson_epsilon, poisson_noise_multiplier
from dperm.privacy.textbook import classic_gaussian_scale

__all__ = [
    "Budget",
    "Entropy",
    "Gate",
    "GaussianNoise",
    "GaussianProfile",
    "ReleaseRecord",
    "SeededEntropy",
    "SystemEntropy",
    "add_noise",
    "best_epsilon",
    "budget_to_rho",
    "calibrate",
    "calibrate_rdp",
    "classic_gaussian_scale",
    "entropy_from",
    "epsilon_cks",
    "epsilon_mironov",
    "gaussian_mu",
    "grid_exponent",
    "mixture_rdp",
    "padded",
    "poisson_epsilon",
    "poisson_noise_multiplier",
    "rho_to_epsilon",
]
