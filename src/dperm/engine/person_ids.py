"""Ids of persons in one form of few bytes, wherever their rows are; they stay as private as they were."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput

DIGEST = np.dtype("V16")
"""What stands for an id. It hides nothing: who guesses the id finds the same."""

_MISSING = (
    "there are rows without the id of a person, or with one that is neither text nor a number. Give every row the id "
    "of its person; a row of an unknown person may have an id of its own."
)


def digests(ids: Any) -> NDArray[np.void]:
    """The digest of each id; one that is a number has that of its text, so that 7, 7.0 and "7" are one person."""
    given = np.asarray(ids)
    if given.dtype == DIGEST:
        return given
    if given.ndim != 1 or given.dtype.kind not in "iufOUST":
        raise InvalidInput("ids of persons must be text or numbers, one for each row.")
    listed = given.tolist()
    if not all(isinstance(one, Hashable) for one in listed):
        raise InvalidInput(_MISSING)
    known: dict[Any, int] = {}
    places = np.fromiter((known.setdefault(one, len(known)) for one in listed), np.int64, len(given))
    found = b"".join(blake2b(_text(one), digest_size=DIGEST.itemsize).digest() for one in known)
    return np.frombuffer(found, DIGEST)[places]


def _text(one: Any) -> bytes:
    if isinstance(one, str):
        return one.encode("utf-8", "surrogatepass")
    if isinstance(one, bytes):
        return one
    if isinstance(one, numbers.Integral) and not isinstance(one, bool | np.bool_):
        return str(int(one)).encode()
    if isinstance(one, numbers.Real) and not isinstance(one, bool | np.bool_) and math.isfinite(one):
        number = float(one)
        return (str(int(number)) if number.is_integer() else repr(number)).encode()
    raise InvalidInput(_MISSING)


def comparable(found: NDArray[np.void]) -> NDArray[np.bytes_]:
    """The same digests, in a type that NumPy sorts fast."""
    return found.view(f"S{DIGEST.itemsize}")
