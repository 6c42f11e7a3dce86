"""Compiled passes over categorical rows: sums per code, from tables of what each code adds to a margin.

``fields`` (``CodeFields``) says where codes and columns are, ``entries`` (``CodeEntries``) what they are worth after
the row map. A table holds one number for each value of each code, then for each spline: missing, its knots, and a zero.
"""

import numpy as np

from dperm.codes import BLOCK
from dperm.compiling import compiled
from dperm.engine.base.formulas import FREE_ORDER, slope, target_of
from dperm.engine.base.intrinsics import CACHE_LINE, prefetch
from dperm.engine.base.kernels import BLOCK as LOG_ROWS
from dperm.engine.base.kernels import FIXED_ORDER, value_of_rows

TILE = 8  # blocks of rows whose margins stay in the L1 cache
AHEAD = 4  # blocks by which codes are asked for before they are read
COPIES = 4  # neighbouring rows add to different copies of a table, so that none waits for the one before it


@compiled(FIXED_ORDER)
def fill_levels(entries, w, first, count, own):
    """What a block of levels adds to a margin: without a level, then for each. Nothing is added and taken off again."""
    own[0] = 0.0
    below = 0.0
    for j in range(count):
        column = first + j
        own[0] += entries.zero[column] * w[column]
        own[1 + j] = below + entries.on[column] * w[column]
        below += entries.off[column] * w[column]
    above = 0.0
    for j in range(count - 1, -1, -1):
        own[1 + j] += above
        above += entries.off[first + j] * w[first + j]


@compiled(FIXED_ORDER)
def fold_levels(entries, own, first, count, gradient):
    """The transpose of ``fill_levels``."""
    below = 0.0
    for j in range(count):
        column = first + j
        gradient[column] += entries.zero[column] * own[0] + entries.on[column] * own[1 + j]
        gradient[column] += entries.off[column] * below
        below += own[1 + j]
    above = 0.0
    for j in range(count - 1, -1, -1):
        gradient[first + j] += entries.off[first + j] * above
        above += own[1 + j]


@compiled(FIXED_ORDER)
def fill_table(fields, entries, w, table):
    """What each code adds to a margin with weights ``w``."""
    for group in range(fields.group_start.size - 1):
        start, size = fields.group_start[group], 1
        table[start] = 0.0
        for k in range(fields.group_field[group], fields.group_field[group + 1]):
            codes = fields.n_levels[k] + 1
            own = np.empty(codes)
            fill_levels(entries, w, fields.first[k], codes - 1, own)
            for a in range(size - 1, -1, -1):
                before = table[start + a]
                part = table[start + a * codes : start + (a + 1) * codes]
                for c in range(codes):
                    part[c] = before + own[c]
            size *= codes
    for s in range(fields.linear.size):
        start, count, linear = fields.spline_start[s], fields.knots[s], fields.linear[s]
        fill_levels(entries, w, fields.hats[s], count, table[start:])
        table[start] += entries.zero[linear] * w[linear]
        for k in range(count):
            table[start + 1 + k] += entries.slopes[fields.knot_start[s] + k] * w[linear]
        table[start + 1 + count] = 0.0


@compiled(FIXED_ORDER)
def fold_table(fields, entries, sums, numbers, gradient):
    """The transpose of ``fill_table``: add what sums per code and of numbers say of each column. Uses ``sums`` up."""
    for group in range(fields.group_start.size - 1):
        start = fields.group_start[group]
        size = fields.group_start[group + 1] - start
        for k in range(fields.group_field[group + 1] - 1, fields.group_field[group] - 1, -1):
            codes = fields.n_levels[k] + 1
            size //= codes
            own = np.zeros(codes)
            for a in range(size):
                part = sums[start + a * codes : start + (a + 1) * codes]
                both = 0.0
                for c in range(codes):
                    own[c] += part[c]
                    both += part[c]
                sums[start + a] = both
            fold_levels(entries, own, fields.first[k], codes - 1, gradient)
    for s in range(fields.linear.size):
        start, count, linear = fields.spline_start[s], fields.knots[s], fields.linear[s]
        fold_levels(entries, sums[start:], fields.hats[s], count, gradient)
        along = entries.zero[linear] * sums[start]
        for k in range(count):
            along += entries.slopes[fields.knot_start[s] + k] * sums[start + 1 + k]
        gradient[linear] += along
    for m in range(fields.number.size):
        gradient[fields.number[m]] += numbers[m]


