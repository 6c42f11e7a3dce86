"""The tables of G. Zhang's course report (CS227r, Harvard 2017) on private SGD in the plane.

The report's programs are run again as simulations with numpy's noise. They are no mechanisms of this library and
release nothing; what they promise, and what they really cost, is in the tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dperm.estimators.atomic import atomic_path
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.experiments.reproduce.item import Bench, Check, Item, Report, Section
from dperm.experiments.reproduce.published import REPORT_CONSTANTS, REPORT_TABLES, TEST_POINTS, PublishedAccuracy
from dperm.experiments.reproduce.report_drawing import Lesson, animate, draw
from dperm.privacy.fixed_size import fixed_size_epsilon

Array = NDArray[np.float64]

PAPER = "G. Zhang, Differentially private stochastic gradient descent, report of CS227r (Harvard 2017)"
TRUTH = np.array([2.0, 1.0, -1.7])
START = np.array([0.0, 1.0, -0.5])
EPSILON, DELTA, STEP, RIDGE, BATCH = 1.0, 0.1, 0.2, 0.0005, 20
ROW_NORM = math.sqrt(3)  # of (x1, x2, 1) in the unit square; the gradient of the logistic loss is no longer
LABEL_NOISE = 0.34  # of the score; the true line then gets the share right that the report's best method got
NON_PRIVATE, PRIVATE, OBJECTIVE = "SGD, not private", "private SGD", "'objective perturbation'"
METHODS = (NON_PRIVATE, PRIVATE, OBJECTIVE)
CERTIFIED = {"psgd": "psgd, certified", "objective": "objective, certified"}


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


def simulate(
    method: str, rows: Array, labels: Array, scales: Array, steps: int, rng: np.random.Generator
) -> list[tuple[int, Array]]:
    """The report's descent for all repeats side by side: weights (repeats, 3) after a few numbers of steps.

    ``scales`` has the noise scale of each repeat; only private SGD uses it.
    """
    repeats, n_rows, _ = rows.shape
    signed, each = rows * labels[..., None], np.arange(repeats)[:, None]
    weights = np.tile(START, (repeats, 1))
    keep = {0, steps, *np.unique(np.geomspace(1, steps, 60).round().astype(int)).tolist()}
    kept = [(0, weights)]
    for step in range(1, steps + 1):
        drawn = rng.random((repeats, n_rows)).argpartition(BATCH, axis=1)[:, :BATCH]
        batch = signed[each, drawn]
        margin = np.einsum("kbp,kp->kb", batch, weights)
        pull = 0.5 * (1 - np.tanh(margin / 2))  # 1 / (1 + exp(margin)) without overflow
        gradient = -np.einsum("kbp,kb->kp", batch, pull) / BATCH
        if method == PRIVATE:
            gradient += scales[:, None] * rng.normal(size=weights.shape)
        else:
            gradient += 2 * RIDGE * weights
        if method == OBJECTIVE:
            gradient += _fresh_noise(repeats, rng) / n_rows
        weights = weights - STEP * gradient
        if step in keep:
            kept.append((step, weights))
    return kept


def _fresh_noise(repeats: int, rng: np.random.Generator) -> Array:
    """Gamma norm, and a direction by two uniform angles, which is not uniform on the sphere: as in the report."""
    norm = rng.gamma(3, 2 / EPSILON, repeats)
    first, second = rng.uniform(0, 2 * math.pi, (2, repeats))
    return np.column_stack([np.sin(first), np.cos(first) * np.sin(second), np.cos(first) * np.cos(second)]) * (
        norm[:, None]
    )


def accuracies(weights: Array, noisy: bool, rng: np.random.Generator) -> Array:
    rows, labels = make_points(TEST_POINTS, 1, noisy, rng)
    return np.asarray((rows[0] @ weights.T * labels[0][:, None] > 0).mean(axis=0))


@dataclass(frozen=True)
class Price:
    """Epsilon at the report's delta; ``exact`` is False for the Monte Carlo estimate of a large one."""

    epsilon: float
    exact: bool

    def __str__(self) -> str:
        return f"{self.epsilon:.2g}" if self.exact else f"≈ {float(f'{self.epsilon:.2g}'):,.0f}"


LARGE = 20.0
"""From here on the estimate will do: grids for the composition of so large losses take minutes."""


def true_price(n_rows: int, constant: float, batch: int, draws: int) -> Price:
    """What n**2 steps cost, each with the report's noise on the mean gradient of ``batch`` rows."""
    multiplier = noise_scale(n_rows, constant) * batch / ROW_NORM
    estimate = estimate_epsilon(multiplier, batch / n_rows, n_rows**2, draws)
    if estimate > LARGE:
        return Price(estimate, exact=False)
    return Price(fixed_size_epsilon(multiplier, batch, n_rows, n_rows**2, DELTA), exact=True)


