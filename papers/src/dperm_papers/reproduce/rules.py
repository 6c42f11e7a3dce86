"""The public rule of every mechanism against the best of a wide grid around it, with the table left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dperm.errors import DataUnavailable, DpermError
from dperm.experiments.batches import budgets_of, problems_of
from dperm.experiments.compare import compare, specify
from dperm.mechanisms import Mechanism, resolve
from dperm.models.atomic import atomic_path
from dperm.planning.rules import AUTO
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.data import Records
from dperm_papers.reproduce.development import DevelopmentSet, read
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section

DELTA = 1e-8
MOST = 0.5
"""How many points of accuracy, or of R², a rule may be behind on average."""

FACTORS = (1.0, 0.25, 0.5, 2.0, 4.0)
FEWER = (1.0, 0.5, 2.0)
"""Of the main setting: the rule and around it, alone and together with another setting."""

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
UNCLIPPED: Change = {"clip": None}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The rule with its main setting times several factors, alone and with each of several changes.

    ``kept`` has settings that stay open.
    """

    mechanism: str
    main: str
    changes: tuple[Change, ...] = ()
    factors: tuple[float, ...] = FACTORS
    fewer: tuple[float, ...] = FEWER
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
        settings: dict[str, Any] = {}
        for name, value in scaled.items():
            if name == L2:
                l2 *= value.factor
            elif isinstance(value, OfBound):
                settings[name] = value.share * problem.gradient_bound
            else:
                settings[name] = times(getattr(mechanism, name), value.factor)
        mechanism = replace(mechanism, **settings)
        mechanism.plan(replace(problem, l2=l2), budget)
        return mechanism, l2