@compiled(FREE_ORDER)
def add_products(fields, entries, codes, floats, first, last, table, w, z):
    """Products of the rows of blocks [first, last), before their own factors, with the weights of a table."""
    z[: (last - first) * BLOCK] = 0.0
    code_bytes, float_bytes = codes.shape[1] * BLOCK * codes.itemsize, floats.shape[1] * BLOCK * 4
    for block in range(first, last):
        ahead = codes.ctypes.data + (block + AHEAD) * code_bytes
        for byte in range(0, code_bytes, CACHE_LINE):
            prefetch(ahead + byte)
        ahead = floats.ctypes.data + (block + AHEAD) * float_bytes
        for byte in range(0, float_bytes, CACHE_LINE):
            prefetch(ahead + byte)
        out = z[(block - first) * BLOCK :]
        for m in range(fields.number.size):
            column = fields.number[m]
            on, off, weight = entries.on[column], entries.off[column], w[column]
            for i in range(BLOCK):
                out[i] += (np.float64(floats[block, m, i]) * on + off) * weight
        for c in range(codes.shape[1]):
            part = table[fields.group_start[c] :]
            for i in range(BLOCK):
                out[i] += part[np.uint64(codes[block, c, i])]
        for s in range(fields.linear.size):
            part = table[fields.spline_start[s] :]
            m = fields.number.size + s
            for i in range(BLOCK):
                place = np.float64(floats[block, m, i])
                left = np.uint64(np.int64(place))
                share = place - np.float64(np.int64(place))
                out[i] += (1.0 - share) * part[left] + share * part[left + np.uint64(1)]


@compiled(FREE_ORDER)
def add_sums(fields, entries, codes, floats, first, last, z, copies, numbers):
    """Add z, one number for each row, to sums per code, in turn to each copy: the transpose of ``add_products``."""
    for block in range(first, last):
        own = z[(block - first) * BLOCK :]
        for m in range(fields.number.size):
            on, off = entries.on[fields.number[m]], entries.off[fields.number[m]]
            along = 0.0
            for i in range(BLOCK):
                along += own[i] * (np.float64(floats[block, m, i]) * on + off)
            numbers[m] += along
        for c in range(codes.shape[1]):
            start = fields.group_start[c]
            s0, s1, s2, s3 = copies[0, start:], copies[1, start:], copies[2, start:], copies[3, start:]
            for i in range(0, BLOCK, COPIES):
                s0[np.uint64(codes[block, c, i])] += own[i]
                s1[np.uint64(codes[block, c, i + 1])] += own[i + 1]
                s2[np.uint64(codes[block, c, i + 2])] += own[i + 2]
                s3[np.uint64(codes[block, c, i + 3])] += own[i + 3]
        for s in range(fields.linear.size):
            m, start = fields.number.size + s, fields.spline_start[s]
            for i in range(0, BLOCK, COPIES):
                for copy in range(COPIES):
                    place = np.float64(floats[block, m, i + copy])
                    left = np.int64(place)
                    share = place - np.float64(left)
                    right = share * own[i + copy]
                    copies[copy, np.uint64(start + left)] += own[i + copy] - right
                    copies[copy, np.uint64(start + left + 1)] += right


@compiled(FIXED_ORDER)
def collect(copies, sums):
    """Add up the copies, and clear them."""
    for j in range(copies.shape[1]):
        sums[j] = (copies[0, j] + copies[1, j]) + (copies[2, j] + copies[3, j])
    copies[:] = 0.0


