"""Beyond the papers: the best that can be had at each epsilon, then and now."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm.experiments.results import Curve, curves
from dperm.experiments.spec import Configuration, Method, configurations_of
from dperm.mechanisms import mechanism_names, resolve
from dperm.models.atomic import atomic_path
from dperm_papers.reproduce import rsgd
from dperm_papers.reproduce.drawing import Line, draw_lines
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section
from dperm_papers.reproduce.studies import (
    BASELINES,
    Comparison,
    load_each,
    promise_checks,
    refusals,
    write,
)

AUTO = "auto"
PAPER_METHODS: dict[str, Method] = {
    **rsgd.METHODS,
    "AMP": "amp:paper",
    "Out-SGD": "bolt-on:paper",
    "DP-SGD": "dp-sgd:paper",
    "DP-GD": "dp-gd:paper",
}
"""The methods of both papers with the accounting of their papers."""

LEFT_OUT = {
    "dp-sgd-adv": "its theorem asks for so many steps on single rows that one model takes more than a minute",
}
"""Mechanisms that are far from the envelope and cost more time than all others together."""


def tight_mechanisms() -> dict[str, Method]:
    """Every registered private mechanism that has a tight accounting, and three of them on rows as they came."""
    found: dict[str, Method] = {}
    for name in mechanism_names():
        mechanism = resolve(name)
        if mechanism.private and mechanism.accounting == "tight" and name not in LEFT_OUT:
            found[name] = mechanism
    for name in ("objective", "dp-gd", "ssp"):
        found[f"{name}, not standardised"] = replace(resolve(name), standardise=False)
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Point:
    """The best configuration at one epsilon."""

    epsilon: float
    label: str
    accuracy: float
    band: tuple[float, float]


def envelope(found: Sequence[Curve], without: Container[tuple[str, float]] = ()) -> list[Point]:
    """The highest mean accuracy at each epsilon. The choice looks at the test rows, so it is NOT private."""
    points = []
    for epsilon in sorted({float(epsilon) for curve in found for epsilon in curve.epsilons}):
        runs = {
            curve.label: curve.accuracy[curve.epsilons.tolist().index(epsilon)]
            for curve in found
            if epsilon in curve.epsilons and (curve.label, epsilon) not in without
        }
        if not runs:
            continue
        best = max(runs, key=lambda label: float(runs[label].mean()))
        low, high = np.percentile(100 * runs[best], (10, 90))
        points.append(
            Point(
                epsilon=epsilon,
                label=best,
                accuracy=100 * float(runs[best].mean()),
                band=(float(low), float(high)),
            )
        )
    return points


@dataclass(frozen=True, eq=False, kw_only=True)
class Frontier:
    """Of one data set: the papers' methods then, all mechanisms now, and the public rule.

    ``claimed`` also has methods whose published noise is too small for the epsilon; ``then`` leaves them out.
    """

    dataset: str
    claimed: list[Point]
    then: list[Point]
    now: list[Point]
    auto: list[Point]
    levels: dict[str, float]

    @classmethod
    def of(
        cls,
        dataset: str,
        results: pa.Table,
        papers: Sequence[str],
        tight: Sequence[str],
        broken: Container[tuple[str, float]],
    ) -> "Frontier":
        found = {curve.label: curve for curve in curves(results)}
        return cls(
            dataset=dataset,
            claimed=envelope([found[label] for label in papers if label in found]),
            then=envelope([found[label] for label in papers if label in found], broken),
            now=envelope([found[label] for label in tight if label in found]),
            auto=envelope([found[label] for label in (AUTO,) if label in found]),
            levels={
                label: 100 * float(found[label].accuracy[0].mean()) for label in BASELINES if label in found
            },
        )

    def rows(self) -> list[dict[str, object]]:
        """One per epsilon that both envelopes have."""
        now = {point.epsilon: point for point in self.now}
        auto = {point.epsilon: point for point in self.auto}
        claimed = {point.epsilon: point for point in self.claimed}
        return [
            {
                "dataset": self.dataset,
                "epsilon": then.epsilon,
                "claimed": claimed[then.epsilon].accuracy,
                "claimed_method": claimed[then.epsilon].label,
                "then": then.accuracy,
                "then_method": then.label,
                "now": now[then.epsilon].accuracy,
                "now_method": now[then.epsilon].label,
                "gained": now[then.epsilon].accuracy - then.accuracy,
                "auto": auto[then.epsilon].accuracy if then.epsilon in auto else None,
                "auto_gained": auto[then.epsilon].accuracy - then.accuracy if then.epsilon in auto else None,
            }
            for then in self.then
            if then.epsilon in now
        ]


def _labelled(methods: dict[str, Method]) -> dict[str, Configuration]:
    return {configuration.label: configuration for configuration in configurations_of(methods)}


def _run(bench: Bench) -> Report:
    size = rsgd.QUICK if bench.quick else rsgd.FULL
    papers = _labelled(PAPER_METHODS)
    tight = _labelled(tight_mechanisms())
    everyone: dict[str, Method] = {**papers, **tight, **BASELINES}
    tables: list[pa.Table] = []
    frontiers: list[Frontier] = []
    checks: list[Check] = []
    skipped = [f"{name}: {reason}" for name, reason in LEFT_OUT.items()]
    for name in bench.among(rsgd.CENSUS):
        at_hand, missing = load_each([name], size.n_rows)
        skipped += missing
        for records in at_hand:
            comparison = Comparison(
                records=records,
                configurations=everyone,
                epsilons=size.epsilons,
                delta=rsgd.DELTA,
                l2=rsgd.L2,
                folds=size.folds,
                repeats=size.repeats,
            )
            results, broken = comparison.run(bench), comparison.broken_promises()
            tables.append(results)
            frontiers.append(Frontier.of(records.name, results, list(papers), list(tight), broken))
            checks += [_check(frontiers[-1]), *promise_checks(records.name, broken)]
            skipped += refusals(results)
    if not tables:
        return Report(skipped=tuple(skipped))
    files = [*write(tables, bench, "all-mechanisms.png"), *_write(frontiers, bench.folder)]
    return Report(
        sections=tuple(_section(frontier) for frontier in frontiers),
        checks=tuple(checks),
        skipped=tuple(skipped),
        results=tuple(tables),
        files=tuple(files),
    )


def _write(frontiers: Sequence[Frontier], folder: Path) -> list[Path]:
    table, figure = folder / "frontier.parquet", folder / "figure.png"
    with atomic_path(table) as unfinished:
        pq.write_table(
            pa.Table.from_pylist([row for frontier in frontiers for row in frontier.rows()]), unfinished
        )
    panels = []
    for frontier in frontiers:
        lines = [
            _line("all mechanisms, tight accounting (oracle, not private)", frontier.now),
            _line("the papers' methods and accounting (oracle, not private)", frontier.then),
            _line("auto, a public rule", frontier.auto, band=False),
            _line("as claimed, with noise that breaks its promise", frontier.claimed, band=False),
        ]
        epsilons = tuple(point.epsilon for point in frontier.now)
        lines += [
            Line(label=label, x=epsilons, y=(level,) * len(epsilons), dashed=True)
            for label, level in frontier.levels.items()
        ]
        panels.append((frontier.dataset, lines))
    draw_lines(
        panels,
        figure,
        title="The best accuracy at each ε, then and now",
        x_label="ε (more privacy to the left)",
        y_label="accuracy on held-out rows, %",
        note="Envelopes pick the best mechanism on the test rows: an oracle, not a private choice. "
        "Bands: 10th to 90th percentile of the runs of the best.",
        log=("x",),
    )
    return [table, figure]


def _line(label: str, points: Sequence[Point], band: bool = True) -> Line:
    return Line(
        label=label,
        x=tuple(point.epsilon for point in points),
        y=tuple(point.accuracy for point in points),
        band=tuple(point.band for point in points) if band else (),
    )


def _section(frontier: Frontier) -> Section:
    rows = [
        (
            f"{row['epsilon']:g}",
            f"{row['claimed']:.1f}",
            str(row["claimed_method"]),
            f"{row['then']:.1f}",
            str(row["then_method"]),
            f"{row['now']:.1f}",
            str(row["now_method"]),
            f"{row['gained']:+.1f}",
            "" if row["auto"] is None else f"{row['auto']:.1f}",
            "" if row["auto_gained"] is None else f"{row['auto_gained']:+.1f}",
        )
        for row in frontier.rows()
    ]
    return Section(
        title=f"{frontier.dataset}: best accuracy in % (envelopes are oracles, not private) and points gained",
        columns=("ε", "claimed", "by", "then", "by", "now", "by", "gained", "auto", "auto gained"),
        rows=tuple(rows),
    )


def _check(frontier: Frontier) -> Check:
    gains = [float(str(row["gained"])) for row in frontier.rows()]
    return Check(
        claim=f"{frontier.dataset}: the envelope of all mechanisms is nowhere below that of the papers "
        f"[{', '.join(f'{gain:+.1f}' for gain in gains)}]",
        holds=min(gains, default=0.0) >= -0.05,
    )


ITEMS = {
    "frontier": Item(
        name="frontier",
        title="The best accuracy at each ε: all mechanisms with tight accounting against the papers' own",
        paper="this library; against the methods of Chen, Lee & Kifer (2019) and Yu et al. (2020)",
        run=_run,
        datasets=lambda: rsgd.CENSUS,
        family=rsgd.FAMILY,
        published="Nothing was published: this goes beyond the papers.",
        differs=(
            "Both envelopes take the mechanism that is best on the test rows at each ε. That is an oracle: it shows "
            "what there is to gain, and is no private choice. 'auto' is one: it looks at public facts alone.",
            "'claimed' counts every paper's noise as its paper does. 'then' leaves out noise that does not reach its ε "
            "under replace-one when computed exactly: that of an add-remove price, and that of a proof with an error. "
            "Points gained are against 'then', which keeps the same promise as 'now'.",
            "All methods run with the settings of their public rules, replace-one, δ = 1e-8, l2 = 1e-3.",
        ),
    ),
}
