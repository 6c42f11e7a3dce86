"""The report's tables with ours beside them, and what of it holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dperm.experiments.metrics import with_error
from dperm.experiments.series import mean_and_error
from dperm_papers.reproduce.item import Check, Section
from dperm_papers.reproduce.published import (
    REPORT_CONSTANTS,
    REPORT_TABLES,
    TEST_POINTS,
    PublishedAccuracy,
)
from dperm_papers.reproduce.report_prices import Prices
from dperm_papers.reproduce.report_runs import (
    CERTIFIED,
    STUDY_ROWS,
    TRUE_LINE,
    Run,
    accuracies_of,
    by_constant,
)
from dperm_papers.reproduce.report_simulation import (
    BATCH,
    DELTA,
    EPSILON,
    METHODS,
    NON_PRIVATE,
    OBJECTIVE,
    PLAIN,
    PRIVATE,
    TRUTH,
)

ERROR = "mean ± one standard error of the mean over runs"


def accuracy_section(setting: PublishedAccuracy, runs: Sequence[Run], prices: Prices) -> Section:
    published = dict(zip(METHODS, setting.correct, strict=True))
    row, batch = (prices[setting.n_rows, setting.constant, b] for b in (1, BATCH))
    really = {
        NON_PRIVATE: "none",
        PRIVATE: f"{row} (one row a step), {batch} (batches of {BATCH})",
        OBJECTIVE: "none proved",
        PLAIN: "none",
        **dict.fromkeys(CERTIFIED.values(), f"{EPSILON:g}"),
        TRUE_LINE: "-",
    }
    rows = []
    for method, epsilon in really.items():
        right = 100 * accuracies_of(runs, setting, method)
        there = f"{100 * published[method] / TEST_POINTS:.2f}" if method in published else "-"
        rows.append((method, with_error(*mean_and_error(right, np.arange(len(right))), 2), there, epsilon))
    kind = "noisy labels" if setting.noisy_labels else "labels by the line"
    return Section(
        title=f"accuracy, %, {ERROR}: n = {setting.n_rows}, {kind}, c² = {_fraction(setting.constant)}, "
        f"ε claimed {EPSILON:g}, δ = {DELTA:g}",
        columns=("method", "ours", "published", "ε really"),
        rows=tuple(rows),
    )


def threshold_section(runs: Sequence[Run]) -> Section:
    """The lines that were learned with n = 200, scaled to the constant of the true one."""
    rows = []
    for method in (*METHODS, *CERTIFIED.values()):
        for noisy in (False, True):
            mine = [
                run
                for run in runs
                if run.method == method and run.n_rows == 200 and run.noisy_labels == noisy
            ]
            weights = np.array([run.weights for run in mine])
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


def constant_section(runs: Sequence[Run], prices: Prices) -> Section:
    rows = []
    for constant, right in by_constant(runs).items():
        there = 100 * np.array(REPORT_CONSTANTS[constant]) / TEST_POINTS
        rows.append(
            (
                _fraction(constant),
                with_error(*mean_and_error(100 * right, np.arange(len(right))), 1, 1),
                f"{there.mean():.1f}",
                " ".join(f"{value:.1f}" for value in there),
                str(prices[STUDY_ROWS, constant, 1]),
                str(prices[STUDY_ROWS, constant, BATCH]),
            )
        )
    return Section(
        title=f"private SGD over c², n = 100, accuracy in %, {ERROR}; ε claimed {EPSILON:g} and δ = {DELTA:g} "
        "throughout",
        columns=(
            "c²",
            "ours",
            "published mean",
            "its three runs",
            "ε, one row a step",
            f"ε, batches of {BATCH}",
        ),
        rows=tuple(rows),
    )


def checks(runs: Sequence[Run], prices: Prices) -> list[Check]:
    checks = []
    for setting in REPORT_TABLES:
        plain, private = (accuracies_of(runs, setting, m) for m in (NON_PRIVATE, PRIVATE))
        published = np.array(setting.correct) / TEST_POINTS
        name = f"n = {setting.n_rows}, c² = {_fraction(setting.constant)}" + (
            ", noisy labels" if setting.noisy_labels else ""
        )
        bare = accuracies_of(runs, setting, PLAIN)
        checks.append(
            Check(
                claim=f"{name}: private SGD is below SGD without regulariser, which it lacks too "
                f"({100 * private.mean():.1f} against {100 * bare.mean():.1f} %)",
                holds=bool(bare.mean() > private.mean()),
            )
        )
        checks.append(
            Check(
                claim=f"{name}: private SGD is below SGD on average, as published ({100 * private.mean():.1f} against "
                f"{100 * plain.mean():.1f} %)",
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
    accuracy = by_constant(runs)
    first, last = min(accuracy), max(accuracy)
    checks.append(
        Check(
            claim=f"accuracy falls with c²: {100 * accuracy[first].mean():.0f} % at {_fraction(first)}, "
            f"{100 * accuracy[last].mean():.0f} % at {_fraction(last)}",
            holds=bool(accuracy[first].mean() > accuracy[last].mean() + 0.1),
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


def _fraction(constant: float) -> str:
    return f"{constant:g}" if constant >= 1 else f"1/{round(1 / constant)}"
