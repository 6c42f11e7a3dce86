"""Tables, checks and the figure of the study of the defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dperm.losses import SoftClippedLogistic
from dperm.mechanisms.auto import Auto, AutoPlan
from dperm.mechanisms.standardising import BOUNDED, LINEAR
from dperm.planning.rules import KNEE
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm_papers.reproduce.calibration import expected_error, pooled
from dperm_papers.reproduce.drawing import Line, draw_lines
from dperm_papers.reproduce.item import Check, Section
from dperm_papers.reproduce.regret import Cell, Entry, Summary, best_of, means_of, regrets, summarise

# What the rule of the default for two classes could be: other largest slopes, other l2, the other row map.

CLIPS = (0.25, 0.35, 0.5, 0.75)
L2_TIMES = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Candidate(Auto):
    """``auto`` with one largest slope for every task and budget, and a multiple of the l2 of its rule."""

    name: ClassVar[str] = "candidate"

    clip: float = field(default=0.5, kw_only=True)
    l2_times: float = field(default=1.0, kw_only=True)

    @property
    def label(self) -> str:
        return f"{self.standardise} rows, clip {self.clip:g}, l2 × {self.l2_times:g}"

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        return self.l2_times * super().l2_rule(self._clipped(problem), budget)

    def plan(self, problem: Problem, budget: Budget, *, inference: bool = False) -> AutoPlan:
        return super().plan(self._clipped(problem), budget, inference=inference)

    def _clipped(self, problem: Problem) -> Problem:
        return replace(problem, loss=SoftClippedLogistic(self.clip, KNEE))


CANDIDATES = {
    candidate.label: candidate
    for candidate in (
        *(Candidate(standardise=LINEAR, clip=clip, l2_times=times) for clip in CLIPS for times in L2_TIMES),
        Candidate(standardise=BOUNDED),
    )
}
"""By label. Constants that stay: the share, the power and the typical norm of the standardisation, and the knee."""


DEFAULT, DEFAULT_PLAIN, NONE, MAJORITY = "default", "default, plain rows", "none", "majority"
OURS = (DEFAULT, DEFAULT_PLAIN, *CANDIDATES)
PAPERS = "best of the papers' methods"

# What is shown of a metric: its name, a factor and decimal places.
_SHOWN = {
    "accuracy": ("accuracy, %", 100.0, 1),
    "auc": ("AUC", 1.0, 3),
    "log_loss": ("log loss", 1.0, 3),
    "r2": ("R²", 1.0, 3),
}
_KINDS = {
    "binary": ("two classes", ("accuracy", "auc", "log_loss")),
    "classes": ("several classes", ("accuracy", "auc", "log_loss")),
    "regression": ("regression", ("r2",)),
}
_NEAR_NONE = {0.5: 0.6, 1.0: 0.4}  # points of accuracy, on average, by epsilon
_BELOW_MAJORITY = 0.3


def sections(
    entries: Sequence[Entry],
    bins: Sequence[Mapping[str, Any]],
    sets: Mapping[str, str],
    epsilons: Sequence[float],
    calibrated: Sequence[float],
) -> tuple[Section, ...]:
    """By kind and metric what each set reached, and the regrets; then calibration. ``sets`` has the kind of each."""
    found = []
    for kind, (words, metrics) in _KINDS.items():
        mine = [entry for entry in entries if sets[entry.dataset] == kind]
        for metric in metrics if mine else ():
            found += [_reached(mine, metric, words, epsilons), _regrets(mine, metric, words, epsilons)]
        if kind == "binary" and mine:
            found.append(_means(mine, words, epsilons))
    if bins:
        found += [_pooled_bins(bins, calibrated), _errors(bins, calibrated)]
    return tuple(found)


def papers(entries: Sequence[Entry], metric: str) -> dict[Cell, float]:
    """The best of the private methods that are not ours, in each cell."""
    labels = dict.fromkeys(entry.label for entry in entries if entry.private and entry.label not in OURS)
    return best_of(entries, metric, list(labels))


def everyone(entries: Sequence[Entry], metric: str) -> dict[Cell, float]:
    """The best private method in each cell, the default among them."""
    return best_of(entries, metric, list(dict.fromkeys(entry.label for entry in entries if entry.private)))


def _reached(entries: Sequence[Entry], metric: str, words: str, epsilons: Sequence[float]) -> Section:
    name, factor, digits = _SHOWN[metric]
    groups = (
        means_of(entries, DEFAULT, metric),
        means_of(entries, DEFAULT_PLAIN, metric),
        papers(entries, metric),
    )
    none = means_of(entries, NONE, metric)
    rows = []
    for dataset in dict.fromkeys(entry.dataset for entry in entries):
        cells = [
            " / ".join(_number(group.get((dataset, epsilon)), factor, digits) for group in groups)
            for epsilon in epsilons
        ]
        rows.append((short_name(dataset), *cells, _number(none.get((dataset, epsilons[-1])), factor, digits)))
    return Section(
        title=f"{words}, {name} on held-out rows: default / default on plain rows / {PAPERS}, and without privacy",
        columns=("set", *(f"ε = {epsilon:g}" for epsilon in epsilons), "none"),
        rows=tuple(rows),
    )


def _means(entries: Sequence[Entry], words: str, epsilons: Sequence[float]) -> Section:
    """Of the methods that ran in every cell."""
    sets = dict.fromkeys(entry.dataset for entry in entries)
    name, factor, digits = _SHOWN["accuracy"]
    rows = []
    for label in dict.fromkeys(entry.label for entry in entries):
        found = means_of(entries, label, "accuracy")
        if len(found) == len(sets) * len(epsilons):
            means = [float(np.mean([found[one, epsilon] for one in sets])) for epsilon in epsilons]
            rows.append((label, *(_number(mean, factor, digits + 1) for mean in means)))
    return Section(
        title=f"mean over {len(sets)} sets: {words}, {name} on held-out rows, of every method that ran on all",
        columns=("method", *(f"ε = {epsilon:g}" for epsilon in epsilons)),
        rows=tuple(rows),
    )


def _number(value: float | None, factor: float, digits: int) -> str:
    return "-" if value is None else f"{factor * value:.{digits}f}"


def _regrets(entries: Sequence[Entry], metric: str, words: str, epsilons: Sequence[float]) -> Section:
    name, factor, digits = _SHOWN[metric]
    ours = means_of(entries, DEFAULT, metric)
    others = (everyone(entries, metric), means_of(entries, NONE, metric), means_of(entries, MAJORITY, metric))
    rows = []
    for at in (*((epsilon,) for epsilon in epsilons), tuple(epsilons)):
        cells = [
            _summary(summarise(regrets(ours, other, metric), at), factor, digits + 1) for other in others
        ]
        rows.append((f"{at[0]:g}" if len(at) == 1 else "all", *(text for pair in cells for text in pair)))
    return Section(
        title=f"{words}, regret of the default in {name}: mean over the sets and worst set",
        columns=("ε", "best private method", "worst", "none", "worst", "majority", "worst"),
        rows=tuple(rows),
    )


def _summary(found: Summary | None, factor: float, digits: int) -> tuple[str, str]:
    if found is None:
        return ("", "")
    return (
        f"{factor * found.mean:+.{digits}f}",
        f"{factor * found.worst:+.{digits}f} ({short_name(found.dataset)})",
    )


def short_name(dataset: str) -> str:
    """The name without the number of rows that were drawn."""
    return dataset.partition(",")[0]


def _pooled_bins(bins: Sequence[Mapping[str, Any]], epsilons: Sequence[float]) -> Section:
    by_epsilon = {
        epsilon: {one["bin"]: one for one in pooled([row for row in bins if row["epsilon"] == epsilon])}
        for epsilon in epsilons
    }
    places = sorted({place for found in by_epsilon.values() for place in found})
    rows = []
    for place in places:
        cells = [
            f"{found[place]['predicted']:.3f} → {found[place]['observed']:.3f}" if place in found else "-"
            for found in by_epsilon.values()
        ]
        rows.append((f"{place / 10:.1f} to {(place + 1) / 10:.1f}", *cells))
    return Section(
        title="calibration of the default, all sets with two classes: mean probability → share that is positive",
        columns=("probability", *(f"ε = {epsilon:g}" for epsilon in epsilons)),
        rows=tuple(rows),
    )


def _errors(bins: Sequence[Mapping[str, Any]], epsilons: Sequence[float]) -> Section:
    rows = []
    for dataset in dict.fromkeys(row["dataset"] for row in bins):
        cells = []
        for epsilon in epsilons:
            mine = [row for row in bins if (row["dataset"], row["epsilon"]) == (dataset, epsilon)]
            cells.append(f"{expected_error(mine):.3f}" if mine else "-")
        rows.append((short_name(dataset), *cells))
    return Section(
        title="expected calibration error of the default",
        columns=("set", *(f"ε = {epsilon:g}" for epsilon in epsilons)),
        rows=tuple(rows),
    )


def checks(entries: Sequence[Entry], sets: Mapping[str, str], epsilons: Sequence[float]) -> tuple[Check, ...]:
    """What a default must keep: near the model without noise, and never far below the most frequent label."""
    ours = {
        cell: mean
        for cell, mean in means_of(entries, DEFAULT, "accuracy").items()
        if sets[cell[0]] == "binary"
    }
    found = []
    for epsilon, most in _NEAR_NONE.items():
        behind = summarise(regrets(ours, means_of(entries, NONE, "accuracy"), "accuracy"), (epsilon,))
        if behind is not None:
            found.append(
                Check(
                    claim=f"two classes, ε = {epsilon:g}: the default is on average within {most} points of the model "
                    f"without noise [{100 * behind.mean:.2f}]",
                    holds=100 * behind.mean <= most,
                )
            )
    below = summarise(regrets(ours, means_of(entries, MAJORITY, "accuracy"), "accuracy"), epsilons)
    if below is not None:
        found.append(
            Check(
                claim=f"two classes: nowhere is the default more than {_BELOW_MAJORITY} points below the most frequent "
                f"label [{100 * below.worst:+.2f}, {below.dataset}]",
                holds=100 * below.worst <= _BELOW_MAJORITY,
            )
        )
    return tuple(found)


def draw(entries: Sequence[Entry], sets: Mapping[str, str], epsilons: Sequence[float], path: Path) -> bool:
    """Means over the sets with two classes, a panel for each metric; False where there is nothing to draw."""
    return _draw(entries, sets, epsilons, path, ("binary",))


def draw_others(
    entries: Sequence[Entry], sets: Mapping[str, str], epsilons: Sequence[float], path: Path
) -> bool:
    """Means over the sets of each other kind, a panel for each; False where there is nothing to draw."""
    return _draw(entries, sets, epsilons, path, ("classes", "regression"))


def _draw(
    entries: Sequence[Entry],
    sets: Mapping[str, str],
    epsilons: Sequence[float],
    path: Path,
    kinds: Sequence[str],
) -> bool:
    panels = []
    for kind in kinds:
        words, metrics = _KINDS[kind]
        mine = [entry for entry in entries if sets[entry.dataset] == kind]
        for metric in metrics if kind == "binary" else metrics[:1]:
            lines = _lines(mine, metric, epsilons)
            if lines:
                panels.append((f"{words}: {_SHOWN[metric][0]}", lines))
    if not panels:
        return False
    draw_lines(
        panels,
        path,
        title=f"The default over the development sets, {' and '.join(_KINDS[kind][0] for kind in kinds)}",
        x_label="ε (more privacy to the left)",
        y_label="mean over the sets",
        note="The best of the papers' methods is chosen on the test rows of each set and ε: an oracle, not private.",
        log=("x",),
    )
    return True


def _lines(entries: Sequence[Entry], metric: str, epsilons: Sequence[float]) -> list[Line]:
    """Only sets on which every line has a value at every epsilon count, so that all lines are means of the same."""
    factor = _SHOWN[metric][1]
    groups = {
        "default": means_of(entries, DEFAULT, metric),
        "default on plain rows": means_of(entries, DEFAULT_PLAIN, metric),
        PAPERS: papers(entries, metric),
        "not private (none)": means_of(entries, NONE, metric),
    }
    datasets = [
        dataset
        for dataset in dict.fromkeys(entry.dataset for entry in entries)
        if all((dataset, epsilon) in group for group in groups.values() for epsilon in epsilons)
    ]
    if not datasets:
        return []
    return [
        Line(
            label=label,
            x=tuple(epsilons),
            y=tuple(
                factor * float(np.mean([group[dataset, epsilon] for dataset in datasets]))
                for epsilon in epsilons
            ),
            dashed=label.startswith("not private"),
        )
        for label, group in groups.items()
    ]
