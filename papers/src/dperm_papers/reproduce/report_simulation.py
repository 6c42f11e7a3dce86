"""The programs of G. Zhang's report, run again as simulations with numpy's noise: private SGD in the plane.

They are no mechanisms of this library and release nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.experiments.tuning import measured_only, tuned
from dperm.mechanisms import Mechanism, resolve
from dperm.privacy.subsampled import fixed_size_epsilon
from dperm_papers.reproduce.published import REPORT_CONSTANTS, REPORT_TABLES, TEST_POINTS, PublishedAccuracy

Array = NDArray[np.float64]

TRUTH = np.array([2.0, 1.0, -1.7])
START = np.array([0.0, 1.0, -0.5])
EPSILON, DELTA, STEP, RIDGE, BATCH = 1.0, 0.1, 0.2, 0.0005, 20
ROW_NORM = math.sqrt(3)  # of (x1, x2, 1) in the unit square; the gradient of the logistic loss is no longer
LABEL_NOISE = 0.34  # of the score; the true line then gets the share right that the report's best method got
NON_PRIVATE, PRIVATE, OBJECTIVE = "SGD, not private", "private SGD", "'objective perturbation'"
PLAIN = "SGD, not private, no regulariser"
METHODS = (NON_PRIVATE, PRIVATE, OBJECTIVE)
"""Those of the report, in its order."""


def noise_scale(n_rows: int, constant: float) -> float:
    """The report's noise on each coordinate of a gradient; it takes gradients to have norm 1 at most."""
    return math.sqrt(constant * math.log(n_rows / DELTA) * math.log(1 / DELTA)) / EPSILON


