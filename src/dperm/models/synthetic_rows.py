"""Synthetic rows with the column means and moments that a model released, or of a schema, and what they tell.

They are post-processing of released numbers and cost no privacy. What the releases do not tell is filled in by the
assumption that the features of a record are independent of each other (docs/proofs/summary.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dperm.certificate.statement import loss_of
from dperm.estimators.base import PrivateLinearModel
from dperm.mechanisms.inference import Inside
from dperm.schema import Schema
from dperm.schema.features import Block, Categorical, Cross, Numeric

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

COUNT = 8192
_SPREAD = 1e-3  # variance of a column of synthetic rows of which nothing is known
MOST_COLUMNS = 1500
_ABOUT = (
    "The standard deviation of the noise is at least about what is shown, by the means and moments of the columns that "
    "were released. It is larger "
)
_TOGETHER = "for features that move together: several times, where one nearly follows from others"
_COLUMNS = "for columns that move together, as those of one category do; a schema would tell which"
_RESIDUALS = ", and where many residuals are cut"
_NOTHING = 1e-9  # of the largest eigenvalue


@dataclass(frozen=True, eq=False, kw_only=True)
class Curvature:
    """The Hessian of the perturbed sum at the released weights, and what a deviation by it is worth."""

    hessian: Floats
    words: str


def curvature(model: PrivateLinearModel, inside: Inside, schema: Schema | None) -> Curvature | None:
    """For one margin per row and released moments of the rows; None where there are none.

    None too where rows, or all rows of a person, may weigh more than one row: nothing tells how much they do.
    """
    row_map, statement = model.row_map_, model.privacy_.statement
    loss = loss_of(statement["problem"])
    real = loss.labels == "real"
    if not row_map.released or loss.outputs > 1 or model.n_features_in_ > MOST_COLUMNS or loss.heaviest > 1:
        return None
    if not (real or loss.has_log_odds):
        return None
    rng = np.random.default_rng(0)
    X = _released_rows(model, schema, rng)
    Z = row_map.features(X)
    if row_map.intercept:
        Z = np.column_stack([Z, np.full(len(Z), row_map.intercept)])
    if real:
        bends = loss.curvature(np.zeros(len(Z)), np.zeros(len(Z)))
    else:
        margins = Z @ row_map.weights(np.asarray(model.coef_).ravel(), float(np.ravel(model.intercept_)[0]))
        chance = expit(loss.log_odds(margins))
        ones = np.ones(len(Z))
        bends = chance * loss.curvature(margins, ones) + (1 - chance) * loss.curvature(margins, -ones)
    count = statement["problem"]["n_units"] * _filled(model)
    hessian = count / len(Z) * (Z.T * bends) @ Z + inside.strength * np.eye(Z.shape[1])
    words = _ABOUT + (_COLUMNS if schema is None else _TOGETHER) + (_RESIDUALS if real else "") + "."
    return Curvature(hessian=hessian, words=words)


def _filled(model: PrivateLinearModel) -> float:
    """The share of a capacity that is filled: what the released sum was divided by to give the centre."""
    row_map = model.row_map_
    if row_map.centre is None or not row_map.centre.any():
        return 1.0
    released = row_map.released[0][: len(row_map.centre)]
    return float(np.linalg.norm(released) / np.linalg.norm(row_map.centre))


def _moments(model: PrivateLinearModel) -> tuple[Floats, Floats]:
    """Mean and variance of every column, as far as the released ones tell; no variance below 0."""
    row_map, stated = model.row_map_, model.privacy_.statement["standardisation"]
    n = model.n_features_in_
    centre = np.zeros(n) if row_map.centre is None else row_map.centre
    unit = stated["first_bound"] ** 2 / _filled(model)
    return np.asarray(centre), np.maximum(unit * row_map.released[-1][:n], 0.0)


def schema_rows(schema: Schema) -> Floats:
    """Rows of independent features, every level and every place as likely as others, missing ones where declared."""
    nothing = np.zeros(schema.n_columns)
    return _rows(schema, nothing, nothing + _SPREAD, np.random.default_rng(0), missing=True)


def _released_rows(model: PrivateLinearModel, schema: Schema | None, rng: np.random.Generator) -> Floats:
    """Rows of independent features; without a schema of independent columns."""
    mean, variance = _moments(model)
    if schema is None:
        return mean + np.sqrt(variance) * rng.standard_normal((COUNT, len(mean)))
    return _rows(schema, mean / schema.scale, variance / schema.scale**2, rng)


def _rows(
    schema: Schema, mean: Floats, variance: Floats, rng: np.random.Generator, missing: bool = False
) -> Floats:
    drawn, parts, first = dict[str, Integers](), [], 0
    for block in schema.blocks:
        own = slice(first, first + block.n_columns)
        part = _block(block, mean[own], variance[own], drawn, rng)
        if missing and isinstance(block, Numeric) and block.missing and not block.indicator:
            part[rng.random(COUNT) < 0.5] = 0.0
        parts.append(part)
        first = own.stop
    return np.asarray(schema.scale * np.hstack(parts))


def _block(
    block: Block, mean: Floats, variance: Floats, drawn: dict[str, Integers], rng: np.random.Generator
) -> Floats:
    if isinstance(block, Cross):
        count = block.n_columns
        pairs = drawn[block.left.name] * len(block.right.levels) + drawn[block.right.name]
        return np.asarray(np.eye(count)[pairs] - 1 / count)
    if isinstance(block, Categorical):
        drawn[block.name] = _picked(mean, rng)
        return np.eye(len(mean))[drawn[block.name]] - 1 / len(mean)
    if not isinstance(block, Numeric):
        return mean + np.sqrt(variance) * rng.standard_normal((COUNT, len(mean)))
    return _numbers(block, mean, variance, drawn, rng)


def _numbers(
    feature: Numeric, mean: Floats, variance: Floats, drawn: dict[str, Integers], rng: np.random.Generator
) -> Floats:
    out = np.empty((COUNT, len(mean)))
    out[:, 0] = np.clip(mean[0] + math.sqrt(variance[0]) * rng.standard_normal(COUNT), -0.5, 0.5)
    others = slice(1 + feature.indicator, None)
    if feature.n_splines:
        low, high = feature.ends
        place = _places(mean[others], variance[others], rng)
        out[:, 0] = low + (high - low) * place / (feature.n_splines - 1)
        out[:, others] = (
            np.maximum(1 - np.abs(place[:, None] - np.arange(feature.n_splines)), 0) - 1 / feature.n_splines
        )
    elif feature.bins:
        count = len(feature.bins) + 1
        drawn[feature.name] = _picked(mean[others], rng)
        out[:, others] = np.eye(count)[drawn[feature.name]] - 1 / count
    if feature.indicator:
        missing = rng.random(COUNT) < mean[1] + 0.5
        out[missing] = 0.0
        out[:, 1] = np.where(missing, 0.5, -0.5)
    return out


def _picked(mean: Floats, rng: np.random.Generator) -> Integers:
    """Levels with the frequencies that the mean of their columns tells."""
    shares = np.maximum(mean + 1 / len(mean), 0.0)
    return rng.choice(len(mean), COUNT, p=shares / shares.sum())


def _places(mean: Floats, variance: Floats, rng: np.random.Generator) -> Floats:
    """Places between knots. Hats whose squares are as large as themselves tell that values lie on the knots."""
    count = len(mean)
    shares = np.maximum(mean + 1 / count, 0.0)
    squares = variance + (mean + 1 / count) ** 2
    on_knots = np.clip(3 * squares.sum() / max(float(shares.sum()), 1e-9) - 2, 0.0, 1.0)
    knots = rng.choice(count, COUNT, p=shares / shares.sum()).astype(np.float64)
    moved = rng.triangular(-1, 0, 1, COUNT) * (rng.random(COUNT) >= on_knots)
    inwards = np.where((knots + moved < 0) | (knots + moved > count - 1), -moved, moved)
    return np.asarray(knots + inwards)


def spanned(schema: Schema | None, n_columns: int, intercept: float, lengths: Floats) -> Floats:
    """Orthonormal columns that span all rows of a table, once their columns are multiplied by ``lengths``.

    The columns of a category sum to 0, and the hats of a number determine its linear column. Along such directions no
    row says anything, so only the rest of a combination has an interval.
    """
    if schema is None:
        return np.eye(n_columns)
    rows = schema_rows(schema)
    if intercept:
        rows = np.column_stack([rows, np.full(len(rows), intercept)])
    rows = rows * lengths
    values, axes = np.linalg.eigh(rows.T @ rows)
    return np.ascontiguousarray(axes[:, values > _NOTHING * values[-1]])
