"""Answer jobs, one line of JSON each, with one tool: ``python serving.py run_NAME``. Needs NumPy and the tool alone."""

import json
import os
import sys
import time
import traceback
import warnings
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

FEW = 500
WARM: list[bool] = []


@lru_cache(maxsize=2)
def read_rows(path: str) -> tuple[Any, Any, Any]:
    with np.load(path, allow_pickle=False) as found:
        return found["X"], found["y"], found["fold"]


def peak_megabytes() -> float:
    """The most memory this process ever had, from its start on."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def fit(tool: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Train on all folds but one, timed, and write what the model says of that one.

    The first fit of a process is preceded by one to a few rows, so that nobody's imports are timed.
    """
    X, y, fold = read_rows(job["rows"])
    X = X[:, job["columns"]] if "columns" in job else X
    tested = fold == job["fold"]
    rows, labels = X[~tested], y[~tested]
    if not WARM:
        WARM.append(True)
        tool.train(rows[:FEW], labels[:FEW], job)
    started = time.perf_counter()
    predict = tool.train(rows, labels, job)
    seconds = time.perf_counter() - started
    np.save(job["output"], np.asarray(predict(X[tested]), np.float64).ravel())
    return {"seconds": seconds, "megabytes": peak_megabytes()}


def attack(tool: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Train many models on a tiny table and write what each of them publishes."""
    with np.load(job["rows"], allow_pickle=False) as found:
        X, y = found["X"], found["y"]
    started = time.perf_counter()
    released, claimed = tool.releases(X, y, job)
    seconds = time.perf_counter() - started
    released = np.asarray(released, np.float64)
    np.save(job["output"], released.reshape(job["runs"], -1))
    return {"seconds": seconds, "claimed": claimed}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a tool that prints shall not be taken for an answer
    warnings.simplefilter("ignore")
    tool: Any = None
    for line in sys.stdin:
        job = json.loads(line)
        try:
            tool = tool or import_module(sys.argv[1])
            answer = (attack if job["do"] == "attack" else fit)(tool, job)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
