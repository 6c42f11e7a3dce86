"""Compiled softmax: one model in a single read of X, and the middle stage of many models.

Rows or models lie side by side in the columns of a small array E (classes, lanes), so that every loop over
lanes becomes vector instructions whatever the number of classes. Functions whose roundings are counted allow
contraction only.
"""

import math

import numpy as np

from dperm.compiling import compiled
from dperm.engine.base.formulas import FREE_ORDER, label_of, weight_of
from dperm.engine.base.intrinsics import CACHE_LINE, VECTOR_BYTES, WIDE, gradient_of_tile, margins_of_tile
from dperm.engine.base.kernels import ADDED, FIXED_ORDER
from dperm.losses.base import exponential

# Tiles are TILE outputs by ROWS rows, and TILE outputs by WIDTH vectors of columns.
TILE, ROWS, WIDTH = (5, 4, 4) if WIDE else (5, 2, 2)
BLOCK = 32  # rows that are read a second time from the cache
STAGE_LANES = 16
CHUNK = 32  # exponentials added one after the other; so a slope is within 1e-14 for up to 2,500 classes

margins_of_rows, margins_of_row = margins_of_tile(ROWS, TILE), margins_of_tile(1, TILE)
gradient_of_4, gradient_of_3, gradient_of_2, gradient_of_1 = (gradient_of_tile(v, TILE) for v in (4, 3, 2, 1))


