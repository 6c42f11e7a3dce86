"""Eight models at a time over one sparse row: two vector loops that the compiler does not find by itself."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
_WORD, _INDEX = ir.IntType(64), ir.IntType(32)
_NUMBER = ir.DoubleType()
_VECTOR = ir.VectorType(_NUMBER, LANES)
_BYTES = 8  # numbers are aligned to themselves only


def _pointers(context, builder, signature, arguments, which):
    return [context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in which]


def _spread(builder, value):
    """One number, of either precision, in every lane of a vector."""
    if value.type != _NUMBER:
        value = builder.fpext(value, _NUMBER)
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, value, _INDEX(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES))


def _at(builder, base, offset):
    return builder.bitcast(builder.gep(base, [offset]), _VECTOR.as_pointer())


def _row(builder, base, index, stride, offset):
    place = builder.mul(builder.zext(index, _WORD), stride)
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

        with cgutils.for_range(builder, builder.lshr(count, _WORD(2))) as loop:
            q = builder.add(begin, builder.shl(loop.index, _WORD(2)))
            for place_in_four, total in enumerate(sums):
                step(builder.add(q, _WORD(place_in_four)), total)
        rest = builder.and_(count, _WORD(3))
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
