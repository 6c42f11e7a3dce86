"""Compiled passes over sparse rows: one model fused, several eight at a time.

``data``, ``index`` and ``edges`` are rows in the CSR format. A row means its entries minus ``far[i]`` times a public
centre, and a last column that holds ``constant[i]``; either array is empty where there is no such thing. Arithmetic is
float64 whatever ``data`` holds. Positions are unsigned, so that no test for negative ones is compiled.
"""

import math

import numpy as np

from dperm.compiling import compiled
from dperm.engine.base.formulas import FREE_ORDER
from dperm.engine.base.intrinsics import LANES, gather8, scatter8
from dperm.engine.base.kernels import BLOCK, FIXED_ORDER, inverse_of_norm, slopes_of_rows, value_of_rows

SMALLEST_SCALE = 1 / 16
ROWS = 64  # whose margins are computed before their slopes are
COLUMN, PLACE = np.uint32, np.uint64
ONE, TWO, THREE, FOUR = PLACE(1), PLACE(2), PLACE(3), PLACE(4)


@compiled(FIXED_ORDER)
def dot(data, index, begin, end, W, k):
    """Of one row and column k of W: at most a quarter of its entries are added in a row, and then five more."""
    a0 = 0.0
    a1 = 0.0
    a2 = 0.0
    a3 = 0.0
    q = begin
    whole = begin + (((end - begin) >> TWO) << TWO)
    while q < whole:
        a0 += np.float64(data[q]) * W[COLUMN(index[q]), k]
        a1 += np.float64(data[q + ONE]) * W[COLUMN(index[q + ONE]), k]
        a2 += np.float64(data[q + TWO]) * W[COLUMN(index[q + TWO]), k]
        a3 += np.float64(data[q + THREE]) * W[COLUMN(index[q + THREE]), k]
        q += FOUR
    while q < end:
        a0 += np.float64(data[q]) * W[COLUMN(index[q]), k]
        q += ONE
    return (a0 + a1) + (a2 + a3)


@compiled(FIXED_ORDER)
def products(centre, W, out):
    """The product of the centre with each column of W, added up in blocks of 64."""
    some = np.empty(W.shape[1])
    out[:] = 0.0
    for first in range(0, centre.size, 64):
        some[:] = 0.0
        for j in range(first, min(first + 64, centre.size)):
            for k in range(W.shape[1]):
                some[k] += centre[j] * W[j, k]
        out += some


@compiled(FIXED_ORDER)
def add_some_rows(rows, labels, pairs, offsets, first, last, kind, a, clip, wanted, sums):
    """Add the gradient over rows [first, last) to the second column of ``pairs`` and to ``sums``.

    ``sums`` holds the value, and the sums of slope * constant and of slope * far.
    """
    data, index, edges, far, constant = rows
    y, inverse_norm, mask = labels
    margin, weight = np.empty(ROWS), np.ones(ROWS)
    for b in range(first, last, ROWS):
        count = min(ROWS, last - b)
        for i in range(count):
            total = dot(data, index, PLACE(edges[b + i]), PLACE(edges[b + i + 1]), pairs, 0)
            if far.size > 0:
                total += far[b + i] * offsets[1]
            if constant.size > 0:
                total += constant[b + i] * offsets[0]
            margin[i] = total
        if mask.shape[0] > 0:
            for i in range(count):
                weight[i] = mask[b + i, 0]
        if wanted[0]:
            for i in range(0, count, BLOCK):
                some = min(BLOCK, count - i)
                sums[0] += value_of_rows(kind, a, margin[i:], y, weight[i:], b + i, some)
        if not wanted[1]:
            continue
        slopes_of_rows(kind, a, margin, y, inverse_norm, clip, b, count)
        for i in range(count):
            s = margin[i] * weight[i]
            q, end = PLACE(edges[b + i]), PLACE(edges[b + i + 1])
            while q < end:
                pairs[COLUMN(index[q]), 1] += np.float64(data[q]) * s
                q += ONE
            if constant.size > 0:
                sums[1] += constant[b + i] * s
            if far.size > 0:
                sums[2] += far[b + i] * s


