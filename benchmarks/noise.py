"""Exact noise: what a draw costs beside OpenDP's, and its share of DP-GD fits. Also ``python -m benchmarks.noise``."""

import time
from collections.abc import Callable, Iterator
from unittest.mock import patch

import numpy as np
from tests.opendp_noise import opendp_gaussian

import dperm.privacy.noise as sampler
from benchmarks.fits import adult_like
from benchmarks.timing import HEADER, Result, interleaved
from dperm import PrivateLogisticRegression
from dperm.datasets import load_dataset
from dperm.errors import DataUnavailable
from dperm.mechanisms.gradient.dp_gd import DPGD
from dperm.privacy import GaussianNoise, SystemEntropy
from dperm.privacy.noise import add_noises

NANOSECONDS = 350  # the most that a number of a long release may cost: rounded, noise drawn and added
LONG = 1000
SYSTEM = SystemEntropy()


def one_release(dimension: int, lanes: int) -> Iterator[Result]:
    """A release against the same one by OpenDP's sampler, and against the target for a draw."""
    columns = np.random.default_rng(0).normal(size=(dimension, lanes))
    noises = [GaussianNoise(1.0, 3.0 + k, dimension) for k in range(lanes)]

    def by_opendp() -> None:
        for k, noise in enumerate(noises):
            opendp_gaussian(columns[:, k], noise)

    ours, theirs, ratio = interleaved(lambda: add_noises(columns, noises, SYSTEM), by_opendp, 7)
    name = f"exact noise, {dimension} x {lanes}"
    yield Result(name, 0, ours, "OpenDP's", theirs, ratio, 1 / 10)
    ours = min(processor_time(lambda: add_noises(columns, noises, SYSTEM)) for _ in range(9))
    allowed = NANOSECONDS * dimension * lanes / 1e6
    target = 1.0 if dimension * lanes >= LONG else None
    yield Result(f"{name}, CPU", 0, ours, f"{NANOSECONDS} ns a number", allowed, ours / allowed, target)


def processor_time(call: Callable[[], object]) -> float:
    """Milliseconds of all threads: a busy machine moves them less than the clock on the wall."""
    begin = time.process_time()
    call()
    return 1e3 * (time.process_time() - begin)


def share(X: np.ndarray, y: np.ndarray, steps: int, name: str, rounds: int, target: float) -> Result:
    """The time that a fit spends on noise, as a part of the fit."""
    model = PrivateLogisticRegression(mechanism=DPGD(steps=steps), classes=np.unique(y).tolist())
    spent = [0.0]

    def timed(*facts: object) -> np.ndarray:
        begin = time.perf_counter()
        noisy = add_noises(*facts)
        spent[0] += time.perf_counter() - begin
        return noisy

    model.fit(X, y)
    found = []
    with patch.object(sampler, "add_noises", timed):
        for _ in range(rounds):
            spent[0], begin = 0.0, time.perf_counter()
            model.fit(X, y)
            found.append((1e3 * spent[0], 1e3 * (time.perf_counter() - begin)))
    noise, fit = np.median(found, axis=0)
    ratio = float(np.median([part / whole for part, whole in found]))
    return Result(f"noise of {name}", 0, float(noise), f"the fit, {steps} steps", float(fit), ratio, target)


def mnist() -> tuple[np.ndarray, np.ndarray, str]:
    try:
        data = load_dataset("mnist", fetch=False)
        return data.X, np.searchsorted(data.classes, data.y), "MNIST"
    except DataUnavailable:
        rng = np.random.default_rng(0)
        X = rng.random((60_000, 784), np.float32) / 28
        return X, rng.integers(0, 10, len(X)), "random 60,000 x 784, 10 classes"


def run() -> Iterator[Result]:
    for dimension, lanes in ((124, 1), (7850, 1), (124, 128)):
        yield from one_release(dimension, lanes)
    X, y, name = adult_like()
    yield share(X, y, 200, f"dp-gd, {name}", 5, 0.1)
    X, y, name = mnist()
    yield share(X, y, 100, f"dp-gd, {name}", 2, 0.1)


if __name__ == "__main__":
    print(HEADER)
    for result in run():
        print(result, flush=True)
