"""The second accountant: what releases cost, by quadrature and Fourier transforms instead of closed forms.

It shares no code with ``dperm.privacy``, so that a mistake there is not repeated here.

Losses of sampled Gaussian releases are composed on a grid. They are put on it by splitting each among three
neighbours so that its mean and its square stay. That is neither an upper nor a lower bound, but off by the third power
of the grid's width only. Before the transform the masses are weighted by exp(tilt * loss) with the tilt at which the
sum is about epsilon, and afterwards unweighted: the error of the transform, which grows with the number of steps, is
then relative to delta and not to 1.
"""

import math
from bisect import bisect_left
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


_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(32)
_TAIL = 10.0  # standard deviations; what lies beyond weighs less than 1e-22
_MOST_POINTS = 1 << 22
_NEGLIGIBLE = math.log(1e-18)
_TILTS: list[float] = [0.0, *(2.0 ** (np.arange(-12, 34) / 2)).tolist()]


@dataclass(frozen=True, eq=False)
class Losses:
    """Privacy losses of one step and their weights, at the nodes of a quadrature."""

    loss: Vector
    weight: Vector

    @property
    def deviation(self) -> float:
        mean = float(self.weight @ self.loss)
        return math.sqrt(float(self.weight @ (self.loss - mean) ** 2))

    def log_moment(self, order: float) -> float:
        exponent = order * self.loss
        top = float(exponent.max())
        return top + math.log(float(self.weight @ np.exp(exponent - top)))


def poisson_losses(rate: float, multiplier: float, rows: int) -> list[Losses]:
    """One sum over a Poisson sample: the dominating pairs of docs/proofs/sgd-ma.md, both orders of add-remove."""
    x, dx = _nodes(-_TAIL - 1 / multiplier, _TAIL + 1 / multiplier)
    here, up = (np.exp(-((x - shift) ** 2) / 2) for shift in (0.0, 1 / multiplier))
    mixed = _log_mix(x, rate, 1 / multiplier)
    if rows == 2:
        against = _log_mix(x, rate, -1 / multiplier)
        return [_losses(mixed - against, ((1 - rate) * here + rate * up) * dx)]
    return [_losses(mixed, ((1 - rate) * here + rate * up) * dx), _losses(-mixed, here * dx)]


def fixed_size_losses(rate: float, multiplier: float) -> list[Losses]:
    """One sum over a sample of a fixed size: the symmetric distribution of docs/proofs/dp-sgd.md, Theorem 2."""
    mu = 2 / multiplier
    x, dx = _nodes(mu / 2, mu + _TAIL)  # where the mixture is more likely than the plain Gaussian
    density = (1 - rate) * np.exp(-x * x / 2) + rate * np.exp(-((x - mu) ** 2) / 2)
    loss = _log_mix(x, rate, mu)
    positive = density * dx / math.sqrt(2 * math.pi)
    negative = positive * np.exp(-loss)
    rest = max(1.0 - float(positive.sum() + negative.sum()), 0.0)
    return [Losses(np.concatenate([loss, -loss, [0.0]]), np.concatenate([positive, negative, [rest]]))]


def gaussian_losses(mu: float) -> Losses:
    x, dx = _nodes(-_TAIL, _TAIL)
    return _losses(mu * x + mu * mu / 2, np.exp(-x * x / 2) * dx)


def composed_price(steps: list[Losses], count: int, mu: float, how: str, accuracy: float = 1e-4) -> Price:
    """``count`` steps of the same kind and a Gaussian release of parameter ``mu``; the worst of the listed orders."""
    mu_spent = [(gaussian_losses(mu), 1)] if mu > 0 else []
    sums = [_Sum([(one, count), *mu_spent]) for one in steps]

    def delta(epsilon: float) -> float:
        return max(one.delta(epsilon) for one in sums)

    return Price(delta, how, accuracy)


