"""A schema in ONNX: from raw columns to encoded rows, as ``dperm.schema.encode`` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np

from dperm.errors import Unsupported
from dperm.models.onnx_dates import date_columns
from dperm.models.onnx_graph import Graph
from dperm.schema import Schema
from dperm.schema.dates import Date
from dperm.schema.features import Block, Categorical, Cross, Hashed, Numeric
from dperm.schema.schema import ROUNDING_SLACK, Feature

OUTPUTS = ("label", "probabilities", "scores", "variable")
NONE = -1  # the code of a value that has no level


def encoded(graph: Graph, schema: Schema) -> str:
    """Rows as a model sees them, from one input for each feature: numbers, days, text or truth values."""
    for feature in schema.features:
        check_expressible(feature)
    columns = {feature.name: graph.read(feature.name, _input_type(feature), 1) for feature in schema.features}
    for feature in schema.features:
        if isinstance(feature, Date):
            columns |= date_columns(graph, feature, columns[feature.name])
    blocks = [_block(graph, block, columns) for block in schema.blocks]
    rows = graph.op("Concat", *blocks, axis=1) if len(blocks) > 1 else blocks[0]
    rows = graph.op("Mul", rows, schema.scale)
    if schema.norm_share < 1:
        norms = graph.op("Div", graph.op("ReduceL2", rows, axes=[1]), 1 - ROUNDING_SLACK)
        rows = graph.op("Div", rows, graph.op("Max", norms, 1.0))
    return rows


def check_expressible(feature: Feature) -> None:
    if isinstance(feature, Hashed) or (isinstance(feature, Categorical) and feature.fold):
        raise Unsupported(
            f"feature {feature.name!r} has an encoding that ONNX cannot express; leave out raw, and encode rows with "
            "PublicEncoder."
        )
    if feature.name in OUTPUTS:
        raise Unsupported(
            f"feature {feature.name!r} has the name of an output; export the model without raw."
        )


def _input_type(feature: object) -> type:
    if isinstance(feature, Categorical):
        return {str: str, bool: np.bool_, int: np.float64}[type(feature.categories[0])]
    return np.float64


def _block(graph: Graph, block: Block, columns: Mapping[str, str]) -> str:
    if isinstance(block, Cross):
        left, right = (_code(graph, part, columns[part.name]) for part in (block.left, block.right))
        width = graph.constant(len(block.right.levels), np.int64)
        pair = graph.op("Add", graph.op("Mul", left, width), right)
        least = graph.op("Min", left, right)
        known = graph.op("Less", graph.constant(NONE, np.int64), least)
        pair = graph.op("Where", known, pair, graph.constant(NONE, np.int64))
        return _levels(graph, pair, block.n_columns)
    if isinstance(block, Categorical):
        return _levels(graph, _code(graph, block, columns[block.name]), block.n_columns)
    assert isinstance(block, Numeric)
    return _number(graph, block, columns[block.name])


def _levels(graph: Graph, code: str, count: int) -> str:
    """1 - 1/k for the row's own level and -1/k elsewhere; zeros where there is none."""
    own = graph.to(graph.op("Equal", code, graph.constant([range(count)], np.int64)), np.float64)
    known = graph.to(graph.op("Less", graph.constant(NONE, np.int64), code), np.float64)
    return graph.op("Mul", graph.op("Sub", own, 1 / count), known)


def _code(graph: Graph, feature: object, column: str) -> str:
    """The number of a value's level, or ``NONE``."""
    if isinstance(feature, Numeric):
        missing = _missing(graph, column, feature.missing)
        above = graph.to(graph.op("GreaterOrEqual", column, graph.constant([feature.bins])), np.int64)
        bins = graph.op("ReduceSum", above, graph.constant([1], np.int64), keepdims=1)
        return graph.op("Where", missing, graph.constant(NONE, np.int64), bins)
    assert isinstance(feature, Categorical)
    other = NONE if feature.missing_as is None else feature.categories.index(feature.missing_as)
    kind = type(feature.categories[0])
    if kind is str:
        codes = {str(category): place for place, category in enumerate(feature.categories)}
        codes |= {str(mark): other for mark in feature.missing}
        codes.setdefault("", other)  # ONNX has no null
        return graph.op(
            "LabelEncoder",
            column,
            domain="ai.onnx.ml",
            keys_strings=list(codes),
            values_int64s=list(codes.values()),
            default_int64=NONE,
        )
    if kind is bool:
        place = {value: code for code, value in enumerate(feature.categories)}
        first, second = (graph.constant(place[value], np.int64) for value in (True, False))
        return graph.op("Where", column, first, second)
    own = graph.to(graph.op("Equal", column, graph.constant([feature.categories])), np.int64)
    places = graph.constant([range(1, len(feature.categories) + 1)], np.int64)
    found = graph.op("ReduceSum", graph.op("Mul", own, places), graph.constant([1], np.int64), keepdims=1)
    found = graph.op("Sub", found, graph.constant(1, np.int64))
    missing = _missing(graph, column, feature.missing)
    return graph.op("Where", missing, graph.constant(other, np.int64), found)


def _missing(graph: Graph, column: str, marks: tuple[str | float, ...]) -> str:
    """Where a number is NaN or one of its marks; marks of text must come as NaN."""
    told = [graph.op("Equal", column, float(mark)) for mark in marks if not isinstance(mark, str)]
    return reduce(lambda a, b: graph.op("Or", a, b), told, graph.op("IsNaN", column))


def _number(graph: Graph, feature: Numeric, column: str) -> str:
    missing = _missing(graph, column, feature.missing)
    low, high = feature.range
    value = graph.op("Clip", graph.op("Where", missing, low, column), low, high)
    if feature.log:
        value = graph.op("Log", graph.op("Add", value, 1.0))
    reach = feature.reach
    moved = graph.op("Clip", graph.op("Sub", value, feature.origin), -reach, reach)
    moved = graph.op("Mul", moved, 0.5 / reach)
    parts = [graph.op("Where", missing, 0.0, moved)]
    if feature.indicator:
        parts.append(graph.op("Where", missing, 0.5, -0.5))
    if feature.n_splines:
        last = feature.n_splines - 1
        start, end = feature.ends
        place = graph.op("Mul", graph.op("Sub", moved, start), last / (end - start))
        place = graph.op("Clip", place, 0.0, float(last))
        far = graph.op("Abs", graph.op("Sub", place, graph.constant([range(feature.n_splines)])))
        hats = graph.op("Sub", graph.op("Max", graph.op("Sub", 1.0, far), 0.0), 1 / feature.n_splines)
        parts.append(graph.op("Where", missing, 0.0, hats))
    elif feature.bins:
        parts.append(_levels(graph, _code(graph, feature, column), len(feature.bins) + 1))
    return graph.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