@compiled(FIXED_ORDER)
def one_model(rows, labels, w, offsets, first, last, chunk, kind, a, clip, wanted, total, sums):
    """Add the gradient over rows [first, last) to ``total`` and ``sums``, in sums over ``chunk`` rows each.

    The weight and the sum of a column lie side by side: adding to a sum finds the cache line that the weight came in.
    """
    pairs = np.empty((w.size, 2))
    for begin in range(first, last, chunk):
        for j in range(w.size):
            pairs[j, 0] = w[j]
            pairs[j, 1] = 0.0
        some = np.zeros(3)
        end = min(begin + chunk, last)
        add_some_rows(rows, labels, pairs, offsets, begin, end, kind, a, clip, wanted, some)
        for j in range(w.size):
            total[j] += pairs[j, 1]
        sums += some


@compiled(FIXED_ORDER)
def margins_of_models(rows, W, first, last, Z):
    """Margins of rows [first, last) into Z. The last two rows of W meet ``constant`` and ``far``."""
    data, index, edges, far, constant = rows
    columns = W.shape[1]
    whole = columns - columns % LANES
    features = W.shape[0] - 2
    for i in range(first, last):
        begin, end = edges[i], edges[i + 1]
        z = Z[i - first]
        for k in range(0, whole, LANES):
            gather8(data, index, begin, end, W, columns, k, z, k)
        for k in range(whole, columns):
            z[k] = dot(data, index, PLACE(begin), PLACE(end), W, k)
        if constant.size > 0:
            for k in range(columns):
                z[k] += constant[i] * W[features, k]
        if far.size > 0:
            for k in range(columns):
                z[k] += far[i] * W[features + 1, k]


@compiled(FIXED_ORDER)
def add_back(rows, slopes, first, last, total):
    """Add the transpose of rows [first, last) times ``slopes`` to ``total``, laid out as the weights above."""
    data, index, edges, far, constant = rows
    columns = total.shape[1]
    whole = columns - columns % LANES
    features = total.shape[0] - 2
    for i in range(first, last):
        begin, end = edges[i], edges[i + 1]
        s = slopes[i - first]
        for k in range(0, whole, LANES):
            scatter8(data, index, begin, end, total, columns, k, s, k)
        for k in range(whole, columns):
            for q in range(begin, end):
                total[COLUMN(index[PLACE(q)]), k] += np.float64(data[PLACE(q)]) * s[k]
        if constant.size > 0:
            for k in range(columns):
                total[features, k] += constant[i] * s[k]
        if far.size > 0:
            for k in range(columns):
                total[features + 1, k] += far[i] * s[k]


@compiled(FIXED_ORDER)
def settle(some, total):
    """Add ``some`` to ``total`` and clear it."""
    for i in range(total.shape[0]):
        for k in range(total.shape[1]):
            total[i, k] += some[i, k]
            some[i, k] = 0.0


@compiled(FIXED_ORDER)
def densify(rows, centre, first, last, out):
    """Rows [first, last) in ``out``, which is zero."""
    data, index, edges, far, constant = rows
    for i in range(first, last):
        for q in range(edges[i], edges[i + 1]):
            out[i - first, index[q]] = np.float64(data[q])
        for j in range(centre.size):
            out[i - first, j] -= far[i] * centre[j]
        if constant.size > 0:
            out[i - first, out.shape[1] - 1] = constant[i]


@compiled(FREE_ORDER)
def scaled_squares(data, begin, end, scale):
    total = 0.0
    for q in range(begin, end):
        value = np.float64(data[PLACE(q)]) * scale
        total += value * value
    return total


@compiled(FIXED_ORDER)
def moved_squares(data, index, begin, end, centre):
    """Squares of a stored row, and its product with the centre."""
    squares, product = 0.0, 0.0
    for q in range(begin, end):
        value = np.float64(data[PLACE(q)])
        squares += value * value
        if centre.size > 0:
            product += value * centre[COLUMN(index[PLACE(q)])]
    return squares, product


