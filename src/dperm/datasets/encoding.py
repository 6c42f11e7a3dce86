"""Turn a table into bounded rows by its schema alone: no minimum, mean or vocabulary is ever computed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.columns import (
    MISSING,
    NUMBERS,
    UNKNOWN,
    arrow_columns,
    as_codes,
    as_numbers,
    check_kind,
    declared_kind,
)
from dperm.datasets.features import Categorical, Feature, Numeric
from dperm.datasets.schema import ROUNDING_SLACK, Schema
from dperm.errors import InvalidInput

BLOCK_ROWS = 16_384
"""Rows encoded at a time: few enough that a block stays near the processor while its columns are filled."""


def feature_names(schema: Schema) -> list[str]:
    """Names of the encoded columns: ``age``, ``age=missing``, ``workclass=Private``."""
    return [name for feature in schema.features for name in feature.column_names]


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
    columns = arrow_columns(table, [feature.name for feature in schema.features])
    for feature in schema.features:
        declared = NUMBERS if isinstance(feature, Numeric) else declared_kind(feature.categories)
        check_kind(feature.name, columns[feature.name], declared, feature.missing)
    n_rows = len(columns[schema.features[0].name])
    rows = np.empty((n_rows, schema.n_columns))
    scale = schema.scale
    for start in range(0, n_rows, BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        first = 0
        for feature in schema.features:
            part = columns[feature.name].slice(start, BLOCK_ROWS)
            _encode_feature(feature, part, scale, block[:, first : first + feature.n_columns])
            first += feature.n_columns
        if schema.norm_share < 1:
            norms = np.sqrt(np.einsum("ij,ij->i", block, block))
            block /= np.maximum(norms / (1 - ROUNDING_SLACK), 1.0)[:, None]
    return rows


def _encode_feature(feature: Feature, column: Any, scale: float, out: NDArray[np.float64]) -> None:
    if isinstance(feature, Numeric):
        _encode_numeric(feature, column, scale, out)
    else:
        _encode_categorical(feature, column, scale, out)


def _encode_numeric(feature: Numeric, column: Any, scale: float, out: NDArray[np.float64]) -> None:
    values = as_numbers(feature.name, column, feature.missing)
    missing = np.isnan(values)
    values = np.clip(values, *feature.range)
    if feature.log:
        np.log1p(values, out=values)
    reach = feature.reach
    values = np.clip(values - feature.origin, -reach, reach)  # the logarithm may round past the ends
    values *= scale * 0.5 / reach
    values[missing] = 0.0
    out[:, 0] = values
    if feature.indicator:
        out[:, 1] = np.where(missing, 0.5 * scale, -0.5 * scale)


def _encode_categorical(feature: Categorical, column: Any, scale: float, out: NDArray[np.float64]) -> None:
    codes = as_codes(feature.name, column, feature.categories, feature.missing)
    if feature.missing_as is not None:
        codes[codes == MISSING] = feature.categories.index(feature.missing_as)
    share = 1 / len(feature.categories)
    known = np.flatnonzero(codes >= 0)
    out[:] = -share * scale
    out[known, codes[known]] = (1 - share) * scale
    out[codes < 0] = 0.0


def encode_target(table: Any, schema: Schema) -> NDArray[Any]:
    """The labels of a table: declared classes, the side of the threshold, or numbers clipped to the range.

    A missing or undeclared label is an error, since neither a class nor a row can be made up for it.
    """
    target = schema.target
    column = arrow_columns(table, [target.name])[target.name]
    if not target.classes:
        check_kind(target.name, column, NUMBERS)
        values = as_numbers(target.name, column)
        if np.isnan(values).any():
            raise InvalidInput(
                f"Column {target.name!r}: the target must not be missing. Leave such rows out."
            )
        if target.threshold is not None:
            return np.asarray(target.labels)[(values > target.threshold).astype(np.intp)]
        assert target.range is not None
        return np.clip(values, *target.range)
    listed = target.classes[: -1 if target.rest else None]
    check_kind(target.name, column, declared_kind(listed))
    codes = as_codes(target.name, column, listed)
    if target.rest:
        codes[codes == UNKNOWN] = len(listed)
    if (codes < 0).any():
        raise InvalidInput(
            f"Column {target.name!r}: every label must be one of the declared classes. Leave other rows out "
            "or declare their class."
        )
    return np.asarray(target.classes)[codes]
