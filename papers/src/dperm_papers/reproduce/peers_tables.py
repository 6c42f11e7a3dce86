"""The tables of the comparison with other tools, and what must be so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dperm_papers.peers.catalogue import HERE, reference
from dperm_papers.peers.environments import Environment
from dperm_papers.reproduce.item import Check, Section

Cells = Sequence[Mapping[str, Any]]
NOTHING = "–"
_HUGE = 1e5
_OURS = tuple(peer.name for peer in HERE)


AIM_BEFORE = {
    "adult: accuracy, %": ("80.0", "81.1", "84.0", "84.3"),
    "adult: AUC": ("0.824", "0.845", "0.884", "0.895"),
    "bank: accuracy, %": ("88.5", "88.8", "89.8", "90.2"),
    "bank: AUC": ("0.621", "0.824", "0.885", "0.896"),
}
"""Records of AIM, then logistic regression: add-remove, δ = 1e-8, one split of 80 and 20 %, three runs (BANK one)."""


def lines_of(cells: Cells) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """The cells of each tool and setting, in the order in which they were run."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell in cells:
        found.setdefault((cell["tool"], cell["setting"]), []).append(cell)
    return found


def mean_of(cells: Cells, metric: str, epsilon: float | None = None) -> float:
    """The mean over the folds; the same at every epsilon for what is not private."""
    values = [
        cell[metric]
        for cell in cells
        if not cell["error"] and (epsilon is None or cell["epsilon"] == epsilon or not cell["private"])
    ]
    return float(np.mean(values)) if values else float("nan")


def best_of(settings: Mapping[str, Cells], metric: str, epsilon: float) -> str:
    """The setting with the highest mean on the test rows: an oracle."""
    reached = {name: mean_of(cells, metric, epsilon) for name, cells in settings.items()}
    return max(reached, key=lambda name: -np.inf if np.isnan(reached[name]) else reached[name])


def sections(cells: Cells, attacks: Cells, environments: Sequence[Environment]) -> Iterable[Section]:
    for dataset in dict.fromkeys(cell["dataset"] for cell in cells):
        mine = [cell for cell in cells if cell["dataset"] == dataset]
        yield _scores(dataset, mine, attacks)
    if attacks:
        yield _attacks(attacks)
    if environments:
        yield _installed(environments)
    yield Section(
        title="AIM: measured before, not by this command (add-remove, δ = 1e-8, one split)",
        columns=("AIM, then logistic regression", *(f"ε = {epsilon:g}" for epsilon in (0.05, 0.1, 0.5, 1.0))),
        rows=tuple((name, *values) for name, values in AIM_BEFORE.items()),
    )


def _scores(dataset: str, cells: Cells, attacks: Cells) -> Section:
    metrics = {"accuracy": (100, 1), "auc": (1, 3)} if cells[0]["task"] == "classes" else {"r2": (1, 3)}
    names = {"accuracy": "accuracy, %", "auc": "AUC", "r2": "R²"}
    epsilons = sorted({cell["epsilon"] for cell in cells if cell["private"]})
    rows: list[tuple[str, ...]] = []
    by_tool: dict[str, dict[str, Cells]] = {}
    for (tool, setting), mine in lines_of(cells).items():
        by_tool.setdefault(tool, {})[setting] = mine
        version = mine[0]["version"] if tool not in _OURS else ""
        values = [
            _number(factor * mean_of(mine, metric, epsilon), digits)
            for metric, (factor, digits) in metrics.items()
            for epsilon in epsilons
        ]
        failed = [cell["error"] for cell in mine if cell["error"]]
        rows.append(
            (
                f"{tool} {version}".strip() + f": {setting}",
                mine[0]["relation"] if mine[0]["private"] else "not private",
                f"{mine[0]['delta']:g}" if mine[0]["private"] else NOTHING,
                *values,
                _number(_time_ratio(mine), 1),
                _number(float(np.max([cell["megabytes"] for cell in mine])), 0),
                str(len({cell["fold"] for cell in mine})),
                failed[0] if failed else _broken(tool, attacks),
            )
        )
    rows += [
        (
            f"{tool}: best of {len(settings)} settings on the test rows (an oracle)",
            *[NOTHING] * 2,
            *(
                _number(
                    factor * mean_of(settings[best_of(settings, metric, epsilon)], metric, epsilon), digits
                )
                for metric, (factor, digits) in metrics.items()
                for epsilon in epsilons
            ),
            *[NOTHING] * 4,
        )
        for tool, settings in by_tool.items()
        if tool not in _OURS and len(settings) > 1
    ]
    scored = [f"{names[metric]}, ε = {epsilon:g}" for metric in metrics for epsilon in epsilons]
    columns = (
        "what was run",
        "relation",
        "δ",
        *scored,
        "time / ours",
        "memory, MB",
        "folds",
        "claims of the tool broken",
    )
    return Section(title=f"{dataset}: held-out rows, means over folds", columns=columns, rows=tuple(rows))