def by_rule(
    base: Mechanism, problem: Problem, budget: Budget, kept: Sequence[str] = ()
) -> tuple[Mechanism, float]:
    """The mechanism with every open setting as its rule fills it in, and the l2 of its rule."""
    regularised = base.regularised(problem, budget)
    used = base.plan(regularised, budget).settings
    filled: dict[str, Any] = {
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


_DESCENT = (PLAIN, *_scaled("epochs", 0.25, 4.0), *_scaled(L2, 0.25, 4.0), UNCLIPPED)
_STEPS = (PLAIN, *_scaled("steps", 0.5, 2.0))

GRIDS: tuple[Grid, ...] = (
    Grid(
        mechanism="rsgd-ar",
        main="step_size",
        changes=(
            *_DESCENT,
            {"epochs": Times(4.0), "average_every": Times(4.0)},
            *_scaled("average_every", 0.25),
        ),
        fewer=(1.0, 0.5),
    ),
    Grid(mechanism="rsgd", main="step_size", changes=_DESCENT, fewer=(1.0, 0.5)),
    Grid(mechanism="nsgd", main="step_size", changes=_DESCENT, fewer=(1.0, 0.5)),
    Grid(
        mechanism="output-gd",
        main="step_size",
        changes=(PLAIN, *_scaled("iterations", 0.25, 4.0), *_scaled(L2, 0.25, 4.0), UNCLIPPED),
        fewer=(1.0, 0.5),
    ),
    Grid(
        mechanism="bolt-on",
        main="step_size",
        changes=(PLAIN, *_scaled("passes", 0.25, 4.0), *_scaled(L2, 0.25, 4.0), UNCLIPPED),
        fewer=(1.0, 0.5),
    ),
    Grid(mechanism="output", main=L2, changes=(PLAIN, UNCLIPPED), fewer=FACTORS),
    Grid(
        mechanism="psgd",
        main="step_size",
        changes=(*_STEPS, *_scaled("radius", 0.5, 2.0), {"clip": OfBound(0.4)}, {"momentum": 0.0}),
    ),
    Grid(
        mechanism="dp-svrg",
        main="outer",
        changes=(
            PLAIN,
            UNCLIPPED,
            *_scaled("step_size", 0.25, 0.5, 2.0),
            {"inner": 1},
            {"inner": 2},
            {"full_share": 0.9},
        ),
    ),
    Grid(
        mechanism="noisy-sgd",
        main="epochs",
        changes=(PLAIN, UNCLIPPED, *_scaled("step_size", 0.25, 0.5, 2.0), *_scaled("batch_size", 0.25)),
        kept=("radius",),
    ),
    Grid(
        mechanism="dp-agd",
        main="splits",
        changes=(PLAIN, UNCLIPPED, *_scaled("largest_step", 0.5, 2.0), *_scaled("choice_share", 0.5, 2.0)),
    ),
    Grid(
        mechanism="sgd-ma",
        main="step_size",
        changes=(*_STEPS, *_scaled("clip", 0.5, 2.0), {"momentum": 0.0}),
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
    Grid(
        mechanism="frank-wolfe", main="radius", changes=(PLAIN, UNCLIPPED, *_scaled("steps", 0.25, 0.5, 2.0))
    ),
    Grid(mechanism="objective", main=L2, changes=(PLAIN, UNCLIPPED), fewer=FACTORS),
    Grid(mechanism="objective-kst", main=L2, changes=(PLAIN, UNCLIPPED), fewer=FACTORS),
    Grid(mechanism="amp", main=L2, changes=(PLAIN, UNCLIPPED), fewer=FACTORS),
    Grid(
        mechanism="objective-pure",
        main=L2,
        changes=(UNCLIPPED, *_scaled("output_share", 10.0)),
        fewer=FACTORS,
    ),
    Grid(mechanism="ssp", main=L2, changes=(PLAIN, *_scaled("weight", 0.5, 2.0)), fewer=FACTORS),
    Grid(
        mechanism="adassp",
        main="failure",
        changes=({"standardise": "linear"}, *_scaled(L2, 4.0, 16.0), {"target_bound": 0.5}),
        kind="regression",
    ),
)

TABLES = {
    "binary": ("adult", "bank", "ipums-br", "cps", "cardio", "law_school"),
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
    """Rows ``dataset, mechanism, epsilon, candidate, l2, fold, score``, the score in points; the rule comes first."""
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
            about = {"dataset": records.name, "mechanism": grid.mechanism, "epsilon": epsilon}
            scores = results[SCORES[some.kind]].to_pylist()
            if len(scores) == size.folds:
                about |= {"candidate": label, "l2": l2}
                found += [{**about, "fold": fold, "score": 100 * score} for fold, score in enumerate(scores)]
        return found

    key = {
        "rows": spec.rows,
        "candidates": {label: [mechanism, l2] for label, (mechanism, l2) in candidates.items()},
        **{name: list(value) if isinstance(value, tuple) else value for name, value in common.items()},
    }
    return cached(bench.parts, f"rules-{grid.mechanism}", key, make, bench.fresh)


Cell = tuple[str, float]
"""A data set and an epsilon."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Regrets:
    """How far the rule of one mechanism stays behind, in points by data set and epsilon.

    ``rule`` is against the setting that is best on all folds but one, judged on that one; ``lucky`` against the setting
    that is best on the very folds that judge it; ``left_out`` is ``rule`` for the setting that is best on the other
    data sets, which ``choices`` names.
    """

    mechanism: str
    rule: Mapping[Cell, float]
    lucky: Mapping[Cell, float]
    left_out: Mapping[Cell, float]
    choices: Mapping[str, str]
    settings: int

    @classmethod
    def of(cls, results: pa.Table) -> "Regrets":
        """Of the rows of one mechanism."""
        scores: dict[Cell, dict[str, list[float]]] = {}
        for row in results.to_pylist():
            cell = scores.setdefault((row["dataset"], row["epsilon"]), {})
            cell.setdefault(row["candidate"], []).append(row["score"])
        names = {cell: list(found) for cell, found in scores.items()}
        tables = {cell: np.array(list(found.values())) for cell, found in scores.items()}
        common = [name for name in next(iter(names.values())) if all(name in some for some in names.values())]
        choices = {
            dataset: max(
                common,
                key=lambda name: sum(
                    float(np.mean(found[name])) for (other, _), found in scores.items() if other != dataset
                ),
            )
            for dataset in dict.fromkeys(dataset for dataset, _ in scores)
        }
        place = {cell: names[cell].index(choices[cell[0]]) for cell in scores}
        return cls(
            mechanism=results["mechanism"][0].as_py(),
            rule={cell: regret(table) for cell, table in tables.items()},
            lucky={
                cell: float((table.mean(axis=1) - table[0].mean()).max()) for cell, table in tables.items()
            },
            left_out={cell: regret(table, place[cell]) for cell, table in tables.items()},
            choices=choices,
            settings=max(map(len, names.values())),
        )

    def mean(self, of: Mapping[Cell, float], epsilon: float) -> float:
        return float(np.mean([value for (_, at), value in of.items() if at == epsilon]))

    def row(self, epsilons: Sequence[float]) -> tuple[str, ...]:
        worst = max(self.rule, key=self.rule.__getitem__)
        kinds = (self.rule, self.lucky, self.left_out)
        return (
            self.mechanism,
            str(len(self.choices)),
            str(self.settings),
            *(f"{self.mean(of, epsilon):.2f}" for of in kinds for epsilon in epsilons),
            f"{self.rule[worst]:.2f}",
            f"{worst[0]}, ε = {worst[1]:g}",
        )


def regret(scores: NDArray[np.float64], mine: int = 0) -> float:
    """How far a setting is behind the best one, which is chosen without the fold that it is judged on.

    ``scores`` has a row for each setting and a column for each fold; of two equal settings the first is chosen.
    """
    found = []
    for fold in range(scores.shape[1]):
        best = int(np.delete(scores, fold, axis=1).mean(axis=1).argmax())
        found.append(scores[best, fold] - scores[mine, fold])
    return float(np.mean(found))


def _study(bench: Bench) -> Report:
    size = QUICK if bench.quick else FULL
    found: dict[str, list[pa.Table]] = {grid.mechanism: [] for grid in GRIDS}
    skipped = []
    for kind, names in TABLES.items():
        grids = [grid for grid in GRIDS if grid.kind == kind]
        for name in bench.among(names):
            try:
                some = read(name, bench.most_rows or size.most_rows)
            except DataUnavailable as error:
                skipped.append(f"{name}: {error}")
                continue
            records, report = replace(some.records(), name=name), bench.progress(name)
            for place, grid in enumerate(grids):
                report(place, len(grids))
                found[grid.mechanism] += [
                    measure(some, records, grid, epsilon, size, bench) for epsilon in size.epsilons
                ]
            report(len(grids), len(grids))
    regrets = [Regrets.of(pa.concat_tables(tables)) for tables in found.values() if tables]
    every = [table for tables in found.values() for table in tables]
    files = []
    if every:
        files = [bench.folder / "results.parquet"]
        with atomic_path(files[0]) as unfinished:
            pq.write_table(pa.concat_tables(every), unfinished)
    return Report(
        sections=(_section(regrets, size),) if regrets else (),
        checks=tuple(_check(one, epsilon) for one in regrets for epsilon in size.epsilons),
        skipped=tuple(skipped),
        files=tuple(files),
    )


def _section(regrets: Sequence[Regrets], size: Size) -> Section:
    lines = ("rule", "with luck", "left out")
    headings = [f"{line}, ε = {epsilon:g}" for line in lines for epsilon in size.epsilons]
    return Section(
        title="points behind the best of the grid, mean over the tables",
        columns=("mechanism", "tables", "settings", *headings, "worst of the rule", "where"),
        rows=tuple(one.row(size.epsilons) for one in regrets),
    )


def _check(one: Regrets, epsilon: float) -> Check:
    mean = one.mean(one.rule, epsilon)
    return Check(
        claim=f"{one.mechanism}: its rule is at most {MOST:g} points behind the best of its grid on average at "
        f"ε = {epsilon:g} [{mean:.2f}]",
        holds=mean <= MOST,
    )


ITEMS = {
    "rules": Item(
        name="rules",
        title="The public rule of every mechanism against the best of a wide grid around it",
        paper="this library",
        run=_study,
        published="Nothing of the kind is published: papers give the best on test.",
        differs=(
            "dp-sgd-adv is left out: its theorem refuses tables from which something can be learned at this δ.",
            "Rows as the schema encodes them, at most 18,000 of a table, three folds, δ = 1e-8, nothing given but the "
            "budget. Scores are accuracy for labels and R² for numbers, both in points of 100.",
            "The grid is the rule with its main setting times 1/4 to 4, alone and together with one other change: "
            "rows as they came, more or fewer steps, other batches, clips, penalties. The best of it is chosen on all "
            "folds but one and judged on that one, in turn. 'With luck' it is chosen on the very folds that judge it: "
            "the best of some twenty noisy numbers, which is above what any setting keeps.",
            "'Left out' is the regret of the setting, relative to the rule, that is best on the other tables: what "
            "the constants would have been without this one.",
        ),
        datasets=lambda: tuple(name for names in TABLES.values() for name in names),
        family="rules",
    )
}
