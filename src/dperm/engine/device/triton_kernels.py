"""Passes on a GPU that read the rows once. Compiled by Triton: Python runs no line of it.

Every program sums the tiles of its own rows in their order, into numbers of its own; nothing is added atomically.
The exponential of a float32 x is the fast one, with a relative error below 2^-22 (1 + |x|).
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False

import triton
import triton.language as tl


@triton.jit
def slope_of(m, y, a, b, c, d, KIND: tl.constexpr):
    """The slope of a loss at margins m; a to d are what its kernel takes besides, in the dtype of m."""
    if KIND == 0:
        g = -y / (1.0 + tl.exp(y * m - a))
    elif KIND == 1:
        g = -y * tl.minimum(1.0 / (1.0 + tl.exp(y * m)), a)
    elif KIND == 2:
        z = y * m
        power = tl.exp(tl.where(z < c, d * tl.minimum(z - c, 0.0), -z))
        g = -y * tl.where(z < c, a - b * power, power / (1.0 + power))
    elif KIND == 3:
        g = -y * tl.minimum(tl.maximum((1.0 + a - y * m) / (a + a), 0.0), 1.0)
    elif KIND == 4:
        g = tl.minimum(tl.maximum(m - y, -a), a)
    elif KIND == 5:
        residual = m - y
        size = tl.abs(residual)
        outer = c * (1.0 - tl.exp(-tl.maximum(size - b, 0.0) / c))
        found = tl.minimum(tl.minimum(size, b) + outer, a)
        g = tl.where(residual > 0.0, found, -found)
    else:
        g = -y + 0.0 * m
    return g


@triton.jit
def value_of(m, y, a, b, c, d, KIND: tl.constexpr):
    """The loss at margins m."""
    if KIND == 0:
        z = y * m - a
        v = tl.maximum(-z, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(z)))
    elif KIND == 1:
        z = y * m
        top = tl.maximum(z, b)
        v = tl.maximum(-top, 0.0) + a * tl.maximum(b - z, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(top)))
    elif KIND == 2:
        z = y * m
        top = tl.maximum(z, c)
        below = tl.maximum(c - z, 0.0)
        v = tl.maximum(-top, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(top)))
        v += a * below - b / d * (1.0 - tl.exp(-d * below))
    elif KIND == 3:
        z = y * m
        rounded = tl.minimum(tl.maximum(1.0 + a - z, 0.0), a + a)
        v = rounded * rounded / (4.0 * a) + tl.maximum(1.0 - a - z, 0.0)
    elif KIND == 4:
        size = tl.abs(m - y)
        inner = tl.minimum(size, a)
        v = inner * (size - inner / 2.0)
    elif KIND == 5:
        size = tl.abs(m - y)
        inner = tl.minimum(size, b)
        beyond = tl.maximum(size - b, 0.0)
        v = inner * inner / 2.0 + a * beyond - c * c * (1.0 - tl.exp(-beyond / c))
    else:
        v = -y * m
    return v


@triton.jit(do_not_specialize=["first", "last", "rows_each"])
def one_model(
    X,
    y,
    inverse,
    mask,
    w,
    settings,
    sums,
    values,
    first,
    last,
    rows_each,
    STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    KIND: tl.constexpr,
    DOUBLE: tl.constexpr,
    MASKED: tl.constexpr,
    CLIPPED: tl.constexpr,
    VALUE: tl.constexpr,
    GRADIENT: tl.constexpr,
):
    """Program i sums rows [first + i rows_each, ...) of one model, tile by tile.

    Margins, slopes and the sum over a tile are in float32, or in float64 with DOUBLE; tiles are added in float64.
    """
    number: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    program = tl.program_id(0)
    columns = tl.arange(0, WIDTH)
    there = columns < STRIDE
    weights = tl.load(w + columns).to(number)
    a = tl.load(settings).to(number)
    b = tl.load(settings + 1).to(number)
    c = tl.load(settings + 2).to(number)
    d = tl.load(settings + 3).to(number)
    clip = tl.load(settings + 4).to(number)
    total = tl.zeros((WIDTH,), tl.float64)
    value = tl.zeros((TILE,), tl.float64)
    begin = first + program * rows_each
    end = tl.minimum(begin + rows_each, last)
    for start in range(begin, end, TILE):
        rows = start + tl.arange(0, TILE)
        inside = rows < end
        places = X + rows[:, None].to(tl.int64) * STRIDE + columns[None, :]
        x = tl.load(places, mask=inside[:, None] & there[None, :], other=0.0).to(number)
        label = tl.load(y + rows, mask=inside, other=1.0)
        margin = tl.sum(x * weights[None, :], axis=1)
        own = inside
        if MASKED:
            own = inside & (tl.load(mask + rows, mask=inside, other=0) != 0)
        if VALUE:
            value += tl.where(own, value_of(margin, label, a, b, c, d, KIND), 0.0).to(tl.float64)
        if GRADIENT:
            g = slope_of(margin, label, a, b, c, d, KIND)
            if CLIPPED:
                most = clip * tl.load(inverse + rows, mask=inside, other=0.0)
                g = tl.minimum(tl.maximum(g, -most), most)
            g = tl.where(own, g, 0.0)
            total += tl.sum(x * g[:, None], axis=0).to(tl.float64)
    if GRADIENT:
        tl.store(sums + program * WIDTH + columns, total)
    if VALUE:
        tl.store(values + program, tl.sum(value, axis=0))


@triton.jit(do_not_specialize=["programs", "step"])
def move(
    sums,
    w,
    iterates,
    decay,
    rate,
    programs,
    step,
    WIDTH: tl.constexpr,
    GROUP: tl.constexpr,
    SUM: tl.constexpr,
):
    """w <- decay w - rate g for the sum g of all programs' sums, each group of columns in one program."""
    columns = tl.program_id(0) * GROUP + tl.arange(0, GROUP)
    total = tl.zeros((32, GROUP), tl.float64)
    for first in range(0, programs, 32):
        part = first + tl.arange(0, 32)
        places = sums + part[:, None] * WIDTH + columns[None, :]
        total += tl.load(places, mask=(part < programs)[:, None], other=0.0)
    moved = tl.load(decay + step) * tl.load(w + columns) - tl.load(rate + step) * tl.sum(total, axis=0)
    tl.store(w + columns, moved)
    if SUM:
        tl.store(iterates + columns, tl.load(iterates + columns) + moved)


