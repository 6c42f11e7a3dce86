"""Turn a table into bounded rows by its schema alone: no minimum, mean or vocabulary is ever computed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.columns import (
    NUMBERS,
    UNKNOWN,
    arrow_columns,
    as_codes,
    as_numbers,
    check_kind,
    declared_kind,
)
from dperm.datasets.features import Block, Categorical
from dperm.datasets.hashed import Hashed
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
from dperm.errors import InvalidInput

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
    if feature.n_hats:
        _encode_hats(feature, hat_places(feature, moved), scale, rest)
        rest[missing] = 0.0
    elif feature.bins:
        _encode_levels(bin_codes(feature, values), scale, rest)


def _encode_hats(
    feature: Numeric, place: NDArray[np.float64], scale: float, out: NDArray[np.float64]
) -> None:
    """Two neighbouring hats share each row, and all have 1/K taken off."""
    left = np.minimum(place.astype(np.intp), feature.n_hats - 2)
    place -= left
    out[:] = -scale / feature.n_hats
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
