"""How the constants behind l2="auto" were fitted: ``python -m benchmarks.l2_rules measure`` (minutes), then ``fit``.

Every mechanism is trained at a grid of l2 on parts of public tables. A rule is judged by its regret: points of
held-out accuracy below the best l2 of the grid, read between grid points on a logarithmic scale. Its constant is
chosen with one table left out and judged on that table. NOT private: this is how a rule is made, not a release.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from dperm.cli.data import load
from dperm.engine import open_rows
from dperm.estimators.labels import encode_labels
from dperm.losses import Logistic
from dperm.mechanisms import DPGD, RSGDAR, SSP, Job, Mechanism, Output
from dperm.privacy import Budget, Gate, SeededEntropy, gaussian_mu
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
SEEDS, SIZES, TEST_SHARE = 5, (15_000, 3_000), 0.25
OLD = 1e-3
MULTIPLIERS = 2.0 ** np.arange(-16, 9, 0.5)
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
    return mechanism, replace(problem, l2=l2)


def _with_ridge(mechanism: Mechanism, problem: Problem, l2: float) -> tuple[Mechanism, Problem]:
    return replace(mechanism, ridge=l2), problem


MECHANISMS = {
    "output": (Output(), _with_l2),
    "rsgd-ar": (RSGDAR(), _with_l2),
    "dp-gd": (DPGD(), _with_l2),
    "ssp": (SSP(), _with_ridge),
}


def fit(path: Path) -> None:
    """Regret of every form of rule, its constant chosen with a table left out, beside the old l2 for all."""
    found = np.load(path)
    names, shapes = found["names"], found["shapes"]
    mean = 100 * found["accuracy"].mean(axis=3)
    n, p = shapes[:, :1].astype(float), shapes[:, 1:] + 1.0
    mu = np.array([gaussian_mu(Budget(epsilon, DELTA)) for epsilon in EPSILONS])
    forms = {
        "1 / (n mu)": 1 / (n * mu),
        "sqrt(p) / (n mu)": np.sqrt(p) / (n * mu),
        "(sqrt(p) / (n mu))^1.25": (np.sqrt(p) / (n * mu)) ** 1.25,
        "(1 / (n mu))^(2/3)": (1 / (n * mu)) ** (2 / 3),
        "constant": np.ones((len(n), len(mu))),
    }
    unit = _problem(1, 1).row_norm ** 2
    for m, mechanism in enumerate(MECHANISMS):
        old = _regret(mean[m], np.full((len(n), len(mu)), OLD))
        print(f"\n{mechanism}: l2 = {OLD:g} has regret {_shown(old)}")
        for name, form in forms.items():
            regrets = np.array([_regret(mean[m], c * unit * form) for c in MULTIPLIERS])
            whole = int(regrets.mean(axis=(1, 2)).argmin())
            left_out = np.full(old.shape, np.nan)
            for table in np.unique(names):
                mine = names == table
                left_out[mine] = regrets[regrets[:, ~mine].mean(axis=(1, 2)).argmin(), mine]
            print(f"  {name:24s} times 2^{np.log2(MULTIPLIERS[whole]):<5g} {_shown(regrets[whole])}", end="")
            print(f"; left out {left_out.mean():.2f}, worst cell {left_out.max():.1f}")


def _regret(accuracy: np.ndarray, l2: np.ndarray) -> np.ndarray:
    """By table and epsilon; ``accuracy`` has a third axis over the grid of l2."""
    return np.array(
        [
            [cell.max() - np.interp(np.log(at), np.log(L2), cell) for cell, at in zip(*row, strict=True)]
            for row in zip(accuracy, l2, strict=True)
        ]
    )


def _shown(regret: np.ndarray) -> str:
    by_epsilon = ", ".join(f"{value:.2f}" for value in regret.mean(axis=0))
    return f"{regret.mean():.2f} (at each epsilon {by_epsilon})"


def main() -> int:
    steps = {"measure": measure, "fit": fit}
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in steps:
        print("usage: python -m benchmarks.l2_rules measure|fit [FILE]", file=sys.stderr)
        return 2
    steps[sys.argv[1]](FOUND if len(sys.argv) == 2 else Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
