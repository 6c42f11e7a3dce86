"""``python -m benchmarks.gpu`` on a machine with a GPU: contracts, then timings. The exit status is 1 if one fails.

``--data gpu.parquet`` also writes what the page on GPUs shows; it belongs into docs/data.

Passes return their sums to the host, and so does the sum of all numbers that stands for reading the rows once; both
are timed by the clock. Fits have seeded noise. The CPU gets two processors.
"""

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
import triton

from benchmarks import record
from benchmarks.timing import HEADER, Result, interleaved
from dperm import PrivateLogisticRegression
from dperm.engine.device.engine import TorchEngine
from dperm.engine.device.fused import FusedPass
from dperm.engine.device.rows import TorchRows
from dperm.losses import Logistic
from dperm.row_map import RowMap
from dperm_papers.pages.cells import Table, cell
from dperm_papers.pages.runs import Stopwatch

LOSS, MODELS = Logistic(), 128
FITS = ("fit", "GPU, s", "CPU with 2 processors, s", "times faster", "coefficients apart")
LAWS = ("test_every_engine.py", "test_mechanisms_on_kinds.py", "test_torch_rows.py", "test_torch_formulas.py")


def rows(n: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random float32 rows of a norm about one, and labels that depend on them."""
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn((n, columns), generator=generator, device="cuda") / math.sqrt(columns)
    margin = X @ (4 * torch.randn(columns, generator=generator, device="cuda"))
    chance = torch.rand(n, generator=generator, device="cuda")
    return X, torch.where(chance < torch.sigmoid(margin), 1.0, -1.0)


def opened(X: torch.Tensor, y: torch.Tensor, *, precise: bool = False, intercept: float = 0.0) -> TorchEngine:
    return TorchRows(X, y, row_map=RowMap(x_norm=1.0, intercept=intercept), n_rows=len(X)).open(
        precise=precise
    )


def weights(columns: int, models: int = 1) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((columns, models))


def laws() -> tuple[str, bool]:
    """The tests of the engine, with the rows on the GPU."""
    folder = Path(__file__).parents[1] / "tests" / "engine"
    files = [str(folder / name) for name in LAWS if (folder / name).exists()]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "torch", *files]
    done = subprocess.run(
        command, env={**os.environ, "DPERM_TORCH_DEVICE": "cuda"}, capture_output=True, text=True
    )
    return (done.stdout.strip().splitlines() or ["pytest did not run"])[-1], done.returncode == 0


def same_bits(runs: int = 20) -> tuple[str, bool]:
    """A pass repeats to the last bit, launch by launch and as a recording, in new engines too."""
    X, y = rows(1_000_003, 120)
    equal = True
    for precise in (False, True):
        for models in (1, MODELS):
            W = weights(121, models)
            engines = [opened(X, y, precise=precise, intercept=0.3) for _ in range(2)]
            sums = [engine.gradient_sum(LOSS, W) for engine in engines for _ in range(runs)]
            equal &= all((each == sums[0]).all() for each in sums)
    return f"{4 * 2 * runs} passes over 1,000,003 x 121, alike to the last bit: {equal}", equal


def one_program_differs() -> tuple[str, bool]:
    """Two tables that differ in one row: of the sums that are added up, one differs."""
    X, y = rows(1_000_003, 120)
    other = X.clone()
    other[777_777] = -X[5]
    counts = []
    for precise in (False, True):
        sums = []
        for table in (X, other):
            engine = opened(table, y, precise=precise)
            fused = FusedPass(engine._rows, LOSS, None, precise)
            count = fused.launch(fused.padded(weights(120)[:, 0]), 0, len(X), False, True)
            sums.append(fused._sums[:count].view(torch.int64).clone())
        counts.append((int((sums[0] != sums[1]).any(dim=1).sum()), count))
    return "one row replaced: " + ", ".join(f"{a} of {b} sums differ" for a, b in counts), all(
        a == 1 for a, _ in counts
    )


def passes(n: int, columns: int, intercept: float, rounds: int) -> Iterator[Result]:
    X, y = rows(n, columns)
    fast, precise = (opened(X, y, precise=p, intercept=intercept) for p in (False, True))
    stored = fast._rows.X
    W = weights(fast.n_columns)
    read = lambda: float(stored.sum())  # noqa: E731
    for name, engine, target in (("float32 tiles", fast, 1.25), ("float64", precise, None)):
        engine.gradient_sum(LOSS, W), engine.gradient_sum(LOSS, W)
        timed = interleaved(partial(engine.gradient_sum, LOSS, W), read, rounds)
        title = f"{n:,} x {fast.n_columns}, {name}"
        yield Result(title, 0, timed[0], "read X once", timed[1], timed[2], target)


def several(n: int, columns: int, rounds: int) -> Iterator[Result]:
    X, y = rows(n, columns)
    for name, precise in (("float32", False), ("float64", True)):
        engine = opened(X, y, precise=precise)
        one, many = weights(columns), weights(columns, MODELS)
        timed = interleaved(
            partial(engine.gradient_sum, LOSS, many), partial(engine.gradient_sum, LOSS, one), rounds
        )
        title = f"{n:,} x {columns}, {MODELS} models, {name}"
        yield Result(title, 0, timed[0] / MODELS, "one model", timed[1], timed[2] / MODELS, 1 / 8)


def timed_fit(mechanism: str, X: object, y: object) -> tuple[float, PrivateLogisticRegression]:
    begin = time.perf_counter()
    model = PrivateLogisticRegression(mechanism=mechanism, delta=1e-9, random_state=0).fit(X, y)
    return time.perf_counter() - begin, model


def fits(n: int, columns: int) -> Iterator[tuple[str, ...]]:
    X, y = rows(n, columns)
    host, labels = X.cpu().numpy(), y.cpu().numpy()
    everywhere = os.sched_getaffinity(0)
    for mechanism in ("rsgd-ar", "auto", "dp-gd"):
        timed_fit(mechanism, X[:50_000], y[:50_000])
        gpu = sorted((timed_fit(mechanism, X, y) for _ in range(3)), key=lambda found: found[0])[1]
        os.sched_setaffinity(0, set(sorted(everywhere)[:2]))
        timed_fit(mechanism, host[:50_000], labels[:50_000])
        cpu = timed_fit(mechanism, host, labels)
        os.sched_setaffinity(0, everywhere)
        apart = np.linalg.norm(gpu[1].coef_ - cpu[1].coef_) / np.linalg.norm(cpu[1].coef_)
        name = f"{mechanism}, {n:,} x {columns}"
        yield name, f"{gpu[0]:.2f}", f"{cpu[0]:.2f}", f"{cpu[0] / gpu[0]:.1f}", f"{apart:.1e}"


def main() -> int:
    chosen = record.data_option(argparse.ArgumentParser(description=__doc__)).parse_args()
    watch, timed, kept_lines = Stopwatch(), [], []
    card = torch.cuda.get_device_name()
    print(f"{card}, torch {torch.__version__}, Triton {triton.__version__}, NumPy {np.__version__}")
    good = True
    contracts: tuple[Callable[[], tuple[str, bool]], ...] = (laws, same_bits, one_program_differs)
    for contract in contracts:
        line, kept = contract()
        print(("" if kept else "BROKEN: ") + line, flush=True)
        kept_lines.append([line, "holds" if kept else "does not hold"])
        good &= kept
    print(HEADER)
    for results in (
        passes(4_000_000, 120, 0.0, 30),
        passes(4_000_000, 120, 0.3, 30),
        passes(8_000_000, 128, 0.0, 30),
        passes(1_000_000, 784, 0.0, 30),
        several(4_000_000, 120, 7),
    ):
        for result in results:
            print(result, flush=True)
            good &= not result.missed
            timed.append(result)
    fitted = []
    for row in fits(8_000_000, 120):
        print(", ".join(f"{what} {text}" for what, text in zip(FITS, row, strict=True)), flush=True)
        fitted.append([cell(text) for text in row])
    if chosen.data:
        tables = {
            "checks": Table(("claim", "here"), kept_lines),
            "passes": record.ratios(timed),
            "fits": Table(FITS, fitted),
        }
        record.write(chosen.data, "python -m benchmarks.gpu", watch, tables, device=f"one {card}")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
