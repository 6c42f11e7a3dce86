"""Public bins of the scores of a released model, by its numbers alone: most of them where scores may lie."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, logit, logsumexp, ndtri, softmax

from dperm.errors import InvalidInput
from dperm.losses import Loss

Vector = NDArray[np.float64]
Places = NDArray[np.int64]

FEWEST, MOST = 2, 256
DEFAULTS = (64, 12)
"""The most and the fewest bins that are chosen where nothing is said."""
LEAST_SPREAD = 1e-300
SCORES, CONFIDENCE, AGAINST = "scores", "confidence", "one against the rest"
MOST_AGAINST = 16
"""Classes up to which each is also judged against all others: every one needs a histogram of its own."""
MARGIN_STRETCH = 3.0
"""Margins without a link, such as those of an SVM, are taken for log odds once they are this much longer."""

_FAR = 1e6  # a margin that overflowed is cut, so that what follows is a number whatever the row

_NORMAL = ndtri((np.arange(401) + 0.5) / 401)


@dataclass(frozen=True)
class Scale:
    """Where scores may lie: around ``centre``, by about ``spread``; ``line`` is to be an edge, where one is given.

    Edges are equal steps of a / sqrt(1 + a**2), where a is the distance from the centre in units of the spread, but for
    a line: then they are equal steps on either side of it.
    """

    centre: float
    spread: float
    line: float | None = None

    def cut(self, bins: int) -> int:
        """How many of the bins lie below the line."""
        if self.line is None:
            raise ValueError("this scale has no line.")
        return min(max(round(bins * self._share(self.line)), 1), bins - 1)

    def edges(self, bins: int) -> Vector:
        """The inner edges, in their order."""
        shares = np.arange(1, bins) / bins
        if self.line is None:
            return self._scores(shares)
        cut, share = self.cut(bins), self._share(self.line)
        places = np.arange(1, bins)
        shares = np.where(
            places < cut, share * places / cut, share + (1 - share) * (places - cut) / (bins - cut)
        )
        edges = self._scores(shares)
        edges[cut - 1] = self.line
        edges[: cut - 1] = np.minimum(edges[: cut - 1], self.line)  # but for rounding they are so
        edges[cut:] = np.maximum(edges[cut:], self.line)
        return edges

    def place(self, scores: Vector, bins: int) -> Places:
        """The bin of each score; one holds its upper edge, so that what is predicted negative lies below the line.

        What is not a number lies in the middle.
        """
        found = np.searchsorted(self.edges(bins), scores, side="left")
        return np.where(np.isnan(scores), bins // 2, found)

    def _share(self, score: float) -> float:
        away = min(max((score - self.centre) / self.spread, -1e9), 1e9)
        return (1 + away / math.sqrt(1 + away**2)) / 2

    def _scores(self, shares: Vector) -> Vector:
        away = np.clip(2 * shares - 1, -1 + 1e-15, 1 - 1e-15)
        return np.asarray(self.centre + self.spread * away / np.sqrt(1 - away**2))


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


def margin_scale(model: Any) -> Scale:
    """Of the margins of a model with one output."""
    centre, weights = margins_about(model)
    return Scale(float(centre[0]), max(float(np.linalg.norm(weights[0])), LEAST_SPREAD))


def margins_about(model: Any) -> tuple[Vector, Vector]:
    """The margins at the centre of the rows, and weights whose lengths tell how far margins may be from it.

    A row of features is at most ``x_norm`` long, so that margins are spread over about the length of the weights times
    it, over the root of the number of features.
    """
    row_map, weights = model.row_map_, np.asarray(model.coef_, np.float64)
    centre = 0.0 if row_map.centre is None else weights @ row_map.centre
    seen = weights if row_map.scale is None else weights * row_map.scale
    return np.asarray(model.intercept_ + centre), seen * (row_map.x_norm / math.sqrt(seen.shape[1]))


def check_bins(bins: int) -> int:
    if isinstance(bins, bool) or not isinstance(bins, int) or not FEWEST <= bins <= MOST:
        raise InvalidInput(f"bins must be a whole number from {FEWEST} to {MOST}; got {bins!r}.")
    return bins


def default_bins(noise_scale: float, n_rows: int) -> int:
    """By the noise of a cell and the public number of rows.

    The variance that noise gives an area grows with the number of bins b, and what is unknown of the order inside of
    bins falls with b**3. About the root of rows over noise has the least of both (docs/proofs/evaluation.md).
    """
    most, fewest = DEFAULTS
    return min(max(round(math.sqrt(n_rows / noise_scale)), fewest), most)


class ScoredModel(Protocol):
    """A fitted model and what is public of its scores."""

    @property
    def model(self) -> Any: ...
    @property
    def task(self) -> str: ...
    @property
    def loss(self) -> Loss: ...
    @property
    def has_probabilities(self) -> bool: ...
    def in_order(self, scores: Vector) -> Vector: ...


def scores_of(scored: ScoredModel, margins: Vector) -> Vector:
    """Margins as log odds of the classes in their public order; of several, up to a constant of each row."""
    odds = scored.loss.log_odds(margins) if scored.has_probabilities else MARGIN_STRETCH * margins
    return np.clip(np.nan_to_num(scored.in_order(np.asarray(odds, np.float64))), -_FAR, _FAR)


def line_of(scored: ScoredModel) -> float:
    """Where the model's own threshold lies among the scores of two classes."""
    threshold = getattr(scored.model, "threshold_", None)
    return 0.0 if threshold is None else float(scores_of(scored, np.array([threshold.margin]))[0])


def scales_of(scored: ScoredModel) -> dict[str, Scale]:
    """The scales of all scores that are binned, from coefficients, intercept and row map."""
    if scored.task == "binary":
        margins = margin_scale(scored.model)
        points = np.array([margins.centre - margins.spread, margins.centre, margins.centre + margins.spread])
        low, centre, high = scores_of(scored, points)
        return {SCORES: _mixed(float(centre), abs(float(high - low)) / 2, line_of(scored))}
    odds = scores_of(scored, _likely_margins(scored.model))
    found = {}
    if odds.shape[1] <= MOST_AGAINST:
        against = (odds[:, k] - logsumexp(np.delete(odds, k, axis=1), axis=1) for k in range(odds.shape[1]))
        found = {f"{AGAINST} {k}": _mixed(*_about(scores)) for k, scores in enumerate(against)}
    if scored.has_probabilities:
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
