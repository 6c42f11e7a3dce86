"""Compiled passes over coded rows: sums per code, from tables of what each code adds to a margin.

``fields`` (``CodeFields``) says where codes and columns are, ``entries`` (``CodeEntries``) what they are worth after the
row map. A table holds one number for each value of each code, then for each spline: missing, its knots, and a zero.
"""

import math

import numpy as np

from dperm.codes.table import BLOCK
from dperm.engine._formulas import FREE_ORDER, slope
from dperm.engine._kernels import BLOCK as LOG_ROWS
from dperm.engine._kernels import FIXED_ORDER, compiled, value_of_rows

TILE = 16  # blocks of rows whose margins stay in the L1 cache
COPIES = 4  # neighbouring rows add to different copies of a table, so that none waits for the one before it


@compiled(FREE_ORDER)
def fill_table(fields, entries, w, table):
    """What each code adds to a margin with weights ``w``; returns what every row adds besides."""
    for group in range(fields.group_start.size - 1):
        start, size = fields.group_start[group], 1
        table[start] = 0.0
        for k in range(fields.group_field[group], fields.group_field[group + 1]):
            first, count = fields.first[k], fields.count[k]
            none, rest = 0.0, 0.0
            for j in range(first, first + count):
                none += entries.zero[j] * w[j]
                rest += entries.off[j] * w[j]
            for a in range(size - 1, -1, -1):
                before = table[start + a]
                place = start + a * (count + 1)
                for j in range(count):
                    column = first + j
                    own = rest + (entries.on[column] - entries.off[column]) * w[column]
                    table[place + 1 + j] = before + own
                table[place] = before + none
            size *= count + 1
    for s in range(fields.linear.size):
        start, count, hats, linear = fields.spline_start[s], fields.knots[s], fields.hats[s], fields.linear[s]
        none, rest = entries.zero[linear] * w[linear], 0.0
        for j in range(hats, hats + count):
            none += entries.zero[j] * w[j]
            rest += entries.off[j] * w[j]
        table[start] = none
        for k in range(count):
            own = rest + (entries.on[hats + k] - entries.off[hats + k]) * w[hats + k]
            table[start + 1 + k] = own + entries.slopes[fields.knot_start[s] + k] * w[linear]
        table[start + 1 + count] = 0.0
    base = 0.0
    for m in range(fields.number.size):
        base += entries.off[fields.number[m]] * w[fields.number[m]]
    return base


@compiled(FREE_ORDER)
def fold_table(fields, entries, sums, numbers, total, gradient):
    """The transpose of ``fill_table``: add what sums per code, of numbers and of all rows say of each column.

    ``sums`` is used up.
    """
    for group in range(fields.group_start.size - 1):
        start, stop = fields.group_start[group], fields.group_start[group + 1]
        size = stop - start
        for k in range(fields.group_field[group + 1] - 1, fields.group_field[group] - 1, -1):
            first, count = fields.first[k], fields.count[k]
            size //= count + 1
            own = np.zeros(count + 1)
            for a in range(size):
                place, both = start + a * (count + 1), 0.0
                for c in range(count + 1):
                    own[c] += sums[place + c]
                    both += sums[place + c]
                sums[start + a] = both
            known = 0.0
            for c in range(1, count + 1):
                known += own[c]
            for j in range(count):
                column = first + j
                gradient[column] += (
                    entries.on[column] * own[j + 1]
                    + entries.off[column] * (known - own[j + 1])
                    + entries.zero[column] * own[0]
                )
    for s in range(fields.linear.size):
        start, count, hats, linear = fields.spline_start[s], fields.knots[s], fields.hats[s], fields.linear[s]
        known, along = 0.0, entries.zero[linear] * sums[start]
        for k in range(count):
            known += sums[start + 1 + k]
            along += entries.slopes[fields.knot_start[s] + k] * sums[start + 1 + k]
        gradient[linear] += along
        for k in range(count):
            column, own = hats + k, sums[start + 1 + k]
            gradient[column] += (
                entries.on[column] * own
                + entries.off[column] * (known - own)
                + entries.zero[column] * sums[start]
            )
    for m in range(fields.number.size):
        column = fields.number[m]
        gradient[column] += entries.on[column] * numbers[m] + entries.off[column] * total


