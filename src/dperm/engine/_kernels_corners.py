"""The compiled loop that keeps a gradient of old slopes, in whole steps of a grid.

There is no other copy of the loop for other rows: what a row adds depends on its own numbers alone, bit for bit.
"""

import numpy as np

from dperm.compiling import compiled
from dperm.engine._formulas import slope


@compiled()
def renew(
    rows, y, own, places, values, change, scale, kind, a, limits, margins, slopes, sums, block, changed
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
        new, old = slope(kind, scale * margins[i], y[i], 1.0, a), slopes[i]
        if not new <= largest:  # nor is NaN
            new = largest
        if new < -largest:
            new = -largest
        if new == old:
            continue
        slopes[i] = new
        for q in range(edges[i], edges[i + 1]):
            j, x = index[q], np.float64(data[q])
            sums[j] += np.int64(np.rint(new * x * per_one)) - np.int64(np.rint(old * x * per_one))
            changed[j // block] = 1
        if constant.size > 0:
            j, x = sums.size - 1, constant[i]
            sums[j] += np.int64(np.rint(new * x * per_one)) - np.int64(np.rint(old * x * per_one))
            changed[j // block] = 1
