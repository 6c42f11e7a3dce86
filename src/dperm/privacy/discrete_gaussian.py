"""Exact discrete Gaussians, drawn by compiled integer arithmetic on the bytes of a source.

A point y of the whole numbers has a chance proportional to exp(-y**2 / (2 scale**2)); see docs/proofs/noise.md.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.privacy.entropy import Entropy, Words
from dperm.processors import available_processors

Integers = NDArray[np.int64]

LARGEST_SCALE = 2**56
LARGEST_DRAW = 2**62  # no draw is as large: a scale times the 64 scales that the sampler reaches
LONGEST_BUFFER = 2**16
_BYTES_EACH, _BYTES_MORE = 30, 128  # a draw takes 18 to 31 bytes on average, so most short releases ask once
_FEWEST_FOR_A_THREAD = 2**13


def discrete_gaussian(size: int, scales: Sequence[int], entropy: Entropy) -> Integers:
    """``size`` independent draws for each of the scales, one column for each.

    Raises
    ------
    InvalidInput
        If a scale is not a whole number between 1 and 2**56.
    """
    columns = np.array([_checked(scale) for scale in scales], np.uint64).reshape(-1, 3)
    out = np.empty(size * len(scales), np.int64)
    most = min(available_processors(), out.size // _FEWEST_FOR_A_THREAD)
    if most <= 1:
        _fill(out, 0, out.size, size, columns, entropy)
    else:
        edges = [out.size * part // most for part in range(most + 1)]
        with ThreadPoolExecutor(most) as threads:
            list(
                threads.map(
                    lambda part: _fill(out, part[0], part[1], size, columns, entropy), pairwise(edges)
                )
            )
    return out.reshape(len(scales), size).T


def by_opendp(scale: int) -> bool:
    """Whether OpenDP draws: beyond the largest scale, and where the environment has ``DPERM_SAMPLER=opendp``."""
    chosen = os.environ.get("DPERM_SAMPLER", "compiled")
    if chosen not in ("compiled", "opendp"):
        raise InvalidInput(f'DPERM_SAMPLER must be "compiled" or "opendp"; got {chosen!r}.')
    return chosen == "opendp" or scale > LARGEST_SCALE


def _checked(scale: int) -> tuple[int, int, int]:
    """A scale, the bytes that hold a number below it, and the mask of its bits."""
    if isinstance(scale, bool) or not isinstance(scale, int) or not 1 <= scale <= LARGEST_SCALE:
        raise InvalidInput(f"A scale must be a whole number between 1 and 2**56; got {scale!r}.")
    return scale, *bytes_below(scale)


def bytes_below(bound: int) -> tuple[int, int]:
    """How many bytes hold every number below ``bound``, and the mask of their bits."""
    bits = max(1, (bound - 1).bit_length())
    return -(-bits // 8), 2**bits - 1


def _fill(out: Integers, first: int, last: int, each: int, columns: Words, entropy: Entropy) -> None:
    """Draws ``first`` to ``last``. A draw that meets the end of a buffer begins again at its own first byte."""
    from dperm.privacy._integer_kernels import fill_gaussians

    done, unread = first, np.empty(0, np.uint8)
    while done < last:
        wanted = min(LONGEST_BUFFER, _BYTES_EACH * (last - done) + _BYTES_MORE)
        fresh = entropy.words(-(-wanted // 8)).view(np.uint8)
        digits = np.concatenate([unread, fresh]) if unread.size else fresh
        done, used = fill_gaussians(out, done, last, each, columns, digits)
        unread = digits[used:]
