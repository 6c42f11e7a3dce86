"""``confidence_intervals``: what a fitted model says of its coefficients, and how surely.

Nothing is read but the model: all of it is made of numbers that were released, so it costs no privacy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dperm.certificate.document import mechanism_of
from dperm.certificate.statement import problem_of
from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel
from dperm.models.deviations import on_weights, unit_of
from dperm.models.files import parts_of
from dperm.models.intervals.bending import CurvedRows
from dperm.models.intervals.ends import Ends, ends
from dperm.models.intervals.equations import equation_of
from dperm.models.intervals.first_order import Equation
from dperm.models.intervals.table import Interval, Intervals

Floats = NDArray[np.float64]

CONTRAST = "contrast"
INTERCEPT = "intercept"


def confidence_intervals(
    model: PrivateLinearModel | Pipeline | str | os.PathLike[str],
    level: float = 0.95,
    *,
    contrast: Mapping[str, float] | ArrayLike | None = None,
) -> Intervals:
    """Estimates of the coefficients with standard errors and intervals (docs/intervals.md).

    Parameters
    ----------
    model : private linear estimator, a Pipeline of a PublicEncoder and a model, or the path of a saved model
        Fitted with ``inference=True``.
    level : float
        How often such an interval holds the coefficient, in the long run.
    contrast : mapping of feature names to factors, or array of shape (n_features,), optional
        One interval, for this combination of the coefficients, in place of one for each.
    """
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0.5 <= level < 1:
        raise InvalidInput(f"level must be a number from 0.5 to 1, 1 left out; got {level!r}.")
    estimator, _ = parts_of(model, None)
    names = feature_names(estimator)
    if contrast is None:
        combinations: Any = sparse.eye_array(len(names), format="csr")
        told = [*names, INTERCEPT]
    else:
        combinations = sparse.csr_array(_factors(contrast, names)[None, :])
        told = [CONTRAST]
    equation = equation_in(estimator)
    found = ends_of(estimator, equation, combinations, float(level))
    keep = len(told) if contrast is not None or estimator.row_map_.intercept else len(names)
    return Intervals(
        title=type(estimator).__name__,
        privacy=str(estimator.privacy_).splitlines()[0],
        level=float(level),
        noise_level=equation.noise_level,
        rows=tuple(Interval.of(found, place, name) for place, name in enumerate(told[:keep])),
    )


def equation_in(estimator: PrivateLinearModel) -> Equation:
    """What the released numbers of a model say of what its weights estimate."""
    check_is_fitted(estimator, "privacy_")
    if estimator._curvature is None:
        raise InvalidInput(
            "intervals need numbers that this model did not release; fit it with inference=True, which spends a share "
            "of the budget on them."
        )
    statement = estimator.privacy_.statement
    stated = statement["mechanism"]
    weights = estimator.row_map_.weights(
        *weights_units(estimator, np.ravel(estimator.coef_), float(np.ravel(estimator.intercept_)[0]))
    )
    scale = statement["planned"]["noise_scale"]
    return equation_of(
        mechanism_of(stated["chosen"]),
        problem_of(statement),
        stated["used"],
        scale,
        weights,
        estimator._curvature,
    )


def weights_units(
    estimator: PrivateLinearModel, coefficients: Floats, constant: float
) -> tuple[Floats, float]:
    """Coefficients in the unit in which targets were trained on."""
    unit = unit_of(estimator)
    return coefficients / unit, (constant - middle_of(estimator)) / unit


def middle_of(estimator: PrivateLinearModel) -> float:
    """What is added to every prediction without cost: the middle of the range of the targets."""
    targets = estimator.privacy_.statement["targets"]
    if targets["kind"] != "range" or not estimator.row_map_.intercept:
        return 0.0
    return float(targets["low"] / 2 + targets["high"] / 2)


def ends_of(
    estimator: PrivateLinearModel, equation: Equation, combinations: Any, level: float
) -> Ends | None:
    """Of combinations of ``coef_``, one row each, and as the last one of the intercept; None if too noisy to say."""
    if equation.too_noisy:
        return None
    problem = problem_of(estimator.privacy_.statement)
    rows = on_weights(estimator.row_map_, combinations).toarray()
    curved = None
    if problem.loss.labels == "binary":
        curved = CurvedRows.of(equation.hessian, problem.intercept, problem.x_norm, problem.n_rows)
    found = ends(equation, rows, level, curved)
    added = np.zeros(len(rows))
    added[-1] = middle_of(estimator)
    return found.scaled(unit_of(estimator), added)


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
    try:
        factors = np.asarray(contrast, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("contrast must hold numbers.") from None
    if factors.shape != (len(names),) or not np.isfinite(factors).all() or not factors.any():
        raise InvalidInput(
            f"contrast must hold {len(names)} finite numbers, not all 0, one for each feature."
        )
    return factors
