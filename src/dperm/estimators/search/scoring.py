"""How a candidate is judged: sums over the validation rows, with noise, and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.search.metrics import (
    Accuracy,
    BalancedAccuracy,
    Closeness,
    LogLoss,
    Metric,
    RankedPairs,
    SquaredError,
)
from dperm.neighbours import Neighbours
from dperm.privacy import Gate, GaussianNoise, grid_exponent, padded

Vector = NDArray[np.float64]

METRICS: dict[str, type[Metric]] = {
    "accuracy": Accuracy,
    "balanced_accuracy": BalancedAccuracy,
    "roc_auc": RankedPairs,
    "neg_log_loss": LogLoss,
    "neg_mean_absolute_error": Closeness,
    "neg_mean_squared_error": SquaredError,
}


def metric_for(name: Any, model: PrivateLinearModel, n_classes: int | None) -> Metric:
    """The metric of this name for models like this one; None is accuracy, or closeness for regression."""
    classifies = isinstance(model, PrivateClassifier)
    if name is None:
        return Accuracy(model, n_classes) if classifies else Closeness(model, None, shares=True)
    if not isinstance(name, str) or name not in METRICS:
        raise InvalidInput(
            f"scoring must be None or one of {', '.join(METRICS)}: those whose sensitivity is proved; got "
            f"{name if isinstance(name, str) else type(name).__name__!r}."
        )
    kind = METRICS[name]
    if kind.classifies != classifies:
        kinds = "a classifier" if kind.classifies else "a regression"
        raise Unsupported(f"scoring={name!r} is for {kinds}.")
    return kind(model, n_classes)


def score_noise(metric: Metric, n_validation: int, mu: float, neighbours: Neighbours) -> GaussianNoise:
    """Noise for the sums of a metric, over the public number of validation rows, at Gaussian parameter ``mu``."""
    sensitivity = metric.apart(neighbours) / n_validation
    scale = padded(sensitivity, metric.parts, grid_exponent(sensitivity, metric.parts)) / mu
    return GaussianNoise(sensitivity=sensitivity, scale=scale, dimension=metric.parts)


def sums(
    metric: Metric,
    model: PrivateLinearModel,
    rows: NDArray[Any],
    targets: NDArray[Any],
    n_validation: int,
    shares: NDArray[np.int64] | None = None,
) -> Vector:
    """What the metric adds up over the rows, over the public number of validation rows, or of persons."""
    if rows.shape[0] == 0:
        return np.zeros(metric.parts)
    with np.errstate(all="ignore"):  # a warning would tell of a row
        return metric.sums(model, rows, targets, shares) / n_validation


def with_noise(metric: Metric, exact: Vector, noise: GaussianNoise, gate: Gate) -> float:
    """The score as it may be looked at."""
    noisy = gate.release_one(exact, noise, "score of a candidate")
    return metric.value(noisy, noise.scale)
