"""Compiled inner loops: plain functions over arrays, kept on disk between processes.

Fast-math flags let sums be reordered and contracted, never assume that NaN or infinity are absent: the
clip and the bounds must hold for every input. Functions whose roundings are counted one by one
(``exponential``, ``bound_rows``) allow contraction only.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from dperm.compiling import compiled
from dperm.engine._formulas import FREE_ORDER, excess, has_excess, label_of, slope, told, value
from dperm.engine._tiles import gradient_of_rows, margins_of_tile
from dperm.losses.kernel import exponential

FIXED_ORDER = {"contract"}
BLOCK = 16  # rows that the one-model kernel reads twice, the second time from the L1 cache
ADDED = 256  # rows that are added up in the arithmetic of a pass; a multiple of every block


# e^x = 2^n e^f with |f| <= ln(2) / 2 and e^f by its Taylor series, even and odd terms apart. Adding ROUND
# rounds to a whole number and leaves it in the low bits, from where a shift takes it to the exponent.
# The remainders are below 2e-16 (float64) and 6e-9 (float32); LN2 is split so that n * high is exact.
TERMS64 = tuple(1.0 / math.factorial(k) for k in range(14))
TERMS32 = tuple(np.float32(term) for term in TERMS64[:8])
ROUND64, ROUND32 = 1.5 * 2.0**52, np.float32(1.5 * 2.0**23)
LN2_HIGH64, LN2_LOW64 = float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")
LN2_HIGH32, LN2_LOW32 = (
    np.float32(float.fromhex("0x1.62ep-1")),
    np.float32(float.fromhex("0x1.0bfbe8e7bcd5ep-15")),
)
INVERSE_LN2_64, INVERSE_LN2_32 = 1 / math.log(2), np.float32(1 / math.log(2))
LOW64, HIGH64, LOW32, HIGH32 = -708.0, 709.0, np.float32(-87.0), np.float32(88.0)


@overload(exponential, jit_options={"error_model": "numpy", "fastmath": FIXED_ORDER})
def exponential_by_type(x):
    if x == types.float32:
        return exponential32
    return exponential64


def exponential64(x):
    x = min(max(x, LOW64), HIGH64)
    shifted = np.float64(x * INVERSE_LN2_64 + ROUND64)
    n = shifted - ROUND64
    f = (x - n * LN2_HIGH64) - n * LN2_LOW64
    s = f * f
    t = TERMS64
    even = t[0] + s * (t[2] + s * (t[4] + s * (t[6] + s * (t[8] + s * (t[10] + s * t[12])))))
    odd = t[1] + s * (t[3] + s * (t[5] + s * (t[7] + s * (t[9] + s * (t[11] + s * t[13])))))
    exponent = np.int64((shifted.view(np.int64) + np.int64(1023)) << np.int64(52))
    return (even + f * odd) * exponent.view(np.float64)


def exponential32(x):
    x = min(max(x, LOW32), HIGH32)
    shifted = np.float32(x * INVERSE_LN2_32 + ROUND32)
    n = shifted - ROUND32
    f = (x - n * LN2_HIGH32) - n * LN2_LOW32
    s = f * f
    t = TERMS32
    even = t[0] + s * (t[2] + s * (t[4] + s * t[6]))
    odd = t[1] + s * (t[3] + s * (t[5] + s * t[7]))
    exponent = np.int32((shifted.view(np.int32) + np.int32(127)) << np.int32(23))
    return (even + f * odd) * exponent.view(np.float32)


# Every pass is written once and compiled per loss: ``kind`` stands for its formulas (``_formulas.py``), ``a`` is the
# tuple of its parameters.


@compiled(FREE_ORDER)
def value_of_rows(kind, a, margin, y, weight, first, count):
    """Weighted sum of the losses of up to BLOCK rows; one logarithm serves them all."""
    total = 0.0
    product = 1.0
    for i in range(count):
        target = told(y[first + i], 1.0)
        total += weight[i] * value(kind, margin[i], target, 1.0, a)
        if has_excess(kind, y):
            product *= 1.0 + weight[i] * excess(kind, margin[i], target, 1.0, a)
    return total + math.log(product) if has_excess(kind, y) else total


margin_of_row = margins_of_tile(1, 1, apart=2)
gradient_of_four, gradient_of_one = gradient_of_rows(4), gradient_of_rows(1)


@compiled(FREE_ORDER)
def one_model(X, y, inverse_norm, mask, w, first, last, kind, a, clip, want_value, want_gradient, gradient):
    """Add the gradient over rows [first, last) to ``gradient`` and return the value, reading X once.

    The arithmetic is that of ``w``, whose length fills whole vectors; ADDED rows at a time are added to the float64
    results. An infinite ``clip`` means none, an empty ``mask`` every row. Rows are read one after the other: so the
    memory is read in order, which it is best at. The second reading of a block is from the L1 cache.
    """
    columns, row_bytes, size = X.shape[1], X.shape[1] * X.itemsize, w.itemsize
    as_type = w.dtype.type
    one = as_type(1)
    masked, clipped = mask.shape[0] > 0, clip < np.inf
    margin, wide, weight = np.empty(BLOCK, w.dtype), np.empty(BLOCK), np.ones(BLOCK)
    sums = np.zeros(w.size, w.dtype)
    x, weights, m, g = X.ctypes.data, w.ctypes.data, margin.ctypes.data, sums.ctypes.data
    total, block_total = 0.0, 0.0
    for b in range(first, last, BLOCK):
        count = min(BLOCK, last - b)
        rows = x + b * row_bytes
        for i in range(count):
            margin_of_row(X, w, rows + i * row_bytes, row_bytes, weights, 0, columns, m + i * size, size)
        if masked:
            for i in range(count):
                weight[i] = mask[b + i, 0]
        if want_value:
            for i in range(count):
                wide[i] = margin[i]
            block_total += value_of_rows(kind, a, wide, y, weight, b, count)
        if want_gradient:
            for i in range(count):
                margin[i] = slope(kind, margin[i], told(y[b + i], one), one, a)
            if clipped:
                for i in range(count):
                    bound = as_type(clip) * as_type(inverse_norm[b + i])
                    margin[i] = min(max(margin[i], -bound), bound)
            if masked:
                for i in range(count):
                    margin[i] *= as_type(weight[i])
            fours = count - count % 4
            for i in range(0, fours, 4):
                gradient_of_four(X, w, rows + i * row_bytes, row_bytes, m + i * size, g, columns)
            for i in range(fours, count):
                gradient_of_one(X, w, rows + i * row_bytes, row_bytes, m + i * size, g, columns)
        if (b + BLOCK - first) % ADDED == 0 or b + BLOCK >= last:
            total += block_total
            block_total = 0.0
            for j in range(columns):
                gradient[j] += np.float64(sums[j])
                sums[j] = 0
    return total


@compiled(FREE_ORDER)
def one_model_epoch(X, y, inverse_norm, mask, w, narrow, edges, decay, rate, kind, a, keep_sum, iterate_sum):
    """For each batch j: w <- decay[j] w - rate[j] * gradient sum over rows [edges[j], edges[j + 1]).

    ``narrow`` is room for the weights in the arithmetic of the gradients, its end filled with zeros.
    """
    gradient = np.empty(w.size)
    for j in range(rate.size):
        gradient[:] = 0.0
        for c in range(w.size):
            narrow[c] = w[c]
        one_model(
            X, y, inverse_norm, mask, narrow, edges[j], edges[j + 1], kind, a, np.inf, False, True, gradient
        )
        for c in range(w.size):
            w[c] = decay[j] * w[c] - rate[j] * gradient[c]
        if keep_sum:
            for c in range(w.size):
                iterate_sum[c] += w[c]


# Many models: element-wise stages on a block Z (rows, padded models) of margins. Row i of Z is row
# first + i of the table.


@compiled(FREE_ORDER)
def slopes_of_models(Z, count, models, y, inverse_norm, mask, first, kind, a, clip):
    """Replace margins by slopes, clipped (``clip`` not empty) and masked (``mask`` not empty)."""
    as_type = Z.dtype.type
    one = as_type(1)
    for i in range(count):
        target = told(y[first + i], one)
        for k in range(models):
            Z[i, k] = slope(kind, Z[i, k], target, one, a)
        if clip.size > 0:
            inverse = as_type(inverse_norm[first + i])
            for k in range(models):
                bound = clip[k] * inverse
                Z[i, k] = min(max(Z[i, k], -bound), bound)
        if mask.shape[0] > 0:
            for k in range(models):
                Z[i, k] *= mask[first + i, k]


@compiled(FREE_ORDER)
def clear_outside(Z, count, models, first, start, stop, shared_start, shared_stop):
    """Zero the entries of rows outside each model's own range; shared rows are inside every range."""
    for i in range(count):
        row = first + i
        if row < shared_start or row >= shared_stop:
            for k in range(models):
                Z[i, k] *= (row >= start[k]) & (row < stop[k])


