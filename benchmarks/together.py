"""Steps that keep margins, and jobs that run side by side, against the plain way on the same rows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.fits import adult_like
from benchmarks.timing import Result, interleaved
from dperm.engine import Rows, open_rows
from dperm.engine.base.engine import CoordinatePass, WholeGradientPass
from dperm.experiments.splits import training_mask
from dperm.losses import Logistic
from dperm.mechanisms import Job, resolve
from dperm.privacy import Budget, Gate
from dperm.problem import Problem

ROWS, FEATURES, FOLDS = 40_000, 120, 5


def jobs_of(name: str, repeats: int, **settings: Any) -> tuple[list[Job[Any]], Rows]:
    """Two budgets for each of the folds and repeats."""
    X, y, _ = adult_like()
    X, targets = np.ascontiguousarray(X[:ROWS, :FEATURES]), 2.0 * y[:ROWS] - 1
    mask = training_mask("together", range(repeats), ROWS, FOLDS)
    mechanism = replace(resolve(name), **settings)
    jobs = []
    for epsilon in (0.5, 1.0):
        for k in range(mask.shape[1]):
            problem = Problem.for_table(int(mask[:, k].sum()), FEATURES, loss=Logistic(), l2=1e-3, x_norm=1.0)
            jobs.append(Job(plan=mechanism.plan(problem, Budget(epsilon, 1e-6)), model=k))
    return jobs, open_rows(X, targets, jobs[0].plan.problem, mask)


def side_by_side(name: str, what: str, repeats: int, target: float, **settings: Any) -> Result:
    jobs, rows = jobs_of(name, repeats, **settings)
    run = jobs[0].plan.mechanism.run
    first, second, ratio = interleaved(
        lambda: run(jobs, rows, Gate.seeded(0)),
        lambda: [run([job], rows, Gate.seeded(0)) for job in jobs],
        3,
    )
    return Result(f"{what}, {len(jobs)} jobs", 0, first, "one after the other", second, ratio, target)


def coordinate_steps() -> Result:
    X, y, _ = adult_like()
    problem = Problem.for_table(ROWS, FEATURES, loss=Logistic(), l2=1e-3, x_norm=1.0)
    engine = open_rows(X[:ROWS, :FEATURES], 2.0 * y[:ROWS] - 1, problem).open()
    start, change = np.zeros((engine.n_columns, 1)), np.full(1, 1e-3)

    def steps(begin: Callable[[], CoordinatePass]) -> None:
        course = begin()
        for j in range(engine.n_columns):
            course.derivative(j)
            course.move(j, change)

    first, second, ratio = interleaved(
        lambda: steps(lambda: engine.coordinate_pass(Logistic(), start)),
        lambda: steps(lambda: WholeGradientPass(engine, Logistic(), start)),
        5,
    )
    return Result(f"{engine.n_columns} coordinate steps", 0, first, "a gradient each", second, ratio, 0.25)


def run() -> Iterator[Result]:
    yield coordinate_steps()
    yield side_by_side("dp-agd", "dp-agd", 2, 0.6)
    yield side_by_side("dp-gd", "standardised dp-gd", 5, 0.8, standardise=True)
    yield side_by_side("objective", "standardised objective", 5, 0.8, standardise=True)


if __name__ == "__main__":
    for result in run():
        print(result, flush=True)
