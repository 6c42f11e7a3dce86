"""How time and memory grow: the exponent b of a power law size^b, by least squares on logarithms."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

LAST = 3
"""Sizes that count, from the largest on: below them fixed costs have a share."""

LEAST_RANGE = 10.0
"""Between the smallest and the largest size that count."""

RULE = (
    f"exponents b of size^b, by least squares on logarithms over the last {LAST} sizes that were measured, if these "
    f"span a factor of {LEAST_RANGE:g} at least; fixed costs have a share in smaller ones"
)


@dataclass(frozen=True, kw_only=True)
class Slope:
    """``exponent`` over the sizes from ``first`` to ``last``."""

    exponent: float
    first: int
    last: int


def slope(values: Mapping[int, float]) -> Slope | None:
    """Of positive values by size; None where there are too few, or too close to one another."""
    sizes = sorted(values)[-LAST:]
    if len(sizes) < LAST or sizes[-1] < LEAST_RANGE * sizes[0] or min(values[size] for size in sizes) <= 0:
        return None
    exponent = np.polyfit(np.log(sizes), np.log([values[size] for size in sizes]), 1)[0]
    return Slope(exponent=float(exponent), first=sizes[0], last=sizes[-1])
