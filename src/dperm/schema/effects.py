"""What each declared feature adds to the score of a linear model on encoded rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.schema.encoding import encode_block
from dperm.schema.features import Block, Hashed, Numeric
from dperm.schema.schema import Schema

Floats = NDArray[np.float64]

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
    values: Floats | None = None
    shares: Floats | None = None
    levels: tuple[str, ...] = ()
    added: Floats

    @property
    def span(self) -> Floats:
        """Largest less smallest effect, for each score."""
        found: Floats = np.ptp(self.added, axis=1)
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


def _effect(block: Block, weights: Floats) -> Effect:
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


def rows_at(feature: Numeric, values: Sequence[float] | Floats) -> Floats:
    """The unscaled columns of these values, none of which is a mark of a missing one here."""
    import pyarrow as pa

    rows = np.empty((len(values), feature.n_columns))
    encode_block(
        replace(feature, missing=()), {feature.name: pa.chunked_array([pa.array(values)])}, 1.0, rows
    )
    return rows
