"""Worst-case neighbours for each tool, tiny tables on which its claim is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from dperm_audit.bounds import lower_bounds
from dperm_papers.peers.catalogue import DIFFPRIVLIB, DP_EBM, JAX_PRIVACY, OPACUS, OPENDP, TF_PRIVACY, Peer
from dperm_papers.peers.environments import Environment
from dperm_papers.peers.workers import Worker
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.item import Bench

# Does a claimed epsilon survive? Two neighbouring tables, many trainings on each, and our audit's lower bound.

Matrix = NDArray[np.float64]
Score = Callable[[Matrix], NDArray[np.float64]]

CONFIDENCE = 0.95
_TRAINING = 0.4  # of the runs choose the score and its threshold
_FAR = 1e6


@dataclass(frozen=True, kw_only=True)
class Found:
    """What an attack proves: epsilon is at least ``epsilon`` with the stated confidence, at the claimed delta."""

    epsilon: float
    claimed: float
    delta: float
    runs: int
    score: str

    @property
    def verdict(self) -> str:
        return verdict_on(self.claimed, self.epsilon)


def verdict_on(claimed: float, at_least: float) -> str:
    """What a lower bound says of a claim; a bound of 0 says nothing."""
    if at_least > claimed:
        return f"broken: proves ε ≥ {at_least:.2f}"
    return "survives" if at_least > 0 else "inconclusive"


def attack(
    here: Matrix, there: Matrix, claimed: float, delta: float, confidence: float = CONFIDENCE
) -> Found:
    """Bound epsilon by what was published on a table and on its neighbour, one row for each training.

    A score is learnt on a part of the runs, its threshold on another, and both are counted on the rest, so that the
    bound fails with at most ``1 - confidence``.
    """
    here, there = (np.nan_to_num(np.clip(some, -_FAR, _FAR)) for some in (here, there))
    cuts = [round(share * min(len(here), len(there))) for share in (_TRAINING / 2, _TRAINING)]
    learn, choose, test = ([part[a:b] for part in (here, there)] for a, b in _spans(cuts))
    failure = 1 - confidence
    hopes = {}
    scores = {"linear": _linear(*learn), "learnt": _learnt(*learn)}
    for name, score in scores.items():
        halves = [(score(part[::2]), score(part[1::2])) for part in choose]
        tried = lower_bounds((halves[0][0], halves[1][0]), (halves[0][1], halves[1][1]), delta, failure, None)
        hopes[name] = tried.direct
    best = max(hopes, key=lambda name: hopes[name])
    score = scores[best]
    bounds = lower_bounds(
        (score(choose[0]), score(choose[1])), (score(test[0]), score(test[1])), delta, failure, None
    )
    runs = min(len(here), len(there))
    return Found(epsilon=bounds.direct, claimed=claimed, delta=delta, runs=runs, score=best)


def _spans(cuts: list[int]) -> list[tuple[int, int | None]]:
    first, second = cuts
    return [(0, first), (first, second), (second, None)]


def _linear(here: Matrix, there: Matrix) -> Score:
    """How far the tables move what is published, over its covariance."""
    moved = here.mean(axis=0) - there.mean(axis=0)
    covariance = np.atleast_2d(np.cov(here.T) + np.cov(there.T))
    floor = 1e-9 * np.trace(covariance) + np.finfo(np.float64).tiny
    weights = np.linalg.solve(covariance + floor * np.eye(len(moved)), moved)
    return lambda published: np.asarray(published @ weights)


def _learnt(here: Matrix, there: Matrix) -> Score:
    """A classifier of the published numbers and their length, for tables that differ in more than a mean."""

    def seen(published: Matrix) -> Matrix:
        length = np.linalg.norm(published, axis=1, keepdims=True)
        return np.hstack([published[:, :20], length])

    labels = np.repeat([1, 0], [len(here), len(there)])
    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=0)
    model.fit(seen(np.vstack([here, there])), labels)
    return lambda published: np.asarray(model.decision_function(seen(published)))


DELTA = 1e-2
"""At a tiny delta almost no run shows an event that could refute a claim, so the tools are asked for this one."""

QUICK_RUNS = 300
Rows = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """Two neighbouring tables and how a tool is run on them so many times."""

    peer: Peer
    what: str
    tables: tuple[Rows, Rows]
    relation: str
    options: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float = 1.0
    delta: float = DELTA
    runs: int = 2000


def try_claim(trial: Trial, environment: Environment, bench: Bench) -> dict[str, Any]:
    """What the attack proves; read where it was finished before."""
    runs = min(trial.runs, QUICK_RUNS) if bench.quick else trial.runs
    job = {
        "do": "attack",
        "task": "classes",
        "runs": runs,
        "epsilon": trial.epsilon,
        "delta": trial.delta,
        "settings": dict(trial.options),
        **trial.facts,
    }
    version = environment.version(trial.peer.package)
    key = {"tool": trial.peer.name, "version": version, "what": trial.what, "job": job, "seed": bench.seed}
    key["tables"] = [some.tolist() for rows in trial.tables for some in rows]

    def make() -> list[dict[str, Any]]:
        with TemporaryDirectory() as folder, Worker(trial.peer.runner, environment.python) as worker:
            return [_attacked(trial, job, worker, Path(folder), bench.seed)]

    about = {
        "tool": trial.peer.name,
        "version": version,
        "what": trial.what,
        "relation": trial.relation,
        "asked": trial.epsilon,
    }
    found = cached(bench.parts / "peers", f"attack-{trial.peer.runner[4:]}", key, make, bench.fresh)
    row = found.to_pylist()[0]
    verdict = "not tried" if row["error"] else verdict_on(row["claimed"], row["epsilon"])
    return {**about, **row, "verdict": verdict}


def _attacked(
    trial: Trial, job: Mapping[str, Any], worker: Worker, folder: Path, seed: int
) -> dict[str, Any]:
    published: list[NDArray[np.float64]] = []
    claimed: dict[str, float] = {}
    for side, (X, y) in enumerate(trial.tables):
        rows, output = folder / "tiny.npz", folder / "published.npy"
        np.savez(rows, X=X, y=y)
        answer = worker.ask({**job, "rows": str(rows), "output": str(output), "seed": 2 * seed + side})
        if "error" in answer:
            nothing = float("nan")
            lost = {"epsilon": nothing, "claimed": nothing, "delta": nothing, "runs": 0, "score": ""}
            return {**lost, "error": answer["error"]}
        published.append(np.load(output))
        claimed = answer["claimed"]
    found: Found = attack(published[0], published[1], claimed["epsilon"], claimed["delta"])
    numbers = {"epsilon": found.epsilon, "claimed": found.claimed, "delta": found.delta}
    return {**numbers, "runs": found.runs, "score": found.score, "error": ""}


def _lone(n_rows: int, n_features: int, length: float, *, leaves: bool = False) -> tuple[Rows, Rows]:
    """A long row among empty ones: it becomes empty, or it leaves."""
    X, y = np.zeros((n_rows, n_features)), np.ones(n_rows)
    X[0, 0] = length
    without = X.copy()
    without[0] = 0
    return (X, y), (X[1:], y[1:]) if leaves else (without, y)


def _among_two(length: float, changed: str) -> tuple[Rows, Rows]:
    """A row beside two empty ones with both labels: its label changes, or it becomes empty."""
    X, y = np.array([[0.0], [0.0], [length]]), np.array([0, 1, 1])
    if changed == "label":
        return (X, y), (X, np.array([0, 1, 0]))
    return (X, y), (np.zeros_like(X), y)


def _records(values: list[Any], kind: str) -> NDArray[Any]:
    rows = np.zeros(len(values), np.dtype([("feature", kind)]))
    rows["feature"] = values
    return rows


def _collinear(n_rows: int) -> tuple[Rows, Rows]:
    """Two far rows after an even number of others on a line; without the last row the other one is dropped too."""
    across = np.linspace(0.0, 2.0, n_rows)
    x = np.append(across, [10.0, 9.9])
    y = np.append(np.full(n_rows, 4.97), [1e4, 1e4])
    return (x[:, None], y), (x[:-1, None], y[:-1])


_LABELS = np.array([0, 1] * 20)
_CATEGORY = {"types": ["nominal"], "bounds": {}, "categories": {}}
_NUMBER = {"types": ["continuous"], "bounds": {"feature": (0.0, 1.0)}, "categories": {}}
_STEPS = {"lr": 1.0, "epochs": 1, "batch": 1, "public_rows": 8, "sees": "steps"}
_WHOLE = {"lr": 1.0, "epochs": 2, "batch": 4, "public_rows": 4}

TRIALS = (
    Trial(
        peer=DIFFPRIVLIB,
        what="LogisticRegression, data_norm = 1, one label changes",
        tables=_among_two(1.0, "label"),
        relation="replace-one",
        options={"data_norm": 1.0, "fit_intercept": False},
        delta=0.0,
        runs=10_000,
    ),
    Trial(
        peer=DIFFPRIVLIB,
        what="LogisticRegression, data_norm = 100, a row becomes empty",
        tables=_among_two(100.0, "row"),
        relation="replace-one",
        options={"data_norm": 100.0, "fit_intercept": False},
        delta=0.0,
        runs=10_000,
    ),
    Trial(
        peer=OPACUS,
        what="all rows in every step, the row becomes empty",
        tables=_lone(4, 1, 1000.0),
        relation="add-remove",
        options=_WHOLE,
        runs=1000,
    ),
    Trial(
        peer=OPACUS,
        what="all rows in every step, the row leaves (the divisor is the number of rows)",
        tables=_lone(4, 200, 1000.0, leaves=True),
        relation="add-remove",
        options=_WHOLE,
        runs=400,
    ),
    Trial(
        peer=OPACUS,
        what="Poisson batches, all steps seen, the row becomes empty",
        tables=_lone(8, 1, 1000.0),
        relation="add-remove",
        options=_STEPS,
        runs=600,
    ),
    Trial(
        peer=OPACUS,
        what="poisson_sampling=False, loader not shuffled, all steps seen, the row becomes empty",
        tables=_lone(32, 1, 1000.0),
        relation="add-remove",
        options={**_STEPS, "poisson": False, "public_rows": 32},
        runs=2000,
    ),
    Trial(
        peer=OPACUS,
        what="poisson_sampling=False, loader shuffled, all steps seen, the row becomes empty",
        tables=_lone(8, 1, 1000.0),
        relation="add-remove",
        options={**_STEPS, "poisson": False, "shuffle": True},
        runs=600,
    ),
    Trial(
        peer=JAX_PRIVACY,
        what="Poisson batches of half the rows, two steps, the row leaves",
        tables=_lone(4, 1, 1000.0, leaves=True),
        relation="add-remove",
        options={"lr": 1.0, "batch": 2, "rate": 0.5, "epochs": 1},
        runs=1500,
    ),
    Trial(
        peer=DP_EBM,
        what="a number with public bounds, one label changes",
        tables=(
            (_records([0.0] * 39 + [1.0], "f8"), _LABELS),
            (_records([0.0] * 39 + [1.0], "f8"), np.append(_LABELS[:-1], 0)),
        ),
        relation="replace-one",
        options={"max_rounds": 2},
        facts={"records": _NUMBER, "asked": [0.0, 1.0]},
        runs=400,
    ),
    Trial(
        peer=DP_EBM,
        what="a category that one row alone has",
        tables=(
            (_records(["a"] * 39 + ["z"], "U1"), _LABELS),
            (_records(["a"] * 40, "U1"), _LABELS),
        ),
        relation="replace-one",
        options={"max_rounds": 2},
        facts={"records": _CATEGORY, "asked": ["a", "z"]},
        runs=400,
    ),
    Trial(
        peer=OPENDP,
        what="LinearRegression (Theil-Sen), 40 rows, the last one leaves",
        tables=_collinear(38),
        relation="add-remove",
        facts={"x_range": (0.0, 10.0), "y_range": (0.0, 10.0)},
        epsilon=4.0,
        delta=0.0,
        runs=60_000,
    ),
    Trial(
        peer=TF_PRIVACY,
        what="logistic_objective_perturbation, empty rows, one label changes",
        tables=(
            (np.zeros((4, 1)), np.array([0, 1, 0, 1])),
            (np.zeros((4, 1)), np.array([0, 1, 0, 0])),
        ),
        relation="replace-one",
        options={"method": "objective", "epochs": 3},
        runs=100,
    ),
)
