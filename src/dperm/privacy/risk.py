r"""What a guarantee means to an attacker, and the budget that keeps an attack within bounds.

The attacker knows every row but one, and two candidates for that one (under add-remove: the row, or none).
From the release they decide which it was. *False positive rate* is how often they name the first candidate
though it was the second, *true positive rate* how often they name the first when it was. No attacker of any
kind does better than the bounds of this module; docs/proofs/risk.md proves them.
"""

import math
from collections.abc import Callable
from numbers import Real
from typing import Protocol

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erf, ndtr, ndtri

from dperm.errors import InvalidInput
from dperm.privacy.guarantee import EPSILON_RANGE, DPGuarantee
from dperm.privacy.profile import GaussianProfile, gaussian_mu
from dperm.privacy.search import smallest_safe

# Covers, relative to a rate, rounding errors and the lattice of the noise (the margin of the profile).
_MARGIN = 2e-9
_CALIBRATION = (
    1e-9  # how far, relatively, two searches for one noise scale may end apart: above their tolerance
)
_ROUNDING = 1e-12
_LARGEST_EPSILON = 700.0  # exp(-epsilon) is still above 0


class DeltaCurve(Protocol):
    """Any price that gives, for every epsilon of at least 0, a delta that holds."""

    def delta(self, epsilon: float) -> float: ...


Guarantee = DPGuarantee | DeltaCurve


def tradeoff(guarantee: Guarantee, fpr: float) -> float:
    r"""Largest true positive rate at a false positive rate.

    Parameters
    ----------
    guarantee : Budget, GaussianProfile, or any object with ``delta(epsilon)``
        A budget stands for every mechanism that keeps it, so its bound is the safest. A profile is the price of
        one mechanism and usually says less is possible.
    fpr : float
        In [0, 1].

    Guarantee
    ---------
    An upper bound, floating-point error included. Attained for a budget by some mechanism; exact (to 2e-9) for
    a profile of one mu, where it is :math:`\Phi(\Phi^{-1}(\mathrm{fpr}) + \mu)`; for other curves the least of
    the bounds of its points :math:`(\varepsilon, \delta(\varepsilon))`, each of which holds.
    """
    fpr = _rate("fpr", fpr)
    if isinstance(guarantee, DPGuarantee):
        return _rounded_up(_linear_bound(guarantee.epsilon, guarantee.delta, fpr), _ROUNDING)
    mu = _single_mu(guarantee)
    if mu is not None:
        return _gaussian_bound(mu, fpr)
    reach = min(-math.log(fpr), _LARGEST_EPSILON) if fpr > 0 else _LARGEST_EPSILON
    best = min(
        _least(lambda epsilon: _first_bound(epsilon, guarantee.delta(epsilon), fpr), reach),
        _least(lambda epsilon: _second_bound(epsilon, guarantee.delta(epsilon), fpr), _LARGEST_EPSILON),
    )
    return _rounded_up(best, _ROUNDING)


def advantage(guarantee: Guarantee) -> float:
    """Largest difference between the true and the false positive rate, over all attacks.

    An attacker for whom both candidates are equally likely is right with chance at most (1 + advantage)/2.
    For a budget (e^ε − 1 + 2δ)/(e^ε + 1); for one Gaussian release delta(0); an upper bound always.
    """
    if isinstance(guarantee, DPGuarantee):
        return _rounded_up(_linear_advantage(guarantee.epsilon, guarantee.delta), _ROUNDING)
    mu = _single_mu(guarantee)
    if mu is not None:
        return _gaussian_advantage(mu)
    # delta(0) alone would do for an exact curve; a bound may be loose there and tight further on.
    return _rounded_up(
        _least(lambda epsilon: _linear_advantage(epsilon, guarantee.delta(epsilon)), _LARGEST_EPSILON),
        _ROUNDING,
    )


def belief(guarantee: Guarantee, prior: float, fpr: float) -> float:
    """Largest chance that an attacker is right when they name the first candidate.

    Parameters
    ----------
    guarantee : as for ``tradeoff``
    prior : float
        Chance of the first candidate before the release is seen; strictly between 0 and 1.
    fpr : float
        How often the attacker names it wrongly; above 0. The bound holds for every larger rate too. With
        delta > 0 an attacker who speaks up more seldom may be more certain when they do.
    """
    prior, fpr = _rate("prior", prior), _rate("fpr", fpr)
    if not 0 < prior < 1:
        raise InvalidInput(f"prior must lie strictly between 0 and 1; got {prior!r}.")
    if fpr == 0:
        raise InvalidInput("fpr must be above 0: with delta > 0 nothing bounds the belief at fpr = 0.")
    right, wrong = prior * tradeoff(guarantee, fpr), (1 - prior) * fpr
    return _rounded_up(right / (right + wrong), _ROUNDING)


def guaranteed_attack(budget: DPGuarantee, fpr: float, gaussian: bool) -> float:
    """``tradeoff`` of a budget, or of one Gaussian release that spends it whole."""
    return tradeoff(_whole_gaussian(budget) if gaussian else budget, fpr)