def make_points(n_rows: int, repeats: int, noisy: bool, rng: np.random.Generator) -> tuple[Array, Array]:
    """Points of the unit square with a one appended, and their labels, for every repeat."""
    rows = np.concatenate([rng.random((repeats, n_rows, 2)), np.ones((repeats, n_rows, 1))], axis=2)
    score = rows @ TRUTH
    if noisy:
        score = score + LABEL_NOISE * rng.normal(size=score.shape)
    return rows, np.where(score > 0, 1.0, -1.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Chains:
    """Runs side by side, all with the same number of rows; ``scales`` counts for private SGD alone."""

    rows: Array
    labels: Array
    methods: NDArray[np.str_]
    scales: Array

    @classmethod
    def stack(cls, parts: Sequence[Chains]) -> Chains:
        return cls(
            **{
                name: np.concatenate([getattr(part, name) for part in parts])
                for name in cls.__dataclass_fields__
            }
        )


def simulate(chains: Chains, rng: np.random.Generator) -> list[tuple[int, Array]]:
    """The report's descent: n**2 steps on small batches. Weights (chains, 3) after a few numbers of steps."""
    count, n_rows, _ = chains.rows.shape
    steps = n_rows**2
    signed, each = chains.rows * chains.labels[..., None], np.arange(count)[:, None]
    private, fresh = chains.methods == PRIVATE, chains.methods == OBJECTIVE
    noise = np.where(private, chains.scales, 0.0)[:, None]
    ridge = np.where(private | (chains.methods == PLAIN), 0.0, 2 * RIDGE)[:, None]
    weights = np.tile(START, (count, 1))
    keep = {steps, *np.unique(np.geomspace(1, steps, 40).round().astype(int)).tolist()}
    kept = [(0, weights)]
    for step in range(1, steps + 1):
        drawn = rng.random((count, n_rows), dtype=np.float32).argpartition(BATCH, axis=1)[:, :BATCH]
        batch = signed[each, drawn]
        margin = np.einsum("kbp,kp->kb", batch, weights)
        pull = 0.5 * (1 - np.tanh(margin / 2))  # 1 / (1 + exp(margin)) without overflow
        gradient = ridge * weights - np.einsum("kbp,kb->kp", batch, pull) / BATCH
        gradient += noise * rng.normal(size=weights.shape)
        if fresh.any():
            gradient[fresh] += _fresh_noise(int(fresh.sum()), rng) / n_rows
        weights = weights - STEP * gradient
        if step in keep:
            kept.append((step, weights))
    return kept


def _fresh_noise(repeats: int, rng: np.random.Generator) -> Array:
    """Gamma norm, and a direction by two uniform angles, which is not uniform on the sphere: as in the report."""
    norm = rng.gamma(3, 2 / EPSILON, repeats)
    first, second = rng.uniform(0, 2 * math.pi, (2, repeats))
    return (
        np.column_stack([np.sin(first), np.cos(first) * np.sin(second), np.cos(first) * np.cos(second)])
        * (norm[:, None])
    )


def accuracies(weights: Array, noisy: bool, rng: np.random.Generator) -> Array:
    rows, labels = make_points(TEST_POINTS, 1, noisy, rng)
    return np.asarray((rows[0] @ weights.T * labels[0][:, None] > 0).mean(axis=0))


# What the report's private SGD really costs, at the delta that it states.


@dataclass(frozen=True)
class Price:
    """Epsilon at the report's delta; ``exact`` is False for the Monte Carlo estimate of a large one."""

    epsilon: float
    exact: bool

    def __str__(self) -> str:
        return f"{self.epsilon:.2g}" if self.exact else f"≈ {float(f'{self.epsilon:.2g}'):,.0f}"


Prices = dict[tuple[int, float, int], Price]
"""By number of rows, constant c squared, and rows in a step."""

LARGE = 20.0
"""From here on the estimate will do: grids for the composition of so large losses take minutes."""


def true_price(n_rows: int, constant: float, batch: int, draws: int) -> Price:
    """What n**2 steps cost, each with the report's noise on the mean gradient of ``batch`` rows."""
    multiplier = noise_scale(n_rows, constant) * batch / ROW_NORM
    estimate = estimate_epsilon(multiplier, batch / n_rows, n_rows**2, draws)
    if estimate > LARGE:
        return Price(estimate, exact=False)
    return Price(fixed_size_epsilon(multiplier, batch, n_rows, n_rows**2, DELTA), exact=True)


def estimate_epsilon(multiplier: float, share: float, steps: int, draws: int, seed: int = 0) -> float:
    """Epsilon of samples of a fixed size by simulated privacy losses; for large deltas, as the report's.

    A step has the losses of ``fixed_size_epsilon``: those above 0 of (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1), the
    same ones below 0 with exp(-loss) times the mass, and otherwise none.
    """
    rng, mu = np.random.default_rng(seed), 2 / multiplier
    tail, moved = float(ndtr(-mu / 2)), float(ndtr(mu / 2))
    weights = np.array([(1 - share) * tail, share * moved, tail])  # above 0 from either part, below 0
    centre, sign = np.array([0.0, mu, 0.0]), np.array([1.0, 1.0, -1.0])
    loss = np.zeros(draws)
    for one in range(draws):
        counts = rng.multinomial(steps, [*weights, max(0.0, 1 - weights.sum())])[:3]
        for number, middle, side in zip(counts, centre, sign, strict=True):
            beyond = mu / 2 - middle
            x = middle - ndtri(rng.random(number) * ndtr(-beyond))
            loss[one] += side * np.logaddexp(math.log1p(-share), math.log(share) + mu * x - mu * mu / 2).sum()
    low, high = 0.0, float(max(loss.max(), 0.0))
    for _ in range(60):
        middle = (low + high) / 2
        delta = -np.expm1(np.minimum(middle - loss, 0.0)).mean()
        low, high = (middle, high) if delta > DELTA else (low, middle)
    return high


# Every training that the report's tables need: its programs, certified fits on the same points, the true line.

TABLES, STUDY, STUDY_ROWS, TRUE_LINE = "tables", "c squared", 100, "the true line"
CERTIFIED = {"psgd": "psgd, certified", "objective": "objective, certified"}
BEST_OF_GRID = "psgd, certified but for its settings, the best of a grid on test"
GRID = {"step_size": (None, 0.3, 3.0), "radius": (None, 3.0, 30.0)}  # None is the rule


@dataclass(frozen=True, kw_only=True)
class Size:
    repeats: int
    constants: tuple[float, ...]
    draws: int


FULL = Size(repeats=20, constants=tuple(REPORT_CONSTANTS), draws=1000)
QUICK = Size(repeats=10, constants=(1 / 400, 1 / 25, 1 / 2, 4.0, 32.0), draws=400)


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """One training, with its points and the weights after some numbers of steps."""

    part: str
    n_rows: int
    constant: float
    noisy_labels: bool
    method: str
    repeat: int
    points: Array
    labels: Array
    path: list[tuple[int, Array]]
    accuracy: float

    def fits(self, setting: PublishedAccuracy, method: str) -> bool:
        mine = (self.part, self.n_rows, self.constant, self.noisy_labels, self.method)
        return mine == (TABLES, setting.n_rows, setting.constant, setting.noisy_labels, method)

    @property
    def weights(self) -> Array:
        return self.path[-1][1]

    @property
    def row(self) -> dict[str, object]:
        names = ("part", "n_rows", "constant", "noisy_labels", "method", "repeat", "accuracy")
        return {name: getattr(self, name) for name in names} | {
            f"w{i}": float(w) for i, w in enumerate(self.weights)
        }


def run_programs(n_rows: int, size: Size, seed: int) -> list[Run]:
    """All descents on so many rows: the methods of each table on the same points, and the study of c squared."""
    rng = np.random.default_rng([seed, n_rows])
    labels_of: list[tuple[str, float, bool, str, int]] = []
    parts = []
    tables = [setting for setting in REPORT_TABLES if setting.n_rows == n_rows]
    jobs: list[tuple[str, float, bool, tuple[str, ...]]] = [
        (TABLES, s.constant, s.noisy_labels, (*METHODS, PLAIN)) for s in tables
    ]
    if n_rows == STUDY_ROWS:
        jobs += [(STUDY, constant, False, (PRIVATE,)) for constant in size.constants]
    for part, constant, noisy, methods in jobs:
        points, labels = make_points(n_rows, size.repeats, noisy, rng)
        for method in methods:
            labels_of += [(part, constant, noisy, method, repeat) for repeat in range(size.repeats)]
            scales = np.full(size.repeats, noise_scale(n_rows, constant))
            parts.append(
                Chains(rows=points, labels=labels, methods=np.repeat(method, size.repeats), scales=scales)
            )
    chains = Chains.stack(parts)
    kept = simulate(chains, rng)
    right = {noisy: accuracies(kept[-1][1], noisy, rng) for noisy in (False, True)}
    return [
        Run(
            part=part,
            n_rows=n_rows,
            constant=constant,
            noisy_labels=noisy,
            method=method,
            repeat=repeat,
            points=chains.rows[k],
            labels=chains.labels[k],
            path=[(step, weights[k]) for step, weights in kept],
            accuracy=float(right[noisy][k]),
        )
        for k, (part, constant, noisy, method, repeat) in enumerate(labels_of)
    ]


def run_beside(setting: PublishedAccuracy, trained: Sequence[Run], seed: int) -> list[Run]:
    """On the same points: what the library releases with a proof, and the line that made the labels."""
    points, labels = (np.stack([getattr(run, name) for run in trained]) for name in ("points", "labels"))
    final = {label: _certified(resolve(name), points, labels, seed) for name, label in CERTIFIED.items()}
    final[BEST_OF_GRID] = _best_of_grid(setting, points, labels, seed)
    final[TRUE_LINE] = np.tile(TRUTH, (len(trained), 1))
    return [
        replace(run, method=method, path=[(0, weights)], accuracy=float(accuracy))
        for method, found in final.items()
        for run, weights, accuracy in zip(trained, found, _on_test(found, setting, seed), strict=True)
    ]


def _on_test(weights: Array, setting: PublishedAccuracy, seed: int) -> Array:
    """Accuracies of all runs, of every method on the same points."""
    return accuracies(weights, setting.noisy_labels, np.random.default_rng([seed, setting.n_rows, 1]))


def _best_of_grid(setting: PublishedAccuracy, points: Array, labels: Array, seed: int) -> Array:
    found = [_certified(one, points, labels, seed) for one in tuned("oracle", "psgd", GRID).candidates]
    return max(found, key=lambda weights: float(_on_test(weights, setting, seed).mean()))


def _certified(mechanism: Mechanism, rows: Array, labels: Array, seed: int) -> Array:
    """What the library releases at the report's epsilon and delta, with a proof."""
    weights = []
    for repeat, (points, y) in enumerate(zip(rows, labels, strict=True)):
        settings = PrivateLogisticRegression(
            epsilon=EPSILON,
            delta=DELTA,
            mechanism=mechanism,
            l2="auto"
            if mechanism.name == "objective"
            else 2 * RIDGE,  # the report's is too weak for that theorem
            x_norm=math.sqrt(2),
            classes=(-1.0, 1.0),
            random_state=seed + repeat,
        )
        with measured_only():
            model = settings.fit(points[:, :2], y)
        weights.append([*model.coef_.ravel(), *np.ravel(model.intercept_)])
    return np.asarray(weights)


def accuracies_of(runs: Sequence[Run], setting: PublishedAccuracy, method: str) -> Array:
    return np.array([run.accuracy for run in runs if run.fits(setting, method)])


def by_constant(runs: Sequence[Run]) -> dict[float, Array]:
    study = [run for run in runs if run.part == STUDY]
    return {
        c: np.array([run.accuracy for run in study if run.constant == c])
        for c in sorted({r.constant for r in study})
    }
