"""The public rule of every mechanism against the best of a wide grid around it, with the table left out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm.errors import DataUnavailable, DpermError
from dperm.experiments.batches import budgets_of, problems_of
from dperm.experiments.compare import compare, specify
from dperm.losses import ClippedSquared
from dperm.mechanisms import Mechanism, resolve
from dperm.models.atomic import atomic_path
from dperm.planning.rules import AUTO
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.data import Records
from dperm_papers.reproduce.development import DevelopmentSet, read
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section
from dperm_papers.reproduce.regret import BETTER, leave_one_out

DELTA = 1e-8
MOST = 0.5
"""How many points of accuracy, or of R², a rule may be behind on average."""

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
FEWER = (0.5, 1.0, 2.0)
"""Of the main setting: around the rule, and together with another setting."""

L2 = "l2"


@dataclass(frozen=True)
class Times:
    """The value of the rule, times this."""

    factor: float


@dataclass(frozen=True)
class OfBound:
    """So much of the bound on the gradient of a row."""

    share: float


Change = Mapping[str, Any]
"""By setting, or ``l2``, a value, or one that depends on the rule."""

PLAIN: Change = {"standardise": False}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The rule with its main setting times several factors, alone and with each of several changes.

    ``most_rows`` is a limit of its own where the rule refuses more; ``kept`` has settings that stay open.
    """

    mechanism: str
    main: str
    changes: tuple[Change, ...] = ()
    factors: tuple[float, ...] = FACTORS
    fewer: tuple[float, ...] = FEWER
    most_rows: int | None = None
    kept: tuple[str, ...] = ()
    kind: str = "binary"

    def candidates(self, problem: Problem, budget: Budget) -> dict[str, tuple[Mechanism, float]]:
        """By label a mechanism with all its settings and an l2, without those that are refused."""
        found = {}
        for change in ({}, *self.changes):
            for factor in self.factors if not change else self.fewer:
                try:
                    found[label_of(self.main, factor, change)] = self._made(factor, change, problem, budget)
                except DpermError:
                    continue
        return found

    def _made(
        self, factor: float, change: Change, problem: Problem, budget: Budget
    ) -> tuple[Mechanism, float]:
        """First what is plainly set, then the rule beside it, then what is a multiple of the rule."""
        plain = {name: value for name, value in change.items() if not isinstance(value, Times | OfBound)}
        base = replace(resolve(self.mechanism), **plain)
        mechanism, l2 = by_rule(base, problem, budget, self.kept)
        scaled = {self.main: Times(factor)} | {
            name: value for name, value in change.items() if name not in plain
        }
        for name, value in scaled.items():
            if name == L2:
                l2 *= value.factor
            elif isinstance(value, OfBound):
                mechanism = replace(mechanism, **{name: value.share * problem.gradient_bound})
            else:
                mechanism = replace(mechanism, **{name: times(getattr(mechanism, name), value.factor)})
        mechanism.plan(replace(problem, l2=l2), budget)
        return mechanism, l2


def by_rule(
    base: Mechanism, problem: Problem, budget: Budget, kept: Sequence[str] = ()
) -> tuple[Mechanism, float]:
    """The mechanism with every open setting as its rule fills it in, and the l2 of its rule."""
    regularised = base.regularised(problem, budget)
    used = base.plan(regularised, budget).settings
    filled = {
        one.name: used[one.name]
        for one in fields(base)
        if getattr(base, one.name) in (None, AUTO) and one.name in used and one.name not in kept
    }
    return replace(base, **filled), regularised.l2


def times(value: Any, factor: float) -> Any:
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def label_of(main: str, factor: float, change: Change) -> str:
    words = [f"{main} × {factor:g}"]
    for name, value in change.items():
        if isinstance(value, Times):
            words.append(f"{name} × {value.factor:g}")
        elif isinstance(value, OfBound):
            words.append(f"{name} at {value.share:g} of the bound")
        else:
            words.append(f"{name} = {value}")
    return ", ".join(words)


def _scaled(name: str, *factors: float) -> tuple[Change, ...]:
    return tuple({name: Times(factor)} for factor in factors)


_DESCENT = (PLAIN, *_scaled("epochs", 0.25, 4.0), *_scaled(L2, 0.25, 4.0), {"clip": None})
_STEPS = (PLAIN, *_scaled("steps", 0.5, 2.0))

