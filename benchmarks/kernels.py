"""How close the passes over rows come to what the machine allows."""

from collections.abc import Callable

import numpy as np
from numba import njit

from benchmarks.timing import Result, interleaved
from dperm.engine import Table
from dperm.engine.base.engine import Engine
from dperm.engine.base.threads import in_order, one_blas_thread, split
from dperm.losses import Logistic, Softmax
from dperm.privacy import Gate
from dperm.processors import available_processors
from dperm.row_map import RowMap

LOSS = Logistic()


@njit(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy", nogil=True)
def read_once(values: np.ndarray) -> np.float32:
    """The best plain reader we know: one vectorised sum, no second pass."""
    total = np.float32(0)
    for i in range(values.size):
        total += values[i]
    return total


def rows(n: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Random float32 rows of norm below one, and balanced labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, columns), dtype=np.float32)
    X *= 0.9 / np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def opened(X: np.ndarray, y: np.ndarray, threads: int, precise: bool = False) -> Engine:
    return Table(X, y, row_map=RowMap(x_norm=1.0), n_rows=len(X)).open(threads=threads, precise=precise)


def weights(columns: int, models: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((columns, models))


def reader(X: np.ndarray, threads: int) -> Callable[[], float]:
    flat = X.reshape(-1)
    parts = split(0, flat.size, 2 * threads)
    return lambda: sum(in_order(lambda part: read_once(flat[slice(*part)]), parts, threads))


def fused_pass(X: np.ndarray, y: np.ndarray, threads: int, rounds: int) -> list[Result]:
    """As gradients at public weights are computed, in float32 blocks, and in float64 as everything else is."""
    results = []
    for precise, name in ((False, "float32 blocks"), (True, "float64")):
        engine, w = opened(X, y, threads, precise), weights(X.shape[1], 1)
        timed = interleaved(lambda: engine.gradient_sum(LOSS, w), reader(X, threads), rounds)  # noqa: B023
        name = f"gradient pass, one model, {name}"
        results.append(Result(name, threads, timed[0], "read X once", timed[1], timed[2], 1.7))
    return results


def batched_models(X: np.ndarray, y: np.ndarray, threads: int, models: int, rounds: int) -> Result:
    """Certified batches in float32 blocks, against one model in float64."""
    engine, precise = opened(X, y, threads), opened(X, y, threads, True)
    one, many = weights(X.shape[1], 1), weights(X.shape[1], models)
    timed = interleaved(
        lambda: engine.gradient_sum(LOSS, many), lambda: precise.gradient_sum(LOSS, one), rounds
    )
    name = f"gradient pass per model, {models} models"
    return Result(name, threads, timed[0] / models, "one model", timed[1], timed[2] / models, 1 / 6)


def epoch(X: np.ndarray, y: np.ndarray, batch: int, rounds: int) -> Result:
    engine, W = opened(X, y, 1), np.zeros((X.shape[1], 1))
    count = len(X) // batch
    sizes = np.diff(np.linspace(0, len(X), count + 1).astype(np.int64))[:, None]
    batches, steps, l2 = engine.batches(sizes), np.full(sizes.shape, 0.1), np.array([1e-3])
    timed = interleaved(
        lambda: engine.descend(LOSS, W, batches, steps, l2), lambda: engine.gradient_sum(LOSS, W), rounds
    )
    return Result(f"epoch, batches of {batch}", 1, timed[0], "gradient pass", timed[1], timed[2], 1.3)


def softmax_pass(X: np.ndarray, classes: int, rounds: int) -> list[Result]:
    """One certified model, against reading X and against the usual two passes in float32."""
    y = np.random.default_rng(3).integers(classes, size=len(X))
    engine, loss = opened(X, y, 1), Softmax(classes)
    one, many = (
        np.random.default_rng(4).standard_normal((X.shape[1], models, classes)) for models in (1, 12)
    )
    narrow, everyone = one[:, 0].astype(np.float32), np.arange(len(X))

    def two_passes() -> np.ndarray:
        with one_blas_thread:
            chances = X @ narrow
            chances -= chances.max(axis=1, keepdims=True)
            np.exp(chances, out=chances)
            chances /= chances.sum(axis=1, keepdims=True)
            chances[everyone, y] -= 1
            return X.T @ chances

    def ours() -> np.ndarray:
        return engine.gradient_sum(loss, one)

    name = f"softmax pass, {classes} classes"
    read = interleaved(ours, reader(X, 1), rounds)
    usual = interleaved(ours, two_passes, rounds)
    batched = interleaved(lambda: engine.gradient_sum(loss, many), reader(X, 1), max(3, rounds // 3))
    return [
        Result(name, 1, read[0], "read X once", read[1], read[2], 5.0),
        Result(name, 1, usual[0], "NumPy two passes, float32", usual[1], usual[2], None),
        Result(
            "softmax pass per model, 12 models",
            1,
            batched[0] / 12,
            "read X once",
            batched[1],
            batched[2] / 12,
            None,
        ),
    ]


def opening(X: np.ndarray, y: np.ndarray, rounds: int) -> Result:
    table = Table(X, y, row_map=RowMap(x_norm=1.0), n_rows=len(X))
    secret = Gate.seeded(2).order()
    order = secret.permutation(len(X))
    timed = interleaved(lambda: table.open(secret), lambda: X[order], rounds)
    return Result("open in random order", 1, timed[0], "NumPy gather", timed[1], timed[2], None)


def run() -> list[Result]:
    """All measurements, some tens of seconds."""
    X, y = rows(1_000_000, 120)
    several = [threads for threads in (1, 2) if threads <= available_processors()]
    results = [result for threads in several for result in fused_pass(X, y, threads, 21)]
    results += [batched_models(X[:250_000], y[:250_000], threads, 128, 7) for threads in several]
    results.append(opening(X, y, 3))
    del X, y
    X, y = rows(48_842, 124)
    results.append(batched_models(X, y, 1, 128, 15))
    results.append(epoch(X, y, 4_000, 101))
    del X, y
    results += softmax_pass(rows(65_000, 784)[0], 10, 15)
    return results