def guaranteed_advantage(budget: DPGuarantee, gaussian: bool) -> float:
    """``advantage`` of a budget, or of one Gaussian release that spends it whole."""
    return advantage(_whole_gaussian(budget) if gaussian else budget)


def epsilon_from_attack(tpr: float, fpr: float, delta: float, gaussian: bool) -> float:
    """Epsilon of the largest certified budget whose attack at ``fpr`` stays within ``tpr``."""
    tpr, fpr = _rate("tpr", tpr), _rate("fpr", fpr)
    if not 0 < fpr < tpr < 1:
        raise InvalidInput(
            f"An attack bound needs 0 < fpr < tpr < 1; got tpr = {tpr:g} and fpr = {fpr:g}. A blind guess has "
            "tpr = fpr, so no budget does better; tpr = 1 would allow everything. An example: tpr=0.05, fpr=0.01."
        )
    return _largest_epsilon(
        lambda budget: guaranteed_attack(budget, fpr, gaussian), tpr, delta, f"tpr at fpr = {fpr:g}"
    )


def epsilon_from_advantage(most: float, delta: float, gaussian: bool) -> float:
    """Epsilon of the largest certified budget whose advantage stays within ``most``."""
    most = _rate("advantage", most)
    if not 0 < most < 1:
        raise InvalidInput(
            f"advantage must lie strictly between 0 (a blind guess) and 1 (certainty); got {most:g}."
        )
    return _largest_epsilon(lambda budget: guaranteed_advantage(budget, gaussian), most, delta, "advantage")


def _largest_epsilon(risk: Callable[[DPGuarantee], float], most: float, delta: float, name: str) -> float:
    """The largest epsilon of the certified range, to a relative 1e-10, at which ``risk`` was seen within ``most``."""
    low, high = EPSILON_RANGE
    least = risk(DPGuarantee(low, delta))
    if least > most:
        raise InvalidInput(
            f"No budget with delta = {delta:g} keeps the {name} within {most:g}: the smallest certified epsilon, "
            f"{low:g}, allows {least:.4g} already. Choose a smaller delta or allow more."
        )
    inverse = smallest_safe(lambda x: risk(DPGuarantee(1 / x, delta)) - most, start=1 / low, lowest=1 / high)
    return 1 / inverse


def _whole_gaussian(budget: DPGuarantee) -> GaussianProfile:
    return GaussianProfile.gaussian(gaussian_mu(budget) * (1 + _CALIBRATION))


def _single_mu(guarantee: DeltaCurve) -> float | None:
    """The mu of a profile that is exactly one Gaussian release; a subclass may have formulas of its own."""
    if type(guarantee) is not GaussianProfile or guarantee.mu.shape != (1, 1) or guarantee.offset[0] > 0:
        return None
    return float(guarantee.mu[0, 0])


def _gaussian_bound(mu: float, fpr: float) -> float:
    return 1.0 if mu == math.inf else _rounded_up(float(ndtr(ndtri(fpr) + mu)), _MARGIN)


def _gaussian_advantage(mu: float) -> float:
    return _rounded_up(float(erf(mu / math.sqrt(8))), _MARGIN)


def _linear_bound(epsilon: float, delta: float, fpr: float) -> float:
    return min(_first_bound(epsilon, delta, fpr), _second_bound(epsilon, delta, fpr))


def _first_bound(epsilon: float, delta: float, fpr: float) -> float:
    """From P(A) <= e^ε Q(A) + δ."""
    if fpr == 0:
        return delta
    growth = epsilon + math.log(fpr)
    return 1.0 if growth >= 0 else math.exp(growth) + delta


def _second_bound(epsilon: float, delta: float, fpr: float) -> float:
    """From the same for the complement of A, with P and Q exchanged."""
    # Written so that nothing cancels while epsilon, delta and fpr are small.
    return -math.expm1(-epsilon) + math.exp(-epsilon) * (delta + fpr)


def _linear_advantage(epsilon: float, delta: float) -> float:
    return math.tanh(epsilon / 2) + 2 * delta * math.exp(-epsilon) / (1 + math.exp(-epsilon))


def _least(bound: Callable[[float], float], reach: float) -> float:
    """The least value seen of a bound on [0, reach]: on a grid, finer towards 0, then around its best point."""
    points = reach * np.linspace(0, 1, 17) ** 2
    values = [bound(float(point)) for point in points]
    place = int(np.argmin(values))
    around = (points[max(place - 1, 0)], points[min(place + 1, 16)])
    found = minimize_scalar(bound, bounds=around, method="bounded", options={"xatol": 1e-8})
    return min(values[place], float(found.fun))


def _rounded_up(value: float, margin: float) -> float:
    return min(1.0, value * (1 + margin))


def _rate(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= 1:
        raise InvalidInput(f"{name} must be a rate, a number from 0 to 1; got {value!r}.")
    return float(value)