@triton.jit
def slopes_of_tile(
    margin,
    y,
    inverse,
    mask,
    clips,
    starts,
    stops,
    settings,
    place,
    model,
    known,
    models,
    KIND: tl.constexpr,
    MASKED: tl.constexpr,
    CLIPPED: tl.constexpr,
    RANGED: tl.constexpr,
):
    """Slopes at the margins of some rows and models: clipped, masked, zero outside each model's range."""
    number = margin.dtype
    wanted = model < models
    label = tl.load(y + place, mask=known, other=1.0)[:, None]
    a = tl.load(settings).to(number)
    b = tl.load(settings + 1).to(number)
    c = tl.load(settings + 2).to(number)
    d = tl.load(settings + 3).to(number)
    g = slope_of(margin, label, a, b, c, d, KIND)
    if CLIPPED:
        most = tl.load(clips + model, mask=wanted, other=0.0)[None, :]
        most = most * tl.load(inverse + place, mask=known, other=0.0)[:, None]
        g = tl.minimum(tl.maximum(g, -most), most)
    if MASKED:
        both = known[:, None] & wanted[None, :]
        member = tl.load(mask + place[:, None].to(tl.int64) * models + model[None, :], mask=both, other=0)
        g = tl.where(member != 0, g, 0.0)
    if RANGED:
        begin = tl.load(starts + model, mask=wanted, other=0)[None, :]
        end = tl.load(stops + model, mask=wanted, other=0)[None, :]
        g = tl.where((place[:, None] >= begin) & (place[:, None] < end), g, 0.0)
    return g


@triton.jit(do_not_specialize=["first", "rows", "models"])
def slopes_of_models(
    Z,
    y,
    inverse,
    mask,
    clips,
    starts,
    stops,
    settings,
    first,
    rows,
    models,
    KIND: tl.constexpr,
    MASKED: tl.constexpr,
    CLIPPED: tl.constexpr,
    RANGED: tl.constexpr,
    ROWS: tl.constexpr,
    MODELS: tl.constexpr,
):
    """Replace the margins Z of rows first, first + 1, ... by slopes: clipped, masked, zero outside each range."""
    here = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    model = tl.program_id(1) * MODELS + tl.arange(0, MODELS)
    known = here < rows
    both = known[:, None] & (model < models)[None, :]
    cells = Z + here[:, None].to(tl.int64) * models + model[None, :]
    margin = tl.load(cells, mask=both, other=0.0)
    g = slopes_of_tile(
        margin, y, inverse, mask, clips, starts, stops, settings, first + here, model, known, models,
        KIND, MASKED, CLIPPED, RANGED,
    )  # fmt: skip
    tl.store(cells, g, mask=both)


@triton.jit(do_not_specialize=["first", "rows", "models"])
def slopes_of_rows(
    X,
    W,
    S,
    y,
    inverse,
    mask,
    clips,
    starts,
    stops,
    settings,
    first,
    rows,
    models,
    STRIDE: tl.constexpr,
    KIND: tl.constexpr,
    MASKED: tl.constexpr,
    CLIPPED: tl.constexpr,
    RANGED: tl.constexpr,
    ROWS: tl.constexpr,
    MODELS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Margins of float32 rows first, first + 1, ... with weights W, and from them slopes into S, in float32.

    W has zeros up to a multiple of COLUMNS rows and of MODELS columns.
    """
    here = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    model = tl.program_id(1) * MODELS + tl.arange(0, MODELS)
    width = tl.cdiv(models, MODELS) * MODELS
    known = here < rows
    place = first + here
    margin = tl.zeros((ROWS, MODELS), tl.float32)
    for start in range(0, STRIDE, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        cells = X + place[:, None].to(tl.int64) * STRIDE + column[None, :]
        x = tl.load(cells, mask=known[:, None] & (column < STRIDE)[None, :], other=0.0)
        w = tl.load(W + column[:, None] * width + model[None, :])
        margin = tl.dot(x, w, margin, input_precision="ieee")
    g = slopes_of_tile(
        margin, y, inverse, mask, clips, starts, stops, settings, place, model, known, models,
        KIND, MASKED, CLIPPED, RANGED,
    )  # fmt: skip
    both = known[:, None] & (model < models)[None, :]
    tl.store(S + here[:, None].to(tl.int64) * models + model[None, :], g, mask=both)


@triton.jit(do_not_specialize=["blocks"])
def add_blocks(products, total, blocks, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """total += the sum over the first axis of products, of shape (blocks, size), in float64."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < size
    found = tl.zeros((ROWS, COLUMNS), tl.float64)
    for first in range(0, blocks, ROWS):
        block = first + tl.arange(0, ROWS)
        places = products + block[:, None].to(tl.int64) * size + column[None, :]
        found += tl.load(places, mask=(block < blocks)[:, None] & there[None, :], other=0.0).to(tl.float64)
    before = tl.load(total + column, mask=there, other=0.0)
    tl.store(total + column, before + tl.sum(found, axis=0), mask=there)
