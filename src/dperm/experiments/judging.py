"""Trained models judged on their rows, each row seen through the model's own map.

On held-out rows: accuracy, area under the ROC curve and log loss, or R² and mean errors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_softmax
from scipy.stats import rankdata

from dperm.engine import engine_for
from dperm.losses import Loss
from dperm.row_map import RowMap

Margins = NDArray[np.floating[Any]]
"""(n,) for labels -1 and +1, (n, C) for labels 0..C-1."""

Weights = NDArray[np.float64]


_CELLS = 1 << 23  # margins held at once


class Scores(NamedTuple):
    """On held-out rows, of classes the first three and of numbers the next three; and the regularised mean loss.

    ``auc`` is None where the rows hold one label only, ``log_loss`` where margins stand for no probabilities, ``r2``
    where the rows hold one number only. ``objective`` is that of the study on the training rows, with the model's l2.
    """

    accuracy: float | None = None
    auc: float | None = None
    log_loss: float | None = None
    r2: float | None = None
    rmse: float | None = None
    mae: float | None = None
    objective: float | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """A trained model of a batch and what its row tells of it.

    ``loss`` is the one that its margins are read with; None where they are no probabilities. ``l2`` is what it was
    trained with.
    """

    weights: NDArray[np.float64]
    row_map: RowMap
    loss: Loss | None
    settings: str
    noise_scale: float | None
    seconds: float
    l2: float
    certified: bool | None = None


def judge(
    models: Sequence[Model],
    X: Any,
    targets: NDArray[np.float64],
    mask: NDArray[np.bool_],
    loss: Loss,
    unit: float | None = None,
    shares: NDArray[np.float64] | None = None,
) -> list[Scores]:
    """Each model on its rows: column k of the mask is True for those that model k trained on.

    ``unit`` is given for numbers: what 1 stands for in the units of the target. ``shares`` are given for rows of
    persons: what each row counts.
    """
    found: dict[int, Scores] = {}
    for k, margins in _margins(models, X):
        training, penalty = mask[:, k], models[k].l2 / 2 * float(np.sum(models[k].weights ** 2))
        tested = margins[~training], targets[~training]
        inside, outside = (None, None) if shares is None else (shares[training], shares[~training])
        losses = loss.value(margins[training], targets[training])
        measured = (
            scores(*tested, models[k].loss, outside)
            if unit is None
            else number_scores(*tested, unit, outside)
        )
        objective = float(np.average(losses, weights=inside)) + penalty
        found[k] = measured._replace(objective=objective)
    return [found[k] for k in range(len(models))]


def _margins(models: Sequence[Model], X: Any) -> Iterator[tuple[int, Margins]]:
    """The margins of all rows, model by model; models with the same map, and all linear ones, in one pass."""
    alike: dict[RowMap | None, list[int]] = {}
    for k, model in enumerate(models):
        alike.setdefault(None if model.row_map.linear else model.row_map, []).append(k)
    n_rows = X.shape[0]
    most = max(1, _CELLS // (n_rows * models[0].weights[0].size))
    for places in alike.values():
        for first in range(0, len(places), most):
            some = places[first : first + most]
            linear = [models[k].row_map.coefficients(models[k].weights) for k in some]
            coefficients = np.stack([one for one, _ in linear], axis=1)
            constants = np.ravel([constant for _, constant in linear])
            row_map = models[some[0]].row_map
            flat = coefficients.reshape(len(coefficients), -1)
            margins = engine_for(X).margins_of(X, row_map, flat, constants)
            margins = margins.reshape(n_rows, *coefficients.shape[1:])
            for place, k in enumerate(some):
                yield k, margins[:, place]


def scores(
    margins: Margins, targets: NDArray[Any], loss: Loss | None, weights: Weights | None = None
) -> Scores:
    """The scores of a model of classes; ``loss`` is what it was trained with, None if margins are no probabilities.

    ``weights`` say what each row counts, where rows do not count alike.
    """
    return Scores(
        accuracy=accuracy(margins, targets, weights),
        auc=area(margins, targets, weights),
        log_loss=_log_loss(loss, margins, targets, weights),
    )


def number_scores(
    margins: Margins, targets: NDArray[Any], unit: float, weights: Weights | None = None
) -> Scores:
    """The scores of one model of numbers; ``unit`` is what 1 stands for in the units of the target."""
    residuals = unit * (targets - margins)
    mean = np.average(targets, weights=weights)
    around = float(np.average((unit * (targets - mean)) ** 2, weights=weights))
    squared = float(np.average(residuals**2, weights=weights))
    return Scores(
        r2=None if around == 0 else 1 - squared / around,
        rmse=float(np.sqrt(squared)),
        mae=float(np.average(np.abs(residuals), weights=weights)),
    )


def accuracy(margins: Margins, targets: NDArray[Any], weights: Weights | None = None) -> float:
    """The share of rows on whose side the margin is, or whose label has the first of the largest margins."""
    right = (margins > 0) == (targets > 0) if margins.ndim == 1 else margins.argmax(axis=1) == targets
    return float(np.average(right, weights=weights))


def area(margins: Margins, targets: NDArray[Any], weights: Weights | None = None) -> float | None:
    """Area under the ROC curve; of several classes, the mean over the labels that occur, each against the rest."""
    if margins.ndim == 1:
        return _area(margins, targets > 0, weights)
    by_class = log_softmax(margins, axis=1)
    found = [_area(by_class[:, c], targets == c, weights) for c in range(margins.shape[1])]
    areas = [one for one in found if one is not None]
    return float(np.mean(areas)) if areas else None


def _area(values: Margins, positive: NDArray[np.bool_], weights: Weights | None) -> float | None:
    """The share of pairs in the right order, ties counting half, from the sum of ranks."""
    n_positive = int(positive.sum())
    if weights is not None and 0 < n_positive < len(values):
        _, place = np.unique(values, return_inverse=True)
        above, below = (np.bincount(place, np.where(part, weights, 0.0)) for part in (positive, ~positive))
        return float(above @ (np.cumsum(below) - below / 2) / (above.sum() * below.sum()))
    n_pairs = n_positive * (len(values) - n_positive)
    if n_pairs == 0:
        return None
    ranks = float(rankdata(values)[positive].sum())
    return (ranks - n_positive * (n_positive + 1) / 2) / n_pairs


def _log_loss(
    loss: Loss | None, margins: Margins, targets: NDArray[Any], weights: Weights | None
) -> float | None:
    """Mean of minus the log-probability of the label that came; None where there are no probabilities."""
    if loss is None or not loss.has_log_odds:
        return None
    odds, labels = loss.log_odds(margins), targets
    if odds.ndim == 2:
        log_proba = log_softmax(odds, axis=1)
    else:
        log_proba, labels = np.column_stack([log_expit(-odds), log_expit(odds)]), targets > 0
    came = np.take_along_axis(log_proba, labels.astype(int)[:, None], axis=1)[:, 0]
    return float(-np.average(came, weights=weights))
