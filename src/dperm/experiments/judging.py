"""Trained models judged on their rows, each row seen through the model's own map."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.engine import engine_for
from dperm.experiments.scores import Margins, Scores, number_scores, scores
from dperm.losses import Loss
from dperm.row_map import RowMap

_CELLS = 1 << 23  # margins held at once


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


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Scores on the held-out rows, and the mean loss of the study on the training rows with the model's own l2."""

    held_out: Scores
    objective: float


def judge(
    models: Sequence[Model],
    X: Any,
    targets: NDArray[np.float64],
    mask: NDArray[np.bool_],
    loss: Loss,
    unit: float | None = None,
    shares: NDArray[np.float64] | None = None,
) -> list[Judgement]:
    """Each model on its rows: column k of the mask is True for those that model k trained on.

    ``unit`` is given for numbers: what 1 stands for in the units of the target. ``shares`` are given for rows of
    persons: what each row counts.
    """
    found: dict[int, Judgement] = {}
    for k, margins in _margins(models, X):
        training, penalty = mask[:, k], models[k].l2 / 2 * float(np.sum(models[k].weights ** 2))
        tested = margins[~training], targets[~training]
        inside, outside = (None, None) if shares is None else (shares[training], shares[~training])
        losses = loss.value(margins[training], targets[training])
        found[k] = Judgement(
            held_out=scores(*tested, models[k].loss, outside)
            if unit is None
            else number_scores(*tested, unit, outside),
            objective=float(np.average(losses, weights=inside)) + penalty,
        )
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
