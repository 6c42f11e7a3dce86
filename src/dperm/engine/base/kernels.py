"""Compiled inner loops that every kind of rows shares: plain functions over arrays, kept on disk between processes.

Fast-math flags let sums be reordered and contracted, never assume that NaN or infinity are absent: the
clip and the bounds must hold for every input. Functions whose roundings are counted one by one
(``exponential``, ``steps``) allow contraction only, or nothing.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from dperm.compiling import compiled
from dperm.engine.base.formulas import FREE_ORDER, excess, has_excess, label_of, slope, target_of, value
from dperm.losses.base import exponential

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
        target = target_of(y[first + i], 1.0)
        total += weight[i] * value(kind, margin[i], target, 1.0, a)
        if has_excess(kind, y):
            product *= 1.0 + weight[i] * excess(kind, margin[i], target, 1.0, a)
    return total + math.log(product) if has_excess(kind, y) else total


@compiled(FREE_ORDER)
def slopes_of_rows(kind, a, margin, y, inverse_norm, clip, first, count):
    """Replace the margins of rows first, first + 1, ... by slopes, clipped where ``clip`` is finite."""
    for i in range(count):
        margin[i] = slope(kind, margin[i], target_of(y[first + i], 1.0), 1.0, a)
    if clip < np.inf:
        for i in range(count):
            bound = clip * inverse_norm[first + i]
            margin[i] = min(max(margin[i], -bound), bound)


@compiled(FIXED_ORDER)
def inverse_of_norm(norm, intercept, floor):
    """A lower bound on the inverse of the norm of a row with its intercept, itself taken as at least ``floor``."""
    longest = math.sqrt(norm * norm + intercept * intercept) * (1.0 + 2.0**-49) + floor
    return (1.0 - 2.0**-49) / longest


# Many models: element-wise stages on a block Z (rows, padded models) of margins. Row i of Z is row
# first + i of the table.


@compiled(FREE_ORDER)
def slopes_of_models(Z, count, models, y, inverse_norm, mask, first, kind, a, clip):
    """Replace margins by slopes, clipped (``clip`` not empty) and masked (``mask`` not empty)."""
    as_type = Z.dtype.type
    one = as_type(1)
    for i in range(count):
        target = target_of(y[first + i], one)
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
        target, wide = target_of(y[first + i], one), target_of(y[first + i], 1.0)
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


_AT_ONCE = 512  # rows that share a logarithm: each factor is at most 2


@compiled(FREE_ORDER)
def add_values_between(Z, count, models, shares, y, mask, first, kind, a, total):
    """Add each model's own losses at points of a segment to ``total``, (models, shares).

    Row i of Z holds the margins of row first + i of the table, for each model at the beginning and at the end.
    """
    n = shares.size
    product, added = np.empty(n), np.empty(n)
    masked = mask.shape[0] > 0
    for k in range(models):
        for b in range(0, count, _AT_ONCE):
            product[:] = 1.0
            added[:] = 0.0
            for i in range(b, min(b + _AT_ONCE, count)):
                if masked and mask[first + i, k] == 0:
                    continue
                begin, end = np.float64(Z[i, 2 * k]), np.float64(Z[i, 2 * k + 1])
                target = target_of(y[first + i], 1.0)
                for s in range(n):
                    margin = begin * (1.0 - shares[s]) + end * shares[s]
                    added[s] += value(kind, margin, target, 1.0, a)
                    if has_excess(kind, y):
                        product[s] *= 1.0 + excess(kind, margin, target, 1.0, a)
            for s in range(n):
                total[k, s] += added[s] + (math.log(product[s]) if has_excess(kind, y) else 0.0)


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
        new, old = slope(kind, scale * margins[i], target_of(y[i], 1.0), 1.0, a), slopes[i]
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
