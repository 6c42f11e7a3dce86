"""The public facts of a search, and the settings of its grid as estimators with what one candidate may cost."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from dperm.errors import DpermError, InvalidInput, NotCertified, Unsupported
from dperm.estimators._hints import hint_for
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.labels import LabelSet
from dperm.estimators.rows import RowSource
from dperm.mechanisms import Plan, mechanism_names, resolve
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, Gate, GaussianProfile
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
class Task:
    """How many rows train and how many validate; ``n_rows`` is the capacity where the number is private.

    With ``by_person`` all of them are numbers of persons, and a person trains or validates with all rows.
    """

    n_rows: int
    n_training: int
    n_features: int
    classes: LabelSet | None
    neighbours: Neighbours
    by_person: bool = False

    @property
    def unit(self) -> str:
        return "person" if self.by_person else "row"

    def plan(self, model: Any, n_rows: int) -> Plan:
        """What a fit on so many rows, or persons, would do."""
        persons = {"n_persons": n_rows} if self.by_person else {}
        return model.plan(n_rows, self.n_features, **persons)  # type: ignore[no-any-return]

    @property
    def n_validation(self) -> int:
        return self.n_rows - self.n_training

    def held_out(self, gate: Gate, n_present: int) -> NDArray[np.bool_]:
        """Which of the rows, or persons, that are there validate.

        It is drawn without a look at them; it need not be secret, but nobody needs it.
        """
        held = np.zeros(self.n_rows, dtype=bool)
        held[gate.permutation(self.n_rows)[: self.n_validation]] = True
        return held[:n_present]


def training_rows(share: float, n_rows: int) -> int:
    """How many rows train when this share of them validates."""
    if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 < share < 1:
        raise InvalidInput(f"validation must be a share of the rows between 0 and 1; got {share!r}.")
    n_validation = max(1, round(float(share) * n_rows))
    if n_validation >= n_rows:
        raise InvalidInput(f"validation={share:g} leaves no training row of {n_rows}.")
    return n_rows - n_validation


def refuse(X: Any, given: Mapping[str, Any]) -> None:
    """What ``fit`` of an estimator takes and a search does not."""
    if given.get("sample_weight") is not None:
        raise Unsupported(
            "a search takes no sample_weight: its scores would have to count rows by it. Fit once with weights, at "
            "settings that were chosen otherwise."
        )
    for name in given.keys() - {"sample_weight"}:
        raise TypeError(
            f"fit() of a search got an unexpected keyword argument {name!r}; it takes X, y, groups."
        )
    with RowSource(X) as source:
        if source.shards is not None:
            raise Unsupported(
                "a search parts rows at random into those that train and those that validate, which rows in shards "
                "cannot be. Give X and y as arrays, or fit once at settings that were chosen otherwise."
            )


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