@compiled(FREE_ORDER)
def add_part(held, weights, first, last, kind, a, clip, wanted, copies, numbers, totals):
    """Add sums of slope * row over rows [first, last): per code, of each number, and in all.

    ``totals`` are those of slope times the second factor, of the slope alone, and of the loss.
    """
    fields, entries, rows, mask, model = held
    codes, floats, y, inverse_norm, inner, outer = rows
    table, w, shift, intercept = weights
    want_value, want_gradient = wanted
    masked, clipped = mask.shape[0] > 0, clip < np.inf
    z, weight = np.empty(TILE * BLOCK), np.ones(TILE * BLOCK)
    stop = (last + BLOCK - 1) // BLOCK
    total = 0.0
    for tile in range(first // BLOCK, stop, TILE):
        end = min(tile + TILE, stop)
        origin = tile * BLOCK
        begin, stop_at = max(first, origin), min(last, end * BLOCK)
        n = stop_at - begin
        add_products(fields, entries, codes, floats, tile, end, table, w, z)
        margin, f, g = z[begin - origin :], outer[begin:stop_at], inner[begin:stop_at]
        label = y[begin:stop_at]
        z_there, second = 0.0, 0.0
        if not (want_value or clipped or masked):  # all stages at once
            for i in range(n):
                there = intercept if f[i] > 0.0 else 0.0
                s = slope(kind, margin[i] * g[i] + (shift * f[i] + there), target_of(label[i], 1.0), 1.0, a)
                z_there += s if f[i] > 0.0 else 0.0
                second += s * f[i]
                margin[i] = s * g[i]
            z[: begin - origin] = 0.0
            z[stop_at - origin : (end - tile) * BLOCK] = 0.0
            totals[0] += second
            totals[1] += z_there
            add_sums(fields, entries, codes, floats, tile, end, z, copies, numbers)
            continue
        for i in range(n):
            there = intercept if f[i] > 0.0 else 0.0
            margin[i] = margin[i] * g[i] + (shift * f[i] + there)
        if masked:
            for i in range(n):
                weight[i] = mask[begin + i, model]
        if want_value:
            for i in range(0, n, LOG_ROWS):
                count = min(LOG_ROWS, n - i)
                total += value_of_rows(kind, a, margin[i:], y, weight[i:], begin + i, count)
        if not want_gradient:
            continue
        for i in range(n):  # as ``slopes_of_rows``; a call of it makes the whole pass slower
            margin[i] = slope(kind, margin[i], target_of(label[i], 1.0), 1.0, a)
        if clipped:
            inverse = inverse_norm[begin:stop_at]
            for i in range(n):
                bound = clip * inverse[i]
                margin[i] = min(max(margin[i], -bound), bound)
        if masked:
            for i in range(n):
                margin[i] *= weight[i]
        z[: begin - origin] = 0.0
        z[stop_at - origin : (end - tile) * BLOCK] = 0.0
        for i in range(n):
            z_there += margin[i] if f[i] > 0.0 else 0.0
            second += margin[i] * f[i]
            margin[i] *= g[i]
        totals[0] += second
        totals[1] += z_there
        add_sums(fields, entries, codes, floats, tile, end, z, copies, numbers)
    totals[2] += total


@compiled(FREE_ORDER)
def one_model(held, edges, begin, end, weights, kind, a, clip, wanted, sums):
    """The sums of parts begin <= p < end, rows edges[p] to edges[p + 1], a line of ``sums`` each, in one read.

    ``held`` are fields, entries, rows (codes, floats, labels, inverse norms and both factors), mask and the number of
    the model; ``weights`` a filled table, the weights themselves, what a row's second factor multiplies and the
    constant of the intercept; ``wanted`` the value, the gradient. A line holds sums per code, of numbers, and the three
    ``totals``.
    """
    fields = held[0]
    size = fields.spline_start[fields.linear.size]
    below = size + fields.number.size
    copies = np.zeros((COPIES, size))
    for p in range(begin, end):
        line = sums[p]
        found = (copies, line[size:below], line[below:])
        add_part(held, weights, edges[p], edges[p + 1], kind, a, clip, wanted, *found)
        collect(copies, line)


@compiled(FREE_ORDER)
def count_part(held, first, last, copies, numbers, totals):
    fields, entries, rows, mask, model = held
    codes, floats, _, _, inner, outer = rows
    z = np.empty(TILE * BLOCK)
    stop = (last + BLOCK - 1) // BLOCK
    for tile in range(first // BLOCK, stop, TILE):
        end = min(tile + TILE, stop)
        origin = tile * BLOCK
        z[:] = 0.0
        begin, stop_at = max(first, origin), min(last, end * BLOCK)
        own, f, g = z[begin - origin :], outer[begin:stop_at], inner[begin:stop_at]
        there, second = 0.0, 0.0
        for i in range(stop_at - begin):
            weight = 1.0
            if mask.shape[0] > 0:
                weight = np.float64(mask[begin + i, model])
            own[i] = weight * g[i]
            second += weight * f[i]
            there += weight if f[i] > 0.0 else 0.0
        totals[0] += second
        totals[1] += there
        add_sums(fields, entries, codes, floats, tile, end, z, copies, numbers)


@compiled(FREE_ORDER)
def count_rows(held, edges, begin, end, sums):
    """As ``one_model`` with a slope of 1 for every row that trains the model, and without losses."""
    fields = held[0]
    size = fields.spline_start[fields.linear.size]
    below = size + fields.number.size
    copies = np.zeros((COPIES, size))
    for p in range(begin, end):
        line = sums[p]
        count_part(held, edges[p], edges[p + 1], copies, line[size:below], line[below:])
        collect(copies, line)


@compiled(FREE_ORDER)
def margins(fields, entries, rows, weights, first, last, out):
    """Margins of the rows [first, last) for one model."""
    codes, floats, _, _, inner, outer = rows
    table, w, shift, intercept = weights
    z = np.empty(TILE * BLOCK)
    stop = (last + BLOCK - 1) // BLOCK
    for tile in range(first // BLOCK, stop, TILE):
        end = min(tile + TILE, stop)
        origin = tile * BLOCK
        add_products(fields, entries, codes, floats, tile, end, table, w, z)
        begin, stop_at = max(first, origin), min(last, end * BLOCK)
        margin, f, g = z[begin - origin :], outer[begin:stop_at], inner[begin:stop_at]
        own = out[begin - first :]
        for i in range(stop_at - begin):
            there = intercept if f[i] > 0.0 else 0.0
            own[i] = margin[i] * g[i] + (shift * f[i] + there)
