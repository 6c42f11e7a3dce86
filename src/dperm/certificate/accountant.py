"""The second accountant: what releases cost, by quadrature and Fourier transforms instead of closed forms.

It shares no code with ``dperm.privacy``, so that a mistake there is not repeated here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

Vector = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_REACH = 12.0  # standard deviations beyond which a Gaussian weighs less than 1e-32


@dataclass(frozen=True, eq=False)
class Price:
    """Delta as a function of epsilon, by the route that ``how`` names, to a relative ``accuracy``."""

    delta: Callable[[float], float]
    how: str
    accuracy: float = 1e-7

    def meets(self, epsilon: float, delta: float) -> bool:
        return self.delta(epsilon) <= delta * (1 + self.accuracy)

    def epsilon(self, delta: float, most: float = 200.0) -> float:
        """Smallest epsilon at ``delta``, to a relative 1e-9; infinite if ``most`` is not enough."""
        if self.delta(most) > delta:
            return math.inf
        low, high = 0.0, most
        if self.delta(0.0) <= delta:
            return 0.0
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def gaussian_delta(epsilon: ArrayLike, mu: ArrayLike) -> Vector:
    r"""Cost of one Gaussian release, for epsilon of any sign: the mean of :math:`(1 - e^{\varepsilon - \ell})_+`.

    The loss exceeds epsilon by :math:`\mu s` where the noise exceeds :math:`t = \varepsilon/\mu - \mu/2` by s, so the
    mean is :math:`\int_0^\infty \varphi(t + s)(1 - e^{-\mu s})\,ds`, computed panel by panel.
    """
    epsilon, mu = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(mu, float))
    found = np.where(mu > 0, 0.0, np.maximum(-np.expm1(epsilon), 0.0))
    found[mu > 0] = np.minimum(_mean_above(epsilon, mu, lambda size, s: -np.expm1(-size * s)), 1.0)
    return found


def gaussian_excess(epsilon: ArrayLike, mu: ArrayLike) -> Vector:
    r"""Mean of :math:`(\ell - \varepsilon)_+` for the loss of one Gaussian release, in the same way."""
    epsilon, mu = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(mu, float))
    found = np.where(mu > 0, 0.0, np.maximum(-epsilon, 0.0))
    found[mu > 0] = _mean_above(epsilon, mu, lambda size, s: size * s)
    return found


def _mean_above(epsilon: Vector, mu: Vector, worth: Callable[[Vector, Vector], Vector]) -> Vector:
    """The mean of what noise is worth that carries the loss above epsilon, where mu > 0."""
    there = mu > 0
    size = mu[there]
    t = epsilon[there] / size - size / 2
    # Beyond t > 0 the integrand falls like exp(-t s - s**2 / 2), of which 80 e-foldings are enough; for t far below
    # 0 the density left of -12 is below exp(-72). Noise and excess are kept apart from there on: as a sum with t, which
    # has no end as the noise falls to 0, one of them would be lost to rounding.
    first = np.maximum(t, -_REACH)
    span = np.where(t > 0, -t + np.sqrt(t * t + 160.0), _REACH - first)
    total = np.zeros_like(t)
    panels = 8
    for panel in range(panels):
        width = span / panels
        beyond = width[..., None] * (panel + (_NODES + 1) / 2)
        x, s = first[..., None] + beyond, (first - t)[..., None] + beyond
        values = np.exp(-x * x / 2) * worth(size[..., None], s)
        total = total + (values @ _WEIGHTS) * width / 2
    return np.asarray(total / math.sqrt(2 * math.pi))


def gaussian_price(mu: float, how: str) -> Price:
    return mixture_price(np.ones(1), np.array([mu]), how)


def mixture_price(probability: Vector, mu: Vector, how: str) -> Price:
    """A hidden branch, then a Gaussian release with the parameter of that branch; equal parameters are pooled."""
    values, place = np.unique(mu, return_inverse=True)
    weights = np.bincount(place.ravel(), probability)

    def delta(epsilon: float) -> float:
        return float(weights @ gaussian_delta(epsilon, values))

    return Price(delta, how)


def vertex_delta(
    epsilon: float, offset: float, mu: Sequence[float], cost: Callable[..., Vector] = gaussian_delta
) -> float:
    """Union bound over Gaussian losses, all raised by ``offset``; ``cost`` is what each of them costs."""
    if epsilon < offset:
        return 1.0
    return min(1.0, float(cost(epsilon - offset, np.asarray(mu)).sum()))


def zcdp_price(rho: float, how: str) -> Price:
    """rho-zCDP, by the best real Rényi order in the bound of Canonne, Kamath and Steinke (2020) on delta."""

    def delta(epsilon: float) -> float:
        def log_delta(log_order: float) -> float:
            above = math.exp(log_order)  # alpha - 1
            alpha = 1 + above
            return above * (alpha * rho - epsilon) - math.log(above) + alpha * math.log(above / alpha)

        guess = math.log(max(epsilon / (2 * rho) - 0.5, 1e-3)) if rho > 0 else 10.0
        best = min(
            minimize_scalar(
                log_delta, bounds=(guess - spread, guess + spread), method="bounded", options={"xatol": 1e-10}
            ).fun
            for spread in (0.5, 2.0, 8.0)
        )
        return min(1.0, math.exp(min(float(best), 0.0)))

    return Price(delta, how, accuracy=1e-6)


def pure_price(total: float, how: str) -> Price:
    return Price(lambda epsilon: 0.0 if total <= epsilon * (1 + 1e-12) else 1.0, how)
