"""Is the noise itself sound? Fresh every time, of the declared size, and a different one for every number.

These checks run the mechanism as users do, on the operating system's randomness, on empty rows: without an intercept
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
from scipy.stats import binom, binomtest, chi2, gamma, kstest, norm, poisson

from dperm.losses import Linear, Softmax
from dperm.mechanisms import Mechanism
from dperm.privacy import Budget, Entropy, Gate, GaussianNoise, SeededEntropy, SystemEntropy
from dperm.privacy.noise import GammaNormNoise
from dperm.privacy.noisy_min import NoisyMin
from dperm.problem import Problem
from dperm_audit.neighbours import extreme_labels, table_of
from dperm_audit.watch import NoiseEvent, Watch

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ALARM = 1e-9
CLASSES = 3
FEW, MOST_COLUMNS = 4, 24  # numbers of each event, and of a run, whose signs are compared
LONG, LONG_DRAWS, TAILS = 1000, 20, (1.5, 2.5, 3.0)
CHOICE_SCORES, CHOICE_DRAWS, MOST_CHOICES = (0.0, 1.0, 2.0, 3.0), 1000, 3

_DRAW = """
import numpy as np
from dperm.privacy import Gate, GaussianNoise
noise = GaussianNoise(1.0, 1.0, 2)
for _ in range({draws}):
    print(*Gate.system().release_one(np.zeros(2), noise, "check").tolist())
