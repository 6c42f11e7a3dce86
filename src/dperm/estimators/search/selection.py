"""The choice of settings from a grid: what each may cost, the best of a random number, or the best on public rows."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import (
    GroupKFold,
    ParameterGrid,
    StratifiedGroupKFold,
    check_cv,
    cross_val_score,
)

from dperm.engine.sparse.rows import as_csr, is_sparse
from dperm.errors import DpermError, InvalidInput, NotCertified, Unsupported
from dperm.estimators._hints import hint_for
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.fit_context import fit_context
from dperm.estimators.labels import LabelSet
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.persons import GroupedRows
from dperm.estimators.rows import RowSource, redact_errors
from dperm.estimators.search.scoring import Scorer
from dperm.mechanisms import Outcome, Plan, mechanism_names, resolve
from dperm.privacy import Budget, Gate, GaussianNoise, GaussianProfile, gaussian_mu
from dperm.privacy.budget import EPSILON_RANGE
from dperm.privacy.entropy import SeededEntropy, SystemEntropy
from dperm.privacy.search import smallest_safe
from dperm.privacy.selection import SHAPES, RunCount, SelectionPlan, cheapest_selection, plan_selection
from dperm.unit import SHARE_BITS, Neighbours

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

Source = SystemEntropy | SeededEntropy
Public = tuple[NDArray[Any], NDArray[Any], GroupedRows | None]


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


Best = tuple[Candidate | None, PrivateLinearModel | None, float | None]


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


def shares(whole: Budget, refit_share: float | None) -> tuple[Budget, Budget | None]:
    """What the search and the last fit may spend; epsilons and deltas add up."""
    if refit_share is None:
        return whole, None
    if isinstance(refit_share, bool) or not isinstance(refit_share, numbers.Real) or not 0 < refit_share < 1:
        raise InvalidInput(f"refit_share must be None or lie between 0 and 1; got {refit_share!r}.")
    share = float(refit_share)
    refit = Budget(whole.epsilon * share, whole.delta * share)
    return Budget(whole.epsilon - refit.epsilon, whole.delta - refit.delta), refit


def selection_plan(budget: Budget, runs: object, mean: object) -> SelectionPlan:
    """What one candidate may cost when so many are drawn on average, by this law."""
    if isinstance(mean, bool) or not isinstance(mean, numbers.Real):
        raise InvalidInput(f"mean_candidates must be a number; got {mean!r}.")
    if isinstance(runs, str) and runs == "auto":
        return cheapest_selection(budget, float(mean))
    if isinstance(runs, str) and runs in SHAPES:
        return plan_selection(budget, RunCount(SHAPES[runs], float(mean)))
    if isinstance(runs, numbers.Real) and not isinstance(runs, bool):
        return plan_selection(budget, RunCount(float(runs), float(mean)))
    raise InvalidInput(f"runs must be 'auto', {', '.join(map(repr, SHAPES))} or a shape; got {runs!r}.")


def best_of(
    candidates: Sequence[Candidate],
    selection: SelectionPlan,
    scorer: Scorer,
    noise: GaussianNoise,
    task: Task,
    rows: NDArray[Any],
    targets: NDArray[Any],
    entropy: Source,
    grouped: GroupedRows | None = None,
) -> Best:
    """The best of a random number of candidates, its model and noisy score; nothing if the number is 0.

    Of equal scores the first wins: candidates are drawn alike, so that is a choice at random. With ``grouped`` persons
    are parted, and each counts once.
    """
    gate = Gate(entropy)
    held = task.held_out(gate, rows.shape[0] if grouped is None else grouped.n_persons)
    ids, shares = {}, None
    if grouped is not None:
        held = held[grouped.person]
        ids, shares = {"groups": grouped.person[~held]}, grouped.shares()[held]
    best: Best = (None, None, None)
    for _ in range(selection.runs.draw(gate)):
        candidate = candidates[gate.integer() % len(candidates)]
        model = clone(candidate.estimator).set_params(random_state=stream(entropy))
        model.fit(rows[~held], targets[~held], **ids)
        _check_followed(model, candidate.plan)
        noisy = scorer.released(scorer.sums(model, rows[held], targets[held], shares), noise, gate)
        if best[2] is None or noisy > best[2]:
            best = candidate, model, noisy
    return best


def stream(entropy: Source) -> np.random.Generator | None:
    """The ``random_state`` of one fit: the operating system, or a stream of its own."""
    return entropy.spawn(1)[0].generator if isinstance(entropy, SeededEntropy) else None


def constant_model(candidate: Candidate, task: Task, entropy: Source) -> PrivateLinearModel:
    """A model that tells nothing of the rows: all coefficients 0."""
    model, problem = candidate.estimator, candidate.plan.problem
    standardisation = candidate.plan.standardisation
    if isinstance(model, PrivateClassifier):
        assert task.classes is not None
        outputs = problem.loss.outputs
        model._know(task.classes)
        model.coef_, model.intercept_ = np.zeros((outputs, task.n_features)), np.zeros(outputs)
    elif isinstance(model, PrivateLinearRegression):
        model.coef_, model.intercept_ = np.zeros(task.n_features), model._scale()[0]
    model.n_features_in_ = task.n_features
    model.row_map_ = problem.row_map if standardisation is None else standardisation.map_of_nothing()
    nothing = Outcome(weights=np.zeros(problem.dimension), records=(), certified=True, row_map=model.row_map_)
    model.privacy_ = model._report(candidate.plan, nothing, Gate(entropy), fit_context(model)[0])
    return model


def _check_followed(model: PrivateLinearModel, plan: Plan) -> None:
    """The fit must have used the very noise that the search was priced for."""
    planned = (plan.noise and plan.noise.scale, plan.noise and plan.noise.sensitivity, plan.releases)
    used = (model.privacy_.noise_scale, model.privacy_.sensitivity, model.privacy_.releases)
    if planned != used:
        raise NotCertified("a candidate was not trained as planned, so nothing is released.")


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
