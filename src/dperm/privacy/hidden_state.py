"""The price of noisy steps of which only the last iterate is seen."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.errors import InvalidInput, NotCertified

FloatArray = NDArray[np.float64]

# Shifts and noises are scaled to at most 1 first; below these sizes a shift is rounded up and a noise
# dropped, so that no product underflows.
_LEAST_SHIFT = 1e-150
_LEAST_NOISE = 1e-75
_LARGEST_GROWTH = 1e100


def hidden_state_mu(
    contraction: ArrayLike, shift: ArrayLike, noise: ArrayLike, diameter: float = math.inf
) -> float:
    r"""Gaussian parameter of the last of T noisy steps, the others being hidden.

    Two runs :math:`X_k = \phi_k(X_{k-1}) + N(0, g_k^2 I)`, the other with :math:`\phi'_k`, start at the same
    point, and :math:`\lVert \phi_k(x) - \phi'_k(x') \rVert \le c_k \lVert x - x' \rVert + s_k`. A shift may
    be spread over all later steps, each of which hides part of it under its own noise:

    .. math:: \mu^2 = \min \sum_k (a_k / g_k)^2 \quad\text{with}\quad
              z_k = c_k z_{k-1} + s_k - a_k \ge 0,\; a_k \ge 0,\; z_0 = z_T = 0 .

    The minimum is found by pooling adjacent steps, in time O(T) without a diameter.

    Parameters
    ----------
    contraction, shift, noise : array-like of shape (T,) or scalars
        c_k, s_k and g_k, each at least 0. A step without noise has g_k = 0.
    diameter : float
        Largest distance between any two points at which a step may begin, when every iterate is projected
        on a bounded convex set; infinite without projection.

    Guarantee
    ---------
    X_T is mu-GDP: every test between the two runs is at most as good as between N(0, 1) and N(mu, 1).
    The answer includes rounding. See docs/proofs/noisy-sgd.md.

    Assumes
    -------
    Both runs use the same noise scales, fixed in advance. Nothing but the last iterate, and what is
    computed from it alone, leaves: no trajectory, average, loss or stopping rule.

    Raises
    ------
    NotCertified
        If the contractions multiply up beyond 1e100.
    """
    c, s, g = _steps(contraction, shift, noise)
    if not diameter > 0:
        raise InvalidInput(f"diameter must be above 0 (or infinite); got {diameter!r}.")
    largest_shift, largest_noise = float(s.max(initial=0.0)), float(g.max(initial=0.0))
    if largest_shift == 0:
        return 0.0
    if largest_noise == 0:
        return math.inf
    mu_squared = _pool(
        c.tolist(), (s / largest_shift).tolist(), (g / largest_noise).tolist(), diameter / largest_shift
    )
    rounding = 1 + 4 * (len(c) + 10) * np.finfo(np.float64).eps
    return math.sqrt(mu_squared) * (largest_shift / largest_noise) * float(rounding)


def noisy_cyclic_mu(
    contraction: ArrayLike,
    shift: ArrayLike,
    noise: ArrayLike,
    diameter: float = math.inf,
    rounding: ArrayLike = 0.0,
) -> FloatArray:
    """``hidden_state_mu`` for passes over the same batches: one parameter per batch of the differing row.

    Parameters
    ----------
    contraction, shift, noise, diameter : array-like of shape (epochs, batches), and a number
        As in ``hidden_state_mu``; ``shift[e, j]`` is what the row adds at epoch e if it lies in batch j,
        and batches are visited from left to right.
    rounding : array-like of shape (epochs, batches)
        What rounding adds to the distance of the two runs at each step, whichever batch holds the row.

    Returns
    -------
    array of shape (batches,)
        For ``GaussianProfile.mixture`` with the share of rows in each batch, if the order of the rows is
        uniformly random and secret; otherwise use the largest.
    """
    arrays = (np.asarray(value, np.float64) for value in (contraction, shift, noise, rounding))
    c, s, g, everywhere = np.broadcast_arrays(*arrays)
    if c.ndim != 2:
        raise InvalidInput(f"contraction, shift and noise must have shape (epochs, batches); got {c.shape}.")
    mu = np.empty(c.shape[1])
    for batch in range(c.shape[1]):
        own = everywhere.copy()
        own[:, batch] += s[:, batch]
        mu[batch] = hidden_state_mu(c.ravel(), own.ravel(), g.ravel(), diameter)
    return mu


def _steps(contraction: ArrayLike, shift: ArrayLike, noise: ArrayLike) -> list[FloatArray]:
    steps = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (contraction, shift, noise)))
    if steps[0].ndim > 1:
        raise InvalidInput(f"contraction, shift and noise must be vectors; got shape {steps[0].shape}.")
    for name, values in zip(("contraction", "shift", "noise"), steps, strict=True):
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise InvalidInput(f"every {name} must be a finite number of at least 0.")
    return [np.atleast_1d(values) for values in steps]


def _pool(contraction: list[float], shift: list[float], noise: list[float], diameter: float) -> float:
    """The minimum, by pool-adjacent-violators from the last step to the first.

    Each block holds (sum of shifts, sum of variances), both as they reach the end, and the cost of itself
    and all later blocks. The slope shift/variance must grow with time, since a shift can only be
    put off; a block that is steeper than the next is pooled with it.
    """
    blocks: list[tuple[float, float, float]] = []
    growth = 1.0  # what the later steps make of a unit distance
    cheapest_restart = math.inf
    for k in range(len(shift) - 1, -1, -1):
        arriving = max(growth * shift[k], _LEAST_SHIFT) if shift[k] > 0 else 0.0
        spread = growth * noise[k]
        variance = spread * spread if spread > _LEAST_NOISE else 0.0
        if arriving > 0 or variance > 0:
            arriving, variance, later = _absorb(blocks, arriving, variance, discard=True)
            blocks.append((arriving, variance, later + _cost(arriving, variance)))
        growth *= contraction[k]
        if growth > _LARGEST_GROWTH:
            raise NotCertified(
                "The steps stretch distances by more than 1e100 altogether. Use step sizes of at most 2 over "
                "the smoothness."
            )
        if diameter < math.inf:
            # Forget all before step k: the runs are at most a diameter apart there.
            arriving, variance, later = _absorb(
                blocks, max(growth * diameter, _LEAST_SHIFT), 0.0, discard=False
            )
            cheapest_restart = min(cheapest_restart, later + _cost(arriving, variance))
    return min(blocks[-1][2] if blocks else 0.0, cheapest_restart)


def _absorb(
    blocks: list[tuple[float, float, float]], arriving: float, variance: float, *, discard: bool
) -> tuple[float, float, float]:
    """Pool a new first block with those it is steeper than; also the cost of the blocks left over."""
    first = len(blocks)
    while first > 0 and arriving * blocks[first - 1][1] >= blocks[first - 1][0] * variance:
        first -= 1
        arriving += blocks[first][0]
        variance += blocks[first][1]
    if discard:
        del blocks[first:]
    return arriving, variance, blocks[first - 1][2] if first > 0 else 0.0


def _cost(arriving: float, variance: float) -> float:
    if arriving == 0:
        return 0.0
    return arriving * arriving / variance if variance > 0 else math.inf
