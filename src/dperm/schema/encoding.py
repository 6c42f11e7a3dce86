"""Turn a table into bounded rows by its schema alone: no minimum, mean or vocabulary is ever computed.

And back: what each declared feature adds to the score of a linear model on such rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.codes import CodedTable, CodeLayout, Levels, Number, Spline
from dperm.errors import InvalidInput, Unsupported
from dperm.person_ids import UNREADABLE, NumberedIds, numbered
from dperm.schema.columns import (
    MISSING,
    NUMBERS,
    UNKNOWN,
    arrow_columns,
    as_codes,
    as_numbers,
    check_columns,
    check_kind,
    declared_kind,
)
from dperm.schema.dates import Date
from dperm.schema.features import Block, Categorical, Cross, Hashed, Leaf, Numeric
from dperm.schema.schema import ROUNDING_SLACK, Schema


def declared_columns(table: Any, schema: Schema) -> tuple[dict[str, Any], int]:
    """The columns of the blocks by their names, each of its declared kind, and how many rows they have."""
    columns = arrow_columns(table, [feature.name for feature in schema.features])
    n_rows = len(columns[schema.features[0].name])
    for feature in schema.features:
        if isinstance(feature, Date):
            columns.update(feature.columns(columns[feature.name]))
            continue
        if isinstance(feature, Hashed):
            feature.check_column(columns[feature.name])
            continue
        declared = NUMBERS if isinstance(feature, Numeric) else declared_kind(feature.categories)
        check_kind(feature.name, columns[feature.name], declared, feature.missing)
    return columns, n_rows


def level_codes(feature: Leaf, column: Any) -> NDArray[np.int64]:
    """The level of each value: its category or its bin; below 0 where it has none."""
    if isinstance(feature, Numeric):
        return bin_codes(feature, as_numbers(feature.name, column, feature.missing))
    assert isinstance(feature, Categorical)  # what is hashed has no levels
    codes = as_codes(feature.name, column, feature.categories, feature.missing, feature.fold)
    if feature.missing_as is not None:
        codes[codes == MISSING] = feature.categories.index(feature.missing_as)
    return codes


def bin_codes(feature: Numeric, values: NDArray[np.float64]) -> NDArray[np.int64]:
    codes = np.searchsorted(feature.bins, values, side="right")
    return np.where(np.isnan(values), MISSING, codes)


def pair_codes(block: Cross, columns: Mapping[str, Any]) -> NDArray[np.int64]:
    left, right = (level_codes(part, columns[part.name]) for part in (block.left, block.right))
    return np.where((left < 0) | (right < 0), UNKNOWN, left * len(block.right.levels) + right)


def moved_numbers(feature: Numeric, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Clipped values as distances from the origin, at most ``feature.reach``; 0 where there is none."""
    clipped = np.clip(values, *feature.range)
    if feature.log:
        np.log1p(clipped, out=clipped)
    reach = feature.reach
    moved = np.clip(clipped - feature.origin, -reach, reach)  # the logarithm may round past the ends
    moved[np.isnan(values)] = 0.0
    return np.asarray(moved)


