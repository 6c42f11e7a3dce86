"""The exact density of a perturbed minimiser in one and two dimensions, and what it costs.

The minimiser w of the perturbed sum has the density  phi_sigma(B(w)) det H(w)  with  B(w) = -(gradient of the
sum without noise) and H its Hessian, so delta(epsilon) is an integral over w.
"""

import math

import numpy as np
from scipy.special import ndtr

from dperm.losses import ClippedSquared, HardClippedLogistic, HuberHinge
from dperm.problem import Problem
from dperm.unit import Neighbours

ADD_REMOVE, REPLACE_ONE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
RELATIONS = [ADD_REMOVE, REPLACE_ONE]
EPSILONS = np.array([0.05, 0.1, 0.3, 0.6, 1.0, 2.0])


def make(loss, Lambda, neighbours=ADD_REMOVE, n_features=1, x_norm=1.0):
    return Problem(
        loss=loss, l2=Lambda / 100, x_norm=x_norm, n_rows=100, n_features=n_features, neighbours=neighbours
    )


def rows(*pairs):
    """A data set of one-dimensional rows."""
    return np.array([x for x, _ in pairs], dtype=float)[:, None], np.array([y for _, y in pairs], dtype=float)


def noise_and_determinant(W, data, loss, Lambda):
    """B(w) and det H(w) at every point of W, whose last axis has length 1 or 2."""
    X, y = data
    margins = W @ X.T
    slopes, curvatures = loss.slope(margins, y), loss.curvature(margins, y)
    B = -(slopes @ X + Lambda * W)
    if W.shape[-1] == 1:
        return B, Lambda + curvatures @ X[:, 0] ** 2
    h00, h11 = Lambda + curvatures @ X[:, 0] ** 2, Lambda + curvatures @ X[:, 1] ** 2
    return B, h00 * h11 - (curvatures @ (X[:, 0] * X[:, 1])) ** 2


def gaussian_density(W, data, loss, Lambda, scale):
    B, determinant = noise_and_determinant(W, data, loss, Lambda)
    d, size = W.shape[-1], (B**2).sum(-1)
    return np.exp(-size / (2 * scale**2)) * determinant / (2 * math.pi * scale**2) ** (d / 2)


def knots(data, loss):
    X, y = data
    if isinstance(loss, HuberHinge):
        at = np.concatenate([y * (1 - loss.width), y * (1 + loss.width)])
    elif isinstance(loss, HardClippedLogistic):
        at = np.tile(y * math.log(1 / loss.clip - 1), 2)
    elif isinstance(loss, ClippedSquared):
        at = np.concatenate([y - loss.residual_bound, y + loss.residual_bound])
    else:
        return np.empty(0)
    return at / np.tile(X[:, 0], 2)


def half_width(data, Lambda, scale):
    """Half of a box that holds all but 1e-13 of the output: |w| <= (sum of gradient norms + |b|) / Lambda."""
    return (8 * scale + len(data[0])) / Lambda


def line(D, E, loss, Lambda, scale, cells):
    """Midpoints and widths of cells none of which crosses a jump of the density."""
    half = half_width(D, Lambda, scale)
    jumps = np.clip(np.concatenate([knots(D, loss), knots(E, loss)]), -half, half)
    edges = np.unique(np.concatenate([np.linspace(-half, half, cells + 1), jumps]))
    return ((edges[1:] + edges[:-1]) / 2)[:, None], np.diff(edges)


def square(D, E, loss, Lambda, scale, cells):
    half = half_width(D, Lambda, scale)
    steps = half * ((2 * np.arange(cells) + 1) / cells - 1)
    return np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1), (2 * half / cells) ** 2


def hockey_stick(p, q, cell, epsilons):
    """delta(epsilon) from D to E in the first row and from E to D in the second."""
    return np.array(
        [[(np.maximum(a - math.exp(e) * b, 0) * cell).sum() for e in epsilons] for a, b in ((p, q), (q, p))]
    )


def exact_deltas(D, E, loss, Lambda, scale, epsilons=EPSILONS):
    """delta in both directions, less the quadrature's error as told by its change from half as many cells."""
    one_dimensional = D[0].shape[1] == 1
    results = []
    for cells in (5000, 10000) if one_dimensional else (150, 300):
        W, cell = (line if one_dimensional else square)(D, E, loss, Lambda, scale, cells)
        p, q = (gaussian_density(W, data, loss, Lambda, scale) for data in (D, E))
        results.append(hockey_stick(p, q, cell, epsilons))
    for density in (p, q):
        assert abs((density * cell).sum() - 1) < (1e-3 if one_dimensional else 0.03)
    coarse, fine = results
    return np.maximum(fine - np.abs(fine - coarse), 0)


def delta_bounds(profile, epsilons=EPSILONS):
    return np.array([profile.delta(epsilon) for epsilon in epsilons])


def worst_ratio(exact, bound):
    seen = bound > 1e-11
    return (exact[:, seen] / bound[seen]).max() if seen.any() else 0.0


def line_pairs(neighbours, labels, background):
    """Neighbours in one dimension: the differing rows against a background."""
    differing = [((1, 1), (-1, 1)), ((1, 1), (1, -1)), ((1, 1), (-0.6, 1)), ((0.5, -1), (1, 1))]
    if labels == "real":
        differing.append(((1, 0.3), (0.2, -3)))
    for first, second in differing:
        D = rows(*background, first)
        yield D, rows(*background, second) if neighbours is REPLACE_ONE else rows(*background)


def plane_pairs(neighbours, X, y):
    """Neighbours in two dimensions: a row of norm 1 in E (or none) at different angles to the one in D."""
    for angle in np.pi * np.array([0.2, 0.5, 0.8, 0.95, 1.0]):
        D = np.vstack([X, [math.cos(angle), math.sin(angle)]]), np.append(y, 1.0)
        yield D, (np.vstack([X, [1.0, 0.0]]), np.append(y, 1.0)) if neighbours is REPLACE_ONE else (X, y)


BACKGROUNDS = [[], [(0.7, 1), (-0.4, 1), (0.9, -1)]]
LINE_GRID = [(Lambda, scale) for Lambda in (0.1, 1.0, 4.0) for scale in (0.5, 1.0, 2.0, 4.0)]


def gaussian_hockey_stick(mu, epsilon):
    """delta_mu(epsilon), for negative epsilon too."""
    if mu == 0:
        return np.maximum(-np.expm1(np.minimum(epsilon, 0)), 0)
    return ndtr(-epsilon / mu + mu / 2) - np.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)


def composed_delta(D, E, loss, Lambda, scale, mu, epsilons):
    """Exact minimiser and then a Gaussian release: the expectation of delta_mu(epsilon - loss(w))."""
    W, cell = line(D, E, loss, Lambda, scale, 6000)
    p, q = (gaussian_density(W, data, loss, Lambda, scale) for data in (D, E))
    with np.errstate(divide="ignore"):
        gap = np.log(p) - np.log(q)
    return np.array(
        [
            [(a * cell * gaussian_hockey_stick(mu, e - sign * gap)).sum() for e in epsilons]
            for a, sign in ((p, 1), (q, -1))
        ]
    )