@compiled(FREE_ORDER)
def add_gradient(X, G, x, row_bytes, columns, count, outputs, s, s_bytes, g, g_bytes):
    """Add slope * x over ``count`` rows, WIDTH vectors of columns and TILE outputs at a time.

    Meanwhile the next block is asked for, a few lines after each row: more at a time would wait for one another.
    """
    lanes = VECTOR_BYTES // G.itemsize
    for j in range(0, columns, WIDTH * lanes):
        vectors = min(WIDTH, (columns - j + lanes - 1) // lanes)
        left = min(lanes, columns - j - (vectors - 1) * lanes)
        row = x + j * X.itemsize
        for c in range(0, outputs, TILE):
            ahead = row + BLOCK * row_bytes + (2 * CACHE_LINE if c else 0)
            slopes, here = s + c * s_bytes, g + c * g_bytes + j * G.itemsize
            if vectors == 4:
                gradient_of_4(X, G, row, row_bytes, count, slopes, s_bytes, here, g_bytes, left, ahead)
            elif vectors == 3:
                gradient_of_3(X, G, row, row_bytes, count, slopes, s_bytes, here, g_bytes, left, ahead)
            elif vectors == 2:
                gradient_of_2(X, G, row, row_bytes, count, slopes, s_bytes, here, g_bytes, left, ahead)
            else:
                gradient_of_1(X, G, row, row_bytes, count, slopes, s_bytes, here, g_bytes, left, ahead)


@compiled(FIXED_ORDER)
def take_exponentials(E, classes, label, top, total, chosen):
    """Replace margins by e^(margin - top); keep the largest, the chosen one and the sum of the exponentials."""
    lanes = E.shape[1]
    part = np.empty(lanes)
    for k in range(lanes):
        top[k] = E[0, k]
        chosen[k] = E[label[k], k]
        total[k] = 0.0
    for c in range(1, classes):
        for k in range(lanes):
            top[k] = max(top[k], E[c, k])
    for first in range(0, classes, CHUNK):
        for k in range(lanes):
            part[k] = 0.0
        for c in range(first, min(first + CHUNK, classes)):
            for k in range(lanes):
                E[c, k] = exponential(E[c, k] - top[k])
                part[k] += np.float64(E[c, k])
        for k in range(lanes):
            total[k] += part[k]


@compiled(FIXED_ORDER)
def finish_slopes(E, classes, label, total, weight, bound, clipped):
    """Replace exponentials by slopes, times ``weight``, of norm at most ``bound`` if ``clipped``."""
    lanes = E.shape[1]
    as_type = E.dtype.type
    factor = np.empty(lanes, E.dtype)
    for k in range(lanes):
        factor[k] = as_type(1.0 / total[k])
    for c in range(classes):
        for k in range(lanes):
            E[c, k] *= factor[k]
    for k in range(lanes):
        E[label[k], k] -= as_type(1)
        factor[k] = as_type(weight[k])
    if clipped:
        square = np.zeros(lanes)
        for c in range(classes):
            for k in range(lanes):
                square[k] += np.float64(E[c, k]) * np.float64(E[c, k])
        for k in range(lanes):
            size = math.sqrt(square[k])
            if weight[k] * size > bound[k]:
                factor[k] = as_type(bound[k] / size)
    for c in range(classes):
        for k in range(lanes):
            E[c, k] *= factor[k]


@compiled(FREE_ORDER)
def one_softmax(X, y, inverse_norm, mask, W, first, last, classes, clip, want_value, want_gradient, gradient):
    """Add the gradient over rows [first, last) to ``gradient`` and return the value, reading X once.

    As ``one_model``, for weights and a gradient of shape (classes rounded up to a multiple of TILE, columns rounded up
    to whole vectors).
    """
    columns, outputs, size = X.shape[1], W.shape[0], W.itemsize
    row_bytes, w_bytes, e_bytes = columns * X.itemsize, W.shape[1] * size, BLOCK * size
    masked, clipped = mask.shape[0] > 0, clip < np.inf
    E, sums = np.zeros((outputs, BLOCK), W.dtype), np.zeros(W.shape, W.dtype)
    x, w, e, g = X.ctypes.data, W.ctypes.data, E.ctypes.data, sums.ctypes.data
    label, weight, bound = np.zeros(BLOCK, np.int64), np.ones(BLOCK), np.full(BLOCK, np.inf)
    top, total, chosen = np.empty(BLOCK, W.dtype), np.empty(BLOCK), np.empty(BLOCK, W.dtype)
    value, block_value = 0.0, 0.0
    for b in range(first, last, BLOCK):
        count = min(BLOCK, last - b)
        tiled = count - count % ROWS
        rows = x + b * row_bytes
        # The weights of one tile of outputs stay in the L1 cache while the rows of the block pass by.
        for c in range(0, outputs, TILE):
            here, there = w + c * w_bytes, e + c * e_bytes
            for i in range(0, tiled, ROWS):
                row, cell = rows + i * row_bytes, there + i * size
                margins_of_rows(X, W, row, row_bytes, here, w_bytes, columns, cell, e_bytes)
            for i in range(tiled, count):
                row, cell = rows + i * row_bytes, there + i * size
                margins_of_row(X, W, row, row_bytes, here, w_bytes, columns, cell, e_bytes)
        for i in range(count):
            label[i], weight[i] = np.int64(label_of(y[b + i])), weight_of(y[b + i])
            if masked:
                weight[i] *= mask[b + i, 0]
            if clipped:
                bound[i] = clip * inverse_norm[b + i]
        take_exponentials(E, classes, label, top, total, chosen)
        if want_value:
            for i in range(count):
                block_value += weight[i] * ((np.float64(top[i]) - np.float64(chosen[i])) + math.log(total[i]))
        if want_gradient:
            finish_slopes(E, classes, label, total, weight, bound, clipped)
            add_gradient(X, W, rows, row_bytes, columns, count, outputs, e, e_bytes, g, w_bytes)
        if (b + BLOCK - first) % ADDED == 0 or b + BLOCK >= last:
            value += block_value
            block_value = 0.0
            for c in range(classes):
                for j in range(columns):
                    gradient[c, j] += np.float64(sums[c, j])
                    sums[c, j] = 0
    return value


# Many models: Z (rows, padded models * classes) holds margins, the classes of a model side by side.


@compiled(FREE_ORDER)
def gather(Z, begin, end, models, classes, y, first, E, label):
    """Margins and labels of the (row, model) pairs [begin, end), a pair in each column of E."""
    for k in range(end - begin):
        row, model = divmod(begin + k, models)
        label[k] = np.int64(label_of(y[first + row]))
        for c in range(classes):
            E[c, k] = Z[row, model * classes + c]


@compiled(FREE_ORDER)
def softmax_slopes(Z, count, models, classes, y, inverse_norm, mask, first, clip, start, stop):
    """Replace margins by slopes, clipped (``clip`` not empty), masked and zero outside [start, stop)."""
    masked, clipped = mask.shape[0] > 0, clip.size > 0
    E = np.zeros((classes, STAGE_LANES), Z.dtype)
    label, weight, bound = np.zeros(STAGE_LANES, np.int64), np.ones(STAGE_LANES), np.ones(STAGE_LANES)
    top, chosen, total = np.empty(STAGE_LANES, Z.dtype), np.empty(STAGE_LANES, Z.dtype), np.empty(STAGE_LANES)
    for begin in range(0, count * models, STAGE_LANES):
        end = min(begin + STAGE_LANES, count * models)
        gather(Z, begin, end, models, classes, y, first, E, label)
        for k in range(end - begin):
            row, model = divmod(begin + k, models)
            row += first
            inside = (row >= start[model]) & (row < stop[model])
            weight[k] = weight_of(y[row]) * (mask[row, model] * inside if masked else inside)
            if clipped:
                bound[k] = clip[model] * inverse_norm[row]
        take_exponentials(E, classes, label, top, total, chosen)
        finish_slopes(E, classes, label, total, weight, bound, clipped)
        for k in range(end - begin):
            row, model = divmod(begin + k, models)
            for c in range(classes):
                Z[row, model * classes + c] = E[c, k]


@compiled(FREE_ORDER)
def softmax_values(Z, count, models, classes, y, mask, first, total_value):
    """Add the loss of each model's own rows to ``total_value``."""
    masked = mask.shape[0] > 0
    E, label = np.zeros((classes, STAGE_LANES), Z.dtype), np.zeros(STAGE_LANES, np.int64)
    top, chosen, total = np.empty(STAGE_LANES, Z.dtype), np.empty(STAGE_LANES, Z.dtype), np.empty(STAGE_LANES)
    for begin in range(0, count * models, STAGE_LANES):
        end = min(begin + STAGE_LANES, count * models)
        gather(Z, begin, end, models, classes, y, first, E, label)
        take_exponentials(E, classes, label, top, total, chosen)
        for k in range(end - begin):
            row, model = divmod(begin + k, models)
            if not masked or mask[first + row, model]:
                loss = (np.float64(top[k]) - np.float64(chosen[k])) + math.log(total[k])
                total_value[model] += weight_of(y[first + row]) * loss


@compiled(FREE_ORDER)
def softmax_correct(Z, count, models, classes, y, mask, first, inside, outside):
    """Count the rows whose first largest margin is that of their class, inside and outside own rows."""
    masked = mask.shape[0] > 0
    for row in range(count):
        for model in range(models):
            best = 0
            for c in range(1, classes):
                if Z[row, model * classes + c] > Z[row, model * classes + best]:
                    best = c
            correct = best == np.int64(label_of(y[first + row]))
            if masked and not mask[first + row, model]:
                outside[model] += correct
            else:
                inside[model] += correct