def estimate_epsilon(multiplier: float, share: float, steps: int, draws: int, seed: int = 0) -> float:
    """Epsilon of samples of a fixed size, replace-one, from simulated privacy losses; good for large deltas only.

    The pair of distributions is that of ``fixed_size_epsilon``: the step's normal variable, moved by
    2 / multiplier with probability ``share``, or not at all.
    """
    rng, mu = np.random.default_rng(seed), 2 / multiplier
    loss = np.zeros(draws)
    chunk = max(1, 2_000_000 // draws)
    for done in range(0, steps, chunk):
        shape = (min(chunk, steps - done), draws)
        x = rng.normal(size=shape) + mu * (rng.random(shape) < share)
        loss += np.logaddexp(math.log1p(-share), math.log(share) + mu * x - mu * mu / 2).sum(axis=0)
    low, high = 0.0, float(max(loss.max(), 0.0))
    for _ in range(60):
        middle = (low + high) / 2
        delta = -np.expm1(np.minimum(middle - loss, 0.0)).mean()
        low, high = (middle, high) if delta > DELTA else (low, middle)
    return high


@dataclass(frozen=True, kw_only=True)
class Size:
    repeats: int
    constants: tuple[float, ...]
    draws: int


FULL = Size(repeats=20, constants=tuple(REPORT_CONSTANTS), draws=2000)
QUICK = Size(repeats=8, constants=(1 / 400, 1 / 25, 1 / 2, 4.0, 32.0), draws=400)


def _report_tables(bench: Bench) -> Report:
    size = QUICK if bench.quick else FULL
    told = bench.progress("tables, c squared, accounting")
    stages = len(REPORT_TABLES) + 2
    found: list[dict[str, object]] = []
    lessons: list[Lesson] = []
    for done, setting in enumerate(REPORT_TABLES):
        told(done, stages)
        rows, lesson = _one_table(setting, size, bench.seed)
        found += rows
        lessons.append(lesson)
    told(len(REPORT_TABLES), stages)
    study = _constant_study(size, bench.seed)
    told(len(REPORT_TABLES) + 1, stages)
    keys = {(s.n_rows, s.constant) for s in REPORT_TABLES} | {(100, c) for c in size.constants}
    prices = {(n, c, b): true_price(n, c, b, size.draws) for n, c in sorted(keys) for b in (1, BATCH)}
    told(stages, stages)
    files = [bench.folder / name for name in ("results.parquet", "figure.png", "learning.gif")]
    with atomic_path(files[0]) as unfinished:
        pq.write_table(pa.Table.from_pylist([*found, *study]), unfinished)
    draw(lessons[0], _by_constant(study), prices, files[1])
    animate(lessons[0], files[2])
    return Report(
        sections=(
            *(_accuracy_section(setting, found, prices) for setting in REPORT_TABLES),
            _threshold_section(found),
            _constant_section(study, prices),
        ),
        checks=tuple(_checks(found, study, prices)),
        files=tuple(files),
    )


def _one_table(setting: PublishedAccuracy, size: Size, seed: int) -> tuple[list[dict[str, object]], Lesson]:
    """All methods on the same points; one row per method and repeat."""
    rng = np.random.default_rng([seed, setting.n_rows, round(1 / setting.constant), setting.noisy_labels])
    rows, labels = make_points(setting.n_rows, size.repeats, setting.noisy_labels, rng)
    scales = np.full(size.repeats, noise_scale(setting.n_rows, setting.constant))
    paths = {m: simulate(m, rows, labels, scales, setting.n_rows**2, rng) for m in METHODS}
    final = {method: path[-1][1] for method, path in paths.items()}
    for name, label in CERTIFIED.items():
        final[label] = _certified(name, rows, labels, seed)
    final["the true line"] = np.tile(TRUTH, (size.repeats, 1))
    test = np.random.default_rng([seed, 1])
    found: list[dict[str, object]] = []
    for method, weights in final.items():
        for repeat, (accuracy, w) in enumerate(zip(accuracies(weights, setting.noisy_labels, test), weights, strict=True)):
            found.append(
                {
                    "part": "tables",
                    "n_rows": setting.n_rows,
                    "constant": setting.constant,
                    "noisy_labels": setting.noisy_labels,
                    "method": method,
                    "repeat": repeat,
                    "accuracy": float(accuracy),
                    **{f"w{place}": float(value) for place, value in enumerate(w)},
                }
            )
    shown = {method: [(step, w[0]) for step, w in path] for method, path in paths.items()}
    return found, Lesson(truth=TRUTH, rows=rows[0], labels=labels[0], paths=shown)


def _certified(name: str, rows: Array, labels: Array, seed: int) -> Array:
    """What the library releases at the report's epsilon and delta, with a proof."""
    weights = []
    for repeat, (points, y) in enumerate(zip(rows, labels, strict=True)):
        model = PrivateLogisticRegression(
            epsilon=EPSILON,
            delta=DELTA,
            mechanism=name,
            l2=2 * RIDGE,
            x_norm=math.sqrt(2),
            classes=(-1.0, 1.0),
            random_state=seed + repeat,
        ).fit(points[:, :2], y)
        weights.append([*model.coef_.ravel(), *np.ravel(model.intercept_)])
    return np.asarray(weights)


def _constant_study(size: Size, seed: int) -> list[dict[str, object]]:
    """Private SGD for all constants side by side, n = 100."""
    rng = np.random.default_rng([seed, 2])
    constants = np.repeat(size.constants, size.repeats)
    rows, labels = make_points(100, len(constants), False, rng)
    scales = np.array([noise_scale(100, constant) for constant in constants])
    weights = simulate(PRIVATE, rows, labels, scales, 100**2, rng)[-1][1]
    right = accuracies(weights, False, rng)
    return [
        {
            "part": "c squared",
            "n_rows": 100,
            "constant": float(constant),
            "noisy_labels": False,
            "method": PRIVATE,
            "repeat": place % size.repeats,
            "accuracy": float(accuracy),
            **{f"w{i}": float(value) for i, value in enumerate(w)},
        }
        for place, (constant, accuracy, w) in enumerate(zip(constants, right, weights, strict=True))
    ]


Prices = dict[tuple[int, float, int], Price]


def _runs(found: Sequence[dict[str, object]], setting: PublishedAccuracy, method: str) -> Array:
    return np.array(
        [
            row["accuracy"]
            for row in found
            if (row["n_rows"], row["constant"], row["noisy_labels"], row["method"])
            == (setting.n_rows, setting.constant, setting.noisy_labels, method)
        ],
        dtype=np.float64,
    )


def _accuracy_section(
    setting: PublishedAccuracy, found: Sequence[dict[str, object]], prices: Prices
) -> Section:
    published = dict(zip(METHODS, setting.correct, strict=True))
    row, batch = (prices[setting.n_rows, setting.constant, b] for b in (1, BATCH))
    really = {
        NON_PRIVATE: "none",
        PRIVATE: f"{row} (one row a step), {batch} (batches of {BATCH})",
        OBJECTIVE: "none proved",
        **{label: f"{EPSILON:g}" for label in CERTIFIED.values()},
        "the true line": "-",
    }
    rows = []
    for method, epsilon in really.items():
        runs = 100 * _runs(found, setting, method)
        there = f"{100 * published[method] / TEST_POINTS:.2f}" if method in published else "-"
        rows.append((method, f"{runs.mean():.2f} ±{runs.std():.2f}", there, epsilon))
    kind = "noisy labels" if setting.noisy_labels else "labels by the line"
    return Section(
        title=f"accuracy, %: n = {setting.n_rows}, {kind}, c² = {_fraction(setting.constant)}, "
        f"ε claimed {EPSILON:g}, δ = {DELTA:g}",
        columns=("method", "ours", "published", "ε really"),
        rows=tuple(rows),
    )


def _threshold_section(found: Sequence[dict[str, object]]) -> Section:
    """The lines that were learned with n = 200, scaled to the constant of the true one."""
    rows = []
    for method in (*METHODS, *CERTIFIED.values()):
        for noisy in (False, True):
            mine = [
                row
                for row in found
                if row["method"] == method and row["n_rows"] == 200 and row["noisy_labels"] is noisy
            ]
            weights = np.array([[row[f"w{i}"] for i in range(3)] for row in mine], dtype=np.float64)
            scaled = weights * (TRUTH[2] / weights[:, 2:])
            middle, spread = np.median(scaled, axis=0), np.subtract(*np.percentile(scaled, [75, 25], axis=0))
            cells = [f"{m:.2f} ({s:.2f})" for m, s in zip(middle[:2], spread[:2], strict=True)]
            rows.append((method, "noisy" if noisy else "by the line", *cells))
    return Section(
        title="learned thresholds, n = 200: w1·x1 + w2·x2 = 1.7, median (interquartile range) over runs; "
        "the true one is 2·x1 + x2 = 1.7",
        columns=("method", "labels", "w1", "w2"),
        rows=tuple(rows),
    )


def _by_constant(study: Sequence[dict[str, object]]) -> dict[float, Array]:
    grouped: dict[float, list[float]] = {}
    for row in study:
        grouped.setdefault(float(str(row["constant"])), []).append(float(str(row["accuracy"])))
    return {constant: np.array(runs) for constant, runs in grouped.items()}


def _constant_section(study: Sequence[dict[str, object]], prices: Prices) -> Section:
    rows = []
    for constant, runs in _by_constant(study).items():
        there = 100 * np.array(REPORT_CONSTANTS[constant]) / TEST_POINTS
        rows.append(
            (
                _fraction(constant),
                f"{100 * runs.mean():.1f} ±{100 * runs.std():.1f}",
                f"{there.mean():.1f}",
                " ".join(f"{value:.1f}" for value in there),
                str(prices[100, constant, 1]),
                str(prices[100, constant, BATCH]),
            )
        )
    return Section(
        title=f"private SGD over c², n = 100, accuracy in %; ε claimed {EPSILON:g} and δ = {DELTA:g} throughout",
        columns=("c²", "ours", "published mean", "its three runs", "ε, one row a step", f"ε, batches of {BATCH}"),
        rows=tuple(rows),
    )


def _fraction(constant: float) -> str:
    return f"{constant:g}" if constant >= 1 else f"1/{round(1 / constant)}"


def _checks(
    found: Sequence[dict[str, object]], study: Sequence[dict[str, object]], prices: Prices
) -> list[Check]:
    checks = []
    for setting in REPORT_TABLES:
        plain, private = (_runs(found, setting, m) for m in (NON_PRIVATE, PRIVATE))
        published = np.array(setting.correct) / TEST_POINTS
        name = f"n = {setting.n_rows}, c² = {_fraction(setting.constant)}" + (
            ", noisy labels" if setting.noisy_labels else ""
        )
        checks.append(
            Check(
                claim=f"{name}: private SGD is below SGD on average, as published ({100 * plain.mean():.1f} against "
                f"{100 * private.mean():.1f} %)",
                holds=bool(plain.mean() > private.mean()),
            )
        )
        low, high = private.min(), private.max()
        checks.append(
            Check(
                claim=f"{name}: the published run of private SGD ({100 * published[1]:.1f} %) lies within ours "
                f"({100 * low:.1f} to {100 * high:.1f} %)",
                holds=bool(low <= published[1] <= high),
            )
        )
    by_constant = _by_constant(study)
    first, last = min(by_constant), max(by_constant)
    checks.append(
        Check(
            claim=f"accuracy falls with c²: {100 * by_constant[first].mean():.0f} % at {_fraction(first)}, "
            f"{100 * by_constant[last].mean():.0f} % at {_fraction(last)}",
            holds=bool(by_constant[first].mean() > by_constant[last].mean() + 0.1),
        )
    )
    for batch, words in ((1, "one row a step"), (BATCH, f"batches of {BATCH}")):
        price = prices[200, 1 / 400, batch]
        checks.append(
            Check(
                claim=f"the setting of the report's tables (n = 200, c² = 1/400) has the ε = {EPSILON:g} it claims, "
                f"{words} (ε = {price})",
                holds=price.epsilon <= EPSILON,
            )
        )
    return checks


ITEMS = {
    "report-tables": Item(
        name="report-tables",
        title="Private SGD in the plane: accuracy, learned thresholds, the constant c², and the ε really paid",
        paper=PAPER,
        run=_report_tables,
        published="Published accuracies, of one run or three, are in the tables; thresholds were published as pictures.",
        differs=(
            "Private SGD and 'objective perturbation' are simulations of the report's programs: step 0.2, batches of 20 "
            "without repetition, n² steps from (0, 1, -0.5), no projection, no regulariser in the private one. They "
            "are shown because they were published, not because they are private.",
            "ε really is for replace-one and gradients of norm up to √3, which rows (x1, x2, 1) have; the report's noise "
            "takes the norm to be 1. It drops the factor n² from noise and gradient alike, which changes nothing, and "
            "c² = 32 of Bassily, Smith & Thakurta for 1/400, which changes everything. δ = 0.1 is no protection by itself: a "
            "mechanism that publishes each row with probability 0.1 has it.",
            "Exact values come from privacy-loss distributions. Where ε is above 20 (≈) it is a Monte Carlo estimate from "
            "the same pair of distributions, since their composition on a grid takes minutes; its error is about 1 %.",
            "Whether the program for batches added its noise to the mean gradient, as here, or to each row, we do not "
            "know; for one row a step, as the report writes, the two are the same.",
            "'Objective perturbation' draws its noise anew at every step, from a direction that is not uniform, without "
            "the slack term: no theorem covers it, so it has no ε. 'objective, certified' is the mechanism meant.",
            "The report's study of c² starts each c² at the weights of the one before; ours starts afresh.",
            "How the report made its labels noisy is not known: here the score gets normal noise of scale 0.34, with which "
            "the true line is about as accurate as the report's best method. That the levels of this table agree is no "
            "evidence.",
        ),
    ),
}
