"""Frank-Wolfe on sparse rows: lazy steps against plain ones, the whole fit. ``python -m benchmarks.lazy_steps``."""

from collections.abc import Iterator

import numpy as np

from benchmarks.sparse import rows
from benchmarks.timing import HEADER, Result, interleaved
from dperm.engine import SparseRows
from dperm.losses import Logistic
from dperm.mechanisms import FrankWolfe, Job
from dperm.privacy import Budget, Gate
from dperm.problem import Problem

N, COLUMNS, ENTRIES, STEPS, ROUNDS = 100_000, 47_236, 76, 200, 3


def run() -> Iterator[Result]:
    X, _ = rows(N, COLUMNS, ENTRIES)
    rng = np.random.default_rng(3)
    common = np.argsort(-np.bincount(X.indices, minlength=COLUMNS))[20:400]
    truth = np.zeros(COLUMNS)
    truth[rng.choice(common, 60, replace=False)] = 20 * rng.standard_normal(60)
    margin = X @ truth
    y = np.where(rng.random(N) < 1 / (1 + np.exp(np.median(margin) - margin)), 1.0, -1.0)
    problem = Problem(loss=Logistic(), l2=0.0, x_norm=1.0, intercept=0.0, n_rows=N, n_features=COLUMNS)
    table = SparseRows(X, y, row_map=problem.row_map, n_rows=N)
    for epsilon in (1.0, 10.0):

        def fit(lazy, epsilon=epsilon):
            mechanism = FrankWolfe(steps=STEPS, radius=40.0, lazy=lazy)
            return mechanism.run(
                [Job(plan=mechanism.plan(problem, Budget(epsilon, 1e-6)))], table, Gate.system()
            )

        own, plain, ratio = interleaved(lambda f=fit: f(True), lambda f=fit: f(False), ROUNDS)
        name = f"lazy step, {N:,} x {COLUMNS:,}, epsilon {epsilon:g}"
        yield Result(name, 0, own / STEPS, "plain step", plain / STEPS, ratio, 0.6)


if __name__ == "__main__":
    print(HEADER)
    for result in run():
        print(result, flush=True)
