"""Which scores of a classifier are counted in bins, and where the bins lie, by the public model alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, logit, logsumexp, ndtri, softmax

from dperm.estimators.margin_bins import LEAST_SPREAD, Places, Scale, margin_scale, margins_about
from dperm.evaluation.subject import Subject

Vector = NDArray[np.float64]

SCORES, CONFIDENCE, AGAINST = "scores", "confidence", "one against the rest"
MOST_AGAINST = 16
"""Classes up to which each is also judged against all others: every one needs a histogram of its own."""
MARGIN_STRETCH = 3.0
"""Margins without a link, such as those of an SVM, are taken for log odds once they are this much longer."""

_FAR = 1e6  # a margin that overflowed is cut, so that what follows is a number whatever the row

_NORMAL = ndtri((np.arange(401) + 0.5) / 401)


@dataclass(frozen=True)
class ScoreBins:
    """So many bins of each score, and the scales of the scores by the names of their histograms."""

    count: int
    scales: Mapping[str, Scale]

    def place(self, name: str, scores: Vector) -> Places:
        return self.scales[name].place(scores, self.count)

    def limits(self, name: str) -> Vector:
        """Edges as probabilities, with 0 and 1 at the ends."""
        return np.concatenate([[0.0], expit(self.scales[name].edges(self.count)), [1.0]])

    def to_list(self) -> list[dict[str, float | str | None]]:
        """What the edges follow from, for a file."""
        return [
            {"name": name, "centre": scale.centre, "spread": scale.spread, "line": scale.line}
            for name, scale in self.scales.items()
        ]


def scores_of(subject: Subject, margins: Vector) -> Vector:
    """Margins as log odds of the classes as they are told, up to a constant of each row where there are several."""
    odds = subject.loss.log_odds(margins) if subject.has_probabilities else MARGIN_STRETCH * margins
    return np.clip(np.nan_to_num(subject.told(np.asarray(odds, np.float64))), -_FAR, _FAR)


def line_of(subject: Subject) -> float:
    """Where the model's own threshold lies among the scores of two classes."""
    threshold = getattr(subject.model, "threshold_", None)
    return 0.0 if threshold is None else float(scores_of(subject, np.array([threshold.margin]))[0])


def scales_of(subject: Subject) -> dict[str, Scale]:
    """The scales of all scores that are binned, from coefficients, intercept and row map."""
    if subject.task == "binary":
        margins = margin_scale(subject.model)
        points = np.array([margins.centre - margins.spread, margins.centre, margins.centre + margins.spread])
        low, centre, high = scores_of(subject, points)
        return {SCORES: _mixed(float(centre), abs(float(high - low)) / 2, line_of(subject))}
    odds = scores_of(subject, _likely_margins(subject.model))
    found = {}
    if odds.shape[1] <= MOST_AGAINST:
        against = (odds[:, k] - logsumexp(np.delete(odds, k, axis=1), axis=1) for k in range(odds.shape[1]))
        found = {f"{AGAINST} {k}": _mixed(*_about(scores)) for k, scores in enumerate(against)}
    if subject.has_probabilities:
        centre, spread = _about(odds_of(log_softmax(odds, axis=1).max(axis=1)))
        found[CONFIDENCE] = Scale(centre, _length(spread))
    return found


def odds_of(log_chances: Vector) -> Vector:
    """Log odds of chances that may be 1 as far as floats tell."""
    with np.errstate(divide="ignore"):
        return np.asarray(logit(np.minimum(np.exp(log_chances), expit(36.0))))


def _likely_margins(model: Any) -> Vector:
    """Margins of several outputs that have the mean and the spread of those of rows, as the public model tells them.

    A row of features is at most ``x_norm`` long, and taken to be spread evenly over all directions: margins then have a
    known covariance. Two points on each of its axes have the same.
    """
    centre, weights = margins_about(model)
    axes, lengths, _ = np.linalg.svd(weights, full_matrices=False)
    steps = math.sqrt(len(lengths)) * (axes * lengths).T
    return np.concatenate([centre + steps, centre - steps])


def _about(scores: Vector) -> tuple[float, float]:
    return float(scores.mean()), float(scores.std())


def _mixed(centre: float, spread: float, line: float | None = None) -> Scale:
    """Of log odds that lie so: the scale of those at which both labels occur, which are what an area depends on.

    A score weighs by the chance of the one label times that of the other. The log odds are believed for the centre, and
    half of them for the spread, as models tend to be too sure; where they are wrong intervals are wider.
    """
    scores = centre + spread * _NORMAL
    (middle, _), (_, wide) = (
        _moments(scores, log_expit(part) + log_expit(-part)) for part in (scores, scores / 2)
    )
    return Scale(middle, _length(wide), line)


def _moments(scores: Vector, log_weights: Vector) -> tuple[float, float]:
    weights = softmax(log_weights)
    middle = float(weights @ scores)
    return middle, math.sqrt(weights @ (scores - middle) ** 2)


def _length(spread: float) -> float:
    return min(max(float(spread), LEAST_SPREAD), _FAR)
