"""Compiled loops over rows that are read as they lie and mapped on the way: z = (a x - f c) / s, and b where a > 0.

``length`` holds a and ``lift`` f, one number per position; ``lift`` is empty where nothing is subtracted. ``index``
says which row of X stands at a position, and is None where rows keep their order. A position with a = 0 is empty.
"""

import math

import numpy as np

from dperm.compiling import compiled
from dperm.engine._formulas import FREE_ORDER, slope
from dperm.engine._kernels import (
    BLOCK,
    CACHE_LINE,
    FIXED_ORDER,
    prefetch,
    squares_of_row,
    value_of_rows,
)

FLUSH = 4 * BLOCK  # rows whose terms are added up before they join the total: short chains round less


@compiled(FREE_ORDER)
def row_at(index, position):
    if index is None:  # known when a pass is compiled
        return position
    return index[position]


@compiled(FREE_ORDER)
def slopes_of_block(kind, a, margin, y, inverse_norm, weight, first, count, clip):
    """Replace the margins of up to BLOCK rows by slopes, clipped and weighted."""
    for i in range(count):
        margin[i] = slope(kind, margin[i], y[first + i], 1.0, a)
    if clip < np.inf:
        for i in range(count):
            bound = clip * inverse_norm[first + i]
            margin[i] = min(max(margin[i], -bound), bound)
    for i in range(count):
        margin[i] *= weight[i]


@compiled(FREE_ORDER)
def one_lazy_model(
    X,
    index,
    length,
    lift,
    y,
    inverse_norm,
    mask,
    w,
    first,
    last,
    kind,
    a,
    clip,
    want_value,
    want_gradient,
    sums,
):
    """As ``one_model``, over rows that are mapped on the way.

    ``w`` holds the weights over s, then <c, w / s>, then b times the weight of the constant column. ``sums`` gets
    sum(slope a x), sum(slope f) and sum(slope) over the rows that are not empty.
    """
    columns = X.shape[1]
    row_bytes = columns * X.itemsize
    address = X.ctypes.data
    moved, masked = lift.size > 0, mask.shape[0] > 0
    margin, weight = np.empty(BLOCK), np.ones(BLOCK)
    own = np.zeros(columns)
    total = 0.0
    for b in range(first, last, BLOCK):
        count = min(BLOCK, last - b)
        paired = count - count % 2
        ahead = b + BLOCK  # rows of the next block are asked for meanwhile
        for i in range(0, paired, 2):
            start = address + row_at(index, min(ahead, last - 1)) * row_bytes
            for byte in range(0, row_bytes, CACHE_LINE):
                prefetch(start + byte)
            ahead += 1
            m0 = 0.0
            m1 = 0.0
            r0 = row_at(index, b + i)
            r1 = row_at(index, b + i + 1)
            for j in range(columns):
                m0 += np.float64(X[r0, j]) * w[j]
                m1 += np.float64(X[r1, j]) * w[j]
            margin[i] = m0
            margin[i + 1] = m1
        if paired < count:
            m0 = 0.0
            r0 = row_at(index, b + paired)
            for j in range(columns):
                m0 += np.float64(X[r0, j]) * w[j]
            margin[paired] = m0
        for i in range(count):
            margin[i] = length[b + i] * margin[i] + (w[columns + 1] if length[b + i] > 0 else 0.0)
        if moved:
            for i in range(count):
                margin[i] -= lift[b + i] * w[columns]
        if masked:
            for i in range(count):
                weight[i] = mask[b + i, 0]
        if want_value:
            total += value_of_rows(kind, a, margin, y, weight, b, count)
        if not want_gradient:
            continue
        slopes_of_block(kind, a, margin, y, inverse_norm, weight, b, count, clip)
        if moved:
            for i in range(count):
                sums[columns] += margin[i] * lift[b + i]
        for i in range(count):
            sums[columns + 1] += margin[i] if length[b + i] > 0 else 0.0
            margin[i] *= length[b + i]
        for i in range(0, paired, 2):
            start = address + row_at(index, min(ahead, last - 1)) * row_bytes
            for byte in range(0, row_bytes, CACHE_LINE):
                prefetch(start + byte)
            ahead += 1
            s0 = margin[i]
            s1 = margin[i + 1]
            r0 = row_at(index, b + i)
            r1 = row_at(index, b + i + 1)
            for j in range(columns):
                own[j] += s0 * np.float64(X[r0, j]) + s1 * np.float64(X[r1, j])
        if paired < count:
            s0 = margin[paired]
            r0 = row_at(index, b + paired)
            for j in range(columns):
                own[j] += s0 * np.float64(X[r0, j])
        if (b + BLOCK - first) % FLUSH == 0 or b + BLOCK >= last:
            for j in range(columns):
                sums[j] += own[j]
                own[j] = 0.0
    return total


@compiled(FIXED_ORDER)
def map_rows(X, index, length, lift, centre, spread, constant, first, out):
    """Rows first, first + 1, ... as the model sees them; ``spread`` and ``centre`` are empty or one per column."""
    columns = X.shape[1]
    for i in range(out.shape[0]):
        position = first + i
        row = row_at(index, position)
        for j in range(columns):
            z = np.float64(X[row, j]) * length[position]
            if lift.size > 0:
                z -= lift[position] * centre[j]
            out[i, j] = z / spread[j] if spread.size > 0 else z
        if out.shape[1] > columns:
            out[i, columns] = constant if length[position] > 0 else 0.0


@compiled(FIXED_ORDER)
def row_factors(X, first, last, position, centre, spread, bounds, largest, length, lift, inverse_norm):
    """Find a and f of rows [first, last) and what bounds their norm; return how many rows cannot be taken.

    A row is not taken that holds a number which is not finite or above ``largest`` in size.
    """
    x_norm, intercept, slack, shrink, floor = bounds
    columns = X.shape[1]
    moved = np.empty((1, columns))
    bad = 0
    for i in range(first, last):
        fits = True
        for j in range(columns):
            value = np.float64(X[i, j])
            moved[0, j] = value
            fits &= abs(value) <= largest
        if not fits:
            bad += 1
            continue
        factor, drop = 1.0, 0.0
        scale, squares = squares_of_row(moved, 0)
        if spread.size > 0:
            if squares > x_norm * x_norm:
                factor = x_norm / math.sqrt(squares)
            for j in range(columns):
                moved[0, j] = (moved[0, j] * factor - centre[j]) / spread[j]
            scale, squares = squares_of_row(moved, 0)
            drop = 1.0
        norm = math.sqrt(squares * slack)
        if scale != 1.0 or squares * slack > x_norm * x_norm:
            short = x_norm / math.sqrt(squares) * shrink * scale
            factor *= short
            drop *= short
            norm = x_norm
        at = position[i]
        length[at] = factor
        if lift.size > 0:
            lift[at] = drop
        longest = math.sqrt(norm * norm + intercept * intercept) * (1.0 + 2.0**-49) + floor
        inverse_norm[at] = (1.0 - 2.0**-49) / longest
    return bad
