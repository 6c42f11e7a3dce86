"""The tables of G. Zhang's course report (CS227r, Harvard 2017) on private SGD in the plane.

The report's programs are run again as simulations with numpy's noise. They are no mechanisms of this library and
release nothing; what they promise, and what they really cost, is in the tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from dperm.models.atomic import atomic_path
from dperm_papers.reproduce.item import Bench, Item, Report
from dperm_papers.reproduce.published import REPORT_TABLES
from dperm_papers.reproduce.report_drawing import Trajectories, animate, draw
from dperm_papers.reproduce.report_prices import true_price
from dperm_papers.reproduce.report_runs import FULL, QUICK, Run, by_constant, run_beside, run_programs
from dperm_papers.reproduce.report_sections import (
    accuracy_section,
    checks,
    constant_section,
    threshold_section,
)
from dperm_papers.reproduce.report_simulation import BATCH, METHODS, NON_PRIVATE, PRIVATE, TRUTH

PAPER = "G. Zhang, Differentially private stochastic gradient descent, report of CS227r (Harvard 2017)"


def _report_tables(bench: Bench) -> Report:
    size = QUICK if bench.quick else FULL
    progress = bench.progress("descent, certified fits, accounting")
    progress(0, 4)
    runs: list[Run] = []
    for done, n_rows in enumerate(sorted({setting.n_rows for setting in REPORT_TABLES})):
        runs += run_programs(n_rows, size, bench.seed)
        progress(done + 1, 4)
    trajectories = _trajectories(runs)
    for setting in REPORT_TABLES:
        runs += run_beside(setting, [run for run in runs if run.fits(setting, NON_PRIVATE)], bench.seed)
    progress(3, 4)
    keys = {(run.n_rows, run.constant) for run in runs}
    prices = {(n, c, b): true_price(n, c, b, size.draws) for n, c in sorted(keys) for b in (1, BATCH)}
    progress(4, 4)
    files = [bench.folder / name for name in ("results.parquet", "figure.png", "learning.gif")]
    with atomic_path(files[0]) as unfinished:
        pq.write_table(pa.Table.from_pylist([run.row for run in runs]), unfinished)
    draw(trajectories, by_constant(runs), prices, files[1])
    animate(trajectories, files[2])
    return Report(
        sections=(
            *(accuracy_section(setting, runs, prices) for setting in REPORT_TABLES),
            threshold_section(runs),
            constant_section(runs, prices),
        ),
        checks=tuple(checks(runs, prices)),
        files=tuple(files),
    )


def _trajectories(runs: Sequence[Run]) -> Trajectories:
    """The first run of the first table."""
    first = {m: next(run for run in runs if run.fits(REPORT_TABLES[0], m)) for m in METHODS}
    some = first[PRIVATE]
    return Trajectories(
        truth=TRUTH, rows=some.points, labels=some.labels, paths={m: run.path for m, run in first.items()}
    )


ITEMS = {
    "report-tables": Item(
        name="report-tables",
        title="Private SGD in the plane: accuracy, learned thresholds, the constant c², and the ε really paid",
        paper=PAPER,
        run=_report_tables,
        published="Published accuracies, of one run or three, are in the tables; of the thresholds we have no numbers.",
        differs=(
            "Private SGD and 'objective perturbation' are simulations of the report's programs: step 0.2, "
            "batches of 20 without repetition, n² steps from (0, 1, -0.5), no projection, no regulariser in "
            "the private one. They are shown because they were published, not because they are private.",
            "ε really is for replace-one and gradients of norm up to √3, which rows (x1, x2, 1) have; the "
            "report's noise takes the norm to be 1. It drops the factor n² from noise and gradient alike, "
            "which changes nothing, and c² = 32 of Bassily, Smith & Thakurta for 1/400, which changes "
            "everything. δ = 0.1 is no protection by itself: a mechanism that publishes each row with "
            "probability 0.1 has it.",
            "Exact values come from privacy-loss distributions. Where ε is above 20 (≈) it is a Monte Carlo "
            "estimate from the same pair of distributions, since their composition on a grid takes minutes; "
            "its error is about 1 or 2 %.",
            "Whether the program for batches added its noise to the mean gradient, as here, or to each row, we "
            "do not know; for one row a step, as the report writes, the two are the same.",
            "'Objective perturbation' draws its noise anew at every step, from a direction that is not "
            "uniform, without the slack term: no theorem covers it, so it has no ε. 'objective, certified' is "
            "the mechanism meant.",
            "Noise at c² = 1/400 costs less than the regulariser of the non-private program does: where "
            "private SGD is ahead of SGD here, it is behind SGD without a regulariser. The published order "
            "rests on one run a method.",
            "The report's study of c² starts each c² at the weights of the one before; ours starts afresh.",
            "How the report made its labels noisy is not known: here the score gets normal noise of scale "
            "0.34, with which the true line is about as accurate as the report's best method. That the levels "
            "of this table agree is no evidence.",
        ),
    ),
}
