"""MNIST as a table: one column a pixel, so that it goes through a schema like any other data set."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.numeric import Numeric
from dperm.datasets.schema import Schema
from dperm.datasets.target import Target

PIXELS = [f"pixel{i}" for i in range(1, 785)]
TRAINING_IMAGES = 60_000


def mnist_schema() -> Schema:
    """Grey values from 0 to 255, with black, the background, moved to 0.

    Ink covers a small part of an image: a row has about a third of the norm of an image all white.
    """
    return Schema(
        target=Target(name="digit", classes=tuple(range(10))),
        features=tuple(Numeric(name=name, range=(0, 255), centre=0) for name in PIXELS),
        norm_share=1 / 3,
    )


def mnist_table(pixels: NDArray[np.uint8], digits: NDArray[np.uint8]) -> Any:
    """Columns ``pixel1`` to ``pixel784``, ``digit`` and ``split`` from images in the published order."""
    import pyarrow as pa

    by_pixel = np.ascontiguousarray(pixels.T)
    columns = dict(zip(PIXELS, map(pa.array, by_pixel), strict=True))
    split = np.where(np.arange(len(digits)) < TRAINING_IMAGES, "train", "test")
    return pa.table({**columns, "digit": digits, "split": split})


def read_mnist(content: bytes) -> Any:
    """The table in an ``.npz`` archive of the training and test images."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        pixels, digits = (np.concatenate([archive[f"{k}_train"], archive[f"{k}_test"]]) for k in "Xy")
    return mnist_table(pixels, digits)
