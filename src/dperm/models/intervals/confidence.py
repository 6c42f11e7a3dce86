"""Confidence intervals of a model's coefficients, and those beside the rows of a summary.

Nothing is read but the model: all of it is made of numbers that were released, so it costs no privacy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dperm.certificate.statement import mechanism_of, problem_of
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.labels import is_turned
from dperm.models.deviations import ESTIMATED, UNKNOWN, Deviations, on_weights, unit_of
from dperm.models.files import parts_of
from dperm.models.format import check_columns
from dperm.models.intervals.equations import equation_of
from dperm.models.intervals.first_order import CurvedRows, Ends, Equation, ends
from dperm.models.intervals.table import ASSUMED, HELP, Interval, Intervals
from dperm.models.synthetic_rows import spanned
from dperm.schema import Schema

Floats = NDArray[np.float64]

CONTRAST = "contrast"
INTERCEPT = "intercept"
LEVEL = 0.95
_WORDS = (
    "Estimates are corrected for the penalty. Their intervals hold both chance in the rows and the noise of privacy; "
    "privacy is its share of the variance. "
)


def confidence_intervals(
    model: PrivateLinearModel | Pipeline | str | os.PathLike[str],
    level: float = 0.95,
    *,
    contrast: Mapping[str, float] | ArrayLike | None = None,
    schema: Schema | str | os.PathLike[str] | Mapping[str, Any] | None = None,
) -> Intervals:
    """Estimates of the coefficients with standard errors and intervals (docs/intervals.md).

    They are those of ``coef_``, which is for ``classes_[1]``; ``summary`` tells of ``positive_``.

    Parameters
    ----------
    model : private linear estimator, a Pipeline of a PublicEncoder and a model, or the path of a saved model
        Fitted with ``inference=True``.
    level : float
        How often such an interval holds the coefficient, in the long run.
    contrast : mapping of feature names to factors, or array of shape (n_features,), optional
        One interval, for this combination of the coefficients, in place of one for each.
    schema : Schema, path of a TOML file, or dictionary, optional
        Tells which columns follow from others, as those of a category do; a coefficient is then what is left of it
        beside those, for a category against the mean of all. A pipeline, and a file that was saved with a schema,
        bring their own.
    """
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0.5 <= level < 1:
        raise InvalidInput(f"level must be a number from 0.5 to 1, 1 left out; got {level!r}.")
    estimator, declared = parts_of(model, schema)
    check_is_fitted(estimator, "privacy_")
    names = feature_names(estimator)
    if contrast is None:
        combinations: Any = sparse.eye_array(len(names), format="csr")
        told = [*names, INTERCEPT]
    else:
        combinations = sparse.csr_array(_factors(contrast, names)[None, :])
        told = [CONTRAST]
    known = Known.of(estimator, declared)
    found = known.ends(combinations, float(level))
    keep = len(told) if contrast is not None or estimator.row_map_.intercept else len(names)
    return Intervals(
        title=type(estimator).__name__,
        privacy=estimator.privacy_.headline,
        level=float(level),
        noise_level=known.equation.noise_level,
        rows=tuple(Interval.of(found, place, name) for place, name in enumerate(told[:keep])),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Known:
    """What the released numbers of a model say of what its weights estimate, as far as rows can tell."""

    estimator: PrivateLinearModel
    equation: Equation
    seen: Floats
    """From a combination of weights to one of those of the equation."""

    rows: CurvedRows | None

    @classmethod
    def of(cls, estimator: PrivateLinearModel, schema: Schema | None) -> Known:
        curvature = estimator._curvature
        if curvature is None:
            raise InvalidInput(
                "intervals need numbers that this model did not release; fit it with inference=True, which spends a "
                "share of the budget on them."
            )
        if schema is not None:
            check_columns(schema, estimator.n_features_in_)
        statement = estimator.privacy_.statement
        stated, problem = statement["mechanism"], problem_of(statement)
        whole = equation_of(
            mechanism_of(stated["chosen"]),
            problem,
            stated["used"],
            statement["planned"]["noise_scale"],
            _weights(estimator),
            curvature,
            schema,
        )
        basis = spanned(schema, problem.n_columns, problem.intercept, whole.lengths)
        seen = whole.lengths[:, None] * basis
        rows = None
        if problem.loss.labels == "binary":
            every = CurvedRows.of(whole.hessian, problem.intercept, problem.x_norm, problem.n_rows)
            rows = every.within(seen)
        return cls(estimator=estimator, equation=whole.within(basis), seen=seen, rows=rows)

    def ends(self, combinations: Any, level: float) -> Ends | None:
        """Of combinations of ``coef_``, one row each, and last of the intercept; None if too noisy to say."""
        if self.equation.too_noisy:
            return None
        weights = on_weights(self.estimator.row_map_, combinations).toarray()
        found = ends(self.equation, weights @ self.seen, level, self.rows)
        added = np.zeros(len(weights))
        added[-1] = _middle(self.estimator)
        return found.scaled(unit_of(self.estimator), added)


def _weights(estimator: PrivateLinearModel) -> Floats:
    """On mapped rows, in the unit in which targets were trained on."""
    unit, constant = unit_of(estimator), float(np.ravel(estimator.intercept_)[0])
    return estimator.row_map_.weights(
        np.ravel(estimator.coef_) / unit, (constant - _middle(estimator)) / unit
    )


def _middle(estimator: PrivateLinearModel) -> float:
    """What is added to every prediction without cost: the middle of the range of the targets."""
    targets = estimator.privacy_.statement["targets"]
    if targets["kind"] != "range" or not estimator.row_map_.intercept:
        return 0.0
    return float(targets["low"] / 2 + targets["high"] / 2)


def feature_names(estimator: PrivateLinearModel) -> list[str]:
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(estimator.n_features_in_)] if names is None else [str(n) for n in names]


def _factors(contrast: Mapping[str, float] | ArrayLike, names: Sequence[str]) -> Floats:
    """One finite factor for each feature, not all of them 0."""
    if isinstance(contrast, Mapping):
        unknown = sorted(set(map(str, contrast)) - set(names))
        if unknown:
            raise InvalidInput(f"contrast names no features of this model: {', '.join(map(repr, unknown))}.")
        contrast = [contrast.get(name, 0.0) for name in names]
    factors = np.full(0, np.nan)
    with suppress(TypeError, ValueError):
        factors = np.asarray(contrast, np.float64)
    if factors.shape != (len(names),) or not np.isfinite(factors).all() or not factors.any():
        raise InvalidInput(
            f"contrast must hold {len(names)} finite numbers, not all 0, one for each feature."
        )
    return factors


def summary_intervals(
    estimator: PrivateLinearModel, combinations: Any, schema: Schema | None
) -> tuple[Ends | None, Deviations] | None:
    """Intervals of combinations of the coefficients, and of the intercept, with what noise does to them.

    None if the model released no curvature, no ends where all are too noisy to say. The coefficients are ``coef_``, or
    its negative where the positive class is ``classes_[0]``.
    """
    if estimator._curvature is None:
        return None
    words = HELP
    try:
        found = Known.of(estimator, schema).ends(combinations, LEVEL)
    except Unsupported as reason:
        found, words = None, str(reason)[:1].upper() + str(reason)[1:]
    if found is None:
        return None, Deviations(values=None, sure=UNKNOWN, words=words)
    if is_turned(estimator):
        found = found.turned
    noise = found.error * np.sqrt(found.privacy)
    return found, Deviations(values=noise, sure=ESTIMATED, words=_WORDS + ASSUMED)
