"""Every training that the report's tables need: its programs, certified fits on the same points, the true line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.experiments.quiet import measured_only
from dperm_papers.reproduce.published import REPORT_CONSTANTS, REPORT_TABLES, PublishedAccuracy
from dperm_papers.reproduce.report_simulation import (
    DELTA,
    EPSILON,
    METHODS,
    PLAIN,
    PRIVATE,
    RIDGE,
    TRUTH,
    Array,
    Chains,
    accuracies,
    make_points,
    noise_scale,
    simulate,
)

TABLES, STUDY, STUDY_ROWS, TRUE_LINE = "tables", "c squared", 100, "the true line"
CERTIFIED = {"psgd": "psgd, certified", "objective": "objective, certified"}


@dataclass(frozen=True, kw_only=True)
class Size:
    repeats: int
    constants: tuple[float, ...]
    draws: int


FULL = Size(repeats=20, constants=tuple(REPORT_CONSTANTS), draws=1000)
QUICK = Size(repeats=10, constants=(1 / 400, 1 / 25, 1 / 2, 4.0, 32.0), draws=400)


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """One training, with its points and the weights after some numbers of steps."""

    part: str
    n_rows: int
    constant: float
    noisy_labels: bool
    method: str
    repeat: int
    points: Array
    labels: Array
    path: list[tuple[int, Array]]
    accuracy: float

    def fits(self, setting: PublishedAccuracy, method: str) -> bool:
        mine = (self.part, self.n_rows, self.constant, self.noisy_labels, self.method)
        return mine == (TABLES, setting.n_rows, setting.constant, setting.noisy_labels, method)

    @property
    def weights(self) -> Array:
        return self.path[-1][1]

    @property
    def row(self) -> dict[str, object]:
        names = ("part", "n_rows", "constant", "noisy_labels", "method", "repeat", "accuracy")
        return {name: getattr(self, name) for name in names} | {
            f"w{i}": float(w) for i, w in enumerate(self.weights)
        }


def run_programs(n_rows: int, size: Size, seed: int) -> list[Run]:
    """All descents on so many rows: the methods of each table on the same points, and the study of c squared."""
    rng = np.random.default_rng([seed, n_rows])
    labels_of: list[tuple[str, float, bool, str, int]] = []
    parts = []
    tables = [setting for setting in REPORT_TABLES if setting.n_rows == n_rows]
    jobs: list[tuple[str, float, bool, tuple[str, ...]]] = [
        (TABLES, s.constant, s.noisy_labels, (*METHODS, PLAIN)) for s in tables
    ]
    if n_rows == STUDY_ROWS:
        jobs += [(STUDY, constant, False, (PRIVATE,)) for constant in size.constants]
    for part, constant, noisy, methods in jobs:
        points, labels = make_points(n_rows, size.repeats, noisy, rng)
        for method in methods:
            labels_of += [(part, constant, noisy, method, repeat) for repeat in range(size.repeats)]
            scales = np.full(size.repeats, noise_scale(n_rows, constant))
            parts.append(
                Chains(rows=points, labels=labels, methods=np.repeat(method, size.repeats), scales=scales)
            )
    chains = Chains.stack(parts)
    kept = simulate(chains, rng)
    right = {noisy: accuracies(kept[-1][1], noisy, rng) for noisy in (False, True)}
    return [
        Run(
            part=part,
            n_rows=n_rows,
            constant=constant,
            noisy_labels=noisy,
            method=method,
            repeat=repeat,
            points=chains.rows[k],
            labels=chains.labels[k],
            path=[(step, weights[k]) for step, weights in kept],
            accuracy=float(right[noisy][k]),
        )
        for k, (part, constant, noisy, method, repeat) in enumerate(labels_of)
    ]


def run_beside(setting: PublishedAccuracy, trained: Sequence[Run], seed: int) -> list[Run]:
    """On the same points: what the library releases with a proof, and the line that made the labels."""
    points, labels = (np.stack([getattr(run, name) for run in trained]) for name in ("points", "labels"))
    final = {label: _certified(name, points, labels, seed) for name, label in CERTIFIED.items()}
    final[TRUE_LINE] = np.tile(TRUTH, (len(trained), 1))
    test = np.random.default_rng([seed, setting.n_rows, 1])
    return [
        replace(run, method=method, path=[(0, weights)], accuracy=float(accuracy))
        for method, found in final.items()
        for run, weights, accuracy in zip(
            trained, found, accuracies(found, setting.noisy_labels, test), strict=True
        )
    ]


def _certified(name: str, rows: Array, labels: Array, seed: int) -> Array:
    """What the library releases at the report's epsilon and delta, with a proof."""
    weights = []
    for repeat, (points, y) in enumerate(zip(rows, labels, strict=True)):
        settings = PrivateLogisticRegression(
            epsilon=EPSILON,
            delta=DELTA,
            mechanism=name,
            l2="auto" if name == "objective" else 2 * RIDGE,  # the report's is too weak for that theorem
            x_norm=math.sqrt(2),
            classes=(-1.0, 1.0),
            random_state=seed + repeat,
        )
        with measured_only():
            model = settings.fit(points[:, :2], y)
        weights.append([*model.coef_.ravel(), *np.ravel(model.intercept_)])
    return np.asarray(weights)


def accuracies_of(runs: Sequence[Run], setting: PublishedAccuracy, method: str) -> Array:
    return np.array([run.accuracy for run in runs if run.fits(setting, method)])


def by_constant(runs: Sequence[Run]) -> dict[float, Array]:
    study = [run for run in runs if run.part == STUDY]
    return {
        c: np.array([run.accuracy for run in study if run.constant == c])
        for c in sorted({r.constant for r in study})
    }
