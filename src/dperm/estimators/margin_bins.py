"""Public bins of the margins of a released model: most of them where margins may lie."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def bins_of(model: Any, margins: Vector, bins: int) -> NDArray[np.int64]:
    """The bin of each margin of a model with one output; what is not a number lies in the middle."""
    centre, spread = _where(model)
    with np.errstate(over="ignore"):
        away = np.clip(np.nan_to_num((margins - centre) / spread, nan=0.0), -1e9, 1e9)
    share = (1 + away / np.sqrt(1 + away**2)) / 2
    return np.minimum((bins * share).astype(np.int64), bins - 1)


def edges_of(model: Any, bins: int) -> Vector:
    """The margins between the bins, in their order."""
    centre, spread = _where(model)
    away = 2 * np.arange(1, bins) / bins - 1
    return np.asarray(centre + spread * away / np.sqrt(1 - away**2))


def _where(model: Any) -> tuple[float, float]:
    """The margin at the centre of the rows, and a length by which margins may differ from it.

    A row of features is at most ``x_norm`` long, so that margins are spread over about the length of the weights times
    it, over the root of the number of features.
    """
    row_map, weights = model.row_map_, model.coef_[0]
    centre = 0.0 if row_map.centre is None else float(weights @ row_map.centre)
    seen = weights if row_map.scale is None else weights * row_map.scale
    spread = float(np.linalg.norm(seen)) * row_map.x_norm / math.sqrt(len(seen))
    return float(model.intercept_[0]) + centre, max(spread, 1e-300)
