"""Compiled loops over rows that are read as they lie and mapped on the way: z = a (x - f c) / s, and b where a > 0.

``length`` holds a and ``lift`` f, one number per position; ``lift`` is None where nothing is subtracted. ``index``
says which row of X stands at a position, and is None where rows keep their order. A position with a = 0 is empty.
"""

import math

import numpy as np

from dperm.compiling import compiled
from dperm.engine.base.formulas import FREE_ORDER
from dperm.engine.base.intrinsics import CACHE_LINE, prefetch
from dperm.engine.base.kernels import BLOCK, FIXED_ORDER, inverse_of_norm, slopes_of_rows, value_of_rows
from dperm.engine.dense.kernels import squares_of_row


@compiled(FREE_ORDER)
def row_at(index, position):
    if index is None:  # known when a pass is compiled, as all that may be None
        return position
    return index[position]


@compiled(FREE_ORDER)
def lift_at(lift, position):
    if lift is None:
        return 0.0
    return lift[position]


@compiled(FIXED_ORDER)
def moved(x, f, lift, centre, j):
    """x - f c, or x, of a column: one number before anything is done with it, so that it does not round as two."""
    if lift is None:
        return np.float64(x)
    return np.float64(x) - f * centre[j]


@compiled(FIXED_ORDER)
def both_moved(s0, x0, s1, x1, q, lift, centre, j):
    """The terms of two rows in a column of the gradient, q c taken off."""
    if lift is None:
        return s0 * np.float64(x0) + s1 * np.float64(x1)
    return (s0 * np.float64(x0) + s1 * np.float64(x1)) - q * centre[j]


@compiled(FREE_ORDER)
def ask_for_row(address, index, position, row_bytes):
    start = address + row_at(index, position) * row_bytes
    for byte in range(0, row_bytes, CACHE_LINE):
        prefetch(start + byte)


@compiled(FREE_ORDER)
def one_mapped_model(rows, labels, w, first, last, kind, a, clip, wanted, sums):
    """As ``one_model``, over rows that are mapped on the way; ``wanted``: the value, the gradient.

    ``w`` holds the weights over s, then b times the weight of the constant column. ``sums`` gets
    sum(slope a (x - f c)), and sum(slope) over the rows that are not empty.
    """
    X, index, length, lift, centre = rows
    y, inverse_norm, mask = labels
    columns = X.shape[1]
    row_bytes = columns * X.itemsize
    address = X.ctypes.data
    masked = mask.shape[0] > 0
    margin, weight = np.empty(BLOCK), np.ones(BLOCK)
    total = 0.0
    for b in range(first, last, BLOCK):
        count = min(BLOCK, last - b)
        paired = count - count % 2
        ahead = b + BLOCK  # rows of the next block are asked for meanwhile
        for i in range(0, paired, 2):
            ask_for_row(address, index, min(ahead, last - 1), row_bytes)
            ahead += 1
            m0 = 0.0
            m1 = 0.0
            r0, r1 = row_at(index, b + i), row_at(index, b + i + 1)
            f0, f1 = lift_at(lift, b + i), lift_at(lift, b + i + 1)
            for j in range(columns):
                m0 += moved(X[r0, j], f0, lift, centre, j) * w[j]
                m1 += moved(X[r1, j], f1, lift, centre, j) * w[j]
            margin[i] = m0
            margin[i + 1] = m1
        if paired < count:
            m0 = 0.0
            r0, f0 = row_at(index, b + paired), lift_at(lift, b + paired)
            for j in range(columns):
                m0 += moved(X[r0, j], f0, lift, centre, j) * w[j]
            margin[paired] = m0
        for i in range(count):
            margin[i] = length[b + i] * margin[i] + (w[columns] if length[b + i] > 0 else 0.0)
        if masked:
            for i in range(count):
                weight[i] = mask[b + i, 0]
        if wanted[0]:
            total += value_of_rows(kind, a, margin, y, weight, b, count)
        if not wanted[1]:
            continue
        slopes_of_rows(kind, a, margin, y, inverse_norm, clip, b, count)
        for i in range(count):
            margin[i] *= weight[i]
        for i in range(count):
            sums[columns] += margin[i] if length[b + i] > 0 else 0.0
        for i in range(0, paired, 2):
            ask_for_row(address, index, min(ahead, last - 1), row_bytes)
            ahead += 1
            r0, r1 = row_at(index, b + i), row_at(index, b + i + 1)
            s0, s1 = margin[i] * length[b + i], margin[i + 1] * length[b + i + 1]
            q = s0 * lift_at(lift, b + i) + s1 * lift_at(lift, b + i + 1)
            for j in range(columns):
                sums[j] += both_moved(s0, X[r0, j], s1, X[r1, j], q, lift, centre, j)
        if paired < count:
            r0, s0 = row_at(index, b + paired), margin[paired] * length[b + paired]
            f0 = lift_at(lift, b + paired)
            for j in range(columns):
                sums[j] += s0 * moved(X[r0, j], f0, lift, centre, j)
    return total


@compiled(FIXED_ORDER)
def map_rows(X, index, length, lift, centre, spread, constant, first, out):
    """Rows first, first + 1, ... as the model sees them; ``spread`` and ``centre`` are empty or one per column."""
    columns = X.shape[1]
    for i in range(out.shape[0]):
        position = first + i
        row = row_at(index, position)
        for j in range(columns):
            z = length[position] * moved(X[row, j], lift_at(lift, position), lift, centre, j)
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
    row = np.empty((1, columns))
    bad = 0
    for i in range(first, last):
        fits = True
        for j in range(columns):
            value = np.float64(X[i, j])
            row[0, j] = value
            fits &= abs(value) <= largest
        if not fits:
            bad += 1
            continue
        factor, first_factor = 1.0, 1.0
        scale, squares = squares_of_row(row, 0)
        if spread.size > 0:
            if squares > x_norm * x_norm:
                factor = x_norm / math.sqrt(squares)
            for j in range(columns):
                row[0, j] = (row[0, j] * factor - centre[j]) / spread[j]
            scale, squares = squares_of_row(row, 0)
            first_factor = factor
        norm = math.sqrt(squares * slack)
        if scale != 1.0 or squares * slack > x_norm * x_norm:
            short = x_norm / math.sqrt(squares) * shrink * scale
            factor *= short
            norm = x_norm
        at = position[i]
        length[at] = factor
        if lift is not None:
            lift[at] = 1.0 / first_factor
        inverse_norm[at] = inverse_of_norm(norm, intercept, floor)
    return bad