@compiled(FREE_ORDER)
def add_products(fields, entries, codes, floats, first, last, table, base, w, z):
    """Products of the rows of blocks [first, last), before their own factors, with the weights of a table."""
    z[: (last - first) * BLOCK] = base
    for block in range(first, last):
        out = z[(block - first) * BLOCK :]
        for m in range(fields.number.size):
            factor = entries.on[fields.number[m]] * w[fields.number[m]]
            for i in range(BLOCK):
                out[i] += np.float64(floats[block, m, i]) * factor
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
def add_sums(fields, codes, floats, first, last, z, sums, numbers):
    """Add z, one number for each row, to the sums per code: the transpose of ``add_products``."""
    for block in range(first, last):
        own = z[(block - first) * BLOCK :]
        for m in range(fields.number.size):
            along = 0.0
            for i in range(BLOCK):
                along += own[i] * np.float64(floats[block, m, i])
            numbers[m] += along
        for c in range(codes.shape[1]):
            start = fields.group_start[c]
            s0, s1, s2, s3 = sums[0, start:], sums[1, start:], sums[2, start:], sums[3, start:]
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
                    sums[copy, np.uint64(start + left)] += own[i + copy] - right
                    sums[copy, np.uint64(start + left + 1)] += right


@compiled(FREE_ORDER)
def one_model(
    fields,
    entries,
    rows,
    mask,
    weights,
    first,
    last,
    kind,
    a,
    clip,
    want_value,
    want_gradient,
    sums,
    numbers,
    totals,
):
    """Add sums of slope * row over rows [first, last), per code, and return the value. One read of the codes.

    ``rows`` are codes, floats, labels, inverse norms and both factors; ``weights`` a filled table, its base, the weights
    themselves, what a row's second factor multiplies and the constant of the intercept. ``totals`` are the sums of slope
    times the first and the second factor, and of the slope alone.
    """
    codes, floats, y, inverse_norm, inner, outer = rows
    table, base, w, shift, intercept = weights
    masked, clipped = mask.shape[0] > 0, clip < np.inf
    z, weight = np.empty(TILE * BLOCK), np.ones(TILE * BLOCK)
    stop = (last + BLOCK - 1) // BLOCK
    total = 0.0
    for tile in range(first // BLOCK, stop, TILE):
        end = min(tile + TILE, stop)
        origin = tile * BLOCK
        begin, stop_at = max(first, origin), min(last, end * BLOCK)
        n = stop_at - begin
        add_products(fields, entries, codes, floats, tile, end, table, base, w, z)
        margin, f, g = z[begin - origin :], outer[begin:stop_at], inner[begin:stop_at]
        for i in range(n):
            there = intercept if f[i] > 0.0 else 0.0
            margin[i] = margin[i] * np.float64(g[i]) + (shift * np.float64(f[i]) + there)
        if masked:
            for i in range(n):
                weight[i] = mask[begin + i, 0]
        if want_value:
            for i in range(0, n, LOG_ROWS):
                count = min(LOG_ROWS, n - i)
                total += value_of_rows(kind, a, margin[i:], y, weight[i:], begin + i, count)
        if not want_gradient:
            continue
        label = y[begin:stop_at]
        for i in range(n):
            margin[i] = slope(kind, margin[i], label[i], 1.0, a)
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
        there, second, along = 0.0, 0.0, 0.0
        for i in range(n):
            there += margin[i] if f[i] > 0.0 else 0.0
            second += margin[i] * np.float64(f[i])
            margin[i] *= np.float64(g[i])
            along += margin[i]
        totals[0] += along
        totals[1] += second
        totals[2] += there
        add_sums(fields, codes, floats, tile, end, z, sums, numbers)
    return total


@compiled(FREE_ORDER)
def count_rows(fields, rows, mask, model, first, last, sums, numbers, totals):
    """As the sums of ``one_model`` with a slope of 1 for every row that trains the model."""
    codes, floats, _, _, inner, outer = rows
    z = np.empty(TILE * BLOCK)
    stop = (last + BLOCK - 1) // BLOCK
    for tile in range(first // BLOCK, stop, TILE):
        end = min(tile + TILE, stop)
        origin = tile * BLOCK
        z[:] = 0.0
        begin, stop_at = max(first, origin), min(last, end * BLOCK)
        own, f, g = z[begin - origin :], outer[begin:stop_at], inner[begin:stop_at]
        there, second, along = 0.0, 0.0, 0.0
        for i in range(stop_at - begin):
            weight = 1.0
            if mask.shape[0] > 0:
                weight = np.float64(mask[begin + i, model])
            own[i] = weight * np.float64(g[i])
            along += own[i]
            second += weight * np.float64(f[i])
            there += weight if f[i] > 0.0 else 0.0
        totals[0] += along
        totals[1] += second
        totals[2] += there
        add_sums(fields, codes, floats, tile, end, z, sums, numbers)


@compiled(FREE_ORDER)
def margins(fields, entries, rows, weights, first, last, out):
    """Margins of the rows [first, last) for one model."""
    codes, floats, _, _, inner, outer = rows
    table, base, w, shift, intercept = weights
    z = np.empty(TILE * BLOCK)
    stop = (last + BLOCK - 1) // BLOCK
    for tile in range(first // BLOCK, stop, TILE):
        end = min(tile + TILE, stop)
        origin = tile * BLOCK
        add_products(fields, entries, codes, floats, tile, end, table, base, w, z)
        begin, stop_at = max(first, origin), min(last, end * BLOCK)
        margin, f, g = z[begin - origin :], outer[begin:stop_at], inner[begin:stop_at]
        own = out[begin - first :]
        for i in range(stop_at - begin):
            there = intercept if f[i] > 0.0 else 0.0
            own[i] = margin[i] * np.float64(g[i]) + (shift * np.float64(f[i]) + there)


@compiled(FREE_ORDER)
def products(fields, entries, codes, floats, table, base, w, out):
    """Products of all rows, before their factors, with the weights of a table."""
    z = np.empty(TILE * BLOCK)
    for tile in range(0, codes.shape[0], TILE):
        add_products(
            fields, entries, codes, floats, tile, min(tile + TILE, codes.shape[0]), table, base, w, z
        )
        part = out[tile * BLOCK : (tile + TILE) * BLOCK]
        part[:] = z[: part.size]


@compiled(FREE_ORDER)
def fill_squares(fields, entries, table, crossed):
    """Squared norms of what each code stands for, and products of what neighbouring knots stand for."""
    for group in range(fields.group_start.size - 1):
        start, size = fields.group_start[group], 1
        table[start] = 0.0
        for k in range(fields.group_field[group], fields.group_field[group + 1]):
            first, count = fields.first[k], fields.count[k]
            none, rest = 0.0, 0.0
            for j in range(first, first + count):
                none += entries.zero[j] ** 2
                rest += entries.off[j] ** 2
            for a in range(size - 1, -1, -1):
                before = table[start + a]
                place = start + a * (count + 1)
                for j in range(count):
                    own = rest + (entries.on[first + j] ** 2 - entries.off[first + j] ** 2)
                    table[place + 1 + j] = before + own
                table[place] = before + none
            size *= count + 1
    for s in range(fields.linear.size):
        start, count, hats, linear = fields.spline_start[s], fields.knots[s], fields.hats[s], fields.linear[s]
        crossed[start : start + count + 2] = 0.0
        none, rest = entries.zero[linear] ** 2, 0.0
        for j in range(hats, hats + count):
            none += entries.zero[j] ** 2
            rest += entries.off[j] ** 2
        table[start] = none
        table[start + 1 + count] = 0.0
        for k in range(count):
            j, along = hats + k, entries.slopes[fields.knot_start[s] + k]
            table[start + 1 + k] = rest + (entries.on[j] ** 2 - entries.off[j] ** 2) + along**2
            if k + 1 < count:
                both = rest + entries.off[j] * (entries.on[j] - entries.off[j])
                both += entries.off[j + 1] * (entries.on[j + 1] - entries.off[j + 1])
                crossed[start + 1 + k] = both + along * entries.slopes[fields.knot_start[s] + k + 1]


@compiled(FREE_ORDER)
def squares(fields, entries, codes, floats, table, crossed, out):
    """Squared norm of every row, before its factors."""
    for i in range(out.size):
        block, place = i // BLOCK, i % BLOCK
        total = 0.0
        for m in range(fields.number.size):
            column = fields.number[m]
            value = np.float64(floats[block, m, place]) * entries.on[column] + entries.off[column]
            total += value * value
        for c in range(codes.shape[1]):
            total += table[fields.group_start[c] + np.int64(codes[block, c, place])]
        for s in range(fields.linear.size):
            at = np.float64(floats[block, fields.number.size + s, place])
            left = np.int64(at)
            share = at - np.float64(left)
            start = fields.spline_start[s] + left
            total += (1.0 - share) * (1.0 - share) * table[start] + share * share * table[start + 1]
            total += 2.0 * share * (1.0 - share) * crossed[start]
        out[i] = max(total, 0.0)


@compiled(FIXED_ORDER)
def out_of_range(fields, codes, floats, n_rows):
    """How many rows hold a code or a number that the layout does not know."""
    bad = 0
    for i in range(n_rows):
        block, place = i // BLOCK, i % BLOCK
        known = True
        for c in range(codes.shape[1]):
            known &= codes[block, c, place] < fields.group_start[c + 1] - fields.group_start[c]
        for m in range(fields.number.size):
            known &= abs(floats[block, m, place]) <= 1.0
        for s in range(fields.linear.size):
            at = floats[block, fields.number.size + s, place]
            known &= (at == 0.0) | ((at >= 1.0) & (at <= fields.knots[s]))
        bad += not known
    return bad


@compiled(FIXED_ORDER)
def bound_factors(squared, slack, x_norm, intercept, floor, outer, inverse_norm):
    """The factor that bounds each row, and a lower bound on the inverse of its norm. ``slack`` bounds the error of a
    square."""
    for i in range(squared.size):
        square = squared[i] + slack
        factor, norm = np.float32(1.0), math.sqrt(square) * (1.0 + 2.0**-50)
        if square > x_norm * x_norm * (1.0 - 2.0**-50):
            factor = np.float32(min(x_norm / math.sqrt(square), 1.0) * (1.0 - 2.0**-22))
            norm = x_norm
        outer[i] = factor
        longest = math.sqrt(norm * norm + intercept * intercept) * (1.0 + 2.0**-49) + floor
        inverse_norm[i] = (1.0 - 2.0**-49) / longest


@compiled(FIXED_ORDER)
def densify(fields, entries, codes, floats, inner, outer, moved, intercept, first, last, out):
    """Rows [first, last) as floats: (entry * inner - outer * moved), and the intercept."""
    columns = entries.off.size
    row = np.empty(columns)
    for r in range(last - first):
        block, place = (first + r) // BLOCK, (first + r) % BLOCK
        f, g = np.float64(outer[first + r]), np.float64(inner[first + r])
        for j in range(columns):
            row[j] = entries.off[j] * g
        for c in range(codes.shape[1]):
            code = np.int64(codes[block, c, place])
            for k in range(fields.group_field[c + 1] - 1, fields.group_field[c] - 1, -1):
                first_column, size = fields.first[k], fields.count[k] + 1
                own = code % size
                code //= size
                if own == 0:
                    for j in range(first_column, first_column + size - 1):
                        row[j] = entries.zero[j] * g
                else:
                    row[first_column + own - 1] = entries.on[first_column + own - 1] * g
        for m in range(fields.number.size):
            column = fields.number[m]
            value = np.float64(floats[block, m, place]) * entries.on[column] + entries.off[column]
            row[column] = value * g
        for s in range(fields.linear.size):
            at = np.float64(floats[block, fields.number.size + s, place])
            hats, linear, count = fields.hats[s], fields.linear[s], fields.knots[s]
            if at == 0.0:
                row[linear] = entries.zero[linear] * g
                for j in range(hats, hats + count):
                    row[j] = entries.zero[j] * g
                continue
            left = min(np.int64(at), count - 1)
            share = at - np.float64(left)
            knot, j = fields.knot_start[s] + left - 1, hats + left - 1
            row[linear] = ((1.0 - share) * entries.slopes[knot] + share * entries.slopes[knot + 1]) * g
            row[j] = ((1.0 - share) * entries.on[j] + share * entries.off[j]) * g
            row[j + 1] = (share * entries.on[j + 1] + (1.0 - share) * entries.off[j + 1]) * g
        for j in range(columns):
            out[r, j] = row[j] if moved.size == 0 else row[j] - moved[j] * f
        if out.shape[1] > columns:
            out[r, columns] = intercept if f > 0.0 else 0.0
