"""Renyi and zero-concentrated privacy, as the papers price their mechanisms; ``GaussianProfile`` is tighter."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dperm.errors import InvalidInput
from dperm.privacy.budget import Budget
from dperm.privacy.search import smallest_safe

Conversion = Literal["mironov", "cks"]

_LOG_ORDERS = np.linspace(math.log(1e-4), math.log(1e8), 80)  # of alpha - 1
_GOLDEN = (math.sqrt(5) - 1) / 2


def mixture_rdp(probability: ArrayLike, sensitivity: ArrayLike, scale: float, alpha: float) -> float:
    """Renyi divergence of order ``alpha`` of a Gaussian release with a hidden random branch.

    Proposition 3 of Chen, Lee and Kifer (2019), with the true chance of each branch instead of 1/m.
    """
    q, s = np.asarray(probability, np.float64), np.asarray(sensitivity, np.float64)
    with np.errstate(divide="ignore"):
        exponent = np.log(q) + alpha * (alpha - 1) / 2 * (s / scale) ** 2
    top = exponent.max()
    return float(top + np.log(np.exp(exponent - top).sum())) / (alpha - 1)


def epsilon_mironov(rdp_epsilon: float, alpha: float, delta: float) -> float:
    """Epsilon at ``delta`` by Mironov (2017); loose, kept to reproduce papers."""
    return rdp_epsilon - math.log(delta) / (alpha - 1)


def epsilon_cks(rdp_epsilon: float, alpha: float, delta: float) -> float:
    """Epsilon at ``delta`` by Canonne, Kamath and Steinke (2020) and, independently, Balle et al. (2020)."""
    loss = rdp_epsilon + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)
    return max(loss, 0.0)


_CONVERSIONS: dict[str, Callable[[float, float, float], float]] = {
    "mironov": epsilon_mironov,
    "cks": epsilon_cks,
}


def best_epsilon(rdp: Callable[[float], float], delta: float, conversion: Conversion) -> float:
    """Smallest epsilon that ``conversion`` gives over real orders alpha > 1.

    Every order gives a valid epsilon, so the answer is valid however well the search did.
    """
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must lie strictly between 0 and 1; got {delta!r}.")
    if conversion not in _CONVERSIONS:
        raise InvalidInput(f"conversion must be one of {', '.join(_CONVERSIONS)}; got {conversion!r}.")
    convert = _CONVERSIONS[conversion]

    def epsilon(log_order: float) -> float:
        alpha = 1 + math.exp(log_order)
        return convert(rdp(alpha), alpha, delta)

    coarse = [epsilon(x) for x in _LOG_ORDERS]
    best = int(np.argmin(coarse))
    low, high = _LOG_ORDERS[max(best - 1, 0)], _LOG_ORDERS[min(best + 1, len(coarse) - 1)]
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = epsilon(left), epsilon(right)
    while high - low > 1e-7:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = epsilon(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = epsilon(right)
    return min(coarse[best], at_left, at_right)


def calibrate_rdp(
    probability: ArrayLike,
    sensitivity: ArrayLike,
    budget: Budget,
    conversion: Conversion,
    mu_spent: float = 0.0,
) -> float:
    """Smallest noise scale, rounded up, at which ``mixture_rdp`` and ``conversion`` meet the budget.

    It leaves room for a Gaussian release of parameter ``mu_spent`` beside the noise.
    """
    budget.check_gaussian()
    largest = float(np.max(sensitivity))
    if not 0 < largest < math.inf:
        raise InvalidInput(f"The largest sensitivity must be a positive number; got {largest!r}.")

    def excess(scale: float) -> float:
        reached = best_epsilon(
            lambda alpha: mixture_rdp(probability, sensitivity, scale, alpha) + alpha * mu_spent**2 / 2,
            budget.delta,
            conversion,
        )
        return reached * (1 + 1e-12) - budget.epsilon

    return smallest_safe(excess, start=largest * math.sqrt(-2 * math.log(budget.delta)) / budget.epsilon)


ZcdpConversion = Literal["bun-steinke", "cks"]


def rho_to_epsilon(rho: float, delta: float, conversion: ZcdpConversion) -> float:
    """Epsilon at ``delta`` of a rho-zCDP mechanism.

    ``bun-steinke`` is rho + 2 sqrt(rho ln(1/delta)); ``cks`` takes the best Renyi order through the
    conversion of Canonne, Kamath and Steinke (2020).
    """
    if not (rho > 0 and 0 < delta < 1):
        raise InvalidInput(f"rho must be above 0 and delta between 0 and 1; got {rho!r} and {delta!r}.")
    if conversion == "bun-steinke":
        return rho + 2 * math.sqrt(-rho * math.log(delta))
    if conversion == "cks":
        return best_epsilon(lambda alpha: alpha * rho, delta, "cks")
    raise InvalidInput(f"conversion must be 'bun-steinke' or 'cks'; got {conversion!r}.")


def budget_to_rho(budget: Budget, conversion: ZcdpConversion) -> float:
    """Largest rho, rounded down, that ``conversion`` turns into at most the budget."""
    budget.check_gaussian()
    log_term = -math.log(budget.delta)
    start = (budget.epsilon / (math.sqrt(log_term + budget.epsilon) + math.sqrt(log_term))) ** 2

    def excess(inverse: float) -> float:
        return rho_to_epsilon(1 / inverse, budget.delta, conversion) * (1 + 1e-12) - budget.epsilon

    return 1 / smallest_safe(excess, start=1 / start)


class ZcdpFilter:
    """Admits releases until the next one would cost more than is left.

    Parameters
    ----------
    rho : float
        The whole budget, for example ``budget_to_rho(budget, "cks")``.

    Guarantee
    ---------
    All admitted releases together are rho-zCDP, whatever rule chose them and their costs: the sum of the
    costs, kept exactly as a fraction, never exceeds rho. See docs/proofs/dp-agd.md.

    Assumes
    -------
    Each release is ``cost``-zCDP given the past, and its cost, and the decision to ask for it, were fixed
    by earlier releases alone. ``admit`` is called before the release; a refused release is not made.
    """

    def __init__(self, rho: float) -> None:
        if not 0 < rho < math.inf:
            raise InvalidInput(f"rho must be a positive number; got {rho!r}.")
        self.rho = float(rho)
        self._left = Fraction(self.rho)

    @property
    def left(self) -> float:
        """What can still be spent, rounded down."""
        left = float(self._left)
        return left if Fraction(left) <= self._left else math.nextafter(left, 0.0)

    def admit(self, cost: float) -> bool:
        """Charge ``cost`` and say yes, or charge nothing and say no."""
        if not 0 < cost < math.inf:
            raise InvalidInput(f"The cost of a release must be a positive number; got {cost!r}.")
        exact = Fraction(float(cost))
        if exact > self._left:
            return False
        self._left -= exact
        return True
