"""Comparisons that items share: every configuration is a run of its own, so that the same run is done once."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dperm.errors import DataUnavailable
from dperm.experiments.batches import Rows, budgets_of, plan_grid, problems_of
from dperm.experiments.compare import specify
from dperm.experiments.figures import figure_of, save
from dperm.experiments.metrics import METRICS, with_error
from dperm.experiments.results import RULE, Study, combine, curves, make_results, mean_and_error
from dperm.experiments.runner import run
from dperm.experiments.series import error_in_words
from dperm.experiments.spec import ORACLE_MARK, Configuration, Method, Spec
from dperm.experiments.store import merged
from dperm.models.atomic import atomic_path
from dperm_papers.reproduce import data
from dperm_papers.reproduce.item import Bench, Check, Progress, Section

NON_PRIVATE, MAJORITY = "NonPrivate", "Majority"
BASELINES: dict[str, Method] = {NON_PRIVATE: "none", MAJORITY: "majority"}

PAPER_METRICS = ("accuracy", "objective")
"""What the papers' own figures show."""

BY_RULE, AS_PUBLISHED, BEST = ", by rule", ", as published", ", best of a grid"
LINES = (AS_PUBLISHED, BY_RULE, BEST)
"""How the labels of a method end: what its paper has, its public rule, and the best on test of a grid with the rule."""

KEPT = 1
"""Settings of a grid that run on all repeats, at each epsilon and besides the rule."""

_LEVEL = 0.002  # folds need not hold the labels in equal shares


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """One data set, one loss, and who takes part at which epsilons.

    Without ``l2`` it is what a comparison takes by default.
    """

    records: data.Records
    configurations: Mapping[str, Method]
    epsilons: Sequence[float]
    delta: float
    l2: float | None = None
    loss: str = "logistic"
    folds: int = 5
    repeats: int = 1

    def _specify(self, seed: int) -> tuple[Spec, Rows]:
        penalty: dict[str, Any] = {} if self.l2 is None else {"l2": self.l2}
        return specify(
            self.records.X,
            self.records.y,
            dataset=self.records.name,
            loss=self.loss,
            mechanisms=self.configurations,
            epsilons=self.epsilons,
            delta=self.delta,
            folds=self.folds,
            repeats=self.repeats,
            held_out=self.records.held_out,
            seed=seed,
            **penalty,
        )

    def broken_promises(self) -> dict[tuple[str, float], str]:
        """Where a paper's own noise does not reach its epsilon under the relation used here, and by how much."""
        spec, rows = self._specify(0)
        problems, budgets = problems_of(spec, rows.held_out), budgets_of(spec)
        found = {}
        for configuration in spec.configurations:
            if configuration.accounting == "paper" and configuration.tuning == RULE:
                grid, _ = plan_grid(configuration, configuration.candidates[0], problems, budgets, spec.l2)
                for epsilon, plans in grid.items():
                    reasons = [
                        plan.not_certified for plan in plans.values() if plan.not_certified is not None
                    ]
                    if reasons:
                        found[configuration.label, epsilon] = reasons[0]
        return found

    def run(self, bench: Bench) -> pa.Table:
        """The results of all configurations, as of one study."""
        spec, rows = self._specify(bench.seed)
        report = bench.progress(f"{self.records.name}, {spec.loss}")
        tables = []
        for place, configuration in enumerate(spec.configurations):
            alone = replace(spec, configurations=(configuration,))
            progress = _within(report, place, len(spec.configurations))
            tables.append(run(alone, rows, folder=bench.parts, fresh=bench.fresh, progress=progress))
        return as_one(tables)


def _within(report: Progress, place: int, count: int) -> Progress:
    """Progress of one configuration among several, in thousandths of the whole."""
    return lambda done, total: report(round(1000 * (place + done / total) / count), 1000)


def as_one(tables: Sequence[pa.Table]) -> pa.Table:
    """Results of the same rows and splits, run one configuration at a time, as the results of one study."""
    studies = [Study.of(table) for table in tables]
    study = replace(
        studies[0],
        repeats=max(study.repeats for study in studies),
        identity=" ".join(study.identity[:16] for study in studies),
        configurations=tuple(configuration for study in studies for configuration in study.configurations),
        versions=merged([study.versions for study in studies]),
        machine=merged([study.machine for study in studies]),
        skipped=tuple(skipped for study in studies for skipped in study.skipped),
    )
    return make_results(pa.concat_tables([table.replace_schema_metadata(None) for table in tables]), study)


def load_each(names: Sequence[str], n_rows: int | None = None) -> tuple[list[data.Records], list[str]]:
    """The data sets that are at hand, and why the others are not."""
    found, missing = [], []
    for name in names:
        try:
            records = data.load(name)
        except DataUnavailable as error:
            missing.append(f"{name}: {error}")
        else:
            found.append(records if n_rows is None else records.sample(n_rows))
    return found, missing


def mean_accuracy(results: pa.Table) -> dict[tuple[str, float], float]:
    """Mean accuracy in % by label and epsilon."""
    return {
        (curve.label, float(epsilon)): 100 * float(runs.mean())
        for curve in curves(results)
        for epsilon, runs in zip(curve.epsilons, curve.accuracy, strict=True)
    }


def mean_and_error_of(results: pa.Table) -> dict[tuple[str, float], tuple[float, float]]:
    """Mean accuracy in % and its standard error over the repeats, by label and epsilon."""
    return {
        (curve.label, epsilon): found
        for curve in curves(results)
        for epsilon, found in curve.means("accuracy", 100).items()
    }


