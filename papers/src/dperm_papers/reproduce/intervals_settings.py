"""Made-up settings of many kinds, on which the rule of when to say nothing was chosen, leaving one out at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm_papers.reproduce.intervals_trials import (
    LINEAR,
    LOGISTIC,
    Draw,
    Floats,
    Task,
    targets,
    trial,
)

LEVELS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
"""Noise levels up to which intervals might be given."""

LEAST = 0.94  # coverage of the intervals that a looser rule adds
KINDS = ("arcsine", "normal", "together", "rare", "skewed")


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    place: int
    task: Task
    rows: str
    truth: Floats


def drawn_settings(count: int, seed: int) -> list[Setting]:
    """Any number of features, shape of rows, size of coefficients, number of rows and budget."""
    rng = np.random.default_rng([seed, 1])
    found = []
    for place in range(count):
        p = int(rng.choice([1, 1, 2, 3, 5, 8]))
        kind = LOGISTIC if rng.random() < 0.75 else LINEAR
        size = float(rng.choice([0.3, 1.0, 2.0, 4.0])) if kind == LOGISTIC else 0.3
        slopes = size * rng.choice([-1, 1], p) * rng.uniform(0.5, 1.2, p) * math.sqrt(p)
        task = Task(
            kind=kind,
            n_rows=int(rng.choice([500, 1000, 2000, 5000])),
            n_features=p,
            epsilon=float(rng.choice([0.1, 0.3, 1.0, 3.0])),
        )
        middle = rng.uniform(-1, 1) * (1.5 if kind == LOGISTIC else 0.2)
        found.append(
            Setting(place=place, task=task, rows=str(rng.choice(KINDS)), truth=np.append(slopes, middle))
        )
    return found


def rows_of(kind: str, p: int) -> Draw:
    """Rows of p features whose norm is at most 1; longer ones are scaled down, so the truth is that of these."""

    def draw(rng: np.random.Generator, n_rows: int) -> Floats:
        X: NDArray[Any]
        if kind == "arcsine":
            X = 2 * rng.beta(0.5, 0.5, (n_rows, p)) - 1
        elif kind == "normal":
            X = 0.5 * rng.standard_normal((n_rows, p))
        elif kind == "together":
            X = 0.3 * rng.standard_normal((n_rows, 1)) + 0.4 * rng.standard_normal((n_rows, p))
        elif kind == "rare":
            X = 1.0 * (rng.random((n_rows, p)) < np.linspace(0.1, 0.6, p))
        else:
            X = np.minimum(rng.exponential(0.3, (n_rows, p)), 1.0)
        X = X / math.sqrt(p)
        return np.asarray(X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None])

    return draw


def run_setting(setting: Setting, repeats: int, seed: int) -> Iterator[dict[str, Any]]:
    """Of each repeat: how noisy its curvature was, how many intervals there are and how many hold the truth."""
    draw = rows_of(setting.rows, setting.task.n_features)
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, 2, setting.place, repeat])
        X = draw(rng, setting.task.n_rows)
        y = targets(setting.task.kind, X, setting.truth, 0.1, rng)
        came = trial(setting.task, X, y, np.random.SeedSequence([seed, 3, setting.place, repeat]))
        held = np.zeros(0, bool) if came.found is None else came.holds(setting.truth)
        yield {
            "part": "settings",
            "place": setting.place,
            "kind": setting.task.kind,
            "rows": setting.rows,
            "n_rows": setting.task.n_rows,
            "n_features": setting.task.n_features,
            "epsilon": setting.task.epsilon,
            "repeat": repeat,
            "noise_level": float(min(came.noise_level, 1e9)),
            "intervals": len(held),
            "held": int(held.sum()),
        }


Rows = Sequence[Mapping[str, Any]]


def chosen_level(rows: Rows, left_out: int | None = None) -> float:
    """The loosest level such that what each step up to it adds still covers at least ``LEAST``."""
    kept = [row for row in rows if row["place"] != left_out]
    best, low = LEVELS[0], 0.0
    for level in LEVELS:
        share = coverage([row for row in kept if low < row["noise_level"] <= level])
        if not share >= LEAST:
            break
        best, low = level, level
    return best


def coverage(rows: Rows) -> float:
    told = sum(row["intervals"] for row in rows)
    return sum(row["held"] for row in rows) / told if told else math.nan