def _time_ratio(cells: Cells) -> float:
    """The median over all fits of its time over that of ours just before, same rows, relation and budget."""
    ratios = [cell["seconds"] / cell["ours_seconds"] for cell in cells if not cell["error"]]
    return float(np.median(ratios)) if ratios else float("nan")


def _broken(tool: str, attacks: Cells) -> str:
    mine = [attack for attack in attacks if attack["tool"] == tool and not attack["error"]]
    if not mine:
        return NOTHING
    broken = [attack for attack in mine if attack["epsilon"] > attack["claimed"]]
    return f"{len(broken)} of {len(mine)}"


def _attacks(attacks: Cells) -> Section:
    rows = tuple(
        (
            f"{attack['tool']} {attack['version']}: {attack['what']}",
            attack["relation"],
            *(
                (attack["error"], *[NOTHING] * 3, attack["verdict"])
                if attack["error"]
                else (
                    f"{attack['claimed']:.2f}",
                    f"{attack['delta']:g}",
                    f"{attack['epsilon']:.2f}",
                    f"{attack['runs']:,}",
                    attack["verdict"],
                )
            ),
        )
        for attack in attacks
    )
    columns = ("what was attacked", "relation", "claimed ε", "δ", "ε is at least", "trainings", "verdict")
    return Section(title="Attacks: lower bounds at 95 % beside each claim", columns=columns, rows=rows)


def _installed(environments: Sequence[Environment]) -> Section:
    rows = []
    for environment in environments:
        for attempt in environment.attempts:
            works = attempt.works
            rows.append(
                (
                    f"{environment.name}: {', '.join(attempt.requirements)}",
                    f"works, Python {environment.python_version}" if works else "does not work",
                    _versions(environment, attempt.requirements) if works else attempt.message,
                    f"{attempt.seconds:.0f}",
                    f"{environment.megabytes:,.0f}" if works else NOTHING,
                )
            )
    columns = ("what was installed", "outcome", "versions or message", "seconds", "MB")
    return Section(
        title="Installation: each tool in an environment of its own", columns=columns, rows=tuple(rows)
    )


_TELLING = ("numpy", "scikit-learn", "torch", "jax", "tensorflow", "dp-accounting")


def _versions(environment: Environment, requirements: Sequence[str]) -> str:
    asked = [name.partition("=")[0].partition("[")[0] for name in requirements]
    names = dict.fromkeys((*asked, *_TELLING))
    return ", ".join(f"{name} {environment.version(name)}" for name in names if environment.version(name))


def checks(cells: Cells, attacks: Cells) -> Iterable[Check]:
    """Ours against the best of every private tool, and every claim against its attack."""
    for dataset in dict.fromkeys(cell["dataset"] for cell in cells):
        mine = [cell for cell in cells if cell["dataset"] == dataset]
        for epsilon in sorted({cell["epsilon"] for cell in mine if cell["private"]}):
            yield from _ahead(dataset, epsilon, [cell for cell in mine if cell["epsilon"] == epsilon])
    for attack in attacks:
        if not attack["error"]:
            yield Check(
                claim=f"{attack['tool']}, {attack['what']}: the claimed ε = {attack['claimed']:.2f} survives [at least "
                f"{attack['epsilon']:.2f}]",
                holds=attack["epsilon"] <= attack["claimed"],
            )


def _ahead(dataset: str, epsilon: float, cells: Cells) -> Iterable[Check]:
    """Ours under the relation and on the folds of the setting that comes closest to it."""
    metric = "auc" if cells[0]["task"] == "classes" else "r2"
    closest: tuple[float, float, float, str] | None = None
    for (tool, setting), mine in lines_of(cells).items():
        theirs = mean_of(mine, metric)
        if tool in _OURS or not mine[0]["private"] or np.isnan(theirs):
            continue
        folds = {cell["fold"] for cell in mine}
        usual = reference(mine[0]["relation"]).name, "default (auto)"
        ours = mean_of([cell for cell in lines_of(cells).get(usual, []) if cell["fold"] in folds], metric)
        if closest is None or ours - theirs < closest[0]:
            closest = ours - theirs, ours, theirs, f"{tool}, {setting}"
    if closest is not None:
        ahead, ours, theirs, who = closest
        yield Check(
            claim=f"{dataset}, ε = {epsilon:g}: under the same relation and on the same folds the default's {metric} "
            f"({ours:.3f}) is at least that of every setting of every tool [closest: {theirs:.3f}, {who}]",
            holds=ahead >= 0,
        )


def _number(value: float, digits: int) -> str:
    if np.isnan(value):
        return NOTHING
    return f"{value:,.{digits}f}" if abs(value) < _HUGE else f"{value:.0e}"
