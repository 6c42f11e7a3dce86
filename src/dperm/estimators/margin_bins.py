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
DEFAULTS = (64, 32, 16, 12)
NOISY = 0.01
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

        What is not a number lies at the centre.
        """
        return np.searchsorted(self.edges(bins), np.nan_to_num(scores, nan=self.centre), side="left")

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


def margin_scale(model: Any, line: float | None = None) -> Scale:
    """Of the margins of a model with one output."""
    centre, spread = margins_about(model, model.coef_[:1])
    return Scale(float(centre[0]), float(spread[0]), line)


def margins_about(model: Any, weights: Vector) -> tuple[Vector, Vector]:
    """The margins at the centre of the rows, and a length by which <x, w> may differ from it for each row of weights.

    A row of features is at most ``x_norm`` long, so that margins are spread over about the length of the weights times
    it, over the root of the number of features.
    """
    row_map = model.row_map_
    centre = np.zeros(len(model.coef_)) if row_map.centre is None else model.coef_ @ row_map.centre
    seen = weights if row_map.scale is None else weights * row_map.scale
    spread = np.linalg.norm(seen, axis=1) * row_map.x_norm / math.sqrt(seen.shape[1])
    return np.asarray(model.intercept_ + centre, np.float64), np.clip(spread, LEAST_SPREAD, 1e300)


def check_bins(bins: int) -> int:
    if isinstance(bins, bool) or not isinstance(bins, int) or not FEWEST <= bins <= MOST:
        raise InvalidInput(f"bins must be a whole number from {FEWEST} to {MOST}; got {bins!r}.")
    return bins


def default_bins(noise_scale: float, n_rows: int) -> int:
    """Fewer where the noise of a cell is large against the public number of rows, so that sums of cells drown less."""
    for bins in DEFAULTS[:-1]:
        if math.sqrt(bins) * noise_scale <= NOISY * n_rows:
            return bins
    return DEFAULTS[-1]
