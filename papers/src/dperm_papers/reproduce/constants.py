"""The default beside other constants of its rule, for two classes: regrets, and the choice with a set left out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from dperm.mechanisms.standardising import BOUNDED
from dperm_papers.reproduce.defaults_tables import (
    CANDIDATES,
    DEFAULT,
    DEFAULT_PLAIN,
    MAJORITY,
    NONE,
    PAPERS,
    Candidate,
    everyone,
    papers,
    short_name,
)
from dperm_papers.reproduce.drawing import Line, draw_lines
from dperm_papers.reproduce.item import Check, Section
from dperm_papers.reproduce.regret import Cell, Entry, leave_one_out, means_of, regrets, summarise

SMALLEST = 0.1
"""Regrets are averaged over this epsilon and all larger ones."""

MOST = {"accuracy": 0.6, "log_loss": 0.02}
"""How much regret there may be on average, in points of accuracy and of log loss."""

METRICS = {
    "accuracy": ("points of accuracy", 100.0, 2),
    "auc": ("AUC", 1.0, 4),
    "log_loss": ("log loss", 1.0, 4),
}


def binary(entries: Sequence[Entry], sets: Mapping[str, str], epsilons: Sequence[float]) -> list[Entry]:
    """The sets with two classes, at the epsilons that count."""
    found = []
    for entry in entries:
        if sets[entry.dataset] == "binary":
            means = {
                metric: {
                    epsilon: by[epsilon] for epsilon in epsilons if epsilon >= SMALLEST and epsilon in by
                }
                for metric, by in entry.means.items()
            }
            found.append(Entry(dataset=entry.dataset, label=entry.label, private=entry.private, means=means))
    return found


def possible_rules(entries: Sequence[Entry]) -> list[str]:
    """The default and the candidates that have every metric wherever the default has: one that was refused has not."""
    cells = {metric: set(means_of(entries, DEFAULT, metric)) for metric in METRICS}
    return [
        label
        for label in (DEFAULT, DEFAULT_PLAIN, *CANDIDATES)
        if all(cells[metric] == set(means_of(entries, label, metric)) != set() for metric in METRICS)
    ]


def choices(entries: Sequence[Entry], labels: Sequence[str]) -> dict[str, str]:
    """For every set the rule that is best on all the others; empty where there are not two sets."""
    means = {(label, metric): means_of(entries, label, metric) for label in labels for metric in METRICS}
    cells = list(means_of(entries, DEFAULT, "accuracy"))
    if len({dataset for dataset, _ in cells}) < 2:
        return {}
    table = pa.Table.from_pylist(
        [
            {"dataset": cell[0], "epsilon": cell[1], "candidate": label}
            | {metric: means[label, metric][cell] for metric in METRICS}
            for label in labels
            for cell in cells
        ]
    )
    return {one.dataset: one.candidate for one in leave_one_out(table, ["accuracy"])}


def chosen_means(entries: Sequence[Entry], chosen: Mapping[str, str], metric: str) -> dict[Cell, float]:
    """What each set reaches with the rule that was chosen without it."""
    return {
        cell: mean
        for label in dict.fromkeys(chosen.values())
        for cell, mean in means_of(entries, label, metric).items()
        if chosen[cell[0]] == label
    }


def sections(
    entries: Sequence[Entry], sets: Mapping[str, str], epsilons: Sequence[float]
) -> tuple[Section, ...]:
    """The default in short, every possible rule, and the choice without each set."""
    entries = binary(entries, sets, epsilons)
    labels = possible_rules(entries)
    if not labels:
        return ()
    chosen = choices(entries, labels)
    return (
        _in_short(entries, chosen),
        _rules(entries, labels),
        *([_left_out(entries, chosen)] if chosen else []),
    )


def _in_short(entries: Sequence[Entry], chosen: Mapping[str, str]) -> Section:
    rows = []
    for metric, (name, factor, digits) in METRICS.items():
        best, ours = everyone(entries, metric), means_of(entries, DEFAULT, metric)
        none, majority = means_of(entries, NONE, metric), means_of(entries, MAJORITY, metric)
        found = (
            summarise(regrets(ours, best, metric)),
            summarise(regrets(chosen_means(entries, chosen, metric), best, metric)),
            *(summarise(regrets(ours, none, metric), (epsilon,)) for epsilon in (0.5, 1.0)),
        )
        means = [f"{factor * one.mean:+.{digits}f}" if one else "" for one in found]
        worst = _worst_set(regrets(ours, best, metric))
        below = summarise(regrets(ours, majority, metric)) if metric == "accuracy" else None
        rows.append(
            (
                name,
                means[0],
                f"{factor * worst[1]:+.{digits}f} ({short_name(worst[0])})",
                *means[1:],
                f"{factor * below.worst:+.{digits}f} ({short_name(below.dataset)})" if below else "",
            )
        )
    return Section(
        title=f"two classes, ε ≥ {SMALLEST:g}: how far the default is behind, on average over {_count(entries)} sets",
        columns=(
            "in",
            "best of all entrants",
            "worst set",
            "chosen with the set left out",
            "none, ε = 0.5",
            "none, ε = 1",
            "majority, worst cell",
        ),
        rows=tuple(rows),
    )


def _rules(entries: Sequence[Entry], labels: Sequence[str]) -> Section:
    """One row for every possible rule."""
    rows = []
    for label in labels:
        cells = []
        for metric, (_, factor, digits) in METRICS.items():
            found = regrets(means_of(entries, label, metric), everyone(entries, metric), metric)
            worst = _worst_set(found)
            cells += [
                f"{factor * float(np.mean(list(found.values()))):.{digits}f}",
                f"{factor * worst[1]:.{digits}f} ({short_name(worst[0])})",
            ]
        rows.append((label, *cells))
    names = [part for name, _, _ in METRICS.values() for part in (name, "worst set")]
    return Section(
        title=f"two classes, ε ≥ {SMALLEST:g}: mean regret of what the rule could be, against the best of all entrants",
        columns=("rule", *names),
        rows=tuple(rows),
    )


def _left_out(entries: Sequence[Entry], chosen: Mapping[str, str]) -> Section:
    rows = []
    by_metric = {
        metric: (
            _by_set(regrets(chosen_means(entries, chosen, metric), everyone(entries, metric), metric)),
            _by_set(regrets(means_of(entries, DEFAULT, metric), everyone(entries, metric), metric)),
        )
        for metric in METRICS
    }
    for dataset, label in chosen.items():
        cells = [
            f"{factor * left_out[dataset]:.{digits}f} / {factor * default[dataset]:.{digits}f}"
            for (left_out, default), (_, factor, digits) in zip(
                by_metric.values(), METRICS.values(), strict=True
            )
        ]
        rows.append((short_name(dataset), label, *cells))
    return Section(
        title="two classes: the rule that is best on all other sets, and the regret of it / of the default on this one",
        columns=("left out", "chosen", *(name for name, _, _ in METRICS.values())),
        rows=tuple(rows),
    )


def checks(entries: Sequence[Entry], sets: Mapping[str, str], epsilons: Sequence[float]) -> tuple[Check, ...]:
    """The regret of the default, and of a rule that no set had a say in for itself, is small on average."""
    entries = binary(entries, sets, epsilons)
    labels = possible_rules(entries)
    chosen = choices(entries, labels) if labels else {}
    found = []
    for metric, most in MOST.items():
        name, factor, digits = METRICS[metric]
        best = everyone(entries, metric)
        rules = {
            "the default": means_of(entries, DEFAULT, metric),
            "what is chosen with the set left out": chosen_means(entries, chosen, metric),
        }
        for words, means in rules.items():
            regret = summarise(regrets(means, best, metric))
            if regret is not None:
                found.append(
                    Check(
                        claim=f"two classes, ε ≥ {SMALLEST:g}: {words} is on average at most {most:g} {name} behind "
                        f"the best of all entrants in each cell [{factor * regret.mean:.{digits}f}]",
                        holds=factor * regret.mean <= most,
                    )
                )
    return tuple(found)


def _by_set(found: Mapping[Cell, float]) -> dict[str, float]:
    """The mean over the epsilons of each set."""
    by_set: dict[str, list[float]] = {}
    for (dataset, _), value in found.items():
        by_set.setdefault(dataset, []).append(value)
    return {dataset: float(np.mean(values)) for dataset, values in by_set.items()}


def _worst_set(found: Mapping[Cell, float]) -> tuple[str, float]:
    means = _by_set(found)
    worst = max(means, key=means.__getitem__)
    return worst, means[worst]


def _count(entries: Sequence[Entry]) -> int:
    return len({entry.dataset for entry in entries if entry.label == DEFAULT})


# The figure of regrets over epsilon: the default, other constants of its rule, and the papers' methods.

LEFT_OUT = "rule chosen with the set left out"


def draw(entries: Sequence[Entry], sets: Mapping[str, str], epsilons: Sequence[float], path: Path) -> bool:
    """Mean regrets over the sets with two classes, a panel for each metric; False where there is nothing to draw."""
    some = binary(entries, sets, epsilons)
    labels = possible_rules(some)
    if not labels:
        return False
    chosen = choices(some, labels)
    shown = [
        epsilon for epsilon in epsilons if any((s, epsilon) in means_of(some, DEFAULT, "auc") for s in sets)
    ]
    panels = [
        (f"behind the best of all, {name}", _lines(some, chosen, metric, factor, shown))
        for metric, (name, factor, _) in METRICS.items()
    ]
    draw_lines(
        panels,
        path,
        title="Regret against the best of all entrants in each cell",
        x_label="ε (more privacy to the left)",
        y_label="mean over the sets",
        note="The best of all is chosen on the test rows of each set and ε: an oracle, and lucky in part.",
        log=("x",),
    )
    return True


def _lines(
    entries: Sequence[Entry], chosen: Mapping[str, str], metric: str, factor: float, epsilons: Sequence[float]
) -> list[Line]:
    groups: dict[str, Mapping[Cell, float]] = {
        "default": means_of(entries, DEFAULT, metric),
        "bounded rows, clip 0.5": means_of(entries, Candidate(standardise=BOUNDED).label, metric),
        "default on plain rows": means_of(entries, DEFAULT_PLAIN, metric),
        PAPERS: papers(entries, metric),
        LEFT_OUT: chosen_means(entries, chosen, metric),
    }
    best = everyone(entries, metric)
    lines = []
    for label, group in groups.items():
        found = [summarise(regrets(group, best, metric), (epsilon,)) for epsilon in epsilons]
        y = tuple(factor * one.mean for one in found if one is not None)
        if len(y) == len(found):
            lines.append(Line(label=label, x=tuple(epsilons), y=y, dashed=label == LEFT_OUT))
    return lines