def spline_places(feature: Numeric, moved: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places among the knots, from 0 to ``n_splines`` - 1, of what ``moved_numbers`` gave."""
    last = feature.n_splines - 1
    low, high = feature.ends
    return np.asarray(np.clip((moved * (0.5 / feature.reach) - low) * (last / (high - low)), 0, last))


BLOCK_ROWS = 16_384
"""Rows encoded at a time: few enough that a block stays near the processor while its columns are filled."""


def feature_names(schema: Schema) -> list[str]:
    """Names of the encoded columns: ``age``, ``age=missing``, ``age@27.4``, ``workclass=Private``."""
    return [name for block in schema.blocks for name in block.column_names]


def encode(table: Any, schema: Schema) -> NDArray[np.float64]:
    """Encode the declared features of a table.

    Parameters
    ----------
    table : PyArrow table, pandas or polars frame, or dictionary of columns
        Columns are found by name; columns that the schema does not declare are ignored.
    schema : Schema

    Returns
    -------
    array of shape (n_rows, schema.n_columns)

    Guarantee
    ---------
    Every row has Euclidean norm at most 1 whatever the table holds, and depends on its own record only.
    """
    columns, n_rows = declared_columns(table, schema)
    rows = np.empty((n_rows, schema.n_columns))
    for start in range(0, n_rows, BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        parts = {name: column.slice(start, BLOCK_ROWS) for name, column in columns.items()}
        first = 0
        for item in schema.blocks:
            encode_block(item, parts, schema.scale, block[:, first : first + item.n_columns])
            first += item.n_columns
        if schema.norm_share < 1:
            norms = np.sqrt(np.einsum("ij,ij->i", block, block))
            block /= np.maximum(norms / (1 - ROUNDING_SLACK), 1.0)[:, None]
    return rows


def encode_block(block: Block, columns: Mapping[str, Any], scale: float, out: NDArray[np.float64]) -> None:
    """Fill the columns of a feature, or of two crossed ones, from Arrow columns of the declared kinds."""
    if isinstance(block, Numeric):
        _encode_numeric(block, columns[block.name], scale, out)
    elif isinstance(block, Hashed):
        block.encode(columns[block.name], scale, out)
    elif isinstance(block, Categorical):
        _encode_levels(level_codes(block, columns[block.name]), scale, out)
    else:
        _encode_levels(pair_codes(block, columns), scale, out)


def _encode_numeric(feature: Numeric, column: Any, scale: float, out: NDArray[np.float64]) -> None:
    values = as_numbers(feature.name, column, feature.missing)
    missing = np.isnan(values)
    moved, reach = moved_numbers(feature, values), feature.reach
    out[:, 0] = moved * (scale * 0.5 / reach)
    if feature.indicator:
        out[:, 1] = np.where(missing, 0.5 * scale, -0.5 * scale)
    rest = out[:, 1 + feature.indicator :]
    if feature.n_splines:
        _encode_splines(feature, spline_places(feature, moved), scale, rest)
        rest[missing] = 0.0
    elif feature.bins:
        _encode_levels(bin_codes(feature, values), scale, rest)


def _encode_splines(
    feature: Numeric, place: NDArray[np.float64], scale: float, out: NDArray[np.float64]
) -> None:
    """Two neighbouring splines share each row, and all have 1/K taken off."""
    left = np.minimum(place.astype(np.intp), feature.n_splines - 2)
    place -= left
    out[:] = -scale / feature.n_splines
    row = np.arange(len(out))
    out[row, left] += scale * (1 - place)
    out[row, left + 1] += scale * place


def _encode_levels(codes: NDArray[np.int64], scale: float, out: NDArray[np.float64]) -> None:
    share = 1 / out.shape[1]
    known = np.flatnonzero(codes >= 0)
    out[:] = -share * scale
    out[known, codes[known]] = (1 - share) * scale
    out[codes < 0] = 0.0


def encode_target(table: Any, schema: Schema) -> NDArray[Any]:
    """The labels of a table: declared classes, the side of the threshold, or numbers clipped to the range.

    A missing or undeclared label is an error, since neither a class nor a row can be made up for it.
    """
    numbers = target_numbers(table, schema)
    return np.asarray(schema.classes)[numbers] if schema.classes else numbers


def target_numbers(table: Any, schema: Schema) -> NDArray[Any]:
    """The labels as numbers: the place of each in ``schema.classes``, or what a numeric target was clipped to."""
    target = schema.target
    column = arrow_columns(table, [target.name])[target.name]
    if not target.classes:
        check_kind(target.name, column, NUMBERS, is_target=True)
        values = as_numbers(target.name, column)
        if np.isnan(values).any():
            raise InvalidInput(
                f"Column {target.name!r}: the target must not be missing. Leave such rows out."
            )
        if target.threshold is not None:
            return (values > target.threshold).astype(np.int64)
        assert target.range is not None
        return np.clip(values, *target.range)
    listed = target.classes[: -1 if target.rest else None]
    check_kind(target.name, column, declared_kind(listed), is_target=True)
    codes = as_codes(target.name, column, listed, fold=target.fold)
    if target.rest:
        codes[codes == UNKNOWN] = len(listed)
    if (codes < 0).any():
        raise InvalidInput(
            f"Column {target.name!r}: every label must be one of the declared classes. Leave other rows out, declare "
            "their class, or give fold = true if only case or blanks differ."
        )
    return codes


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
            if block.n_splines:
                splines.append(_spline(block, first, others, scale))
            else:
                numbers.append(Number(column=first, size=scale * 0.5))
        first += block.n_columns
        if others < first and not (isinstance(block, Numeric) and block.n_splines):
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
    off = -scale / feature.n_splines
    return Spline(
        linear=linear,
        first=first,
        count=feature.n_splines,
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
        As for :func:`dperm.schema.encode`.

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
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        parts = {name: column.slice(start, BLOCK_ROWS) for name, column in columns.items()}
        found = [_coded(block, parts) for block in schema.blocks]
        levels = [np.maximum(part, 0) for coded, _ in found for part in coded]
        for place, group in enumerate(layout.groups):
            joint = sum(levels[i] * layout.strides[i] for i in group)
            codes[rows, place] = joint
        numbers = [
            (block, values)
            for block, (_, values) in zip(schema.blocks, found, strict=True)
            if values is not None
        ]
        numbers.sort(
            key=lambda pair: isinstance(pair[0], Numeric) and pair[0].n_splines > 0
        )  # as in the layout
        for place, (_, values) in enumerate(numbers):
            floats[rows, place] = values
    return CodedTable.from_rows(layout, codes, floats, feature_names(schema))


def _coded(
    block: Block, columns: Mapping[str, Any]
) -> tuple[list[NDArray[np.int64]], NDArray[np.float64] | None]:
    """The codes of a block's levels, in the order of the layout and below 1 where there is none, and its number."""
    if isinstance(block, Categorical):
        return [level_codes(block, columns[block.name]) + 1], None
    if isinstance(block, Cross):
        return [pair_codes(block, columns) + 1], None
    if not isinstance(block, Numeric):
        raise Unsupported(
            f"feature {block.name!r} is hashed and has no codes; encode such a table as numbers."
        )
    values = as_numbers(block.name, columns[block.name], block.missing)
    missing, moved = np.isnan(values), moved_numbers(block, values)
    codes = [missing.astype(np.int64)] if block.indicator else []
    if block.bins:
        codes.append(bin_codes(block, values) + 1)
    if not block.n_splines:
        return codes, moved / block.reach
    return codes, np.where(missing, 0.0, 1 + spline_places(block, moved))


def person_column(table: Any, name: str) -> NumberedIds:
    """The persons of a table, by the ids in a column. Whether every id could be read is left to the caller."""
    column = check_columns(table, [name])[name]
    try:
        return numbered(column)
    except InvalidInput as error:
        problem = str(error)
    raise InvalidInput(f"Column {name!r}: {problem}")


def checked_column(table: Any, name: str) -> NumberedIds:
    """The same, once every id could be read."""
    found = person_column(table, name)
    if not found.readable:
        raise InvalidInput(f"Column {name!r}: {UNREADABLE}")
    return found


def person_ids(table: Any, schema: Schema) -> NDArray[np.int64]:
    """For every row the number of its person: persons are numbered by their first rows."""
    assert schema.person is not None
    return checked_column(table, schema.person).person


POINTS = 65
"""Places at which the curve of a number is given, its knots aside."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Effect:
    """What a feature adds to each score, as far as a row is not shortened.

    Attributes
    ----------
    name : str
        The feature; two names for crossed ones.
    ends : two str, or None
        For a number or a date: the low and the high end of its range in words.
    values : array, or None
        For a number: values from the low end of its range to the high one, evenly spaced (on its logarithm, if
        declared) except for the knots between them. For a date: days since 1970-01-01.
    shares : array, or None
        Where these values lie between the two ends, from 0 to 1, after the logarithm if there is one.
    levels : tuple of str
        For categories and crossed features: what the columns stand for. None for a number.
    added : array of shape (n_scores, n_values or n_levels)
    """

    name: str
    ends: tuple[str, str] | None = None
    values: NDArray[np.float64] | None = None
    shares: NDArray[np.float64] | None = None
    levels: tuple[str, ...] = ()
    added: NDArray[np.float64]

    @property
    def span(self) -> NDArray[np.float64]:
        """Largest less smallest effect, for each score."""
        found: NDArray[np.float64] = np.ptp(self.added, axis=1)
        return found


def effects(schema: Schema, coef: Any) -> list[Effect]:
    """The effect of each feature, in the order of the schema.

    Parameters
    ----------
    schema : Schema
    coef : array of shape (n_columns,) or (n_scores, n_columns)
        Coefficients of the encoded columns, as ``coef_`` of an estimator.

    Returns
    -------
    list of Effect
        A record whose features are all missing has no effect at all; those of the features of any other record add
        up to its score less the intercept, where its row is not shortened.
    """
    weights = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    if weights.ndim != 2 or weights.shape[1] != schema.n_columns:
        raise InvalidInput(f"coef must have {schema.n_columns} columns, one for each column of the schema.")
    ends = np.cumsum([block.n_columns for block in schema.blocks])[:-1]
    return [
        _effect(block, part * schema.scale)
        for block, part in zip(schema.blocks, np.split(weights, ends, axis=1), strict=True)
    ]


def _effect(block: Block, weights: NDArray[np.float64]) -> Effect:
    if isinstance(block, Hashed):
        return Effect(name=block.name, levels=tuple(block.column_names), added=weights)
    if not isinstance(block, Numeric):
        centred = weights - weights.mean(axis=1, keepdims=True)
        return Effect(name=block.name, levels=tuple(block.levels), added=centred)
    shares = np.union1d(np.linspace(0, 1, POINTS), np.linspace(0, 1, max(block.n_splines, 2)))
    values = np.array([block.at(share) for share in shares])
    low, high = (block.label(end) for end in block.range)
    return Effect(
        name=block.name,
        ends=(low, high),
        values=values,
        shares=shares,
        added=weights @ rows_at(block, values).T,
    )


def rows_at(feature: Numeric, values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The unscaled columns of these values, none of which is a mark of a missing one here."""
    import pyarrow as pa

    rows = np.empty((len(values), feature.n_columns))
    encode_block(
        replace(feature, missing=()), {feature.name: pa.chunked_array([pa.array(values)])}, 1.0, rows
    )
    return rows
