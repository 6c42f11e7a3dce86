"""Names for the arrays that annotations speak of."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Array = NDArray[np.floating[Any]]
"""Numbers in the precision of a pass: float32 or float64."""
