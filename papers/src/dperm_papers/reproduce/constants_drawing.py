"""The figure of regrets over epsilon: the default, other constants of its rule, and the papers' methods."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dperm.mechanisms.standardising import BOUNDED
from dperm_papers.reproduce.candidates import Candidate
from dperm_papers.reproduce.constants_tables import (
    METRICS,
    binary,
    choices,
    chosen_means,
    possible_rules,
)
from dperm_papers.reproduce.defaults_tables import (
    DEFAULT,
    DEFAULT_PLAIN,
    PAPERS,
    everyone,
    papers,
)
from dperm_papers.reproduce.drawing import Line, draw_lines
from dperm_papers.reproduce.regret import Cell, Entry, means_of, regrets, summarise

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
