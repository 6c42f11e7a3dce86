"""The best of a random number of candidates: what the choice may cost, and how it is made."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from dperm.errors import InvalidInput, NotCertified
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.fit_context import fit_context
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.persons import GroupedRows
from dperm.estimators.search.candidates import Candidate, Task
from dperm.estimators.search.scoring import Scorer
from dperm.mechanisms import Outcome, Plan
from dperm.privacy import Budget, Gate, GaussianNoise
from dperm.privacy.entropy import SeededEntropy, SystemEntropy
from dperm.privacy.selection import (
    SHAPES,
    RunCount,
    SelectionPlan,
    cheapest_selection,
    plan_selection,
)

Source = SystemEntropy | SeededEntropy
Best = tuple[Candidate | None, PrivateLinearModel | None, float | None]


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
