"""Budgets, prices and noise. Knows nothing of losses, data or models."""

from dperm.privacy.budget import Budget
from dperm.privacy.calibration import calibrate, gaussian_mu
from dperm.privacy.classic import classic_gaussian_scale
from dperm.privacy.entropy import Entropy, SeededEntropy, SystemEntropy, entropy_from
from dperm.privacy.gate import Gate, ReleaseRecord
from dperm.privacy.noise import GaussianNoise, add_noise, grid_exponent, padded
from dperm.privacy.profile import GaussianProfile
from dperm.privacy.rdp import best_epsilon, calibrate_rdp, epsilon_cks, epsilon_mironov, mixture_rdp
from dperm.privacy.subsampled import poisson_epsilon, poisson_noise_multiplier
from dperm.privacy.zcdp import budget_to_rho, compose_rho, gaussian_rho, rho_to_epsilon

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
    "compose_rho",
    "entropy_from",
    "epsilon_cks",
    "epsilon_mironov",
    "gaussian_mu",
    "gaussian_rho",
    "grid_exponent",
    "mixture_rdp",
    "padded",
    "poisson_epsilon",
    "poisson_noise_multiplier",
    "rho_to_epsilon",
]
