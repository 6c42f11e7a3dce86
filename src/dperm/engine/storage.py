"""In which precision rows may be stored, by public numbers alone."""

from typing import Any

import numpy as np

from dperm.errors import InvalidInput
from dperm.row_map import RowMap

_SMALL = 2**21  # numbers that may as well be stored as float64
# Bounds must leave room for squares (float64) and for rounding to the storage type (float32).
_EXPONENT_LIMIT = {np.dtype(np.float32): 100, np.dtype(np.float64): 400}


def storage_of(row_map: RowMap, size: int, precise: bool) -> np.dtype[Any]:
    """Float32, or for precise rows float64 where so many numbers cost little or the bounds are beyond float32."""
    single = np.dtype(np.float32)
    limit = 2.0 ** _EXPONENT_LIMIT[single]
    fits = all(1 / limit <= bound <= limit for bound in (row_map.x_norm, row_map.intercept or 1.0))
    return np.dtype(np.float64) if precise and (size <= _SMALL or not fits) else single


def check_storage(row_map: RowMap, dtype: np.dtype[Any]) -> None:
    """Refuse bounds that this type has no room for."""
    x_norm, intercept = row_map.x_norm, row_map.intercept
    if dtype not in _EXPONENT_LIMIT:
        raise InvalidInput(f"storage must be float32 or float64; got {dtype}.")
    limit = 2.0 ** _EXPONENT_LIMIT[dtype]
    if not 1 / limit <= x_norm <= limit:
        raise InvalidInput(
            f"x_norm must lie between {1 / limit:.3g} and {limit:.3g} with {dtype} storage; got "
            f"{x_norm!r}. Rescale the features, or store them as float64."
        )
    if intercept != 0 and not 1 / limit <= intercept <= limit:
        raise InvalidInput(
            f"intercept must be 0 or lie between {1 / limit:.3g} and {limit:.3g} with {dtype} storage; "
            f"got {intercept!r}."
        )


def floor_of(n_features: int, dtype: np.dtype[Any]) -> float:
    """No stored norm is taken as smaller than this, so that underflow cannot spoil the clip."""
    return float(n_features * 2.0 ** -(_EXPONENT_LIMIT[dtype] + 20))
