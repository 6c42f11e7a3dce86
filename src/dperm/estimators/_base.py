"""The one private fit behind every estimator."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dperm.engine import Table
from dperm.errors import InvalidInput
from dperm.estimators.report import PrivacyReport
from dperm.losses import Loss
from dperm.mechanisms import Job, Mechanism, Outcome, Plan, resolve
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, entropy_from
from dperm.privacy.entropy import Entropy
from dperm.problem import Problem

Vector = NDArray[np.float64]

INTERCEPT_SCALE = 0.3  # the intercept column as a share of x_norm: it grows the row norm by 4.4 % only


class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """Parameters, the private fit and the report that all linear estimators share.

    A subclass says in ``_label_assumption`` what it takes for granted of y. Its ``fit`` validates and encodes
    the targets, chooses a loss, calls ``_problem`` and ``_fit_weights``, and stores coefficients in its own
    shape.
    """

    privacy_: PrivacyReport

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        mechanism: str | Mechanism = "auto",
        l2: float = 1e-3,
        x_norm: float = 1.0,
        fit_intercept: bool = True,
        neighbours: str = "replace-one",
        max_rows: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.l2 = l2
        self.x_norm = x_norm
        self.fit_intercept = fit_intercept
        self.neighbours = neighbours
        self.max_rows = max_rows
        self.random_state = random_state

    def _label_assumption(self) -> str:
        """What the guarantee takes for granted of y."""
        raise NotImplementedError

    def _fit_weights(
        self, rows: NDArray[Any], targets: NDArray[Any], problem: Problem
    ) -> tuple[Vector, Vector]:
        """Plan from public facts, train on the rows, release once, and store the report.

        Returns
        -------
        coefficients, intercept
            Of shape (p,) and (), or (p, C) and (C,) for a loss with C outputs; the intercept as it is added
            to a margin, zero without ``fit_intercept``.
        """
        budget = Budget(self.epsilon, self.delta)
        mechanism = resolve(self.mechanism)
        entropy = entropy_from(self.random_state)
        plan = mechanism.plan(problem, budget)
        table = Table(
            rows, targets, x_norm=problem.x_norm, intercept=problem.intercept, n_rows=problem.n_rows
        )
        (outcome,) = mechanism.run([Job(plan=plan)], table, entropy)
        coefficients = outcome.weights[: problem.n_features]
        constant = outcome.weights[-1] if problem.intercept else np.zeros(outcome.weights.shape[1:])
        self.privacy_ = self._report(plan, outcome, entropy)
        return coefficients, np.asarray(problem.intercept * constant)

    def _problem(self, n_samples: int, n_features: int, loss: Loss) -> Problem:
        """The public facts of this fit."""
        neighbours = Neighbours.parse(self.neighbours)
        if neighbours is Neighbours.ADD_REMOVE and self.max_rows is None:
            raise InvalidInput(
                "neighbours='add-remove' keeps the number of rows private, so it needs max_rows, a public number "
                f"that the table never exceeds; or use neighbours={Neighbours.REPLACE_ONE.value!r}."
            )
        if neighbours is Neighbours.REPLACE_ONE and self.max_rows is not None:
            raise InvalidInput(
                "max_rows belongs to neighbours='add-remove'; under replace-one the row count is public."
            )
        x_norm = self._number("x_norm")
        return Problem(
            loss=loss,
            l2=self._number("l2"),
            x_norm=x_norm,
            n_rows=n_samples if self.max_rows is None else self.max_rows,
            n_features=n_features,
            intercept=INTERCEPT_SCALE * x_norm if self.fit_intercept else 0.0,
            neighbours=neighbours,
        )

    def _number(self, name: str) -> float:
        """A parameter that must be a real number."""
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise InvalidInput(f"{name} must be a number; got {value!r}.")
        return float(value)

    def _report(self, plan: Plan, outcome: Outcome, entropy: Entropy) -> PrivacyReport:
        problem = plan.problem
        reason = None
        if not plan.private:
            reason = f"mechanism {plan.mechanism.name!r} is a baseline without noise."
        elif not entropy.secure:
            reason = "random_state makes the noise predictable; leave it at None for a release."
        elif plan.not_certified is not None:
            reason = plan.not_certified
        elif not outcome.certified:
            reason = "the arithmetic was not the one that the plan accounts for."
        return PrivacyReport(
            guarantee=None if reason else {"epsilon": plan.budget.epsilon, "delta": plan.budget.delta},
            reason=reason,
            mechanism=plan.mechanism.name,
            accounting=plan.mechanism.accounting,
            accountant=plan.accountant,
            settings=plan.settings,
            epsilon=plan.budget.epsilon,
            delta=plan.budget.delta,
            neighbours=problem.neighbours.value,
            n_rows=problem.n_rows,
            n_coefficients=problem.dimension,
            loss=problem.loss.name,
            l2=problem.l2,
            x_norm=problem.x_norm,
            row_norm=problem.row_norm,
            lipschitz=problem.loss.lipschitz,
            smoothness=problem.smoothness,
            noise_on=None if plan.noise is None else _noise_on(plan),
            releases=0 if plan.noise is None else plan.releases,
            sensitivity=None if plan.noise is None else plan.noise.sensitivity,
            noise_scale=None if plan.noise is None else plan.noise.scale,
            grid_exponent=None if outcome.record is None else outcome.record.grid_exponent,
            centring_noise_scale=None if plan.centring is None else plan.centring.noise.scale,
            entropy=entropy.name,
            assumptions=(*self._assumptions(problem), *plan.assumptions),
        )

    def _assumptions(self, problem: Problem) -> tuple[str, ...]:
        rows = (
            f"The number of rows, {problem.n_rows}, is public."
            if problem.neighbours is Neighbours.REPLACE_ONE
            else f"max_rows = {problem.n_rows} was chosen without looking at the data, and no table exceeds it."
        )
        return (
            "One person contributes one row.",
            rows,
            self._label_assumption(),
            "x_norm, l2 and every other setting were chosen without looking at the data.",
            "Features were computed row by row, with nothing learned from other rows.",
        )


def _noise_on(plan: Plan) -> str:
    """What the plan's noise is added to; ``auto`` keeps the plan of the mechanism it chose."""
    family = (plan.detail if isinstance(plan.detail, Plan) else plan).mechanism.family
    return {
        "output": f"the {plan.problem.dimension} coefficients, once",
        "objective": f"a linear term of the objective, {plan.problem.dimension} numbers; a little on its minimiser",
        "gradient": f"{plan.releases} steps, each of {plan.problem.dimension} numbers",
        "statistics": "sums over the rows, once",
    }.get(family, f"{plan.releases} releases")
