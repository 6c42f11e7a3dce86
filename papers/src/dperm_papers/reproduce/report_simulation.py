"""The programs of G. Zhang's report, run again as simulations with numpy's noise: private SGD in the plane.

They are no mechanisms of this library and release nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm_papers.reproduce.published import TEST_POINTS

Array = NDArray[np.float64]

TRUTH = np.array([2.0, 1.0, -1.7])
START = np.array([0.0, 1.0, -0.5])
EPSILON, DELTA, STEP, RIDGE, BATCH = 1.0, 0.1, 0.2, 0.0005, 20
ROW_NORM = math.sqrt(3)  # of (x1, x2, 1) in the unit square; the gradient of the logistic loss is no longer
LABEL_NOISE = 0.34  # of the score; the true line then gets the share right that the report's best method got
NON_PRIVATE, PRIVATE, OBJECTIVE = "SGD, not private", "private SGD", "'objective perturbation'"
PLAIN = "SGD, not private, no regulariser"
METHODS = (NON_PRIVATE, PRIVATE, OBJECTIVE)
"""Those of the report, in its order."""


def noise_scale(n_rows: int, constant: float) -> float:
    """The report's noise on each coordinate of a gradient; it takes gradients to have norm 1 at most."""
    return math.sqrt(constant * math.log(n_rows / DELTA) * math.log(1 / DELTA)) / EPSILON


def make_points(n_rows: int, repeats: int, noisy: bool, rng: np.random.Generator) -> tuple[Array, Array]:
    """Points of the unit square with a one appended, and their labels, for every repeat."""
    rows = np.concatenate([rng.random((repeats, n_rows, 2)), np.ones((repeats, n_rows, 1))], axis=2)
    score = rows @ TRUTH
    if noisy:
        score = score + LABEL_NOISE * rng.normal(size=score.shape)
    return rows, np.where(score > 0, 1.0, -1.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Chains:
    """Runs side by side, all with the same number of rows; ``scales`` counts for private SGD alone."""

    rows: Array
    labels: Array
    methods: NDArray[np.str_]
    scales: Array

    @classmethod
    def stack(cls, parts: Sequence[Chains]) -> Chains:
        return cls(
            **{
                name: np.concatenate([getattr(part, name) for part in parts])
                for name in cls.__dataclass_fields__
            }
        )


def simulate(chains: Chains, rng: np.random.Generator) -> list[tuple[int, Array]]:
    """The report's descent: n**2 steps on small batches. Weights (chains, 3) after a few numbers of steps."""
    count, n_rows, _ = chains.rows.shape
    steps = n_rows**2
    signed, each = chains.rows * chains.labels[..., None], np.arange(count)[:, None]
    private, fresh = chains.methods == PRIVATE, chains.methods == OBJECTIVE
    noise = np.where(private, chains.scales, 0.0)[:, None]
    ridge = np.where(private | (chains.methods == PLAIN), 0.0, 2 * RIDGE)[:, None]
    weights = np.tile(START, (count, 1))
    keep = {steps, *np.unique(np.geomspace(1, steps, 40).round().astype(int)).tolist()}
    kept = [(0, weights)]
    for step in range(1, steps + 1):
        drawn = rng.random((count, n_rows), dtype=np.float32).argpartition(BATCH, axis=1)[:, :BATCH]
        batch = signed[each, drawn]
        margin = np.einsum("kbp,kp->kb", batch, weights)
        pull = 0.5 * (1 - np.tanh(margin / 2))  # 1 / (1 + exp(margin)) without overflow
        gradient = ridge * weights - np.einsum("kbp,kb->kp", batch, pull) / BATCH
        gradient += noise * rng.normal(size=weights.shape)
        if fresh.any():
            gradient[fresh] += _fresh_noise(int(fresh.sum()), rng) / n_rows
        weights = weights - STEP * gradient
        if step in keep:
            kept.append((step, weights))
    return kept


def _fresh_noise(repeats: int, rng: np.random.Generator) -> Array:
    """Gamma norm, and a direction by two uniform angles, which is not uniform on the sphere: as in the report."""
    norm = rng.gamma(3, 2 / EPSILON, repeats)
    first, second = rng.uniform(0, 2 * math.pi, (2, repeats))
    return (
        np.column_stack([np.sin(first), np.cos(first) * np.sin(second), np.cos(first) * np.cos(second)])
        * (norm[:, None])
    )


def accuracies(weights: Array, noisy: bool, rng: np.random.Generator) -> Array:
    rows, labels = make_points(TEST_POINTS, 1, noisy, rng)
    return np.asarray((rows[0] @ weights.T * labels[0][:, None] > 0).mean(axis=0))
