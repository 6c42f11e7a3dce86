"""A loss's formulas for a single margin, in plain Python: the engine compiles them, nothing here does."""

import math
from collections.abc import Callable
from dataclasses import dataclass

Formula = Callable[..., float]
"""A function of ``margin, y, one`` and then the loss's ``kernel_parameters``, one by one."""


@dataclass(frozen=True)
class Kernel:
    """The formulas of a loss of one margin, for the engine's compiled passes.

    - ``slope``: the derivative in the margin, as ``Loss.slope``;
    - ``value``: the loss itself, or a part of it if there is an ``excess``;
    - ``excess``: a number e from 0 to 1 for a loss that is ``value`` + log(1 + e). A pass then multiplies the 1 + e of
      many rows and takes one logarithm for all of them.

    They are module-level functions. Sums in them may be reordered and contracted, but nothing is assumed to be
    finite. They are called in float32 or float64; ``one`` is 1 in that precision, and constants are made from it
    (``one + one``, ``one - one``), because a literal would widen float32. Of functions they may call ``abs``,
    ``min``, ``max``, those of ``math`` and ``exponential``.
    """

    slope: Formula
    value: Formula
    excess: Formula | None = None


def exponential(x: float) -> float:
    """e^x, cut off where it would underflow or overflow. Compiled code has a fast one in its place."""
    return math.exp(min(max(x, -708.0), 709.0))
