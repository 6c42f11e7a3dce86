"""Public bins of the scores of a released model: most of them where scores may lie. No row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput

Vector = NDArray[np.float64]
Places = NDArray[np.int64]

FEWEST, MOST = 2, 256
DEFAULTS = (64, 12)
"""The most and the fewest bins that are chosen where nothing is said."""
LEAST_SPREAD = 1e-300


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


def bins_of(model: Any, margins: Vector, bins: int) -> Places:
    """The bin of each margin of a model with one output; what is not a number lies in the middle."""
    return margin_scale(model).place(margins, bins)


def edges_of(model: Any, bins: int) -> Vector:
    """The margins between the bins, in their order."""
    return margin_scale(model).edges(bins)


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
