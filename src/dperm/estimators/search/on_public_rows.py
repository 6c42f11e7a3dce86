"""The choice of settings on public rows, which costs nothing."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv, cross_val_score

from dperm.engine.sparse.rows import as_csr, is_sparse
from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.persons import GroupedRows
from dperm.estimators.rows import redact_errors
from dperm.estimators.search.candidates import Task, configured
from dperm.estimators.search.selection import Source, stream
from dperm.privacy import Budget, GaussianProfile, gaussian_mu
from dperm.privacy.budget import EPSILON_RANGE
from dperm.unit import SHARE_BITS

Public = tuple[NDArray[Any], NDArray[Any], GroupedRows | None]


def rows_of(public_data: object, by_person: bool) -> Public:
    """The public rows, their targets and, where persons are protected, whose rows they are, once their shapes fit."""
    if not isinstance(public_data, tuple) or len(public_data) not in (2, 3):
        raise InvalidInput(
            "public_data must be a pair (X, y) of public rows and their targets, or (X, y, groups)."
        )
    if len(public_data) == 3 and not by_person:
        raise InvalidInput(
            "public_data has ids of persons, and fit got none: give groups to both, or to none."
        )
    with redact_errors():
        rows, targets = (as_csr(part) if is_sparse(part) else np.asarray(part) for part in public_data[:2])
    if rows.ndim != 2 or rows.shape[0] == 0 or targets.shape != rows.shape[:1]:
        raise InvalidInput(
            "public_data must be a pair (X, y): a table of at least one row, and one target for each; got shapes "
            f"{rows.shape} and {targets.shape}."
        )
    if not by_person:
        return rows, targets, None
    with redact_errors():
        grouped = GroupedRows.of(public_data[2] if len(public_data) == 3 else np.arange(rows.shape[0]))
    grouped.check_rows(rows.shape[0])
    return rows, targets, grouped


def best_on_public_rows(
    estimator: PrivateLinearModel,
    grid: Sequence[Mapping[str, Any]],
    task: Task,
    whole: Budget,
    public: Public,
    cv: Any,
    scoring: str | None,
    entropy: Source,
) -> tuple[Mapping[str, Any], float]:
    """The settings with the best cross-validated score there, and that score; of equals the first."""
    rows, targets, grouped = public
    n_public = rows.shape[0] if grouped is None else grouped.n_persons
    alike = as_noisy(whole, task.n_rows / n_public)
    scores = []
    for params in grid:
        model = configured(estimator, params, task, alike, n_public)
        model.set_params(random_state=stream(entropy))
        if grouped is None:
            found = cross_val_score(model, rows, targets, cv=cv, scoring=scoring)
        else:
            found = _scores_by_person(model, rows, targets, grouped, cv, scoring)
        scores.append(float(np.mean(found)))
    best = int(np.argmax(scores))
    return grid[best], scores[best]


def _scores_by_person(
    model: PrivateLinearModel,
    rows: NDArray[Any],
    targets: NDArray[Any],
    grouped: GroupedRows,
    cv: Any,
    scoring: str | None,
) -> list[float]:
    """As ``cross_val_score``, with folds of persons, models trained by person, and rows that count by their share."""
    person, score = grouped.person, check_scoring(model, scoring)
    if isinstance(cv, numbers.Integral):
        cv = (StratifiedGroupKFold if is_classifier(model) else GroupKFold)(int(cv))
    weights = grouped.shares() / 2**SHARE_BITS
    found = []
    for training, tested in check_cv(cv).split(rows, targets, groups=person):
        if np.isin(person[tested], person[training]).any():
            raise InvalidInput("cv puts rows of one person into both parts of a split; use GroupKFold.")
        fitted = clone(model).fit(rows[training], targets[training], groups=person[training])
        found.append(float(score(fitted, rows[tested], targets[tested], sample_weight=weights[tested])))
    return found


def as_noisy(budget: Budget, rows_ratio: float) -> Budget:
    """The budget at which a smaller public table is as noisy as the private one, within the certified range."""
    mu = min(gaussian_mu(budget) * rows_ratio, gaussian_mu(Budget(EPSILON_RANGE[1], budget.delta)))
    epsilon = GaussianProfile.gaussian(mu).epsilon(budget.delta)
    return Budget(min(max(epsilon, EPSILON_RANGE[0]), EPSILON_RANGE[1]), budget.delta)
