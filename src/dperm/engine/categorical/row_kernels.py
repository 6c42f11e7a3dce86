"""Compiled loops that open categorical rows (bounds, checks, norms) and turn them into floats, or into sparse rows."""

import math

import numpy as np

from dperm.codes import BLOCK
from dperm.compiling import compiled
from dperm.engine.base.formulas import FREE_ORDER
from dperm.engine.base.kernels import FIXED_ORDER
from dperm.engine.categorical.kernels import TILE, add_products


@compiled(FREE_ORDER)
def products(fields, entries, codes, floats, table, w, out):
    """Products of all rows, before their factors, with the weights of a table."""
    z = np.empty(TILE * BLOCK)
    for tile in range(0, codes.shape[0], TILE):
        add_products(fields, entries, codes, floats, tile, min(tile + TILE, codes.shape[0]), table, w, z)
        part = out[tile * BLOCK : (tile + TILE) * BLOCK]
        part[:] = z[: part.size]


@compiled(FREE_ORDER)
def fill_squares(fields, entries, table, crossed):
    """Squared norms of what each code stands for, and products of what neighbouring knots stand for."""
    for group in range(fields.group_start.size - 1):
        start, size = fields.group_start[group], 1
        table[start] = 0.0
        for k in range(fields.group_field[group], fields.group_field[group + 1]):
            first, count = fields.first[k], fields.n_levels[k]
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
        factor, norm = 1.0, math.sqrt(square) * (1.0 + 2.0**-50)
        if square > x_norm * x_norm * (1.0 - 2.0**-50):
            factor = min(x_norm / math.sqrt(square), 1.0) * (1.0 - 2.0**-49)
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
        f, g = outer[first + r], inner[first + r]
        for j in range(columns):
            row[j] = entries.off[j] * g
        for c in range(codes.shape[1]):
            code = np.uint32(codes[block, c, place])
            for k in range(fields.group_field[c + 1] - 1, fields.group_field[c] - 1, -1):
                first_column, size = fields.first[k], fields.n_levels[k] + 1
                # Of half the width: 64 bits take several times as long.
                rest = np.uint32(code // np.uint32(size))
                own = np.int64(code) - np.int64(rest) * size
                code = rest
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


@compiled(FIXED_ORDER)
def as_entries(fields, entries, rows, first, last, index, data):
    """Rows [first, last) as sparse rows over a table with the weights of numbers below it."""
    codes, floats, _, _, inner, _ = rows
    numbers, splines = fields.number.size, fields.linear.size
    below = fields.spline_start[splines]
    for r in range(last - first):
        block, place = (first + r) // BLOCK, (first + r) % BLOCK
        g = inner[first + r]
        q = 0
        for c in range(codes.shape[1]):
            index[r, q] = fields.group_start[c] + np.int64(codes[block, c, place])
            data[r, q] = g
            q += 1
        for s in range(splines):
            at = np.float64(floats[block, numbers + s, place])
            left = np.int64(at)
            right = (at - np.float64(left)) * g
            index[r, q] = fields.spline_start[s] + left
            data[r, q] = g - right
            index[r, q + 1] = fields.spline_start[s] + left + 1
            data[r, q + 1] = right
            q += 2
        for m in range(numbers):
            column = fields.number[m]
            index[r, q] = below + m
            data[r, q] = (np.float64(floats[block, m, place]) * entries.on[column] + entries.off[column]) * g
            q += 1