@compiled(FREE_ORDER)
def add_values(Z, count, models, y, mask, first, kind, a, narrow, total):
    """Add the loss of each model's own rows to ``total``; ``narrow`` are the parameters in the precision of Z."""
    product = np.ones(models)
    weight = np.ones(models)
    as_type = Z.dtype.type
    one = as_type(1)
    for i in range(count):
        if mask.shape[0] > 0:
            for k in range(models):
                weight[k] = mask[first + i, k]
        target, wide = told(y[first + i], one), told(y[first + i], 1.0)
        for k in range(models):
            total[k] += weight[k] * value(kind, np.float64(Z[i, k]), wide, 1.0, a)
            if has_excess(kind, y):
                product[k] *= 1.0 + weight[k] * np.float64(excess(kind, Z[i, k], target, one, narrow))
        if has_excess(kind, y) and (i % 512 == 511 or i == count - 1):
            for k in range(models):
                total[k] += math.log(product[k])
                product[k] = 1.0


@compiled(FREE_ORDER)
def add_correct(Z, count, models, y, mask, first, inside, outside):
    """Count the rows where margin > 0 agrees with y > 0, inside and outside each model's own rows."""
    for i in range(count):
        positive = label_of(y[first + i]) > 0
        if mask.shape[0] > 0:
            for k in range(models):
                correct = np.int64((Z[i, k] > 0) == positive)
                own = np.int64(mask[first + i, k])
                inside[k] += correct & own
                outside[k] += correct & ~own
        else:
            for k in range(models):
                inside[k] += np.int64((Z[i, k] > 0) == positive)


