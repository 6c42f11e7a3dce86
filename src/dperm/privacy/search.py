"""One monotone search for every calibration; its answer is always on the safe side."""

import math
from collections.abc import Callable

from dperm.errors import NotCertified

_LARGEST_JUMP = 512  # powers of two; the bracket may end 2**1023 away from the start


def smallest_safe(
    excess: Callable[[float], float], start: float, tolerance: float = 1e-10, lowest: float = 0.0
) -> float:
    """Smallest x > 0, to a relative ``tolerance``, with ``excess(x) <= 0``; never below ``lowest``.

    Guarantee
    ---------
    ``excess`` was evaluated at the returned x and was at most 0 there, whatever its shape.

    Assumes
    -------
    ``excess`` decreases in x (otherwise the answer is safe but perhaps not the smallest).

    Raises
    ------
    NotCertified
        If the sign of ``excess`` never changes around ``start``.
    """
    unsafe, unsafe_excess, safe, safe_excess = _bracket(excess, start, lowest)
    if unsafe_excess <= 0:
        return unsafe
    # The ITP method (Oliveira and Takahashi, 2020) on log x: no slower than bisection plus one step.
    log_unsafe, log_safe = math.log(unsafe), math.log(safe)
    longest = max(0, math.ceil(math.log2((log_safe - log_unsafe) / tolerance))) + 1
    for step in range(longest + 1):
        width = log_safe - log_unsafe
        if width <= tolerance:
            break
        middle = (log_unsafe + log_safe) / 2
        guess = middle
        if math.isfinite(unsafe_excess) and math.isfinite(safe_excess):
            guess = (log_unsafe * safe_excess - log_safe * unsafe_excess) / (safe_excess - unsafe_excess)
        towards_middle = math.copysign(1.0, middle - guess)
        truncation = 0.5 * width**1.5
        guess = guess + towards_middle * truncation if truncation <= abs(middle - guess) else middle
        slack = max((tolerance * 2.0 ** (longest - step) - width) / 2, 0.0)
        if abs(guess - middle) > slack:
            guess = middle - towards_middle * slack
        x = math.exp(guess)
        value = excess(x)
        if value <= 0:
            safe, log_safe, safe_excess = x, guess, value
        else:
            log_unsafe, unsafe_excess = guess, value
    return safe


def _bracket(
    excess: Callable[[float], float], start: float, lowest: float
) -> tuple[float, float, float, float]:
    """(x, excess(x)) on the unsafe side or at ``lowest``, then on the safe side, in jumps that double."""
    here, value = start, excess(start)
    down = value <= 0
    jump = 1
    while jump <= _LARGEST_JUMP:
        there = max(math.ldexp(here, -jump if down else jump), lowest)
        if not 0 < there < math.inf:
            break
        there_value = excess(there)
        if (there_value <= 0) != down or there == lowest:
            return (there, there_value, here, value) if down else (here, value, there, there_value)
        here, value, jump = there, there_value, jump * 2
    raise NotCertified(
        f"No value between {start:g} and {here:g} separates private from not private: the search found "
        f"{'none that is too small' if down else 'none that is large enough'}. Check that the sensitivity "
        "is positive and that the part of the cost that noise cannot lower is below epsilon."
    )
