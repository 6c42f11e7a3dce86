r"""A budget, what it means to an attacker, and the budget that keeps an attack within bounds.

The attacker knows every row but one, and two candidates for that one (under add-remove: the row, or none).
From the release they decide which it was. *False positive rate* is how often they name the first candidate
though it was the second, *true positive rate* how often they name the first when it was. No attacker of any
kind does better than the bounds of this module; docs/proofs/risk.md proves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erf, ndtr, ndtri

from dperm.errors import InvalidInput
from dperm.privacy.profile import GaussianProfile, gaussian_mu
from dperm.privacy.search import smallest_safe

EPSILON_RANGE = (1e-3, 50.0)
DELTA_RANGE = (1e-15, 0.1)
"""The range in which Gaussian noise is certified."""

# Covers, relative to a rate, rounding errors and the lattice of the noise (the margin of the profile).
_MARGIN = 2e-9
# How far, relatively, two searches for one noise scale may end apart: above their tolerance.
_CALIBRATION = 1e-9
_ROUNDING = 1e-12
_LARGEST_EPSILON = 700.0  # exp(-epsilon) is still above 0


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) target of differential privacy.

    Parameters
    ----------
    epsilon : float
        Finite and above 0.
    delta : float
        In [0, 1); far below one over the number of people is the usual choice.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise InvalidInput(f"{name} must be a number; got {value!r}.")
            object.__setattr__(self, name, float(value))
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise InvalidInput(
                f"epsilon must be a finite number above 0; got {self.epsilon!r}. Common choices are 0.1 to 2."
            )
        if not 0 <= self.delta < 1:
            raise InvalidInput(
                f"delta must be at least 0 and below 1; got {self.delta!r}. Choose it far below one over "
                "the number of people, for example 1e-8."
            )

    def check_gaussian(self) -> None:
        """Raise InvalidInput unless Gaussian noise can be calibrated to this budget.

        The range is the one over which the calibration has been checked against 50-digit arithmetic.
        """
        if self.delta == 0:
            raise InvalidInput(
                "Gaussian noise needs delta > 0; got delta = 0. Choose a small delta, for example 1e-8."
            )
        for name, value, (low, high) in (
            ("epsilon", self.epsilon, EPSILON_RANGE),
            ("delta", self.delta, DELTA_RANGE),
        ):
            if not low <= value <= high:
                raise InvalidInput(
                    f"Gaussian noise is certified for {name} from {low:g} to {high:g}; got {value:g}. "
                    f"Choose {name} inside this range"
                    + ("; a smaller value than asked for keeps the guarantee." if value > high else ".")
                )

    @classmethod
    def from_attack(cls, *, tpr: float, fpr: float, delta: float, gaussian: bool = False) -> Budget:
        """The largest budget that keeps every attacker's true positive rate at ``fpr`` within ``tpr``.

        The attacker knows every row but one and tells two candidates for it apart.

        Parameters
        ----------
        tpr, fpr : float
            0 < fpr < tpr < 1. Catch at most ``tpr`` of the true cases at a cost of ``fpr`` false alarms.
        delta : float
            As in ``Budget``. Without ``gaussian`` it allows that much on its own, so it must lie below tpr - fpr.
        gaussian : bool, default=False
            False is true of every mechanism that keeps the returned budget. True is true only of a release whose
            whole price is one Gaussian (one mu: noise on a result trained in public order, or on every gradient of
            full batches), and allows a larger epsilon. Mechanisms with a secret order, sampled batches or noise in
            the objective have another price: for them keep False, or ask ``dperm account`` for the attack under
            their own price.

        Raises
        ------
        InvalidInput
            If the rates are not in order, or no certified epsilon keeps the bound with this delta.
        """
        tpr, fpr = _rate("tpr", tpr), _rate("fpr", fpr)
        if not 0 < fpr < tpr < 1:
            raise InvalidInput(
                f"An attack bound needs 0 < fpr < tpr < 1; got tpr = {tpr:g} and fpr = {fpr:g}. A blind guess has "
                "tpr = fpr, so no budget does better; tpr = 1 would allow everything. An example: tpr=0.05, fpr=0.01."
            )
        most = f"tpr at fpr = {fpr:g}"
        return _largest(lambda budget: budget.attack(fpr, gaussian=gaussian), tpr, delta, most)

    @classmethod
    def from_advantage(cls, advantage: float, *, delta: float, gaussian: bool = False) -> Budget:
        """The largest budget that keeps every attacker's tpr - fpr within ``advantage``.

        ``gaussian`` as in ``from_attack``.
        """
        most = _rate("advantage", advantage)
        if not 0 < most < 1:
            raise InvalidInput(
                f"advantage must lie strictly between 0 (a blind guess) and 1 (certainty); got {most:g}."
            )
        return _largest(lambda budget: budget.advantage(gaussian=gaussian), most, delta, "advantage")

    def attack(self, fpr: float, *, gaussian: bool = False) -> float:
        """Largest true positive rate of any attacker with false positive rate ``fpr``, rounded up.

        ``gaussian`` as in ``from_attack``: True only for a release whose whole price is one Gaussian.
        """
        return tradeoff(_whole_gaussian(self) if gaussian else self, fpr)

    def advantage(self, *, gaussian: bool = False) -> float:
        """Largest tpr - fpr of any attacker, rounded up; ``gaussian`` as in ``attack``."""
        return advantage(_whole_gaussian(self) if gaussian else self)


class DeltaCurve(Protocol):
    """Any price that gives, for every epsilon of at least 0, a delta that holds."""

    def delta(self, epsilon: float) -> float: ...


Guarantee = Budget | DeltaCurve


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
    if isinstance(guarantee, Budget):
        of_budget = guarantee.epsilon, guarantee.delta, fpr
        return _rounded_up(min(_first_bound(*of_budget), _second_bound(*of_budget)), _ROUNDING)
    mu = _single_mu(guarantee)
    if mu is not None:
        return 1.0 if mu == math.inf else _rounded_up(float(ndtr(ndtri(fpr) + mu)), _MARGIN)
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
    if isinstance(guarantee, Budget):
        return _rounded_up(_linear_advantage(guarantee.epsilon, guarantee.delta), _ROUNDING)
    mu = _single_mu(guarantee)
    if mu is not None:
        return _rounded_up(float(erf(mu / math.sqrt(8))), _MARGIN)
    # delta(0) alone would do for an exact curve; a bound may be loose there and tight further on.
    return _rounded_up(
        _least(lambda epsilon: _linear_advantage(epsilon, guarantee.delta(epsilon)), _LARGEST_EPSILON),
        _ROUNDING,
    )


def _largest(risk: Callable[[Budget], float], most: float, delta: float, name: str) -> Budget:
    """The largest budget of the certified range, to a relative 1e-10, at which ``risk`` was seen within ``most``."""
    low, high = EPSILON_RANGE
    least = risk(Budget(low, delta))
    if least > most:
        raise InvalidInput(
            f"No budget with delta = {delta:g} keeps the {name} within {most:g}: the smallest certified epsilon, "
            f"{low:g}, allows {least:.4g} already. Choose a smaller delta or allow more."
        )
    inverse = smallest_safe(lambda x: risk(Budget(1 / x, delta)) - most, start=1 / low, lowest=1 / high)
    return Budget(1 / inverse, delta)


def _whole_gaussian(budget: Budget) -> GaussianProfile:
    return GaussianProfile.gaussian(gaussian_mu(budget) * (1 + _CALIBRATION))


def _single_mu(guarantee: DeltaCurve) -> float | None:
    """The mu of a profile that is exactly one Gaussian release; a subclass may have formulas of its own."""
    if type(guarantee) is not GaussianProfile or guarantee.mu.shape != (1, 1) or guarantee.offset[0] > 0:
        return None
    return float(guarantee.mu[0, 0])


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
