"""The compiled loop that keeps a gradient of old slopes, in whole steps of a grid.

There is no other copy of the loop for other rows: what a row adds depends on its own numbers alone, bit for bit.
"""

import numpy as np

from dperm.compiling import compiled
from dperm.engine._formulas import slope, told

COLUMN, PLACE = np.uint32, np.uint64  # unsigned, so that no test for negative ones is compiled
_ROUNDS = 1.5 * 2.0**52  # floats beyond it are whole


@compiled()
def steps(value):
    """The nearest whole number, the even one of two, of a number below 2**51 in size."""
    return np.int64((value + _ROUNDS) - _ROUNDS)


@compiled()
def renew(
    rows, y, own, places, values, change, scale, kind, a, limits, margins, slopes, sums, shift, changed
):
    """Add ``change`` times ``values`` to the margins of the rows at ``places``, and renew their slopes.

    The slope is that at ``scale`` times the margin, cut to the first of ``limits``. ``sums`` change by the difference
    of old and new slope * x, each rounded to steps of the grid; the second of ``limits`` is the number of them in 1.
    """
    data, index, edges, constant = rows
    largest, per_one = limits
    for at in range(places.size):
        i = places[at]
        if own.size > 0 and own[i] == 0:
            continue
        margins[i] += np.float64(values[at]) * change
        new, old = slope(kind, scale * margins[i], told(y[i], 1.0), 1.0, a), slopes[i]
        if not new <= largest:  # nor is NaN
            new = largest
        if new < -largest:
            new = -largest
        if new == old:
            continue
        slopes[i] = new
        for q in range(PLACE(edges[i]), PLACE(edges[i + 1])):
            j, x = COLUMN(index[q]), np.float64(data[q])
            sums[j] += steps(new * x * per_one) - steps(old * x * per_one)
            changed[j >> shift] = 1
        if constant.size > 0:
            j, x = COLUMN(sums.size - 1), constant[i]
            sums[j] += steps(new * x * per_one) - steps(old * x * per_one)
            changed[j >> shift] = 1