GRIDS: tuple[Grid, ...] = (
    Grid(
        mechanism="rsgd-ar",
        main="step_size",
        changes=(*_DESCENT, {"epochs": Times(4.0), "average_every": Times(4.0)}, *_scaled("average_every", 0.25)),
        fewer=(0.5, 1.0),
    ),
    Grid(mechanism="rsgd", main="step_size", changes=_DESCENT, fewer=(0.5, 1.0)),
    Grid(mechanism="nsgd", main="step_size", changes=_DESCENT, fewer=(0.5, 1.0)),
    Grid(
        mechanism="output-gd",
        main="step_size",
        changes=(PLAIN, *_scaled("iterations", 0.25, 4.0), *_scaled(L2, 0.25, 4.0), {"clip": None}),
        fewer=(0.5, 1.0),
    ),
    Grid(
        mechanism="bolt-on",
        main="step_size",
        changes=(PLAIN, *_scaled("passes", 0.25, 4.0), *_scaled(L2, 0.25, 4.0), {"clip": None}),
        fewer=(0.5, 1.0),
    ),
    Grid(mechanism="output", main=L2, changes=(PLAIN,), fewer=FACTORS),
    Grid(
        mechanism="psgd",
        main="step_size",
        changes=(*_STEPS, *_scaled("radius", 0.5, 2.0), {"clip": OfBound(0.4)}, {"momentum": 0.0}),
    ),
    Grid(
        mechanism="dp-svrg",
        main="outer",
        changes=(PLAIN, *_scaled("step_size", 0.25, 0.5, 2.0), {"inner": 1}, {"inner": 2}, {"full_share": 0.9}),
    ),
    Grid(
        mechanism="noisy-sgd",
        main="epochs",
        changes=(PLAIN, *_scaled("step_size", 0.25, 0.5, 2.0), *_scaled("batch_size", 0.25)),
        kept=("radius",),
    ),
    Grid(
        mechanism="dp-agd",
        main="splits",
        changes=(PLAIN, *_scaled("largest_step", 0.5, 2.0), *_scaled("choice_share", 0.5, 2.0)),
    ),
    Grid(
        mechanism="sgd-ma",
        main="step_size",
        changes=(*_STEPS, *_scaled("clip", 0.5, 2.0), {"momentum": 0.0}),
    ),
    Grid(
        mechanism="dp-sgd-adv",
        main="step_size",
        changes=(*_scaled("radius", 0.5, 2.0), *_scaled("steps", 2.0), {"momentum": 0.0}),
        most_rows=3_000,
    ),
    Grid(
        mechanism="dp-gd",
        main="step_size",
        changes=(*_STEPS, {"clip": OfBound(0.4)}, {"momentum": 0.0}, *_scaled(L2, 4.0)),
    ),
    Grid(
        mechanism="dp-sgd",
        main="step_size",
        changes=(*_STEPS, *_scaled("clip", 0.5, 2.0), {"momentum": 0.0}),
    ),
    Grid(mechanism="dp-cd", main="step_size", changes=(PLAIN, *_scaled("passes", 0.25, 0.5, 2.0))),
    Grid(mechanism="frank-wolfe", main="radius", changes=(PLAIN, *_scaled("steps", 0.25, 0.5, 2.0))),
    Grid(mechanism="objective-kst", main=L2, changes=(PLAIN,), fewer=FACTORS),
    Grid(mechanism="amp", main=L2, changes=(PLAIN,), fewer=FACTORS),
    Grid(mechanism="objective-pure", main=L2, changes=_scaled("output_share", 10.0), fewer=FACTORS),
    Grid(mechanism="ssp", main=L2, changes=(PLAIN, *_scaled("weight", 0.5, 2.0)), fewer=FACTORS),
    Grid(
        mechanism="adassp",
        main="failure",
        changes=({"standardise": "linear"}, *_scaled(L2, 4.0, 16.0), {"target_bound": 0.5}),
        kind="regression",
    ),
)

TABLES = {
    "binary": (
        "adult",
        "bank",
        "ipums-br",
        "cps",
        "cardio",
        "credit_risk",
        "dutch_census",
        "law_school",
    ),
    "regression": ("alevel_chemistry", "bike_hour", "diamonds", "kc_house", "loan_rate"),
}
"""Of the development sets: two classes of many kinds, and all with numbers."""

SCORES = {"binary": "accuracy", "regression": "r2"}


@dataclass(frozen=True, kw_only=True)
class Size:
    epsilons: tuple[float, ...] = (0.5, 1.0)
    folds: int = 3
    most_rows: int = 18_000
    mechanisms: tuple[str, ...] = tuple(grid.mechanism for grid in GRIDS)


FULL, QUICK = Size(), Size(folds=2, most_rows=4_000)


def measure(
    some: DevelopmentSet, records: Records, grid: Grid, epsilon: float, size: Size, bench: Bench
) -> pa.Table:
    """Rows ``dataset, mechanism, epsilon, candidate, l2, score``: the mean over the folds, in points."""
    y_range = some.schema.target.range
    common: dict[str, Any] = {"dataset": records.name, "delta": DELTA, "folds": size.folds, "repeats": 1}
    common |= {"epsilons": [epsilon], "seed": bench.seed, "y_range": y_range}
    spec, rows = specify(records.X, records.y, mechanisms=[grid.mechanism], **common)
    (problem, *_), (budget,) = problems_of(spec, rows.held_out), budgets_of(spec)
    candidates = grid.candidates(problem, budget)

    def make() -> list[dict[str, Any]]:
        found = []
        for label, (mechanism, l2) in candidates.items():
            results = compare(records.X, records.y, mechanisms={label: mechanism}, l2=l2, **common)
            about = {"dataset": records.name, "mechanism": grid.mechanism, "kind": some.kind}
            scores = results[SCORES[some.kind]].to_numpy()
            if len(scores) == size.folds:
                score = 100 * float(np.mean(scores))
                found.append({**about, "epsilon": epsilon, "candidate": label, "l2": l2, "score": score})
        return found

    key = {
        "rows": spec.rows,
        "candidates": {label: [mechanism, l2] for label, (mechanism, l2) in candidates.items()},
        **{name: list(value) if isinstance(value, tuple) else value for name, value in common.items()},
    }
    return cached(bench.parts, f"rules-{grid.mechanism}", key, make, bench.fresh)
