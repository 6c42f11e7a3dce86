"""What composed sampled steps cost, by routes that share nothing with the library and carry more digits than it does.

``contour_delta`` inverts the moment generating function of the loss along a line through its saddle point: no grid of
losses and no Fourier transform. ``convolved_delta`` multiplies out masses on a grid, one by one.
"""

from dataclasses import dataclass

import numpy as np

Long = np.longdouble
NODES, WEIGHTS = (np.asarray(values, Long) for values in np.polynomial.legendre.leggauss(64))


@dataclass(frozen=True)
class Law:
    """Nodes of the privacy loss of one step, with their weights."""

    loss: np.ndarray
    weight: np.ndarray

    def log_moment(self, s):
        exponent = s[:, None] * self.loss
        top = exponent.real.max(axis=1, keepdims=True)
        return np.log((np.exp(exponent - top) * self.weight).sum(axis=1)) + top[:, 0]


def nodes(low, high, panels=24):
    edges = np.linspace(Long(low), Long(high), panels + 1)
    half = (edges[1] - edges[0]) / 2
    return (edges[:-1, None] + half * (NODES + 1)).ravel(), np.tile(WEIGHTS * half, panels)


def log_mixture(x, rate, mu):
    return np.log((1 - Long(rate)) + Long(rate) * np.exp(mu * x - mu * mu / 2))


def normal(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * np.arccos(Long(-1)))


def poisson_laws(noise_multiplier, rate, neighbours):
    mu, rate = 1 / Long(noise_multiplier), Long(rate)
    x, dx = nodes(-14 - float(mu), 14 + float(mu))
    mixed = (1 - rate) * normal(x) + rate * normal(x - mu)
    if neighbours == "replace-one":
        return [Law(log_mixture(x, rate, mu) - log_mixture(x, rate, -mu), mixed * dx)]
    return [Law(log_mixture(x, rate, mu), mixed * dx), Law(-log_mixture(x, rate, mu), normal(x) * dx)]


def fixed_size_law(noise_multiplier, rate):
    mu, rate = 2 / Long(noise_multiplier), Long(rate)
    x, dx = nodes(mu / 2, 14 + float(mu))
    loss = log_mixture(x, rate, mu)
    positive = ((1 - rate) * normal(x) + rate * normal(x - mu)) * dx
    negative = positive * np.exp(-loss)
    rest = 1 - positive.sum() - negative.sum()
    return Law(np.concatenate([loss, -loss, [0]]), np.concatenate([positive, negative, [rest]]))


def gaussian_law(mu):
    x, dx = nodes(-14, 14)
    return Law(mu * x + Long(mu) ** 2 / 2, normal(x) * dx)


def contour_delta(parts, epsilon):
    r"""Of independent (law, count): :math:`\frac1{2\pi}\int e^{K(s) - s\varepsilon}/(s(s+1))\,dy` on s = tilt + i y."""
    epsilon = Long(epsilon)

    def exponent(s):
        s = np.asarray(s)
        return sum(count * law.log_moment(s) for law, count in parts) - s * epsilon

    tilts = np.geomspace(Long(1e-2), Long(1e6), 120)
    tilt = tilts[np.argmin(exponent(tilts))]
    step = tilt / 1000
    curvature = np.dot(exponent(np.array([tilt - step, tilt, tilt + step])), [1, -2, 1]) / step**2
    spacing = 2 * np.arccos(Long(-1)) / (60 * np.sqrt(curvature))
    total, start = Long(0), 0
    while start < 40_000:
        k = np.arange(start, start + 50, dtype=Long)
        s = tilt + np.clongdouble(1j) * spacing * k
        log_size = exponent(s)
        terms = (np.exp(log_size) / (s * (s + 1))).real
        total += np.where(k == 0, terms / 2, terms).sum()
        if (log_size.real - exponent(tilt[None]).real).max() < -60:
            return float(total * spacing / np.arccos(Long(-1)))
        start += 50
    raise AssertionError("the law of the sum is too rough for this route")


def poisson_delta(noise_multiplier, rate, steps, epsilon, neighbours, mu_spent=0.0):
    release = [(gaussian_law(mu_spent), 1)] if mu_spent else []
    laws = poisson_laws(noise_multiplier, rate, neighbours)
    return max(contour_delta([(law, steps), *release], epsilon) for law in laws)


def fixed_size_delta(noise_multiplier, rate, steps, epsilon, mu_spent=0.0):
    release = [(gaussian_law(mu_spent), 1)] if mu_spent else []
    return contour_delta([(fixed_size_law(noise_multiplier, rate), steps), *release], epsilon)


def convolved_delta(parts, interval, epsilon):
    """Of independent (first place, masses, count), by multiplying out in long double: positive numbers only."""
    first, mass = 0, np.ones(1, Long)
    for low, masses, count in parts:
        power = np.ones(1, Long)
        base = np.asarray(masses, Long)
        first += low * count
        while count:
            if count & 1:
                power = np.convolve(power, base)
            count >>= 1
            base = np.convolve(base, base) if count else base
        mass = np.convolve(mass, power)
    loss = Long(interval) * (first + np.arange(mass.size))
    above = loss > epsilon
    return float((mass[above] * -np.expm1(Long(epsilon) - loss[above])).sum())


def fourier_transform(values):
    """Discrete Fourier transform of a power of two many numbers, by the textbook recursion in long double."""
    values = np.asarray(values, np.clongdouble)
    if values.size == 1:
        return values
    even, odd = fourier_transform(values[::2]), fourier_transform(values[1::2])
    angle = -2 * np.arccos(Long(-1)) * np.arange(values.size // 2) / Long(values.size)
    turned = (np.cos(angle) + np.clongdouble(1j) * np.sin(angle)) * odd
    return np.concatenate([even + turned, even - turned])
