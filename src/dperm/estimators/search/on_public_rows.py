"""The choice of settings on public rows, which costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import cross_val_score

from dperm.engine.sparse_rows import as_csr, is_sparse
from dperm.errors import InvalidInput
from dperm.estimators._rows import unquoted
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.search.candidates import configured
from dperm.estimators.search.selection import Source, stream
from dperm.estimators.search.task import Task
from dperm.privacy import Budget, GaussianProfile, gaussian_mu
from dperm.privacy.budget import EPSILON_RANGE


def rows_of(public_data: object) -> tuple[NDArray[Any], NDArray[Any]]:
    """The public rows and their targets, once their shapes fit."""
    if not isinstance(public_data, tuple) or len(public_data) != 2:
        raise InvalidInput("public_data must be a pair (X, y) of public rows and their targets.")
    with unquoted():
        rows, targets = (as_csr(part) if is_sparse(part) else np.asarray(part) for part in public_data)
    if rows.ndim != 2 or rows.shape[0] == 0 or targets.shape != rows.shape[:1]:
        raise InvalidInput(
            "public_data must be a pair (X, y): a table of at least one row, and one target for each; got shapes "
            f"{rows.shape} and {targets.shape}."
        )
    return rows, targets


def best_on_public_rows(
    estimator: PrivateLinearModel,
    grid: Sequence[Mapping[str, Any]],
    task: Task,
    whole: Budget,
    public: tuple[NDArray[Any], NDArray[Any]],
    cv: Any,
    scoring: str | None,
    entropy: Source,
) -> tuple[Mapping[str, Any], float]:
    """The settings with the best cross-validated score there, and that score; of equals the first."""
    rows, targets = public
    alike = as_noisy(whole, task.n_rows / rows.shape[0])
    scores = []
    for params in grid:
        model = configured(estimator, params, task, alike, rows.shape[0])
        model.set_params(random_state=stream(entropy))
        scores.append(float(np.mean(cross_val_score(model, rows, targets, cv=cv, scoring=scoring))))
    best = int(np.argmax(scores))
    return grid[best], scores[best]


def as_noisy(budget: Budget, rows_ratio: float) -> Budget:
    """The budget at which a smaller public table is as noisy as the private one, within the certified range."""
    mu = min(gaussian_mu(budget) * rows_ratio, gaussian_mu(Budget(EPSILON_RANGE[1], budget.delta)))
    epsilon = GaussianProfile.gaussian(mu).epsilon(budget.delta)
    return Budget(min(max(epsilon, EPSILON_RANGE[0]), EPSILON_RANGE[1]), budget.delta)
