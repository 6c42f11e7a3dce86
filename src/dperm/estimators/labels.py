"""Targets as the losses take them, written down once for everybody who trains a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.errors import InvalidInput


def encode_labels(y: ArrayLike, classes: ArrayLike) -> NDArray[np.float64]:
    """-1 and +1 for two classes, the second one positive; for more the place of each label among them.

    Raises
    ------
    InvalidInput
        If a label is not one of the classes. Which one is not said: it belongs to a record.
    """
    labels: NDArray[Any] = np.asarray(y)
    known: NDArray[Any] = np.asarray(classes)
    places = np.full(labels.shape, -1.0)
    for place, label in enumerate(known):
        places[labels == label] = place
    if (places < 0).any():
        raise InvalidInput(
            "y holds labels outside classes; declare every label that may occur, of two the positive one second."
        )
    return 2.0 * places - 1.0 if len(known) == 2 else places


def encode_numbers(values: ArrayLike, low: float, high: float) -> NDArray[np.float64]:
    """Numbers in units of half their range, from its middle, moved to its ends where they are beyond."""
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    return np.clip((np.asarray(values, np.float64) - middle) / half, -1.0, 1.0)