"""


@dataclass(frozen=True, kw_only=True)
class NoiseCheck:
    """What was seen in ``runs`` separate runs.

    ``repeats`` counts results, or noise vectors, that came twice. ``kept`` tells that what was drawn before, from
    another source, changes what a source gives: a forked process would then repeat its parent's noise. The others are
    exact p-values, the smallest of the pairs tried and corrected for their number: ``together`` that two coefficients
    have independent signs, ``apart`` that two numbers of the noise of one run have, ``fit`` that Gaussian noise has the
    declared scale, ``length`` that noise of Gamma norm has, ``choices`` that candidates are chosen in the declared
    proportions.
    """

    runs: int
    repeats: int
    repeats_by_chance: float
    together: float
    apart: float
    fit: float
    length: float
    choices: float
    kept: bool = False

    @property
    def faults(self) -> tuple[str, ...]:
        found = []
        if poisson.sf(self.repeats - 1, self.repeats_by_chance) < ALARM:
            found.append(f"noise came twice, {self.repeats} times in {self.runs} runs")
        if self.kept:
            found.append("random bytes are kept between draws, which a forked process would repeat")
        p_values = {
            "coefficients share their noise": self.together,
            "two numbers of one run share their noise": self.apart,
            "noise is not of the declared scale": self.fit,
            "noise is not of the declared length": self.length,
            "private choices are not made in the declared proportions": self.choices,
        }
        return (*found, *(message for message, p_value in p_values.items() if p_value < ALARM))


def empty_problem(mechanism: Mechanism, problem: Problem) -> Problem:
    """The problem without an intercept, with two features at least, and with three classes where it can have them."""
    plain = replace(problem, intercept=0.0, n_features=max(2, problem.n_features))
    classes = replace(plain, loss=Softmax(CLASSES))
    return classes if isinstance(problem.loss, Linear) and mechanism.misfit(classes) is None else plain


def with_enough_l2(mechanism: Mechanism, problem: Problem, budget: Budget) -> Problem:
    """The same problem with as much l2 as a theorem may need."""
    return replace(problem, l2=max(problem.l2, mechanism.l2_rule(problem, budget)))


def check_noise(
    mechanism: Mechanism, problem: Problem, budget: Budget, runs: int = 300, entropy: Entropy | None = None
) -> NoiseCheck:
    """Run ``runs`` times, one by one, and look at nothing but noise."""
    source = SystemEntropy() if entropy is None else entropy
    problem = with_enough_l2(mechanism, problem, budget)
    plan = mechanism.plan(problem, budget)
    if plan.standardisation is None:
        plan = mechanism.plan(replace(problem, intercept=0.0), budget)
    blank = plan.problem
    label = extreme_labels(blank)[1]
    table = table_of(blank, (np.zeros((blank.n_rows, blank.n_features)), np.full(blank.n_rows, label)))
    results, seen = [], []
    for _ in range(runs):
        watch = Watch(source)
        watch.run(mechanism, plan, table)
        assert watch.outcome is not None
        results.append(watch.outcome.weights.ravel())
        seen.append(watch.events)
    weights = np.array(results)
    events = [event for run in seen for event in run]
    repeats, by_chance = _repeated_noise(events)
    if not isinstance(plan.noise, NoisyMin):  # the vertices of a ball are few and come again
        repeats += len(weights) - len(np.unique(weights, axis=0))
    return NoiseCheck(
        runs=runs,
        repeats=repeats,
        repeats_by_chance=by_chance,
        together=1.0 if blank.intercept > 0 else signs_agree(weights),
        apart=signs_agree(_noise_by_run(seen)),
        fit=_fit(events, source),
        length=_length(events),
        choices=_choices(events, source),
        kept=_keeps_bytes(events),
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


def _repeated_noise(events: list[NoiseEvent]) -> tuple[int, float]:
    """Noise vectors that came twice, and how many would by chance on the grids that they live on."""
    groups: dict[tuple[str, GaussianNoise], list[bytes]] = defaultdict(list)
    for event in events:
        if isinstance(event.noise, GaussianNoise):
            grid = math.ldexp(1.0, event.noise.grid_exponent)
            steps = np.rint(event.released / grid) - np.rint(event.values / grid)
            groups[event.name, event.noise].append(steps.tobytes())
    repeats, by_chance = 0, 0.0
    for (_, noise), noises in groups.items():
        spread = noise.scale / math.ldexp(1.0, noise.grid_exponent)
        repeats += len(noises) - len(set(noises))
        by_chance += len(noises) ** 2 / 2 * (2 * math.sqrt(math.pi) * spread) ** -noise.dimension
    return repeats, by_chance


class _Repeatable(SeededEntropy):
    """Words that can be had again, from a source that the samplers take for a secure one."""

    secure = True


def _keeps_bytes(events: list[NoiseEvent]) -> bool:
    """Whether noise from one source depends on what another source gave before."""
    for noise in {event.noise for event in events}:
        if not isinstance(noise, GaussianNoise | GammaNormNoise):
            continue
        found = []
        for before in range(2):
            for seed in (before, 2):
                gate = Gate(_Repeatable(seed))
                drawn = gate.release_one(np.zeros(noise.dimension), noise, "check")
            found.append(drawn.tobytes())
        if len(set(found)) > 1:
            return True
    return False


def _added(event: NoiseEvent) -> Vector:
    """The noise of an event over its scale."""
    return (event.released - event.values) / event.noise.scale


def _noise_by_run(seen: list[list[NoiseEvent]]) -> Matrix:
    """Numbers of the noise of every run, one row each: the first of every event, so that reuse across them shows."""
    rows = [
        np.concatenate([_added(p)[:FEW] for p in run if not isinstance(p.noise, NoisyMin)] or [np.zeros(0)])
        for run in seen
    ]
    width = min(MOST_COLUMNS, *map(len, rows))
    return np.array([row[:width] for row in rows])


def _fit(events: list[NoiseEvent], entropy: Entropy) -> float:
    """P-value that Gaussian noise is normal with the declared scale: its shape, its variance and its tails.

    A few long vectors are drawn anew with the noise of a run, since the runs themselves draw few numbers.
    """
    kinds = [event.noise for event in events if isinstance(event.noise, GaussianNoise)]
    if not kinds:
        return 1.0
    long = replace(kinds[0], dimension=LONG)
    anew = [Gate(entropy).release_one(np.zeros(LONG), long, "check") / long.scale for _ in range(LONG_DRAWS)]
    drawn = np.concatenate([_added(p) for p in events if isinstance(p.noise, GaussianNoise)] + anew)
    squares, law = float(drawn @ drawn), chi2(len(drawn))
    values = [float(kstest(drawn, "norm").pvalue), 2 * float(min(law.cdf(squares), law.sf(squares)))]
    for far in TAILS:
        beyond = int((np.abs(drawn) > far).sum())
        values.append(float(binomtest(beyond, len(drawn), float(2 * norm.sf(far))).pvalue))
    return min(1.0, min(values) * len(values))


def _length(events: list[NoiseEvent]) -> float:
    """The same of the norms of noise with a Gamma norm, by its dimension."""
    groups: dict[int, list[float]] = defaultdict(list)
    for event in events:
        if isinstance(event.noise, GammaNormNoise):
            groups[event.noise.dimension].append(float(np.linalg.norm(_added(event))))
    values = [float(kstest(norms, gamma(dimension).cdf).pvalue) for dimension, norms in groups.items()]
    return min(1.0, min(values, default=1.0) * max(1, len(values)))


def _choices(events: list[NoiseEvent], entropy: Entropy) -> float:
    """Exact p-values that candidates with known scores are chosen in proportion to exp(-score / scale).

    The choice is made anew with the noise of the run and scores of our own: those of a run on empty rows all tie.
    """
    kinds = {event.noise for event in events if isinstance(event.noise, NoisyMin)}
    smallest = 1.0
    for choice in sorted(kinds, key=lambda kind: kind.scale)[:MOST_CHOICES]:
        scores = choice.scale * np.array(CHOICE_SCORES)
        chosen = [Gate(entropy).choose(scores, choice, "check") for _ in range(CHOICE_DRAWS)]
        weights = np.exp(-np.array(CHOICE_SCORES))
        for index, share in enumerate(weights / weights.sum()):
            smallest = min(smallest, float(binomtest(chosen.count(index), CHOICE_DRAWS, float(share)).pvalue))
    return min(1.0, smallest * MOST_CHOICES * len(CHOICE_SCORES))
