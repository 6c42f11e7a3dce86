"""Zero-concentrated differential privacy (Bun and Steinke, 2016), for comparison with the papers."""

import math
from collections.abc import Iterable
from typing import Literal

from dperm.errors import InvalidInput
from dperm.privacy.budget import Budget
from dperm.privacy.rdp import best_epsilon
from dperm.privacy.search import smallest_safe

ZcdpConversion = Literal["bun-steinke", "cks"]


def gaussian_rho(sensitivity: float, scale: float) -> float:
    """rho of one Gaussian release."""
    return (sensitivity / scale) ** 2 / 2


def compose_rho(parts: Iterable[float]) -> float:
    """rho of several releases, adaptive or not: their sum."""
    return math.fsum(parts)


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
