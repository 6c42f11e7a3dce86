"""One simulated table, one private fit, and whether its intervals hold the true coefficients. NOT PRIVATE."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from dperm.datasets import load_dataset
from dperm.engine import open_rows
from dperm.losses import ClippedSquared, Logistic, Loss
from dperm.mechanisms import Job, Plan, resolve
from dperm.mechanisms.inference import curvature_from_release
from dperm.models.intervals.equations import equation_of
from dperm.models.intervals.first_order import CurvedRows, Ends, Equation, ends
from dperm.privacy import Budget, Gate
from dperm.problem import Problem
from dperm.schema import encode
from dperm_papers.reproduce import data

Floats = NDArray[np.float64]

DELTA, LEVEL, REACH = 1e-6, 0.95, 1.959964
LOGISTIC, LINEAR = "logistic", "linear"
LOSSES: dict[str, Loss] = {LOGISTIC: Logistic(), LINEAR: ClippedSquared()}
LEAST_SURE = (
    1.0  # noise level beyond which no intervals are computed, not even to see whether they would be right
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is fitted: all of it public, so that one plan serves every repeat."""

    kind: str
    n_rows: int
    n_features: int
    epsilon: float
    mechanism: str = "auto"

    @property
    def key(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """What came of one table. Of ``plain`` intervals neither noise nor penalty was thought of."""

    noise_level: float
    found: Ends | None
    plain: tuple[Floats, Floats] | None
    fit_seconds: float
    interval_seconds: float

    def holds(self, truth: Floats) -> NDArray[np.bool_]:
        assert self.found is not None
        return (self.found.low <= truth) & (truth <= self.found.high)


@lru_cache(maxsize=64)
def planned(task: Task) -> Plan:
    budget, mechanism = Budget(task.epsilon, DELTA), resolve(task.mechanism)
    problem = Problem.for_table(task.n_rows, task.n_features, loss=LOSSES[task.kind], l2=0.0, x_norm=1.0)
    problem = mechanism.regularised(problem, budget, inference=True)
    return mechanism.plan(problem, budget, inference=True).trained_by


def targets(kind: str, X: Floats, truth: Floats, spread: float, rng: np.random.Generator) -> Floats:
    """Drawn from the model whose coefficients, the intercept last, are ``truth``."""
    score = X @ truth[:-1] + truth[-1]
    if kind == LINEAR:
        return np.asarray(score + spread * rng.standard_normal(len(score)))
    return np.where(rng.random(len(score)) < expit(score), 1.0, -1.0)


def trial(task: Task, X: Floats, y: Floats, seed: np.random.SeedSequence) -> Trial:
    """Fit as ``PrivateLogisticRegression(inference=True)`` and ``PrivateLinearRegression`` do, with seeded noise."""
    plan = planned(task)
    problem, started = plan.problem, time.perf_counter()
    (outcome,) = plan.mechanism.run([Job(plan=plan)], open_rows(X, y, problem), Gate.seeded(seed))
    fitted = time.perf_counter()
    assert plan.inference is not None
    assert plan.noise is not None
    assert outcome.curvature_release is not None
    curvature = curvature_from_release(plan.inference.stated, problem.n_columns, outcome.curvature_release)
    equation = equation_of(
        plan.mechanism, problem, plan.settings, plan.noise.scale, outcome.weights, curvature
    )
    units = np.eye(problem.n_columns)
    units[-1, -1] = problem.intercept
    found = None
    if equation.noise_level <= LEAST_SURE:
        curved = None
        if task.kind == LOGISTIC:
            curved = CurvedRows.of(equation.hessian, problem.intercept, problem.x_norm, problem.n_rows)
        found = ends(equation, units, LEVEL, curved)
    return Trial(
        noise_level=equation.noise_level,
        found=found,
        plain=_plain(equation, units) if found is not None else None,
        fit_seconds=fitted - started,
        interval_seconds=time.perf_counter() - fitted,
    )


def _plain(equation: Equation, units: Floats) -> tuple[Floats, Floats]:
    """As if weights were those of a minimiser without penalty and without noise."""
    at = units @ equation.weights
    far = REACH * np.sqrt(np.einsum("ij,jk,ik->i", units, equation.sampling, units))
    return at - far, at + far


Draw = Callable[[np.random.Generator, int], Floats]
"""Rows of norm at most 1, as many as asked for."""


def arcsine(rng: np.random.Generator, n_rows: int) -> Floats:
    """One feature in [-1, 1], 2z - 1 with z ~ Beta(1/2, 1/2)."""
    return np.asarray(2 * rng.beta(0.5, 0.5, (n_rows, 1)) - 1)


# Made-up settings of many kinds, on which the rule of when to say nothing was chosen, leaving one out at a time.

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


# Every simulation of the study of intervals: the published grid, the same for numbers, and two tables of people.

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
