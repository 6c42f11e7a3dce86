"""Public bins of scores: fixed before a row is read, with the threshold of the prediction among their edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from dperm.errors import InvalidInput

Vector = NDArray[np.float64]
Places = NDArray[np.int64]

FEWEST, MOST = 2, 256
DEFAULTS = (32, 16, 12)
NOISY = 0.01
STRETCH = 2.0


def edges(bins: int) -> Vector:
    """Inner edges of the log odds, 0 among them: equal steps of the probability that half the log odds stand for.

    That is finest around 0, and still tells rare classes apart.
    """
    return np.asarray(STRETCH * logit(np.arange(1, bins) / bins))


def check_bins(bins: int) -> int:
    if isinstance(bins, bool) or not isinstance(bins, int) or bins % 2 or not FEWEST <= bins <= MOST:
        raise InvalidInput(
            f"bins must be an even number from {FEWEST} to {MOST}, so that the threshold is an edge; got {bins!r}."
        )
    return bins


def default_bins(noise_scale: float, n_rows: int) -> int:
    """Fewer where the noise of a cell is large against the public number of rows, so that sums of cells drown less."""
    for bins in DEFAULTS[:-1]:
        if np.sqrt(bins) * noise_scale <= NOISY * n_rows:
            return bins
    return DEFAULTS[-1]


def place(scores: Vector, bins: int) -> Places:
    """The bin of each score. A bin holds its upper edge, so that 0, which is predicted negative, lies below."""
    return np.searchsorted(edges(bins), scores, side="left")


def limits(bins: int) -> Vector:
    """Edges as probabilities, with 0 and 1 at the ends."""
    return np.concatenate([[0.0], expit(edges(bins)), [1.0]])
