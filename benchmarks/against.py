"""This checkout against another one, interleaved: ``python -m benchmarks.against ../other``.

Each checkout runs in a process of its own that is told which task to time next, so both meet the same noise of the
machine. Printed are medians and their ratio, new over old; only public names that both have are used.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
WORKER = """
import sys, time, warnings
import numpy as np
from dperm import PrivateLinearRegression, PrivateLogisticRegression
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
n, p = {rows}, 108
X = (rng.random((n, p)) < 0.1).astype(np.float32)
X *= 0.9 / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
y = (X @ rng.standard_normal(p) + 0.1 * rng.standard_normal(n) > 0).astype(int)
def fit(name):
    if name == "adassp":
        return PrivateLinearRegression(mechanism=name, y_range=(0, 1)).fit(X, y)
    if name == "softmax dp-gd":
        return PrivateLogisticRegression(mechanism="dp-gd", classes=[0, 1, 2]).fit(X, y)
    return PrivateLogisticRegression(mechanism=name, classes=[0, 1]).fit(X, y)
model = fit("auto")
def task(name):
    return model.predict_proba(X) if name == "predict" else fit(name)
for line in sys.stdin:
    name = line.strip()
    started = time.perf_counter()
    task(name)
    print(time.perf_counter() - started, flush=True)
"""
TASKS = (
    "auto",
    "rsgd-ar",
    "output",
    "objective",
    "dp-gd",
    "dp-sgd",
    "noisy-sgd",
    "dp-svrg",
    "ssp",
    "adassp",
    "softmax dp-gd",
    "none",
    "predict",
)


class Worker:
    def __init__(self, checkout: Path, rows: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER.format(rows=rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=checkout,
            env={"PYTHONPATH": str(checkout / "src"), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
        )

    def seconds(self, task: str) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: PT018
        print(task, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=40_000)
    given = parser.parse_args()
    old, new = Worker(given.other.resolve(), given.rows), Worker(HERE, given.rows)
    print(f"{'task':<16}{'other, ms':>12}{'this, ms':>12}{'ratio':>9}")
    for task in TASKS:
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(given.rounds + 1):
            for k, worker in enumerate((old, new)):
                seconds = worker.seconds(task)
                if turn > 0:  # the first call compiles or reads kernels
                    times[k].append(seconds)
        before, after = (statistics.median(some) for some in times)
        ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
        print(f"{task:<16}{1e3 * before:12.1f}{1e3 * after:12.1f}{ratio:9.3f}", flush=True)
    old.close()
    new.close()


if __name__ == "__main__":
    main()