def shortlisted(comparison: Comparison, bench: Bench) -> Comparison:
    """The same with the settings of each grid that lead in the first repeat; all of them where there is no other."""
    if comparison.repeats == 1:
        return comparison
    found = dict(comparison.configurations)
    for label, method in found.items():
        if isinstance(method, Configuration) and len(method.candidates) > KEPT:
            each = {f"{label} {k}": candidate for k, candidate in enumerate(method.candidates)}
            reached = mean_accuracy(replace(comparison, configurations=each, repeats=1).run(bench))
            places = {name: k for k, name in enumerate(each)}
            lead = leaders({(places[name], epsilon): value for (name, epsilon), value in reached.items()})
            found[label] = replace(method, candidates=tuple(method.candidates[k] for k in lead))
    return replace(comparison, configurations=found)


def leaders(reached: Mapping[tuple[int, float], float], kept: int = KEPT) -> list[int]:
    """The settings, by their place in the grid, that are among the best at some epsilon; and the first, the rule."""
    found = {0}
    for epsilon in {epsilon for _, epsilon in reached}:
        here = {k: value for (k, at), value in reached.items() if at == epsilon}
        found |= set(sorted(here, key=lambda k: (-here[k], k))[:kept])
    return sorted(found)


def never_below_rule(name: str, methods: Iterable[str], found: Mapping[tuple[str, float], float]) -> Check:
    """A grid that holds the rule cannot be below it; ``found`` has mean accuracies by label and epsilon."""
    below = [
        f"{method} at ε = {epsilon:g}"
        for method in methods
        for label, epsilon in found
        if label == method + BY_RULE
        and found.get((method + BEST + ORACLE_MARK, epsilon), -math.inf) < found[label, epsilon] - 1e-9
    ]
    return Check(
        claim=f"{name}: no method is below its rule at its best of a grid [below: {', '.join(below) or 'none'}]",
        holds=not below,
    )


def accuracy_section(results: pa.Table, title: str = "accuracy on held-out rows, %") -> Section:
    return curve_section(results, title, "accuracy")


def objective_section(results: pa.Table) -> Section:
    return curve_section(results, "regularised mean loss on training rows", "objective")


def curve_section(results: pa.Table, title: str, metric: str) -> Section:
    """A row per configuration and a column per epsilon: mean ± standard error over the repeats."""
    found, study, about = curves(results), Study.of(results), METRICS[metric]
    assert about.digits is not None  # of what papers show
    epsilons = sorted({float(epsilon) for curve in found for epsilon in curve.epsilons})
    rows = []
    for curve in found:
        values = zip(getattr(curve, metric), curve.runs, strict=True)
        measured = [mean_and_error(about.factor * some, runs[:, 0]) for some, runs in values]
        texts = [with_error(mean, error, about.digits, about.finer) for mean, error in measured]
        cells = dict(zip(curve.epsilons.tolist(), texts, strict=True))
        shown = [cells.get(epsilon, "skipped") for epsilon in epsilons]
        rows.append((curve.label, *shown, f"{1000 * curve.seconds:.1f}"))
    return Section(
        title=f"{study.dataset}, {study.loss} loss: {title}, mean {error_in_words(study)}",
        columns=("method", *(f"ε = {epsilon:g}" for epsilon in epsilons), "ms/model"),
        rows=tuple(rows),
    )


def refusals(results: pa.Table) -> list[str]:
    """One line per configuration and reason."""
    merged_epsilons: dict[tuple[str, str], list[float]] = {}
    study = Study.of(results)
    for part in study.skipped:
        merged_epsilons.setdefault((part.name, part.reason), []).append(part.epsilon)
    return [
        f"{study.dataset}: {name} at ε = {', '.join(f'{epsilon:g}' for epsilon in epsilons)}: {reason}"
        for (name, reason), epsilons in merged_epsilons.items()
    ]


def level_checks(results: pa.Table, records: data.Records) -> list[Check]:
    """Majority is the share of the most frequent label; NonPrivate learns something."""
    found = mean_accuracy(results)
    levels = {name: value for (name, _), value in found.items() if name in BASELINES}
    share = 100 * records.majority
    checks = []
    if MAJORITY in levels:
        checks.append(
            Check(
                claim=f"{records.name}: Majority ({levels[MAJORITY]:.2f} %) is the share of the most frequent label "
                f"in the data ({share:.2f} %)",
                holds=abs(levels[MAJORITY] - share) <= 100 * _LEVEL,
            )
        )
    if NON_PRIVATE in levels:
        checks.append(
            Check(
                claim=f"{records.name}: NonPrivate ({levels[NON_PRIVATE]:.2f} %) is above it",
                holds=levels[NON_PRIVATE] > share,
            )
        )
    return checks


def promise_checks(name: str, broken: Mapping[tuple[str, float], str]) -> list[Check]:
    """One failed check per method whose published noise is too small here."""
    by_method: dict[str, dict[str, list[str]]] = {}
    for (label, epsilon), reason in broken.items():
        short = reason.partition("; use ")[0]
        by_method.setdefault(label, {}).setdefault(short, []).append(f"{epsilon:g}")
    return [
        Check(
            claim=f"{name}: the published noise of {label} keeps its promise under replace-one "
            f"[{_listed(reasons)}]",
            holds=False,
        )
        for label, reasons in by_method.items()
    ]


def _listed(reasons: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"ε = {', '.join(epsilons)}: {reason}" for reason, epsilons in reasons.items())


def write(tables: Sequence[pa.Table], bench: Bench, figure: str = "figure.png") -> list[Path]:
    """``results.parquet`` and the figure of all studies, one row of panels each."""
    together = combine(tables)
    files = [bench.folder / "results.parquet", bench.folder / figure]
    with atomic_path(files[0]) as unfinished:
        pq.write_table(together, unfinished)
    with atomic_path(files[1]) as unfinished:
        save(figure_of(together, PAPER_METRICS), unfinished)
    return files
