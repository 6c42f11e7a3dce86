"""Timings that alternate in one run, so that a slow machine or a busy neighbour moves both sides."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Result:
    """One measured ratio and the most it may be (None: for information). ``threads`` 0: the default."""

    name: str
    threads: int
    milliseconds: float
    reference: str
    reference_milliseconds: float
    ratio: float
    target: float | None

    @property
    def missed(self) -> bool:
        return self.target is not None and self.ratio > self.target

    def __str__(self) -> str:
        target = "" if self.target is None else f"{self.target:7.3f}" + (" MISSED" if self.missed else "")
        threads = str(self.threads or "")
        timing = f"{self.milliseconds:10.3f}   {self.reference:24} {self.reference_milliseconds:10.3f}"
        return f"{self.name:40} {threads:>7} {timing} {self.ratio:7.3f} {target}"


@dataclass(frozen=True)
class Skipped:
    """A comparison that could not be made, and why."""

    name: str
    reason: str
    missed: bool = False

    def __str__(self) -> str:
        return f"{self.name:40} skipped: {self.reason}"


HEADER = f"{'what':40} {'threads':>7} {'ms':>10}   {'against':24} {'ms':>10} {'ratio':>7}  target"


def interleaved(
    first: Callable[[], object], second: Callable[[], object], rounds: int
) -> tuple[float, float, float]:
    """Median milliseconds of both, and the median over rounds of their ratio."""
    times = np.empty((rounds, 2))
    first(), second()
    for r in range(rounds):
        for which in (0, 1) if r % 2 else (1, 0):
            begin = time.perf_counter()
            (first, second)[which]()
            times[r, which] = 1e3 * (time.perf_counter() - begin)
    middle = np.median(times, axis=0)
    return float(middle[0]), float(middle[1]), float(np.median(times[:, 0] / times[:, 1]))
