"""People in groups, of whom a model's predictions are known, and the coverage of the intervals of their means."""

import numpy as np

from dperm.counting.query import Query
from dperm.evaluation.groups import SUMMED, GroupSums, means, means_design
from dperm.privacy import Budget, Gate
from dperm.unit import Neighbours

SHAPES = {"low": (2.0, 14.0), "even": (3.0, 3.0), "sure": (0.5, 0.5), "rare": (0.5, 20.0)}
"""Beta distributions of predicted risks: few and moderate, in the middle, at both ends, and close to 0."""
SIZES = (2000, 1500)
"""Rows of two other groups beside the one that is watched."""


def plan_of(epsilon, relation, n_groups=3):
    return Query(design=means_design(n_groups), budget=Budget(epsilon, 1e-6), neighbours=relation)


def vector_of(plan, places, predicted):
    n_groups = plan.design.size // 3
    return plan.design.vector({SUMMED: GroupSums(n_groups).count(places, 2 * predicted - 1)})


def coverage(shape, n, epsilon, runs, neighbours="replace-one", noise_known=True, seed=0):
    """Of ``runs`` releases about a group of ``n`` rows: the share with an interval, and of those the shares that hold
    the mean of the population, that of these rows, and with the interval of these rows that of the population.

    Without ``noise_known`` intervals are those of somebody who takes the noisy sums for exact ones.
    """
    relation, rng, gate = Neighbours.parse(neighbours), np.random.default_rng(seed), Gate.seeded(seed)
    plan, (a, b), sizes = plan_of(epsilon, relation), SHAPES[shape], (n, *SIZES)
    places, truth = np.repeat(np.arange(3), sizes), a / (a + b)
    n_rows = sum(sizes) if relation is Neighbours.REPLACE_ONE else None
    held = []
    for _ in range(runs):
        predicted = rng.beta(a, b, sum(sizes))
        released = gate.for_jobs(1).release_one(vector_of(plan, places, predicted), plan.noise, "simulated")
        scale = plan.noise.scale if noise_known else 1e-9
        found = means(released, scale, n_rows, (0.0, 1.0))[0]
        if found.mean.known:
            here = float(predicted[:n].mean())
            held.append([_holds(found.mean, truth), _holds(found.here, here), _holds(found.here, truth)])
    return len(held) / runs, *(np.mean(held, axis=0) if held else (np.nan,) * 3)


def _holds(figure, value):
    return figure.low <= value <= figure.high
