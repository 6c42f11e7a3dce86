"""Turn a table into coded rows by its schema alone: the rows that ``encode`` gives, in a tenth of the space."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.codes import CodedTable, CodeLayout, Levels, Number, Spline
from dperm.datasets.columns import as_numbers
from dperm.datasets.encoding import encode, feature_names
from dperm.datasets.features import Block, Categorical, Cross
from dperm.datasets.numeric import Numeric
from dperm.datasets.places import (
    bin_codes,
    declared_columns,
    hat_places,
    level_codes,
    moved_numbers,
    pair_codes,
)
from dperm.datasets.schema import ROUNDING_SLACK, Schema
from dperm.errors import Unsupported

_ROWS_AT_ONCE = 16_384


def code_layout(schema: Schema) -> CodeLayout:
    """What the codes and numbers of a table with this schema stand for."""
    levels: list[Levels] = []
    numbers: list[Number] = []
    splines: list[Spline] = []
    scale, first = schema.scale, 0
    for block in schema.blocks:
        others = first
        if isinstance(block, Numeric):
            others += 1 + block.indicator
            if block.indicator:
                half = 0.5 * scale
                levels.append(Levels(first=first + 1, count=1, zero=-half, off=-half, on=half))
            if block.n_hats:
                splines.append(_spline(block, first, others, scale))
            else:
                numbers.append(Number(column=first, size=scale * 0.5))
        first += block.n_columns
        if others < first and not (isinstance(block, Numeric) and block.n_hats):
            count = first - others
            levels.append(
                Levels(first=others, count=count, zero=0.0, off=-scale / count, on=(1 - 1 / count) * scale)
            )
    return CodeLayout(
        n_columns=schema.n_columns,
        levels=tuple(levels),
        numbers=tuple(numbers),
        splines=tuple(splines),
        reach=1.0,
        longest=1 - ROUNDING_SLACK if schema.norm_share < 1 else math.inf,
    )


def _spline(feature: Numeric, linear: int, first: int, scale: float) -> Spline:
    low, high = (min(max(end, -0.5), 0.5) for end in feature.ends)
    off = -scale / feature.n_hats
    return Spline(
        linear=linear,
        first=first,
        count=feature.n_hats,
        low=scale * low,
        high=scale * high,
        off=off,
        on=off + scale,
    )


def can_code(schema: Schema) -> bool:
    """Whether every feature of a schema has codes or is a number."""
    return all(isinstance(block, Numeric | Categorical | Cross) for block in schema.blocks)


def encode_rows(table: Any, schema: Schema) -> CodedTable | NDArray[np.float64]:
    """The rows of a table in the smallest form that the schema allows: coded, or as ``encode`` gives them."""
    return encode_codes(table, schema) if can_code(schema) else encode(table, schema)


def encode_codes(table: Any, schema: Schema) -> CodedTable:
    """Encode the declared features of a table as codes and a few floats.

    Parameters
    ----------
    table, schema
        As for :func:`dperm.datasets.encode`.

    Returns
    -------
    CodedTable of shape (n_rows, schema.n_columns)
        As an array it equals what ``encode`` gives to the rounding of float32.

    Guarantee
    ---------
    As for ``encode``: every row has Euclidean norm at most 1 whatever the table holds, and depends on its own record
    only.
    """
    columns, n_rows = declared_columns(table, schema)
    layout = code_layout(schema)
    codes = np.zeros((n_rows, len(layout.groups)), layout.code_type)
    floats = np.zeros((n_rows, layout.n_floats), np.float32)
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        parts = {name: column.slice(start, _ROWS_AT_ONCE) for name, column in columns.items()}
        found = [part for block in schema.blocks for part in _levels_of(block, parts)]
        for place, group in enumerate(layout.groups):
            joint = sum(found[i] * layout.strides[i] for i in group)
            codes[rows, place] = joint
        plain = [values for block in schema.blocks for values in _number_of(block, parts, hats=False)]
        placed = [values for block in schema.blocks for values in _number_of(block, parts, hats=True)]
        for place, values in enumerate((*plain, *placed)):
            floats[rows, place] = values
    return CodedTable.from_rows(layout, codes, floats, feature_names(schema))


def _levels_of(block: Block, columns: Mapping[str, Any]) -> list[NDArray[np.int64]]:
    """The codes of a block's levels, in the order of the layout: 0 where there is none."""
    if isinstance(block, Categorical):
        return [np.maximum(level_codes(block, columns[block.name]), -1) + 1]
    if isinstance(block, Cross):
        return [np.maximum(pair_codes(block, columns), -1) + 1]
    if not isinstance(block, Numeric):
        raise Unsupported(
            f"feature {block.name!r} is hashed and has no codes; encode such a table as numbers."
        )
    codes = []
    if block.indicator or block.bins:
        values = as_numbers(block.name, columns[block.name], block.missing)
        if block.indicator:
            codes.append(np.isnan(values).astype(np.int64))
        if block.bins:
            codes.append(np.maximum(bin_codes(block, values), -1) + 1)
    return codes


def _number_of(block: Block, columns: Mapping[str, Any], *, hats: bool) -> list[NDArray[np.float64]]:
    """The stored number of a block, if it has one of this kind."""
    if not isinstance(block, Numeric) or bool(block.n_hats) != hats:
        return []
    values = as_numbers(block.name, columns[block.name], block.missing)
    moved = moved_numbers(block, values)
    if not hats:
        return [moved / block.reach]
    return [np.where(np.isnan(values), 0.0, 1 + hat_places(block, moved))]
