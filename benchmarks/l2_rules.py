"""How the constants behind l2="auto" were fitted: ``python -m benchmarks.l2_rules measure`` (minutes), then ``fit``.

Every mechanism is trained at a grid of l2 on parts of public tables. A rule is judged by its regret: points of
held-out accuracy below the best l2 of the grid, read between grid points on a logarithmic scale. Its constant is
chosen with one table left out and judged on that table. NOT private: this is how a rule is made, not a release.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dperm.cli.data import load
from dperm.engine import open_rows
from dperm.estimators.labels import encode_labels
from dperm.losses import Logistic
from dperm.mechanisms import DPGD, RSGDAR, SSP, BoltOn, Job, Mechanism, NoisySGD, Output, OutputGD
from dperm.privacy import Budget, Gate, SeededEntropy
from dperm.problem import Problem

TABLES = Path(__file__).resolve().parents[2] / "shared" / "data" / "more"
NAMED = ("adult", "bank", "ipums-br")
MORE = (
    "credit_risk",
    "online_shoppers",
    "hotel_bookings",
    "cardio",
    "police_stops",
    "law_school",
    "vote_2016",
)
EPSILONS, DELTA = (0.1, 0.5, 1.0, 4.0), 1e-8
L2 = np.logspace(-6, 0, 13)
SEEDS, SIZES, TEST_SHARE = 6, (15_000, 3_000), 0.25
OLD = 1e-3
MULTIPLIERS = 2.0 ** np.arange(-16, 9)
FOUND = Path("l2_rules.npz")


def measure(path: Path) -> None:
    """Accuracy by mechanism, table, epsilon, seed and l2."""
    parts = [(name, size) for name in (*NAMED, *MORE) for size in SIZES]
    shapes, results = [], np.full((len(MECHANISMS), len(parts), len(EPSILONS), SEEDS, len(L2)), np.nan)
    for t, (name, size) in enumerate(parts):
        started = time.perf_counter()
        table = load(name, None, None) if name in NAMED else _more(name)
        chosen = np.random.default_rng(0).permutation(len(table.X))[:size]
        X, signs = table.X[chosen], encode_labels(table.y, table.schema.classes)[chosen]
        n = round(len(X) * (1 - TEST_SHARE))
        shapes.append((n, X.shape[1]))
        for m, (mechanism, at) in enumerate(MECHANISMS.values()):
            results[m, t] = _accuracies(mechanism, at, (X[:n], signs[:n]), (X[n:], signs[n:]))
        print(f"{name}: {n:,} x {X.shape[1]}, {time.perf_counter() - started:.0f} s", flush=True)
    np.savez(path, names=np.array([name for name, _ in parts]), shapes=np.array(shapes), accuracy=results)


def _more(name: str):
    return load(str(TABLES / f"{name}.parquet"), str(TABLES / f"{name}.toml"), None)


def _accuracies(mechanism: Mechanism, at: Callable, training, test) -> np.ndarray:
    X, y = training
    problem = _problem(*X.shape)
    rows = open_rows(X, y, problem)
    found = np.full((len(EPSILONS), SEEDS, len(L2)), np.nan)
    for seed in range(SEEDS):
        for k, l2 in enumerate(L2):
            trained, task = at(mechanism, problem, float(l2))
            jobs = [Job(plan=trained.plan(task, Budget(epsilon, DELTA))) for epsilon in EPSILONS]
            outcomes = trained.run(jobs, rows, Gate(SeededEntropy(np.random.SeedSequence([seed, k]))))
            for e, outcome in enumerate(outcomes):
                coefficients, intercept = outcome.row_map.coefficients(outcome.weights)
                margins = outcome.row_map.margins(test[0], coefficients[:, None], np.atleast_1d(intercept))
                found[e, seed, k] = np.mean((margins[:, 0] > 0) == (test[1] > 0))
    return found


def _problem(n_rows: int, n_features: int) -> Problem:
    return Problem.for_table(n_rows, n_features, loss=Logistic(), l2=OLD, x_norm=1.0)


def _with_l2(mechanism: Mechanism, problem: Problem, l2: float) -> tuple[Mechanism, Problem]:
    from dataclasses import replace

    return mechanism, replace(problem, l2=l2)


def _with_ridge(mechanism: Mechanism, problem: Problem, l2: float) -> tuple[Mechanism, Problem]:
    from dataclasses import replace

    return replace(mechanism, ridge=l2), problem


MECHANISMS = {
    "output": (Output(), _with_l2),
    "rsgd-ar": (RSGDAR(), _with_l2),
    "output-gd": (OutputGD(), _with_l2),
    "bolt-on": (BoltOn(), _with_l2),
    "dp-gd": (DPGD(), _with_l2),
    "noisy-sgd": (NoisySGD(), _with_l2),
    "ssp": (SSP(), _with_ridge),
}


def main() -> int:
    measure(FOUND if len(sys.argv) < 3 else Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
