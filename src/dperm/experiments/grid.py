"""What is run and what is not: the plans of a contender, and the reasons for the gaps."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dperm.errors import DpermError, InvalidInput
from dperm.experiments.results import Skipped
from dperm.experiments.spec import Contender, Spec
from dperm.losses import Loss, resolve_loss
from dperm.mechanisms import Mechanism, Plan
from dperm.neighbours import Neighbours
from dperm.planning.rules import AUTO, L2
from dperm.privacy import Budget
from dperm.problem import Problem

PlanGrid = dict[float, dict[int, Plan]]
"""Plans by epsilon and number of training rows."""


def loss_of(spec: Spec) -> Loss:
    loss = resolve_loss(spec.loss)
    return loss if spec.y_range is not None else loss.for_classes(spec.n_classes)


def problems_of(spec: Spec, held_out: NDArray[np.bool_] | None) -> list[Problem]:
    """The task for each number of training rows that occurs: folds differ by one row at most.

    With a declared capacity there is one, for as many rows as that. l2 is 0 where a mechanism's rule sets it.
    """
    n, folds = spec.n_rows, spec.folds
    counts = {n - n // folds, n - -(-n // folds)} if held_out is None else {n - int(held_out.sum())}
    if spec.max_rows is not None:
        if max(counts) > spec.max_rows:
            raise InvalidInput("a model has more training rows than max_rows; declare a larger number.")
        counts = {spec.max_rows}
    return [
        Problem.for_table(
            n_rows,
            spec.n_features,
            loss=loss_of(spec),
            l2=spec.l2 if isinstance(spec.l2, float) else 0.0,
            x_norm=spec.x_norm,
            neighbours=Neighbours.parse(spec.neighbours),
        )
        for n_rows in sorted(counts)
    ]


def budgets_of(spec: Spec) -> list[Budget]:
    return [Budget(epsilon, spec.delta) for epsilon in spec.epsilons]


def plan_grid(
    contender: Contender,
    mechanism: Mechanism,
    problems: Sequence[Problem],
    budgets: Sequence[Budget],
    l2: L2,
) -> tuple[PlanGrid, list[Skipped]]:
    """The plans that the mechanism does not refuse, and the refusals."""
    grid: PlanGrid = {}
    skipped = []
    for budget in budgets:
        try:
            tasks = (
                problems if l2 != AUTO else [mechanism.regularised(problem, budget) for problem in problems]
            )
            grid[budget.epsilon] = {task.n_rows: mechanism.plan(task, budget) for task in tasks}
        except DpermError as error:
            skipped.append(skip(contender, budget.epsilon, error))
    return grid, skipped


def skip(contender: Contender, epsilon: float, error: DpermError) -> Skipped:
    return Skipped(
        mechanism=contender.mechanism,
        accounting=contender.accounting,
        epsilon=epsilon,
        reason=str(error),
        label=contender.label,
    )
