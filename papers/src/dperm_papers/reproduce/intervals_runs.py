"""Every simulation of the study of intervals: the published grid, the same for numbers, and two tables of people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from sklearn.linear_model import LogisticRegression

from dperm.datasets import encode, load_dataset
from dperm_papers.reproduce import data
from dperm_papers.reproduce.intervals_trials import (
    LINEAR,
    LOGISTIC,
    REACH,
    Floats,
    Task,
    arcsine,
    targets,
    trial,
)

TRUTH = {LOGISTIC: np.array([2.0, 0.5]), LINEAR: np.array([0.5, 0.1])}
SPREAD = 0.12  # of a number around its line, in half ranges
EARNINGS = (0.0, 80.0)
"""What an hour's work is worth, in dollars: the range that is declared for CPS."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is run."""

    repeats: int
    n_rows: tuple[int, ...]
    epsilons: tuple[float, ...]
    tables: tuple[tuple[str, str, int], ...]
    table_repeats: int
    settings: int
    setting_repeats: int
    most_rows: int | None = None


TABLES = (
    ("adult", LOGISTIC, 5),
    ("adult", LOGISTIC, 10),
    ("adult", LOGISTIC, 20),
    ("cps", LOGISTIC, 5),
    ("cps", LINEAR, 5),
)
FULL = Size(
    repeats=1000,
    n_rows=(500, 1000, 2000),
    epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
    tables=TABLES,
    table_repeats=200,
    settings=120,
    setting_repeats=100,
)
QUICK = Size(
    repeats=100,
    n_rows=(500, 2000),
    epsilons=(0.3, 1.0, 10.0),
    tables=(TABLES[0], TABLES[4]),
    table_repeats=20,
    settings=12,
    setting_repeats=30,
    most_rows=10_000,
)


def run_cell(task: Task, repeats: int, seed: int) -> Iterator[dict[str, Any]]:
    """One feature and an intercept: the interval of the slope, and that of the intercept beside it."""
    truth = TRUTH[task.kind]
    for repeat in range(repeats):
        key = [seed, 4, task.n_rows, round(1000 * task.epsilon), repeat, task.kind == LINEAR]
        rng = np.random.default_rng(key)
        X = arcsine(rng, task.n_rows)
        y = targets(task.kind, X, truth, SPREAD, rng)
        came = trial(task, X, y, np.random.SeedSequence([*key, 1]))
        row: dict[str, Any] = {
            "part": "grid",
            **task.key,
            "repeat": repeat,
            "noise_level": float(min(came.noise_level, 1e9)),
            "fit_seconds": came.fit_seconds,
            "interval_seconds": came.interval_seconds,
        }
        for place, name in enumerate(("slope", "intercept")):
            for kind in ("low", "high", "privacy", "plain_low", "plain_high"):
                row[f"{name}_{kind}"] = None
            if came.found is not None and came.plain is not None:
                row[f"{name}_low"] = float(came.found.low[place])
                row[f"{name}_high"] = float(came.found.high[place])
                row[f"{name}_privacy"] = float(came.found.privacy[place])
                row[f"{name}_plain_low"], row[f"{name}_plain_high"] = (
                    float(end[place]) for end in came.plain
                )
        yield row


def people(name: str, kind: str, n_features: int, most_rows: int | None) -> tuple[Floats, Floats, float]:
    """Rows of that many columns, the coefficients of a model that was fitted to them, and the spread around it.

    Columns are taken one after the other, each the one that those before tell least of, and scaled by one number so
    that the longest row has norm 1.
    """
    records = data.load(name)
    if most_rows is not None:
        records = records.sample(most_rows)
    everything = np.asarray(records.X, np.float64)
    order = qr(everything - everything.mean(axis=0), mode="economic", pivoting=True)[2]
    X = everything[:, np.sort(order[:n_features])]
    X = X / np.linalg.norm(X, axis=1).max()
    if kind == LOGISTIC:
        fitted = LogisticRegression(C=1e3, max_iter=2000).fit(X, records.y)
        return X, np.append(fitted.coef_[0], fitted.intercept_[0]), 0.0
    low, high = EARNINGS
    y = (2 * _earnings(most_rows) - low - high) / (high - low)
    Z = np.column_stack([X, np.ones(len(X))])
    truth, *_ = np.linalg.lstsq(Z, y, rcond=None)
    return X, truth, float(np.std(y - Z @ truth))


def _earnings(most_rows: int | None) -> Floats:
    """The target of CPS as a number, in the order of the rows."""
    found = load_dataset("cps")
    y = np.asarray(found.table["earnings"].to_numpy(), np.float64)
    assert len(encode(found.table, found.schema.plain())) == len(y)
    records = data.Records(name="cps", X=np.arange(len(y))[:, None], y=y)
    return np.asarray((records if most_rows is None else records.sample(most_rows)).y)


def run_people(
    name: str, kind: str, n_features: int, most_rows: int | None, repeats: int, epsilon: float, seed: int
) -> Iterator[dict[str, Any]]:
    """The rows as they are, targets drawn from a model that was fitted to them: the truth is known."""
    X, truth, spread = people(name, kind, n_features, most_rows)
    task = Task(kind=kind, n_rows=len(X), n_features=n_features, epsilon=epsilon)
    without = _width_without_privacy(kind, X, truth, spread)
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, 5, n_features, repeat])
        y = targets(kind, X, truth, spread, rng)
        came = trial(task, X, y, np.random.SeedSequence([seed, 6, n_features, repeat]))
        row: dict[str, Any] = {
            "part": "people",
            "name": name,
            **task.key,
            "repeat": repeat,
            "noise_level": float(min(came.noise_level, 1e9)),
            "fit_seconds": came.fit_seconds,
            "interval_seconds": came.interval_seconds,
            "coverage": None,
            "plain_coverage": None,
            "width": None,
            "wider": None,
        }
        if came.found is not None and came.plain is not None:
            width = came.found.high - came.found.low
            row["coverage"] = float(came.holds(truth).mean())
            row["plain_coverage"] = float(((came.plain[0] <= truth) & (truth <= came.plain[1])).mean())
            row["width"] = float(np.median(width))
            row["wider"] = float(np.median(width / without))
        yield row


def _width_without_privacy(kind: str, X: Floats, truth: Floats, spread: float) -> Floats:
    """Of the usual interval, at the true coefficients."""
    Z = np.column_stack([X, np.ones(len(X))])
    covariance: NDArray[Any]
    if kind == LINEAR:
        covariance = spread**2 * np.linalg.inv(Z.T @ Z)
    else:
        chance = 1 / (1 + np.exp(-(Z @ truth)))
        covariance = np.linalg.inv((Z * (chance * (1 - chance))[:, None]).T @ Z)
    return np.asarray(2 * REACH * np.sqrt(np.diag(covariance)))
