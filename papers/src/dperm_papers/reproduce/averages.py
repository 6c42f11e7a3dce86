"""RSGD-AR with averages of its iterates, against its rule, which mostly takes none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dperm.errors import DataUnavailable
from dperm.experiments.batches import budgets_of, problems_of
from dperm.experiments.compare import compare, specify
from dperm.mechanisms import RSGDAR
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.data import Records
from dperm_papers.reproduce.development import read
from dperm_papers.reproduce.item import Bench, Item, Report, Section
from dperm_papers.reproduce.rules import DELTA, TABLES, by_rule


@dataclass(frozen=True, kw_only=True)
class Size:
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0)
    folds: int = 3
    repeats: int = 4
    most_rows: int = 18_000


FULL, QUICK = Size(), Size(folds=2, repeats=1, most_rows=4_000)

AVERAGES = ((1, 1), (1, 2), (2, 1), (2, 2), (2, 4))
"""Times the epochs of the rule, and how often RSGD-AR then averages its iterates, the last time at the end."""

THE_RULE = "the rule"


def averaged(times: int, averages: int, rule: RSGDAR) -> RSGDAR:
    """With about so many times the epochs of the rule; the step follows from its own rule."""
    assert rule.epochs is not None
    every = max(1, round(rule.epochs * times / averages))
    return RSGDAR(epochs=every * averages, average_every=every)


def measure(records: Records, size: Size, bench: Bench) -> pa.Table:
    """Rows ``dataset, epsilon, averages, score, seconds`` of RSGD-AR, the mean of all folds; the rule comes first."""
    common: dict[str, Any] = {
        "dataset": records.name,
        "delta": DELTA,
        "folds": size.folds,
        "repeats": size.repeats,
        "seed": bench.seed,
    }
    spec, rows = specify(records.X, records.y, mechanisms=["rsgd-ar"], epsilons=size.epsilons, **common)
    problem = problems_of(spec, rows.held_out)[0]
    shapes: dict[str, dict[str, RSGDAR]] = {}
    for budget in budgets_of(spec):
        rule, _ = by_rule(RSGDAR(), problem, budget)
        assert isinstance(rule, RSGDAR)
        shapes[f"{budget.epsilon:g}"] = {
            THE_RULE: RSGDAR(),
            **{in_words(*shape): averaged(*shape, rule) for shape in AVERAGES},
        }

    def make() -> list[dict[str, Any]]:
        found = []
        for epsilon, mechanisms in shapes.items():
            for label, mechanism in mechanisms.items():
                results = compare(
                    records.X, records.y, mechanisms={label: mechanism}, epsilons=[float(epsilon)], **common
                )
                scores, seconds = (results[name].to_numpy() for name in ("accuracy", "seconds"))
                about = {"dataset": records.name, "epsilon": float(epsilon), "averages": label}
                found.append({**about, "score": 100 * float(scores.mean()), "seconds": float(seconds.sum())})
        return found

    key = {"rows": spec.rows, "shapes": shapes, **common}
    return cached(bench.parts, "averages", key, make, bench.fresh)


def in_words(times: int, averages: int) -> str:
    return f"{times} × the epochs, {averages} average{'s' if averages > 1 else ''}"


def _section(tables: Sequence[pa.Table], size: Size) -> Section:
    rows = pa.concat_tables(tables).to_pylist()
    rule = {(row["dataset"], row["epsilon"]): row for row in rows if row["averages"] == THE_RULE}
    shown = []
    for label in dict.fromkeys(row["averages"] for row in rows if row["averages"] != THE_RULE):
        mine = [(row, rule[row["dataset"], row["epsilon"]]) for row in rows if row["averages"] == label]
        leads = [
            np.mean([row["score"] - own["score"] for row, own in mine if row["epsilon"] == epsilon])
            for epsilon in size.epsilons
        ]
        slower = np.median([row["seconds"] / own["seconds"] for row, own in mine])
        shown.append((label, *(f"{lead:+.2f}" for lead in leads), f"{slower:.1f}"))
    return Section(
        title="rsgd-ar with averages: points ahead of the rule, mean over the tables",
        columns=("averages", *(f"ε = {epsilon:g}" for epsilon in size.epsilons), "time over the rule's"),
        rows=tuple(shown),
    )


def _study(bench: Bench) -> Report:
    size = QUICK if bench.quick else FULL
    tables, skipped = [], []
    for name in bench.among(TABLES["binary"]):
        try:
            some = read(name, bench.most_rows or size.most_rows)
        except DataUnavailable as error:
            skipped.append(f"{name}: {error}")
            continue
        report = bench.progress(name)
        tables.append(measure(replace(some.records(), name=name), size, bench))
        report(1, 1)
    return Report(sections=(_section(tables, size),) if tables else (), skipped=tuple(skipped))


ITEMS = {
    "averages": Item(
        name="averages",
        title="RSGD-AR with averages of its iterates against its rule",
        paper="this library",
        run=_study,
        published="Nothing of the kind is published.",
        differs=(
            "Rows as the schema encodes them, at most 18,000 of a table, 4 × 3 folds, δ = 1e-8, nothing given but the "
            "budget. Iterates are averaged at the end, alone or at restarts too, over the epochs of the rule or twice "
            "as many; the step follows from the rule for such a schedule.",
        ),
        datasets=lambda: TABLES["binary"],
    )
}
