"""Inner loops that LLVM does not keep in registers on its own, written in its language.

Numbers of X are widened to the type of the weights, in which all is added up. Columns that do not fill a vector are
read under a mask. Each loop adds in an order that depends on the number of columns and rows alone.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

WIDE = "+avx512f" in get_host_cpu_features()
VECTOR_BYTES = 64 if WIDE else 32
FLAGS = ("reassoc", "contract", "nsz")
WORD = ir.IntType(64)
CACHE_LINE = 64


def ask_for(builder, address):
    """Ask for the cache line at an address. Never faults, so any address will do."""
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    name = "llvm.prefetch.p0" if str(byte) == "ptr" else "llvm.prefetch.p0i8"
    function_type = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    read, keep_close, data = word(0), word(3), word(1)
    builder.call(function, [builder.inttoptr(address, byte), read, keep_close, data])


@intrinsic
def prefetch(typing_context, address):
    """``ask_for`` in a compiled function."""

    def generate(context, builder, signature, arguments):
        ask_for(builder, arguments[0])
        return context.get_dummy_value()

    return types.void(types.intp), generate


class Lanes:
    """A vector register full of numbers of one type."""

    def __init__(self, number):
        self.number, self.size = number, number.bitwidth // 8
        self.count = VECTOR_BYTES // self.size
        self.vector = ir.VectorType(scalar(number), self.count)

    def zero(self):
        return ir.Constant(self.vector, [0.0] * self.count)

    def below(self, builder, count):
        """True in the first ``count`` lanes."""
        index = ir.Constant(ir.VectorType(WORD, self.count), list(range(self.count)))
        return builder.icmp_signed("<", index, copies(builder, count, self.count))

    def load(self, builder, address, stored=None, mask=None):
        """Numbers of the type ``stored``, widened; zero where ``mask`` is false."""
        stored = self.number if stored is None else stored
        vector = ir.VectorType(scalar(stored), self.count)
        pointer, align = builder.inttoptr(address, vector.as_pointer()), stored.bitwidth // 8
        if mask is None:
            values = builder.load(pointer, align=align)
        else:
            values = masked_load(builder, pointer, vector, align, mask)
        return values if vector == self.vector else builder.fpext(values, self.vector)

    def load_copies(self, builder, address):
        one = builder.load(builder.inttoptr(address, scalar(self.number).as_pointer()))
        return copies(builder, one, self.count)

    def store(self, builder, values, address):
        builder.store(values, builder.inttoptr(address, self.vector.as_pointer()), align=self.size)

    def store_sum(self, builder, values, address):
        """Add up the lanes."""
        one = scalar(self.number)
        kind = ir.FunctionType(one, [one, self.vector])
        name = f"llvm.vector.reduce.fadd.v{self.count}f{self.number.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        total = builder.call(function, [one(0.0), values], fastmath=FLAGS)
        builder.store(total, builder.inttoptr(address, one.as_pointer()))


def scalar(number):
    return ir.FloatType() if number == types.float32 else ir.DoubleType()


def copies(builder, value, count):
    """One number in every lane."""
    empty = ir.Constant(ir.VectorType(value.type, count), ir.Undefined)
    first = builder.insert_element(empty, value, ir.IntType(32)(0))
    return builder.shuffle_vector(
        first, empty, ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
    )


def masked_load(builder, pointer, vector, align, mask):
    kind = f"v{vector.count}f{align * 8}"
    name = f"llvm.masked.load.{kind}.p0" + ("" if str(pointer.type) == "ptr" else kind)
    word = ir.IntType(32)
    function_type = ir.FunctionType(vector, [pointer.type, word, mask.type, vector])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    return builder.call(function, [pointer, word(align), mask, ir.Constant(vector, [0.0] * vector.count)])


def at(builder, base, *offsets):
    """base + the sum of stride * index."""
    for stride, index in offsets:
        base = builder.add(base, builder.mul(stride, index))
    return base


def add_product(builder, total, a, b):
    builder.store(builder.fadd(builder.fmul(a, b, flags=FLAGS), builder.load(total), flags=FLAGS), total)


def over_columns(builder, lanes, columns, apart, step):
    """``step(first column, mask, which of ``apart`` sums)`` for all columns."""
    width = lanes.count * apart
    even, whole = builder.and_(columns, WORD(-width)), builder.and_(columns, WORD(-lanes.count))
    with cgutils.for_range_slice(builder, WORD(0), even, WORD(width), inc=True) as (j, _):
        for k in range(apart):
            step(builder.add(j, WORD(k * lanes.count)), None, k)
    if apart > 1:
        with cgutils.for_range_slice(builder, even, whole, WORD(lanes.count), inc=True) as (j, _):
            step(j, None, 0)
    left = builder.sub(columns, whole)
    with cgutils.if_unlikely(builder, builder.icmp_signed(">", left, WORD(0))):
        step(whole, lanes.below(builder, left), apart - 1)


def margins_of_tile(rows, outputs, apart=1):
    """Margins of ``rows`` rows of X and ``outputs`` outputs, each in ``apart`` sums that are added at the end.

    ``x`` and ``w`` are the addresses of the first row and of the first output's weights, ``out`` that of an
    array (outputs, rows) of margins.
    """

    @intrinsic
    def tile(typing_context, X, W, x, row_bytes, w, w_bytes, columns, out, out_bytes):
        stored, lanes = X.dtype, Lanes(W.dtype)

        def generate(context, builder, signature, arguments):
            _, _, x, row_bytes, w, w_bytes, columns, out, out_bytes = arguments
            cells = [(r, t) for r in range(rows) for t in range(outputs)]
            total = {(*c, k): cgutils.alloca_once(builder, lanes.vector) for c in cells for k in range(apart)}
            for place in total.values():
                builder.store(lanes.zero(), place)

            def step(j, mask, k):
                weights = [
                    lanes.load(builder, at(builder, w, (w_bytes, WORD(t)), (j, WORD(lanes.size))))
                    for t in range(outputs)
                ]
                for r in range(rows):
                    here = at(builder, x, (row_bytes, WORD(r)), (j, WORD(stored.bitwidth // 8)))
                    values = lanes.load(builder, here, stored, mask)
                    for t in range(outputs):
                        add_product(builder, total[r, t, k], values, weights[t])

            over_columns(builder, lanes, columns, apart, step)
            for r, t in cells:
                margin = builder.load(total[r, t, 0])
                for k in range(1, apart):
                    margin = builder.fadd(margin, builder.load(total[r, t, k]), flags=FLAGS)
                place = at(builder, out, (out_bytes, WORD(t)), (WORD(lanes.size), WORD(r)))
                lanes.store_sum(builder, margin, place)
            return context.get_dummy_value()

        return types.void(X, W, *[types.intp] * 7), generate

    return tile


def gradient_of_rows(rows):
    """Add slope * x over ``rows`` rows to the gradient of one output, all columns.

    ``x`` is the address of the first row, ``s`` of the slopes, ``g`` of the gradient, as long as whole vectors are.
    """

    @intrinsic
    def tile(typing_context, X, G, x, row_bytes, s, g, columns):
        stored, lanes = X.dtype, Lanes(G.dtype)

        def generate(context, builder, signature, arguments):
            _, _, x, row_bytes, s, g, columns = arguments
            slopes = [
                lanes.load_copies(builder, at(builder, s, (WORD(lanes.size), WORD(r)))) for r in range(rows)
            ]

            def step(j, mask, k):
                place = at(builder, g, (j, WORD(lanes.size)))
                total = lanes.load(builder, place)
                for r in range(rows):
                    here = at(builder, x, (row_bytes, WORD(r)), (j, WORD(stored.bitwidth // 8)))
                    product = builder.fmul(lanes.load(builder, here, stored, mask), slopes[r], flags=FLAGS)
                    total = builder.fadd(product, total, flags=FLAGS)
                lanes.store(builder, total, place)

            over_columns(builder, lanes, columns, 1, step)
            return context.get_dummy_value()

        return types.void(X, G, *[types.intp] * 5), generate

    return tile


def gradient_of_tile(vectors, outputs):
    """Add slope * x over ``count`` rows to the gradient of ``outputs`` outputs in ``vectors`` vectors of columns.

    ``x`` is the address of the first row's first column of the tile, ``s`` of the slopes (outputs, rows), ``g`` of the
    first output's gradient in that column, as long as whole vectors are; ``left`` columns are in the last vector. For
    every row two cache lines are asked for, the first row's at ``ahead``.
    """

    @intrinsic
    def tile(typing_context, X, G, x, row_bytes, count, s, s_bytes, g, g_bytes, left, ahead):
        stored, lanes = X.dtype, Lanes(G.dtype)

        def generate(context, builder, signature, arguments):
            _, _, x, row_bytes, count, s, s_bytes, g, g_bytes, left, ahead = arguments
            cells = [(v, t) for v in range(vectors) for t in range(outputs)]
            total = {cell: cgutils.alloca_once(builder, lanes.vector) for cell in cells}
            place = {
                (v, t): at(builder, g, (g_bytes, WORD(t)), (WORD(VECTOR_BYTES), WORD(v))) for v, t in cells
            }
            for cell in cells:
                builder.store(lanes.load(builder, place[cell]), total[cell])
            last = lanes.below(builder, left)
            with cgutils.for_range(builder, count) as loop:
                row = at(builder, x, (row_bytes, loop.index))
                soon = at(builder, ahead, (row_bytes, loop.index))
                ask_for(builder, soon)
                ask_for(builder, builder.add(soon, WORD(CACHE_LINE)))
                step = WORD(stored.bitwidth // 8 * lanes.count)
                masks = [None] * (vectors - 1) + [last]
                values = [
                    lanes.load(builder, at(builder, row, (step, WORD(v))), stored, masks[v])
                    for v in range(vectors)
                ]
                for t in range(outputs):
                    here = at(builder, s, (s_bytes, WORD(t)), (WORD(lanes.size), loop.index))
                    slope = lanes.load_copies(builder, here)
                    for v in range(vectors):
                        add_product(builder, total[v, t], values[v], slope)
            for cell in cells:
                lanes.store(builder, builder.load(total[cell]), place[cell])
            return context.get_dummy_value()

        return types.void(X, G, *[types.intp] * 9), generate

    return tile


LANES = 8
_NUMBER = ir.DoubleType()
_VECTOR = ir.VectorType(_NUMBER, LANES)
_BYTES = 8  # numbers are aligned to themselves only


def _pointers(context, builder, signature, arguments, which):
    return [context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in which]


def _spread(builder, value):
    """One number, of either precision, in every lane of a vector."""
    wide = value if value.type == _NUMBER else builder.fpext(value, _NUMBER)
    return copies(builder, wide, LANES)


def _at(builder, base, offset):
    return builder.bitcast(builder.gep(base, [offset]), _VECTOR.as_pointer())


def _row(builder, base, index, stride, offset):
    place = builder.mul(builder.zext(index, WORD), stride)
    return _at(builder, base, builder.add(place, offset))


def _fma(builder, a, b, c):
    function_type = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.fma.v{LANES}f64")
    return builder.call(function, [a, b, c])


@intrinsic
def gather8(typing_context, data, index, begin, end, W, stride, column, out, place):
    """Write sum of data[q] * W[index[q], column:column + 8] over begin <= q < end to ``out`` from ``place`` on.

    ``W`` and ``out`` are C-ordered float64 arrays, ``stride`` the columns of W. Four accumulators, always in the same
    order.
    """

    def generate(context, builder, signature, arguments):
        values, columns, weights, margins = _pointers(context, builder, signature, arguments, (0, 1, 4, 7))
        begin, end, stride, column, place = (arguments[i] for i in (2, 3, 5, 6, 8))
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(4)]
        for total in sums:
            builder.store(zero, total)
        count = builder.sub(end, begin)

        def step(q, total):
            value = _spread(builder, builder.load(builder.gep(values, [q])))
            where = _row(builder, weights, builder.load(builder.gep(columns, [q])), stride, column)
            added = _fma(builder, value, builder.load(where, align=_BYTES), builder.load(total))
            builder.store(added, total)

        with cgutils.for_range(builder, builder.lshr(count, WORD(2))) as loop:
            q = builder.add(begin, builder.shl(loop.index, WORD(2)))
            for place_in_four, total in enumerate(sums):
                step(builder.add(q, WORD(place_in_four)), total)
        rest = builder.and_(count, WORD(3))
        with cgutils.for_range(builder, rest) as loop:
            step(builder.add(builder.sub(end, rest), loop.index), sums[0])
        halves = [builder.fadd(builder.load(sums[i]), builder.load(sums[i + 1])) for i in (0, 2)]
        total = builder.fadd(*halves)
        builder.store(total, _at(builder, margins, place), align=_BYTES)
        return context.get_dummy_value()

    word = types.int64
    return types.void(data, index, word, word, W, word, word, out, word), generate


@intrinsic
def scatter8(typing_context, data, index, begin, end, total, stride, column, slopes, place):
    """Add data[q] * slopes[place:place + 8] to total[index[q], column:column + 8] for begin <= q < end."""

    def generate(context, builder, signature, arguments):
        values, columns, sums, source = _pointers(context, builder, signature, arguments, (0, 1, 4, 7))
        begin, end, stride, column, place = (arguments[i] for i in (2, 3, 5, 6, 8))
        slope = builder.load(_at(builder, source, place), align=_BYTES)
        with cgutils.for_range(builder, builder.sub(end, begin)) as loop:
            q = builder.add(begin, loop.index)
            value = _spread(builder, builder.load(builder.gep(values, [q])))
            where = _row(builder, sums, builder.load(builder.gep(columns, [q])), stride, column)
            added = _fma(builder, value, slope, builder.load(where, align=_BYTES))
            builder.store(added, where, align=_BYTES)
        return context.get_dummy_value()

    word = types.int64
    return types.void(data, index, word, word, total, word, word, slopes, word), generate
