"""The default fit on a large table against scikit-learn's: time, and the most memory that it needs.

``python -m benchmarks.large`` or as part of ``make bench``. Each side has a process of its own, which holds the same
rows and is told when to fit, so both meet the same noise of the machine. Memory is the highest resident size during
the fit less that before the rows were made (a small fit has loaded libraries and kernels by then), over the size of the
rows as float32: the caller's own rows count once, or twice if they are float64.
"""

import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.timing import HEADER, Result

ROWS, COLUMNS, ROUNDS = 1_000_000, 120, 5
CATEGORIES = (16, 7, 14, 6, 5, 2, 41, 9, 9, 5, 3, 2, 1)
AT_ONCE = 10_000


def table(kind: str, n: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm one, "gaussian" or "one-hot" with uneven categories, made block by block."""
    rng = np.random.default_rng(0)
    X, y, w = np.empty((n, COLUMNS), dtype), np.empty(n, np.int64), rng.normal(size=COLUMNS)
    chances = [rng.dirichlet(np.full(size, 0.7)) for size in CATEGORIES]
    for first in range(0, n, AT_ONCE):
        size = min(AT_ONCE, n - first)
        if kind == "gaussian":
            block = rng.normal(size=(size, COLUMNS))
            block /= np.linalg.norm(block, axis=1, keepdims=True)
            noisy = block @ w + 0.3 * rng.normal(size=size)
        else:
            block = np.hstack([np.eye(len(p))[rng.choice(len(p), size=size, p=p)] for p in chances])
            block /= np.sqrt(len(CATEGORIES))
            noisy = 4 * block @ w + rng.logistic(size=size)
        X[first : first + size], y[first : first + size] = block, noisy > 0
    return X, y


def resident(field: str) -> int:
    """Bytes, from Linux; "VmHWM" is the highest since the last ``forget``."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise OSError(f"no {field}")


def forget() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def fitter(side: str) -> Callable[[np.ndarray, np.ndarray], object]:
    if side == "sklearn":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression().fit
    from dperm import PrivateLogisticRegression

    return PrivateLogisticRegression(classes=[0, 1]).fit


def work(side: str, kind: str, dtype: str, n: int) -> None:
    """Fit once for every line that comes; answer with seconds and bytes."""
    warnings.simplefilter("ignore")
    fit = fitter(side)
    fit(*table(kind, 2_000, dtype))
    before = resident("VmRSS")
    X, y = table(kind, n, dtype)
    for _ in sys.stdin:
        forget()
        started = time.perf_counter()
        fit(X, y)
        print(time.perf_counter() - started, resident("VmHWM") - before, flush=True)


class Worker:
    def __init__(self, *what: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.large", *what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fit(self) -> tuple[float, float]:
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: PT018
        print(file=self._process.stdin, flush=True)
        seconds, size = self._process.stdout.readline().split()
        return 1e3 * float(seconds), float(size)

    def close(self) -> None:
        self._process.communicate()


def against_sklearn(kind: str, dtype: str, n: int, rounds: int, memory: float) -> list[Result]:
    sides = [Worker(side, kind, dtype, str(n)) for side in ("dperm", "sklearn")]
    answers = np.array([[side.fit() for side in sides] for _ in range(rounds + 1)])[1:]
    for side in sides:
        side.close()
    ours, theirs = np.median(answers[:, :, 0], axis=0)
    ratio = statistics.median(answers[:, 0, 0] / answers[:, 1, 0])
    unit = n * COLUMNS * 4
    most = answers[:, :, 1].max(axis=0)
    name = f"auto, {n:,} x {COLUMNS} {kind} {dtype}"
    return [
        Result(name, 0, ours, "scikit-learn lbfgs fit", theirs, ratio, 1.0),
        Result(f"{name}, MB", 0, most[0] / 1e6, "X as float32, MB", unit / 1e6, most[0] / unit, memory),
        Result("scikit-learn, MB", 0, most[1] / 1e6, "X as float32, MB", unit / 1e6, most[1] / unit, None),
    ]


def run(n: int = ROWS, rounds: int = ROUNDS) -> Iterator[Result]:
    for kind in ("gaussian", "one-hot"):
        yield from against_sklearn(kind, "float32", n, rounds, 2.2)
        yield from against_sklearn(kind, "float64", n, rounds, 3.2)


if __name__ == "__main__":
    if len(sys.argv) == 5:
        work(*sys.argv[1:4], int(sys.argv[4]))
    else:
        print(HEADER)
        for result in run(*map(int, sys.argv[1:])):
            print(result, flush=True)
