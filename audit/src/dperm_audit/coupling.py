"""How two runs on neighbours are held together: the same releases, the same draws for the same rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms import Plan
from dperm.mechanisms.objective.family import OBJECTIVE_NOISE
from dperm.mechanisms.output.family import DescentPlan
from dperm.privacy.noisy_min import NoisyMin
from dperm_audit.neighbours import Pair, Rows, table_of
from dperm_audit.watch import Watch

Vector = NDArray[np.float64]


def names_without(n_rows: int, row: int) -> NDArray[np.int64]:
    """New name of every row once ``row`` is taken out: later ones move up and the empty row is the last."""
    names = np.arange(n_rows)
    names[row + 1 :] -= 1
    names[row] = n_rows - 1
    return names


def answers_for(plan: Plan, run: Watch, pair: Pair) -> list[Vector]:
    """What the second run gets at the gate: the same, but for noise in an objective."""
    plan = plan.trained_by
    answers = [event.released for event in run.events]
    for k, event in enumerate(run.events):
        if event.name == OBJECTIVE_NOISE and k + 1 < len(answers):
            point = run.events[k + 1].values
            here, there = (gradient_sum(plan, point, rows, answers) for rows in (pair.left, pair.right))
            answers[k] = event.released + here - there
    return answers


def gradient_sum(plan: Plan, point: Vector, rows: Rows, released: list[Vector]) -> Vector:
    """Gradients of all rows at these weights, by the plain engine, on rows as the plan standardises them."""
    loss = plan.problem.loss
    weights = point[:, None] if loss.outputs == 1 else point.reshape(-1, 1, loss.outputs)
    table = table_of(plan.problem, rows)
    if plan.standardisation is not None:
        table = table.mapped(plan.standardisation.map_by(released[: len(plan.standardisation.noises)]))
    engine = table.open(precise=True, engine="reference")
    return np.asarray(engine.gradient_sum(loss, np.ascontiguousarray(weights)).reshape(-1))


def distances(plan: Plan, one: Watch, other: Watch, pair: Pair) -> Iterator[tuple[str, float, float]]:
    """Name, distance of the values in the norm of the noise, and what was declared, of every event."""
    for k, (left, right) in enumerate(zip(one.events, other.events, strict=False)):
        if left.values.shape != right.values.shape:
            continue
        moved = left.values - right.values
        if isinstance(left.noise, NoisyMin):
            # A shift of all scores changes no choice. Two-sided scores are paid for twice.
            distance = float(np.ptp(moved)) / (1 if left.noise.one_sided else 2)
        elif left.name == OBJECTIVE_NOISE:
            distance = float(np.linalg.norm(moved) + np.linalg.norm(left.released - right.released))
        else:
            distance = float(np.linalg.norm(moved))
        declared = float(left.noise.sensitivity)
        if k == len(one.events) - 1:
            declared = min(declared, _branch_sensitivity(plan, one, pair))
        yield left.name, distance, declared


def _branch_sensitivity(plan: Plan, run: Watch, pair: Pair) -> float:
    """What the plan declares for the batch that the differing row came to lie in, if it has fixed batches."""
    if not isinstance(plan, DescentPlan) or plan.sensitivities is None:
        return math.inf
    order = run.row_order
    position = pair.row if order is None else int(np.flatnonzero(order == pair.row)[0])
    batch = int(np.searchsorted(np.cumsum(plan.schedule.batch_sizes), position, side="right"))
    return float(
        plan.sensitivities[min(batch, len(plan.sensitivities) - 1)]
    )  # an order may be of other things
