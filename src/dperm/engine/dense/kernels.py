"""Compiled passes over dense rows: opening them, one model in one read, steps along a column, a map for each model.

Sums may be reordered and contracted, as ``engine.base.kernels`` says; ``bound_rows``, whose roundings are counted one
by one, allows contraction only.
"""

import math

import numpy as np

from dperm.compiling import compiled
from dperm.engine.base.formulas import FREE_ORDER, slope, target_of
from dperm.engine.base.intrinsics import gradient_of_rows, margins_of_tile
from dperm.engine.base.kernels import ADDED, BLOCK, FIXED_ORDER, inverse_of_norm, value_of_rows

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
                margin[i] = slope(kind, margin[i], target_of(y[b + i], one), one, a)
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
    inverse_norm[row] = inverse_of_norm(norm, intercept, floor)


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


_ADDED = 1024  # rows that are added among themselves first, so that no chain of additions is long


@compiled(FREE_ORDER)
def step(old, new, y, mask, margins, change, first, last, kind, a, total):
    """Add ``change`` times a column to the margins of rows [first, last), then slope times another to ``total``.

    ``margins`` and ``mask`` have a row for each model; an empty mask means every row.
    """
    masked = mask.shape[1] > 0
    for k in range(margins.shape[0]):
        by = change[k]
        for b in range(first, last, _ADDED):
            end = min(b + _ADDED, last)
            mine, label = margins[k, b:end], y[b:end]  # slices count from 0, or no loop becomes vectors
            before, after = old[b:end], new[b:end]
            added = 0.0
            if masked:
                own = mask[k, b:end]
                for i in range(label.size):
                    margin = mine[i] + np.float64(before[i]) * by
                    mine[i] = margin
                    added += own[i] * (
                        slope(kind, margin, target_of(label[i], 1.0), 1.0, a) * np.float64(after[i])
                    )
            else:
                for i in range(label.size):
                    margin = mine[i] + np.float64(before[i]) * by
                    mine[i] = margin
                    added += slope(kind, margin, target_of(label[i], 1.0), 1.0, a) * np.float64(after[i])
            total[k] += added


@compiled(FREE_ORDER)
def bend(Z, norms, first, bound, constant, column, lift):
    """Turn products with the stored rows into margins: shortened * (Z - constant) + column * lift."""
    models = norms.shape[1]
    outputs = Z.shape[1] // models
    for i in range(Z.shape[0]):
        row, norm, last = Z[i], norms[first + i], column[i]
        if outputs == 1:
            for k in range(models):
                row[k] = (row[k] - constant[k]) * (bound / max(norm[k], bound)) + last * lift[k]
        else:
            for k in range(models):
                factor = bound / max(norm[k], bound)
                for m in range(k * outputs, (k + 1) * outputs):
                    row[m] = (row[m] - constant[m]) * factor + last * lift[m]


@compiled(FREE_ORDER)
def fold(Z, norms, first, bound, column, moved, lifted):
    """Shorten slopes, add them to ``moved`` and, before that and times the last column, to ``lifted``."""
    models = norms.shape[1]
    outputs = Z.shape[1] // models
    for i in range(Z.shape[0]):
        row, norm, last = Z[i], norms[first + i], column[i]
        if outputs == 1:
            for k in range(models):
                lifted[k] += last * row[k]
                row[k] *= bound / max(norm[k], bound)
                moved[k] += row[k]
        else:
            for k in range(models):
                factor = bound / max(norm[k], bound)
                for m in range(k * outputs, (k + 1) * outputs):
                    lifted[m] += last * row[m]
                    row[m] *= factor
                    moved[m] += row[m]


@compiled(FIXED_ORDER)
def clip_per_model(Z, norms, first, bound, column, clip):
    """Shorten the slopes of a row and model to ``clip`` over the norm of the row as the model sees it."""
    models = norms.shape[1]
    outputs = Z.shape[1] // models
    for i in range(Z.shape[0]):
        row, norm, last = Z[i], norms[first + i], column[i]
        for k in range(models):
            length = min(norm[k], bound)
            allowed = clip[k] * (1.0 - 2.0**-40) / math.sqrt(length * length + last * last)
            squares = 0.0
            for m in range(k * outputs, (k + 1) * outputs):
                squares += row[m] * row[m]
            size = math.sqrt(squares)
            if size > allowed:
                for m in range(k * outputs, (k + 1) * outputs):
                    row[m] *= allowed / size


@compiled(FREE_ORDER)
def add_seen(X, mask, norms, shift, spread, bound, model, squared, first, last, total):
    """Add the rows [first, last) that train a model, as it sees them, to ``total``, or the squares of their entries.

    ``shift`` and ``spread`` are those of the model.
    """
    features = shift.size
    seen = np.empty(X.shape[1])
    for i in range(first, last):
        if mask.shape[0] > 0 and mask[i, model] == 0:
            continue
        row, factor = X[i], bound / max(norms[i, model], bound)
        for j in range(features):
            seen[j] = factor * (np.float64(row[j]) - shift[j]) / spread[j]
        for j in range(features, row.size):
            seen[j] = np.float64(row[j])
        if squared:
            for j in range(seen.size):
                total[j] += seen[j] * seen[j]
        else:
            for j in range(seen.size):
                total[j] += seen[j]
