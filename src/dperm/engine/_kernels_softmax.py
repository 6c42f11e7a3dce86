"""Compiled softmax: one model in a single read of X, and the middle stage of many models.

Rows or models lie side by side in the columns of a small array E (classes, lanes), so that every loop over
lanes becomes vector instructions whatever the number of classes. Functions whose roundings are counted allow
contraction only.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from dperm.compiling import compiled
from dperm.engine._formulas import FREE_ORDER
from dperm.engine._kernels import CACHE_LINE, FIXED_ORDER, prefetch
from dperm.losses.kernel import exponential

# LLVM does not keep a tile of sums in registers on its own, so the two inner loops are written in its
# language. Tiles are TILE outputs by ROWS rows, and TILE outputs by WIDTH vectors of LANES columns.
WIDE = "+avx512f" in get_host_cpu_features()
LANES = 8 if WIDE else 4
TILE, ROWS, WIDTH = (5, 4, 4) if WIDE else (5, 2, 2)
BLOCK = 32  # rows that are read a second time from the cache
STAGE_LANES = 16
CHUNK = 32  # exponentials added one after the other; so a slope is within 1e-14 for up to 2,500 classes

DOUBLE = ir.DoubleType()
VECTOR = ir.VectorType(DOUBLE, LANES)
FLAGS = ("reassoc", "contract", "nsz")


def at(builder, base, *offsets):
    """base + the sum of stride * index."""
    for stride, index in offsets:
        base = builder.add(base, builder.mul(stride, index))
    return base


def load_vector(builder, address, number):
    """LANES numbers from an address, as float64."""
    if number == types.float64:
        return builder.load(builder.inttoptr(address, VECTOR.as_pointer()), align=8)
    narrow = ir.VectorType(ir.FloatType(), LANES)
    return builder.fpext(builder.load(builder.inttoptr(address, narrow.as_pointer()), align=4), VECTOR)


def load_copies(builder, address):
    """One float64 number in every lane."""
    value = builder.load(builder.inttoptr(address, DOUBLE.as_pointer()))
    empty = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(empty, value, ir.IntType(32)(0))
    return builder.shuffle_vector(
        first, empty, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    )


def add_product(builder, total, a, b):
    builder.store(builder.fadd(builder.fmul(a, b, flags=FLAGS), builder.load(total), flags=FLAGS), total)


def sum_of_lanes(builder, vector):
    kind = ir.FunctionType(DOUBLE, [DOUBLE, VECTOR])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f64")
    return builder.call(function, [DOUBLE(0.0), vector], fastmath=FLAGS)


def margins_of_tile(rows):
    """For ``rows`` rows of X and TILE outputs: margins over the first ``columns`` columns, a multiple of LANES.

    ``x`` and ``w`` are the addresses of the first row and of the first output's weights, ``out`` that of an
    array (outputs, rows) of margins.
    """

    @intrinsic
    def tile(typing_context, X, x, row_bytes, w, w_bytes, columns, out, out_bytes):
        number = X.dtype

        def generate(context, builder, signature, arguments):
            _, x, row_bytes, w, w_bytes, columns, out, out_bytes = arguments
            word = columns.type
            cells = [(r, t) for r in range(rows) for t in range(TILE)]
            total = {cell: cgutils.alloca_once(builder, VECTOR) for cell in cells}
            for cell in cells:
                builder.store(ir.Constant(VECTOR, [0.0] * LANES), total[cell])
            with cgutils.for_range_slice(builder, word(0), columns, word(LANES), inc=True) as (j, _):
                weights = [
                    load_vector(builder, at(builder, w, (w_bytes, word(t)), (j, word(8))), types.float64)
                    for t in range(TILE)
                ]
                for r in range(rows):
                    here = at(builder, x, (row_bytes, word(r)), (j, word(number.bitwidth // 8)))
                    values = load_vector(builder, here, number)
                    for t in range(TILE):
                        add_product(builder, total[r, t], values, weights[t])
            for r, t in cells:
                target = at(builder, out, (out_bytes, word(t)), (word(8), word(r)))
                builder.store(
                    sum_of_lanes(builder, builder.load(total[r, t])),
                    builder.inttoptr(target, DOUBLE.as_pointer()),
                )
            return context.get_dummy_value()

        return types.void(X, *[types.intp] * 7), generate

    return tile


def gradient_of_tile(vectors):
    """Add slope * x over ``count`` rows to the gradient of TILE outputs in ``vectors`` * LANES columns.

    ``x`` is the address of the first row's first column of the tile, ``s`` of the slopes (outputs, rows), ``g``
    of the first output's gradient in that column.
    """

    @intrinsic
    def tile(typing_context, X, x, row_bytes, count, s, s_bytes, g, g_bytes):
        number = X.dtype

        def generate(context, builder, signature, arguments):
            _, x, row_bytes, count, s, s_bytes, g, g_bytes = arguments
            word = count.type
            cells = [(v, t) for v in range(vectors) for t in range(TILE)]
            total = {cell: cgutils.alloca_once(builder, VECTOR) for cell in cells}
            place = {(v, t): at(builder, g, (g_bytes, word(t)), (word(8 * LANES), word(v))) for v, t in cells}
            for cell in cells:
                builder.store(load_vector(builder, place[cell], types.float64), total[cell])
            with cgutils.for_range(builder, count) as loop:
                row = at(builder, x, (row_bytes, loop.index))
                step = word(number.bitwidth // 8 * LANES)
                values = [
                    load_vector(builder, at(builder, row, (step, word(v))), number) for v in range(vectors)
                ]
                for t in range(TILE):
                    slope = load_copies(builder, at(builder, s, (s_bytes, word(t)), (word(8), loop.index)))
                    for v in range(vectors):
                        add_product(builder, total[v, t], values[v], slope)
            for cell in cells:
                target = builder.inttoptr(place[cell], VECTOR.as_pointer())
                builder.store(builder.load(total[cell]), target, align=8)
            return context.get_dummy_value()

        return types.void(X, *[types.intp] * 7), generate

    return tile


margins_of_rows, margins_of_row = margins_of_tile(ROWS), margins_of_tile(1)
gradient_of_columns, gradient_of_vector = gradient_of_tile(WIDTH), gradient_of_tile(1)


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
    """Replace exponentials by slopes, of norm at most ``bound`` if ``clipped``, times ``weight``."""
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
            if size > bound[k]:
                factor[k] = as_type(weight[k] * (bound[k] / size))
    for c in range(classes):
        for k in range(lanes):
            E[c, k] *= factor[k]


@compiled(FREE_ORDER)
def one_softmax(X, y, inverse_norm, mask, W, first, last, classes, clip, want_value, want_gradient, gradient):
    """Add the gradient over rows [first, last) to ``gradient`` and return the value, reading X once.

    As ``one_model``, for weights and a gradient of shape (classes rounded up to a multiple of TILE, columns).
    """
    columns, outputs = X.shape[1], W.shape[0]
    size, row_bytes, w_bytes = X.itemsize, columns * X.itemsize, columns * 8
    x, w, g = X.ctypes.data, W.ctypes.data, gradient.ctypes.data
    even = columns - columns % LANES
    wide = columns - columns % (WIDTH * LANES)
    masked, clipped = mask.shape[0] > 0, clip < np.inf
    E = np.zeros((outputs, BLOCK))
    e, e_bytes = E.ctypes.data, BLOCK * 8
    label, weight, bound = np.zeros(BLOCK, np.int64), np.ones(BLOCK), np.full(BLOCK, np.inf)
    top, total, chosen = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    value = 0.0
    for b in range(first, last, BLOCK):
        count = min(BLOCK, last - b)
        tiled = count - count % ROWS
        rows = x + b * row_bytes
        ahead = rows + BLOCK * row_bytes
        for i in range(0, tiled, ROWS):
            for byte in range(0, ROWS * row_bytes, CACHE_LINE):
                prefetch(ahead + i * row_bytes + byte)
            for c in range(0, outputs, TILE):
                margins_of_rows(
                    X, rows + i * row_bytes, row_bytes, w + c * w_bytes, w_bytes, even,
                    e + c * e_bytes + i * 8, e_bytes,
                )  # fmt: skip
        for i in range(tiled, count):
            for c in range(0, outputs, TILE):
                margins_of_row(
                    X, rows + i * row_bytes, row_bytes, w + c * w_bytes, w_bytes, even,
                    e + c * e_bytes + i * 8, e_bytes,
                )  # fmt: skip
        for j in range(even, columns):
            for c in range(classes):
                for i in range(count):
                    E[c, i] += np.float64(X[b + i, j]) * W[c, j]
        for i in range(count):
            label[i] = np.int64(y[b + i])
            if masked:
                weight[i] = mask[b + i, 0]
            if clipped:
                bound[i] = clip * inverse_norm[b + i]
        take_exponentials(E, classes, label, top, total, chosen)
        if want_value:
            for i in range(count):
                value += weight[i] * ((top[i] - chosen[i]) + math.log(total[i]))
        if not want_gradient:
            continue
        finish_slopes(E, classes, label, total, weight, bound, clipped)
        for c in range(0, outputs, TILE):
            for j in range(0, wide, WIDTH * LANES):
                gradient_of_columns(
                    X, rows + j * size, row_bytes, count, e + c * e_bytes, e_bytes,
                    g + c * w_bytes + j * 8, w_bytes,
                )  # fmt: skip
            for j in range(wide, even, LANES):
                gradient_of_vector(
                    X, rows + j * size, row_bytes, count, e + c * e_bytes, e_bytes,
                    g + c * w_bytes + j * 8, w_bytes,
                )  # fmt: skip
        for j in range(even, columns):
            for c in range(classes):
                for i in range(count):
                    gradient[c, j] += E[c, i] * np.float64(X[b + i, j])
    return value


# Many models: Z (rows, padded models * classes) holds margins, the classes of a model side by side.


@compiled(FREE_ORDER)
def gather(Z, begin, end, models, classes, y, first, E, label):
    """Margins and labels of the (row, model) pairs [begin, end), a pair in each column of E."""
    for k in range(end - begin):
        row, model = divmod(begin + k, models)
        label[k] = np.int64(y[first + row])
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
            weight[k] = mask[row, model] * inside if masked else inside
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
                total_value[model] += (np.float64(top[k]) - np.float64(chosen[k])) + math.log(total[k])


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
            correct = best == np.int64(y[first + row])
            if masked and not mask[first + row, model]:
                outside[model] += correct
            else:
                inside[model] += correct