# Opening rows.


@compiled(FREE_ORDER)
def sum_of_squares(block, i, scale):
    total = 0.0
    for j in range(block.shape[1]):
        value = np.float64(block[i, j]) * scale
        total += value * value
    return total


@compiled(FIXED_ORDER)
def squares_of_row(block, i):
    """A power of two and the sum of squares of the row times it; infinite only if the row is not finite."""
    squares = sum_of_squares(block, i, 1.0)
    if squares < np.inf:
        return 1.0, squares
    scale = 2.0**-600
    squares = sum_of_squares(block, i, scale)
    return scale, squares if squares < np.inf else np.inf


@compiled(FIXED_ORDER)
def store_row(block, i, scale, squares, x_norm, intercept, slack, shrink, floor, row, X, inverse_norm):
    columns = block.shape[1]
    factor = 1.0
    norm = math.sqrt(squares * slack)
    if scale != 1.0 or squares * slack > x_norm * x_norm:
        factor = x_norm / math.sqrt(squares) * shrink
        norm = x_norm
    for j in range(columns):
        X[row, j] = (np.float64(block[i, j]) * scale) * factor
    if X.shape[1] > columns:
        X[row, columns] = intercept
    longest = math.sqrt(norm * norm + intercept * intercept) * (1.0 + 2.0**-49) + floor
    inverse_norm[row] = (1.0 - 2.0**-49) / longest


@compiled(FIXED_ORDER)
def bound_rows(block, position, centre, spread, bounds, X, inverse_norm):
    """Store bounded rows at their positions; return how many hold NaN or infinity and were not stored.

    Where ``centre`` is not empty a row is bounded, moved by it and divided by ``spread``, and that is bounded and
    stored. Rows whose squares overflow are scaled by a power of two first.
    """
    x_norm = bounds[0]
    moved = np.empty((1, block.shape[1]))
    bad = 0
    for i in range(block.shape[0]):
        scale, squares = squares_of_row(block, i)
        if not squares < np.inf:
            bad += 1
        elif centre.size == 0:
            store_row(block, i, scale, squares, *bounds, position[i], X, inverse_norm)
        else:
            factor = 1.0
            if scale != 1.0 or squares > x_norm * x_norm:
                factor = x_norm / math.sqrt(squares)
            for j in range(block.shape[1]):
                moved[0, j] = ((np.float64(block[i, j]) * scale) * factor - centre[j]) / spread[j]
            scale, squares = squares_of_row(moved, 0)
            store_row(moved, 0, scale, squares, *bounds, position[i], X, inverse_norm)
    return bad


@compiled(FIXED_ORDER)
def add_rows(X, mask, model, squared, first, last, total):
    """Add the rows [first, last) that train a model to ``total``, or the squares of their entries."""
    sums = np.empty(X.shape[1])
    for b in range(first, last, ADDED):
        sums[:] = 0.0
        for i in range(b, min(b + ADDED, last)):
            if mask.shape[0] > 0 and mask[i, model] == 0:
                continue
            if squared:
                for j in range(X.shape[1]):
                    sums[j] += np.float64(X[i, j]) * np.float64(X[i, j])
            else:
                for j in range(X.shape[1]):
                    sums[j] += np.float64(X[i, j])
        for j in range(X.shape[1]):
            total[j] += sums[j]
