"""Is the noise itself sound? Fresh every time, of the declared size, and a different one for every number.

These checks run the mechanism as users do, on the operating system's randomness, on empty rows without an intercept:
whatever comes out is noise alone. Each raises a false alarm with a probability of at most ``ALARM``.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, kstest, poisson

from dperm.audit.attack import Passage, watched_gate
from dperm.audit.neighbours import extreme_labels, table_of
from dperm.losses import Linear, Softmax
from dperm.mechanisms import Job, Mechanism
from dperm.privacy import Budget, Entropy, SystemEntropy
from dperm.privacy.gamma_norm import SMALLEST_FLOAT
from dperm.privacy.noisy_min import NoisyMin
from dperm.problem import Problem

Matrix = NDArray[np.float64]

ALARM = 1e-9
CLASSES = 3

_DRAW = """
import numpy as np
from dperm.privacy import GaussianNoise, SystemEntropy, release
noise = GaussianNoise(1.0, 1.0, 2)
for _ in range({draws}):
    print(*release(np.zeros(2), noise, SystemEntropy(), "check")[0].tolist())
"""


@dataclass(frozen=True, kw_only=True)
class NoiseCheck:
    """What was seen in ``runs`` separate runs.

    ``repeats`` counts results, or noise vectors at the gate, that came twice; ``together`` is the smallest exact
    p-value that two coefficients have independent signs, ``fit`` that the noise at the gate is normal with the
    declared scale. Both are corrected for the number of pairs tried.
    """

    runs: int
    repeats: int
    repeats_by_chance: float
    together: float
    fit: float

    @property
    def faults(self) -> tuple[str, ...]:
        found = []
        if poisson.sf(self.repeats - 1, self.repeats_by_chance) < ALARM:
            found.append(f"noise came twice, {self.repeats} times in {self.runs} runs")
        if self.together < ALARM:
            found.append("coefficients share their noise")
        if self.fit < ALARM:
            found.append("noise at the gate is not of the declared scale")
        return tuple(found)


def empty_problem(mechanism: Mechanism, problem: Problem) -> Problem:
    """The problem without an intercept, with two features at least, and with three classes where it can have them."""
    plain = replace(problem, intercept=0.0, n_features=max(2, problem.n_features))
    classes = replace(plain, loss=Softmax(CLASSES))
    return classes if isinstance(problem.loss, Linear) and mechanism.misfit(classes) is None else plain


def check_noise(
    mechanism: Mechanism, problem: Problem, budget: Budget, runs: int = 300, entropy: Entropy | None = None
) -> NoiseCheck:
    """Run ``runs`` times, one by one, and look at nothing but noise."""
    source = SystemEntropy() if entropy is None else entropy
    blank = replace(problem, intercept=0.0)
    plan = mechanism.plan(blank, budget)
    label = extreme_labels(blank)[1]
    table = table_of(blank, (np.zeros((blank.n_rows, blank.n_features)), np.full(blank.n_rows, label)))
    results = []
    with watched_gate() as passages:
        for _ in range(runs):
            (outcome,) = mechanism.run([Job(plan=plan)], table, source)
            results.append(outcome.weights.ravel())
    weights = np.array(results)
    repeats, by_chance = _repeats_at_gate(list(passages.values()))
    if not isinstance(plan.noise, NoisyMin):  # the corners of a ball are few and come again
        repeats += len(weights) - len(np.unique(weights, axis=0))
    return NoiseCheck(
        runs=runs,
        repeats=repeats,
        repeats_by_chance=by_chance,
        together=signs_agree(weights),
        fit=_fit(list(passages.values())),
    )


def signs_agree(weights: Matrix) -> float:
    """P-value that no two columns agree, or disagree, in sign more often than a coin."""
    pairs = list(combinations(range(weights.shape[1]), 2))
    smallest = 1.0
    for i, j in pairs:
        signs = np.sign(weights[:, i]) * np.sign(weights[:, j])
        decided = int((signs != 0).sum())
        agree = int((signs > 0).sum())
        extreme = max(agree, decided - agree)
        smallest = min(smallest, 2 * float(binom.sf(extreme - 1, decided, 0.5)) if decided else 1.0)
    return min(1.0, smallest * max(1, len(pairs)))


def processes_share_noise(draws: int = 50) -> int:
    """How many noise vectors two fresh processes have in common."""
    seen: list[set[str]] = []
    for _ in range(2):
        code = _DRAW.format(draws=draws)
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seen.append(set(ran.stdout.splitlines()))
    return len(seen[0] & seen[1])


def _repeats_at_gate(passages: list[Passage]) -> tuple[int, float]:
    """Noise vectors that came twice, and how many would by chance on the grids that they live on."""
    groups: dict[tuple[str, int, float, int], list[bytes]] = defaultdict(list)
    for record, exact, noisy in passages:
        if record.grid_exponent > SMALLEST_FLOAT:
            grid = math.ldexp(1.0, record.grid_exponent)
            steps = np.rint(noisy / grid) - np.rint(exact / grid)
            key = (record.name, record.grid_exponent, record.noise_scale / grid, record.dimension)
            groups[key].append(steps.tobytes())
    repeats, by_chance = 0, 0.0
    for (_, _, spread, dimension), noises in groups.items():
        repeats += len(noises) - len(set(noises))
        by_chance += len(noises) ** 2 / 2 / (2 * math.sqrt(math.pi) * spread) ** dimension
    return repeats, by_chance


def _fit(passages: list[Passage]) -> float:
    """Kolmogorov and Smirnov's p-value that Gaussian noise at the gate is standard normal, over its scale."""
    drawn = [
        (noisy - exact) / record.noise_scale
        for record, exact, noisy in passages
        if record.grid_exponent > SMALLEST_FLOAT
    ]
    return float(kstest(np.concatenate(drawn), "norm").pvalue) if drawn else 1.0