@compiled(FIXED_ORDER)
def bound_rows(source, position, spread, centre, bounds, edges, data, index, far, inverse_norm):
    """Store rows so that their norm keeps the bound; return how many hold NaN or infinity and were not stored.

    ``source`` is CSR in the caller's order, row i goes to ``position[i]``. ``bounds``: see ``SparseRows``.
    """
    given, columns, begins = source
    x_norm, intercept, rounding, spare, unit, distance, floor = bounds
    bad = 0
    for i in range(begins.size - 1):
        begin, end = begins[i], begins[i + 1]
        scale = 1.0
        squares = scaled_squares(given, begin, end, scale)
        if not squares < np.inf:
            scale = 2.0**-600
            squares = scaled_squares(given, begin, end, scale)
        if not squares < np.inf:
            bad += 1
            continue
        row = position[i]
        to = edges[row]
        factor = 1.0
        if scale != 1.0 or squares > x_norm * x_norm:
            factor = x_norm / math.sqrt(squares)
        for q in range(end - begin):
            column = columns[begin + q]
            value = (np.float64(given[begin + q]) * scale) * factor
            if spread.size > 0:
                value /= spread[column]
            data[to + q] = value
            index[to + q] = column
        # Two rounds at most: a row as stored, and shortened where that is too long.
        stop = to + end - begin
        squares, product = moved_squares(data, index, to, stop, centre)
        slack = unit * (squares + distance)
        longest = math.sqrt(max(squares - 2.0 * product + distance, 0.0) + slack) * (1.0 + 2.0**-49)
        shortened = 1.0
        if longest > x_norm:
            shortened = x_norm / (longest + rounding * math.sqrt(squares)) * (1.0 - spare)
            for q in range(to, stop):
                data[q] = np.float64(data[q]) * shortened
            longest = x_norm
        if far.size > 0:
            far[row] = shortened
        inverse_norm[row] = inverse_of_norm(longest, intercept, floor)
    return bad


@compiled(FIXED_ORDER)
def one_model_epoch(rows, labels, w, edges_of_batches, decay, rate, kind, a, keep_sum, iterate_sum):
    """One epoch of batches in which a step costs as much as the entries of its rows, for rows without a centre.

    The weights are scale * v and their sum over all iterates is area * v + rest, with ``area`` the sum of the scales. A
    change of v_j by e when the area was A changes ``rest`` by -A e. Both are folded back before a scale gets small.
    """
    data, index, edges, _, constant = rows
    y, inverse_norm, mask = labels
    last = w.size - 1
    v = np.empty((w.size, 2))
    for j in range(w.size):
        v[j, 0] = w[j]
        v[j, 1] = 0.0
    scale, area = 1.0, 0.0
    most = 0
    for b in range(rate.size):
        most = max(most, edges_of_batches[b + 1] - edges_of_batches[b])
    margin = np.empty(most)
    for b in range(rate.size):
        first, count = edges_of_batches[b], edges_of_batches[b + 1] - edges_of_batches[b]
        for i in range(count):
            total = dot(data, index, PLACE(edges[first + i]), PLACE(edges[first + i + 1]), v, 0)
            if constant.size > 0:
                total += constant[first + i] * v[last, 0]
            margin[i] = scale * total
        slopes_of_rows(kind, a, margin, y, inverse_norm, np.inf, first, count)
        scale *= decay[b]
        step = -rate[b] / scale
        for i in range(count):
            s = margin[i] * step
            if mask.shape[0] > 0:
                s *= mask[first + i, 0]
            q, end = PLACE(edges[first + i]), PLACE(edges[first + i + 1])
            while q < end:
                change = np.float64(data[q]) * s
                column = COLUMN(index[q])
                v[column, 0] += change
                v[column, 1] -= area * change
                q += ONE
            if constant.size > 0:
                v[last, 0] += constant[first + i] * s
                v[last, 1] -= area * constant[first + i] * s
        area += scale
        if scale < SMALLEST_SCALE or b == rate.size - 1:
            for j in range(w.size):
                if keep_sum:
                    iterate_sum[j] += area * v[j, 0] + v[j, 1]
                v[j, 0] *= scale
                v[j, 1] = 0.0
            scale, area = 1.0, 0.0
    for j in range(w.size):
        w[j] = v[j, 0]
