"""How widely noise spreads the weights that a run releases, from public constants (docs/proofs/summary.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Inside:
    """Noise in the objective: of standard deviation ``noise`` on each number, against a penalty ``strength``.

    ``output`` is the standard deviation of what is added to the minimiser.
    """

    noise: float
    strength: float
    output: float


@dataclass(frozen=True, kw_only=True)
class WeightNoise:
    """The standard deviation of a released weight, and of every combination of weights of length 1.

    Over the noise of the training alone: rows, their order and the map that they are seen through are held fixed.

    Parameters
    ----------
    deviation : float
        Exactly that, or no less than it.
    exact : bool
    if_stable : bool
        Whether the bound is one to first order in the noise, for descent that does not run away.
    inside : Inside, optional
        Where the noise is in the objective: then its spread follows from the curvature at the minimiser.
    """

    deviation: float
    exact: bool = False
    if_stable: bool = False
    inside: Inside | None = None


def on_weights(scale: float) -> WeightNoise:
    """Noise that is added to the weights."""
    return WeightNoise(deviation=scale, exact=True)


def in_objective(noise: float, strength: float, output: float) -> WeightNoise:
    r"""Noise b in an objective of strong convexity :math:`\Lambda`, and noise on its minimiser.

    The minimiser is a :math:`1/\Lambda`-Lipschitz function of b, so the variance of each of its combinations of
    length 1 is at most :math:`\sigma^2/\Lambda^2` (Gaussian Poincaré inequality).
    """
    inside = Inside(noise=noise, strength=strength, output=output)
    return WeightNoise(deviation=math.hypot(noise / strength, output), inside=inside)


def in_steps(noise: float, step: float, steps: int, momentum: float, tail: int) -> WeightNoise:
    r"""Noise on each of the gradients of a descent with momentum whose last ``tail`` iterates are averaged.

    On a flat function the noise of a step is still there j steps later, times
    :math:`\eta(1 + \mu + \dots + \mu^{j-1})`; curvature only lessens that.
    """
    left = np.arange(1, steps + 1)
    grown = (1 - momentum**left) / (1 - momentum)  # after this many steps
    kept = np.concatenate([np.zeros(tail - 1), grown])
    averaged = np.convolve(kept, np.full(tail, 1 / tail), mode="valid")
    return WeightNoise(deviation=noise * step * float(np.linalg.norm(averaged)), if_stable=True)