class _Sum:
    """The sum of independent losses."""

    def __init__(self, parts: list[tuple[Losses, int]]) -> None:
        self.parts = parts
        self.moments: dict[float, float] = {}
        self.found: dict[float, tuple[Vector, Vector, Vector]] = {}

    def delta(self, epsilon: float) -> float:
        tilt = _lowest(_TILTS, lambda tilt: max(self._log_moment(tilt) - tilt * epsilon, 2 * _NEGLIGIBLE))
        if tilt not in self.found:
            self.found[tilt] = self._compose(tilt)
        loss, mass, log_weight = self.found[tilt]
        above = loss > epsilon
        found = float((mass[above] * np.exp(log_weight[above])) @ -np.expm1(epsilon - loss[above]))
        return min(max(found, 0.0), 1.0)

    def _log_moment(self, order: float) -> float:
        if order not in self.moments:
            self.moments[order] = sum(count * losses.log_moment(order) for losses, count in self.parts)
        return self.moments[order]

    def _compose(self, tilt: float) -> tuple[Vector, Vector, Vector]:
        """The grid, the weighted masses on it and the logarithms of what takes the weights off again.

        Weighted tails below 1e-18 are left out.
        """
        upper, lower = self._reach(tilt, 1.0), -self._reach(tilt, -1.0)
        finest = min(losses.deviation for losses, _ in self.parts)
        width = max(min(1e-4, 4e-3 * finest), (upper - lower) / _MOST_POINTS)
        size = 1 << math.ceil(math.log2((upper - lower) / width + 2))
        transformed = np.ones(size // 2 + 1, complex)
        log_scale = 0.0
        for losses, count in self.parts:
            ends, weights = _on_grid(losses, width)
            exponent = tilt * width * ends
            top = float(exponent.max())
            log_moment = top + math.log(float(weights @ np.exp(exponent - top)))
            masses = np.bincount(ends.astype(np.int64) % size, weights * np.exp(exponent - log_moment), size)
            transformed *= np.fft.rfft(masses) ** count
            log_scale += count * log_moment
        first = math.floor(lower / width)
        loss = np.asarray(width * (first + (np.arange(size) - first) % size), np.float64)
        return loss, np.fft.irfft(transformed, size), log_scale - tilt * loss

    def _reach(self, tilt: float, sign: float) -> float:
        """Chernoff's bound: the weighted sum of the losses, times ``sign``, is larger with a chance below 1e-18."""
        here = self._log_moment(tilt)
        orders: list[float] = np.geomspace(0.05, max(500.0, 8 * tilt), 32).tolist()

        def reach(order: float) -> float:
            return (self._log_moment(tilt + sign * order) - here - _NEGLIGIBLE) / order

        return reach(_lowest(orders, reach))


def _lowest(places: list[float], value: Callable[[float], float]) -> float:
    """The first place of the lowest value, for values that fall and then rise; both functions here do.

    A log-moment is convex in its order, so that its difference to a line is too, and its mean slope from a point below
    it falls up to the tangent and rises from there. The first place from which the values do not fall is the answer.
    """
    return places[
        bisect_left(range(len(places) - 1), True, key=lambda k: value(places[k + 1]) >= value(places[k]))
    ]


def _on_grid(losses: Losses, width: float) -> tuple[Vector, Vector]:
    """Places and weights: three for every loss, with its mean and no variance."""
    place = losses.loss / width
    nearest = np.rint(place)
    off = place - nearest
    shares = (off * (off - 1) / 2, 1 - off * off, off * (off + 1) / 2)
    weights = np.concatenate([share * losses.weight for share in shares])
    return np.concatenate([nearest - 1, nearest, nearest + 1]), weights


def _nodes(low: float, high: float) -> tuple[Vector, Vector]:
    """Gauss–Legendre panels that resolve both densities and the grid of losses."""
    panels = 1000
    width = (high - low) / panels
    starts = low + width * np.arange(panels)
    x = (starts[:, None] + width * (_PANEL_NODES + 1) / 2).ravel()
    return x, np.tile(_PANEL_WEIGHTS * width / 2, panels)


def _log_mix(x: Vector, rate: float, shift: float) -> Vector:
    """log((1 - rate) + rate exp(shift x - shift**2 / 2)) without overflow."""
    ratio = shift * x - shift * shift / 2
    if rate == 1:
        return ratio
    return np.asarray(np.logaddexp(math.log1p(-rate), math.log(rate) + ratio))


def _losses(loss: Vector, weight: Vector) -> Losses:
    return Losses(loss, weight / math.sqrt(2 * math.pi))
