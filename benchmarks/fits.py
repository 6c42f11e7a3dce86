"""Whole fits against scikit-learn, and a whole privacy-utility study against separate fits."""

import subprocess
import sys

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.timing import Result, interleaved
from dperm import PrivateLogisticRegression
from dperm.datasets import load_dataset
from dperm.engine import open_rows
from dperm.errors import DataUnavailable
from dperm.experiments.splits import group_repeats, training_mask
from dperm.losses import Logistic
from dperm.mechanisms import RSGDAR, Job
from dperm.privacy import Budget, Gate
from dperm.problem import INTERCEPT_SCALE, Problem

EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0, 5.0)
FOLDS, REPEATS = 5, 20


def adult_like() -> tuple[np.ndarray, np.ndarray, str]:
    """48,842 x 124 one-hot rows of norm at most one, 14 attributes with uneven categories, a linear signal."""
    rng = np.random.default_rng(0)
    columns = []
    for size in (16, 7, 14, 6, 5, 2, 41, 9, 9, 5, 4, 3, 2, 1):
        chosen = rng.choice(size, size=48_842, p=rng.dirichlet(np.full(size, 0.7)))
        columns.append(np.eye(size)[chosen])
    X = np.hstack(columns) / np.sqrt(len(columns))
    y = 4 * X @ rng.normal(size=X.shape[1]) + rng.logistic(size=len(X)) > 0
    return X, y.astype(int), "synthetic 48,842 x 124"


def easy() -> tuple[np.ndarray, np.ndarray, str]:
    """Dense Gaussian rows of norm one: so well conditioned that L-BFGS stops after a few iterations."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(48_842, 124))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ rng.normal(size=124) + 0.3 * rng.normal(size=len(X)) > 0
    return X, y.astype(int), "Gaussian 48,842 x 124"


def one_fit(X: np.ndarray, y: np.ndarray, name: str, target: float | None, rounds: int) -> Result:
    ours = PrivateLogisticRegression(mechanism="rsgd-ar", classes=[0, 1])
    theirs = LogisticRegression(solver="lbfgs")
    timed = interleaved(lambda: ours.fit(X, y), lambda: theirs.fit(X, y), rounds)
    return Result(f"rsgd-ar fit, {name}", 0, timed[0], "scikit-learn lbfgs fit", timed[1], timed[2], target)


def objective_fit(X: np.ndarray, y: np.ndarray, name: str) -> Result:
    """Objective perturbation against lbfgs at the same l2, run to the same norm of the mean gradient."""
    ours = PrivateLogisticRegression(mechanism="objective", classes=[0, 1]).fit(X, y)
    report = ours.privacy_
    reached = report.settings["tolerance"] * report.lipschitz * report.row_norm / len(X)
    theirs = LogisticRegression(solver="lbfgs", C=1 / (len(X) * report.l2), tol=reached, max_iter=10_000)
    timed = interleaved(lambda: ours.fit(X, y), lambda: theirs.fit(X, y), 5)
    return Result(
        f"objective fit, {name}", 0, timed[0], f"lbfgs fit, gradient {reached:.0e}", timed[1], timed[2], 2
    )


def first_call() -> str:
    """What the first fit of a process costs beyond later ones, kernels cached on disk."""
    code = (
        "import time, numpy as np, dperm; M = dperm.PrivateLogisticRegression(mechanism='rsgd-ar', classes=[0, 1]);"
        "X = np.full((100, 124), 0.01); y = np.arange(100) % 2; t = time.perf_counter(); M.fit(X, y);"
        "a = time.perf_counter(); M.fit(X, y); print(a - t, time.perf_counter() - a)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    first, later = np.median([[float(v) for v in run.stdout.split()] for run in runs], axis=0)
    return f"first fit of a process: {first - later:.2f} s more than later ones (kernels from disk)"


def study(separate_fits: int, seed: int | None) -> Result:
    """All folds, repeats and epsilons of RSGD-AR in batches against one fit after the other, same noise source."""
    try:
        data = load_dataset("adult", fetch=False, spline=0)
        X, y, name = data.X, (data.y == data.classes[1]).astype(int), "Adult"
    except DataUnavailable:
        X, y, name = adult_like()
    signs = np.where(y == 1, 1.0, -1.0)
    n, mechanism, gate = len(X), RSGDAR(), Gate.from_random_state(seed)

    def batched() -> None:
        plans = {}
        for group in group_repeats(REPEATS, FOLDS):
            mask = training_mask(name, group, n, FOLDS)
            jobs = []
            for model, n_rows in enumerate(mask.sum(axis=0).tolist()):
                for epsilon in EPSILONS:
                    if (n_rows, epsilon) not in plans:
                        problem = Problem(
                            loss=Logistic(),
                            l2=1e-3,
                            x_norm=1.0,
                            n_rows=n_rows,
                            n_features=X.shape[1],
                            intercept=INTERCEPT_SCALE,
                        )
                        plans[n_rows, epsilon] = mechanism.plan(problem, Budget(epsilon, 1e-8))
                    jobs.append(Job(plan=plans[n_rows, epsilon], model=model))
            rows = open_rows(X, signs, problem, mask)
            assert len(mechanism.run(jobs, rows, gate)) == len(jobs)

    mask = training_mask(name, range(1), n, FOLDS)
    folds = [(X[mask[:, k]], y[mask[:, k]]) for k in range(FOLDS)]

    def separate() -> None:
        for i in range(separate_fits):
            X_fold, y_fold = folds[i % FOLDS]
            PrivateLogisticRegression(
                epsilon=EPSILONS[i % len(EPSILONS)],
                delta=1e-8,
                mechanism=mechanism,
                classes=[0, 1],
                random_state=seed,
            ).fit(X_fold, y_fold)

    n_models = len(EPSILONS) * FOLDS * REPEATS
    scale = n_models / separate_fits
    timed = interleaved(batched, separate, 3)
    return Result(
        f"{n_models} models, batched, {'exact' if seed is None else 'seeded'} noise",
        0,
        timed[0],
        f"{n_models} fits ({separate_fits} timed)",
        timed[1] * scale,
        timed[2] / scale,
        None if seed is None else 1 / 25,
    )


def run() -> list[Result]:
    fits = [one_fit(*adult_like(), 0.6, 11), one_fit(*easy(), None, 11), objective_fit(*adult_like())]
    return [*fits, study(60, seed=0), study(60, seed=None)]
