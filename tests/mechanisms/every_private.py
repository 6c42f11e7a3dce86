"""Short plans of every registered private mechanism, plain and standardised, and rows that fit them."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from dperm.arithmetic import FLOAT64, Arithmetic
from dperm.losses import example_losses
from dperm.mechanisms import Plan, mechanism_names, resolve
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm_audit.replay_cases import FACTS, short_plan

Array = NDArray[np.float64]
BUDGET = Budget(0.5, 1e-6)
STANDARDISED = {"standardise": True, "accounting": "tight"}
NOT_STANDARDISED = {
    "objective-pure": "is for delta = 0, which Gaussian noise on moments is not",
}

PRIVATE = [name for name in mechanism_names() if resolve(name).private]
each_case = pytest.mark.parametrize(
    ("name", "standardise"),
    [
        (name, standardise)
        for name in PRIVATE
        for standardise in (False, True)
        if not standardise or name not in NOT_STANDARDISED
    ],
)


@cache
def planned(
    name: str,
    standardise: bool = False,
    n_rows: int = FACTS["n_rows"],
    arithmetic: Arithmetic = FLOAT64,
) -> Plan:
    """A plan for a short run, with the first of the replay's curved losses that the mechanism covers."""
    mechanism = resolve(name)
    loss = next(loss for loss in example_losses() if loss.is_model and loss.labels in mechanism.labels)
    problem = Problem(loss=loss, **{**FACTS, "n_rows": n_rows, "arithmetic": arithmetic})
    plan = short_plan(mechanism, problem, BUDGET, STANDARDISED if standardise else {})
    assert plan is not None
    return plan


def rows_for(problem: Problem, seed: int = 0) -> tuple[Array, Array]:
    """Rows of all lengths, some beyond the bound, with labels of the loss."""
    rng = np.random.default_rng(seed)
    n, p = problem.n_rows, problem.n_features
    X = rng.normal(size=(n, p)) * rng.uniform(0.1, 1.5, size=(n, 1)) + 0.3
    if problem.loss.labels == "real":
        return X, rng.normal(size=n)
    return X, np.where(X[:, 0] - 0.3 + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
