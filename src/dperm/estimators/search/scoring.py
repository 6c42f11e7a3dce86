"""How a candidate is judged: a mean over the validation rows of numbers from 0 to 1, with noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.linear import PrivateLinearRegression
from dperm.privacy import Gate, GaussianNoise, grid_exponent, padded


def score_noise(n_validation: int, mu: float) -> GaussianNoise:
    """Noise for the score at Gaussian parameter ``mu``.

    One row changes its own number only, whether it is replaced or, under add-remove, counts 0 when absent.
    """
    sensitivity = 1 / n_validation
    scale = padded(sensitivity, 1, grid_exponent(sensitivity, 1)) / mu
    return GaussianNoise(sensitivity=sensitivity, scale=scale, dimension=1)


def score(model: PrivateLinearModel, rows: NDArray[Any], targets: NDArray[Any], n_validation: int) -> float:
    """The sum over the rows of a number from 0 to 1 each, over the public number of validation rows."""
    if rows.shape[0] == 0:
        return 0.0
    with np.errstate(all="ignore"):  # a warning would tell of a row
        predicted = model.predict(rows)
    if not isinstance(model, PrivateLinearRegression):
        return float(np.count_nonzero(predicted == targets)) / n_validation
    assert model.y_range is not None
    low, high = (float(end) for end in model.y_range)
    predicted = np.clip(np.nan_to_num(predicted, nan=low), low, high)
    errors = np.abs(predicted - np.clip(targets, low, high)) / (high - low)
    return math.fsum(1 - errors) / n_validation


def with_noise(exact: float, noise: GaussianNoise, gate: Gate) -> float:
    """The score as it may be looked at."""
    (noisy,) = gate.release_one(np.array([exact]), noise, "score of a candidate")
    return float(noisy)
