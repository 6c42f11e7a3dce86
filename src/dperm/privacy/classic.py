"""The textbook Gaussian mechanism, for comparison only."""

import math

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.budget import Budget


def classic_gaussian_scale(sensitivity: float, budget: Budget) -> float:
    """sensitivity * sqrt(2 ln(1.25/delta)) / epsilon (Dwork and Roth, 2014, Theorem 3.22).

    Noisier than ``calibrate`` wherever it is valid.

    Raises
    ------
    NotCertified
        If epsilon is above 1: the theorem does not cover it, and the formula stops being private at
        larger epsilon.
    """
    if not 0 < sensitivity < math.inf:
        raise InvalidInput(f"sensitivity must be a positive number; got {sensitivity!r}.")
    if budget.delta == 0:
        raise InvalidInput(
            "Gaussian noise needs delta > 0; got delta = 0. Choose a small delta, for example 1e-8."
        )
    if budget.epsilon > 1:
        raise NotCertified(
            f"The classic Gaussian formula is proved for epsilon up to 1; got {budget.epsilon:g}. Use "
            "accounting='tight', which holds for every epsilon and adds less noise."
        )
    return sensitivity * math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon
