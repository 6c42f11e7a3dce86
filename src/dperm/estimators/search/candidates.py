"""The settings of a grid as estimators, each with what one candidate may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from dperm.errors import DpermError, InvalidInput, NotCertified, Unsupported
from dperm.estimators._hints import hint_for
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.search.task import Task
from dperm.mechanisms import Plan, mechanism_names, resolve
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, GaussianProfile
from dperm.privacy.budget import EPSILON_RANGE
from dperm.privacy.search import smallest_safe
from dperm.privacy.selection import SelectionPlan

FIXED = (
    "epsilon",
    "delta",
    "classes",
    "positive",
    "y_range",
    "neighbours",
    "max_rows",
    "sample_weight_bound",
    "inference",
    "random_state",
    "ledger",
    "dataset",
)
MOST = 10_000


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """One setting of the grid: the estimator with its share of the budget, and the plan that it will follow."""

    params: Mapping[str, Any]
    estimator: PrivateLinearModel
    plan: Plan


def settings_of(estimator: PrivateLinearModel, param_grid: Any) -> list[dict[str, Any]]:
    """The settings to choose from, checked without data."""
    grid: list[dict[str, Any]] = list(ParameterGrid(param_grid))
    names = {name for params in grid for name in params}
    fixed = sorted(names.intersection(FIXED))
    if fixed:
        raise InvalidInput(
            f"param_grid may not vary {', '.join(fixed)}: the search sets it, or all candidates share it. Set "
            "it on the search or on the estimator."
        )
    unknown = sorted(names.difference(estimator.get_params(deep=False)))
    if unknown:
        hints = "".join(f" {hint_for(name)}" for name in unknown if hint_for(name))
        raise InvalidInput(f"{type(estimator).__name__} has no parameter {', '.join(unknown)}.{hints}")
    if not 0 < len(grid) <= MOST:
        raise InvalidInput(f"param_grid must hold between 1 and {MOST:,} settings; got {len(grid)}.")
    return grid


def configured(
    estimator: PrivateLinearModel, params: Mapping[str, Any], task: Task, budget: Budget, n_rows: int
) -> PrivateLinearModel:
    """A fresh estimator with these settings, for so many of the rows; the search pays for it."""
    model: PrivateLinearModel = clone(estimator).set_params(
        **params,
        epsilon=budget.epsilon,
        delta=budget.delta,
        random_state=None,
        ledger=None,
        dataset=None,
    )
    if task.classes is not None:
        model.set_params(classes=task.classes.declared)
    if task.neighbours is Neighbours.ADD_REMOVE:
        model.set_params(max_rows=n_rows)
    return model


def priced_candidate(
    estimator: PrivateLinearModel, params: Mapping[str, Any], task: Task, selection: SelectionPlan
) -> Candidate:
    """The setting with about the largest epsilon at which the selection admits its cost."""

    def at(epsilon: float) -> Candidate:
        if epsilon < EPSILON_RANGE[0]:
            raise NotCertified(
                f"no budget is left for a candidate with {in_words(params)}; raise epsilon or lower "
                "mean_candidates."
            )
        budget = Budget(epsilon, selection.budget.delta)
        model = configured(estimator, params, task, budget, task.n_training)
        return Candidate(params=params, estimator=model, plan=task.plan(model, task.n_training))

    def excess(inverse: float) -> float:
        return selection.excess(admissible(at(1 / inverse).plan))

    gaussian = 1 / min(
        EPSILON_RANGE[1], GaussianProfile.gaussian(selection.mu).epsilon(selection.budget.delta)
    )
    start = gaussian * (1 + 1e-9)
    if -1e-6 <= excess(start) <= 0:
        return at(1 / start)
    return at(1 / smallest_safe(excess, start, tolerance=1e-3, lowest=1 / EPSILON_RANGE[1]))


def admissible(plan: Plan) -> GaussianProfile:
    """The plan's price, if it is one that a search can be built on."""
    name = plan.mechanism.name
    if not plan.private:
        raise Unsupported(
            f"mechanism {name!r} is a baseline without noise; a search needs a private mechanism."
        )
    if plan.not_certified is not None:
        raise NotCertified(f"mechanism {name!r} cannot be searched over: {plan.not_certified}")
    if plan.profile is None:
        raise Unsupported(
            f"mechanism {name!r} cannot be searched over: its price ({plan.accountant}) gives no Renyi divergence. "
            f"Those that can be here: {', '.join(_searchable(plan))}. Or use public_data."
        )
    return plan.profile


def _searchable(plan: Plan) -> list[str]:
    """Names of the mechanisms that fit the same task and have a profile."""
    names = []
    for name in mechanism_names():
        try:
            other = resolve(name).plan(plan.problem, plan.budget)
        except DpermError:
            continue
        if other.profile is not None and other.not_certified is None:
            names.append(name)
    return names


def in_words(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in params.items()) or "as given"
