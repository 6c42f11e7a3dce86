"""What a person reads off a linear model: changes of its score, each a public combination of its coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import InvalidInput
from dperm.schema import Schema
from dperm.schema.dates import Days
from dperm.schema.encoding import rows_at
from dperm.schema.features import Block, Categorical, Cross, Numeric

Floats = NDArray[np.float64]

MEAN, FIRST = "mean", "first"
AGAINST = (MEAN, FIRST)
POINTS = 9  # of a curve
_NOTHING = 1e-9  # of a combination: without an indicator a missing number counts as the mean of its curve
THEIR_MEAN = "against their mean"
NUMBER, CURVE, POINT, LEVEL, COLUMN = "number", "curve", "point", "level", "column"


@dataclass(frozen=True, kw_only=True)
class Term:
    """One change of the score: of which feature, to which ``level`` of it, and ``per`` or against what.

    ``kind`` is ``number`` (a straight line), ``curve`` (the change from one end of a number's range to the other),
    ``point`` (a value on that curve), ``level`` (a category, bin or missing value) or ``column`` (an encoded column as
    it is). ``value`` is that of a point, a date as text.
    """

    feature: str
    kind: str
    per: str
    level: str = ""
    value: float | str | None = None


def column_terms(names: Sequence[str]) -> tuple[list[Term], Any]:
    """The coefficients as they are, for a model whose columns nothing is known of."""
    found = [Term(feature=name, kind=COLUMN, per="per 1") for name in names]
    return found, sparse.eye_array(len(names), format="csr")


def schema_terms(schema: Schema, against: str = MEAN) -> tuple[list[Term], Any]:
    """Changes in the units of the table, and the combinations of encoded columns that they are, one row each.

    Parameters
    ----------
    against : {"mean", "first"}
        What a category is compared with: the mean of all of them, or the first one that the schema lists.
    """
    if against not in AGAINST:
        raise InvalidInput(f"against must be one of {', '.join(map(repr, AGAINST))}; got {against!r}.")
    found: list[Term] = []
    parts: list[Any] = []
    for block in schema.blocks:
        terms, rows = _terms(block, against)
        found += terms
        parts.append(schema.scale * rows)
    return found, sparse.block_diag(parts, format="csr")


def _terms(block: Block, against: str) -> tuple[list[Term], Any]:
    if isinstance(block, Categorical | Cross):
        return _levels(block.name, block.levels, against)
    if isinstance(block, Numeric):
        pairs = list(_of_number(block))
        return [term for term, _ in pairs], sparse.csr_array(np.array([row for _, row in pairs]))
    return column_terms(block.column_names)


def _levels(name: str, levels: Sequence[str], against: str) -> tuple[list[Term], Any]:
    count = len(levels)
    if against == FIRST:
        rows = np.eye(count)[1:] - np.eye(count)[0]
        per, told = f"against {levels[0]}", levels[1:]
    else:
        rows, per, told = np.eye(count) - 1 / count, THEIR_MEAN, levels
    terms = [Term(feature=name, kind=LEVEL, per=per, level=level) for level in told]
    return terms, sparse.csr_array(rows)


def _of_number(feature: Numeric) -> Iterator[tuple[Term, Floats]]:
    low, high = feature.range
    dated = isinstance(feature, Days)
    told: Callable[[float], str] = feature.label if dated else short
    unit = "" if dated else feature.unit
    if feature.n_splines or feature.bins:
        values = _points(feature)
        rows = rows_at(feature, values)
        per = f"from {told(low)} to {told(high)}{f' {unit}' if unit else ''}"
        yield Term(feature=feature.name, kind=CURVE, per=per), rows[-1] - rows[0]
        for value, row in zip(values, rows, strict=True):
            shown = told(value) if dated else value
            per = f"against {told(low)}"
            point = Term(feature=feature.name, kind=POINT, per=per, level=told(value), value=shown)
            yield point, row - rows[0]
        middle = rows_at(feature, _every(feature)).mean(axis=0)
        against = "against the mean"
    else:
        ends = rows_at(feature, [low, high])
        if feature.log:
            share, per = math.log(2) / (math.log1p(high) - math.log1p(low)), "per doubling of 1 + it"
        else:
            step = step_of(high - low)
            share, per = step / (high - low), _per(step, "day" if dated and step == 1 else feature.unit)
        yield Term(feature=feature.name, kind=NUMBER, per=per), (ends[1] - ends[0]) * share
        middle, against = ends.mean(axis=0), "against the middle"
    if feature.indicator or feature.missing:
        missing = np.zeros(feature.n_columns)
        missing[1 : 1 + feature.indicator] = 0.5
        if np.abs(missing - middle).max() > _NOTHING:
            yield Term(feature=feature.name, kind=LEVEL, per=against, level="missing"), missing - middle


def _every(feature: Numeric) -> list[float]:
    """The knots of a curve, or the middles of its bins."""
    if feature.n_splines:
        return [feature.at(k / (feature.n_splines - 1)) for k in range(feature.n_splines)]
    edges = [feature.range[0], *feature.bins, feature.range[1]]
    return [(left + right) / 2 for left, right in pairwise(edges)]


def _points(feature: Numeric) -> list[float]:
    """A few values from one end of the range to the other: knots, where there are not too many."""
    if feature.bins and len(feature.bins) < POINTS - 2:
        return sorted({feature.range[0], *_every(feature), feature.range[1]})
    count = feature.n_splines if 0 < feature.n_splines <= POINTS else POINTS
    return [feature.at(k / (count - 1)) for k in range(count)]


def step_of(span: float) -> float:
    """A round number of which the span of a range holds ten to a hundred; at least 1 where it holds two ones."""
    step = 10.0 ** (math.floor(math.log10(span)) - 1)
    return max(step, 1.0) if span >= 2 else step


def _per(step: float, unit: str) -> str:
    if step == 1:
        return f"per {unit or '1'}"
    return f"per {short(step)}{f' {unit}' if unit else ''}"


def short(value: float) -> str:
    """A number as a person would write it."""
    whole = float(value).is_integer() and abs(value) < 1e15
    return f"{int(value):,}" if whole else f"{value:.4g}"
