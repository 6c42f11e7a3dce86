"""Other tools beside ours: the same rows and folds, and whether each claimed epsilon survives our attack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm.errors import DataUnavailable
from dperm.experiments.figures import MARKERS, save
from dperm.models.atomic import atomic_path
from dperm.render.style import GREY, PALETTE
from dperm_papers.peers.catalogue import DIFFPRIVLIB, HERE, OPENDP, OURS, PEERS, Peer, reference
from dperm_papers.peers.cells import measure
from dperm_papers.peers.environments import Environment, make_environment, try_r_package
from dperm_papers.peers.rows import Table, prepare
from dperm_papers.peers.trials import TRIALS, try_claim
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The tables of the comparison with other tools, and what must be so.

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


# The figure of the comparison with other tools: AUC over epsilon, and time.

NOTE = (
    "Means over folds on held-out rows; of each other tool the setting that is best on the test rows, an oracle. "
    "Relations and δ differ: the tables say which."
)
_DRAWN = OURS.name


def draw(cells: Cells, path: Path) -> Path:
    """A panel for each data set of classes, and one of times beside ours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    classes = [cell for cell in cells if cell["task"] == "classes"]
    datasets = list(dict.fromkeys(cell["dataset"] for cell in classes))
    tools = [
        tool
        for tool in dict.fromkeys(cell["tool"] for cell in classes)
        if tool == _DRAWN or tool not in _OURS
    ]
    looks = {
        tool: {"color": PALETTE[k % len(PALETTE)], "marker": MARKERS[k % len(MARKERS)]}
        for k, tool in enumerate(tools)
    }
    figure = Figure(figsize=(4.2 * (len(datasets) + 1), 4.6), dpi=160)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(datasets) + 1, squeeze=False)[0]
    for axes, dataset in zip(panels, datasets, strict=False):
        _over_epsilon(axes, dataset, [cell for cell in classes if cell["dataset"] == dataset], looks)
    _times(panels[-1], classes, looks)
    figure.suptitle(
        "Other tools on the same rows and folds", x=0.01, ha="left", fontsize=13, fontweight="bold"
    )
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, names, ncols=4, fontsize=8.5, frameon=False, loc="lower left", bbox_to_anchor=(0, 0.045)
    )
    figure.text(0.01, 0.015, NOTE, fontsize=8, color=GREY)
    figure.tight_layout(rect=(0, 0.15, 1, 0.97))
    with atomic_path(path) as unfinished:
        save(figure, unfinished)
    return path


def _over_epsilon(axes: Axes, dataset: str, cells: Cells, looks: dict[str, dict[str, Any]]) -> None:
    by_tool: dict[str, dict[str, Any]] = {}
    for (tool, setting), mine in lines_of(cells).items():
        by_tool.setdefault(tool, {})[setting] = mine
    epsilons = sorted({cell["epsilon"] for cell in cells if cell["private"]})
    for tool, look in looks.items():
        settings = by_tool.get(tool, {})
        if settings:
            best = [best_of(settings, "auc", epsilon) for epsilon in epsilons]
            values = [
                mean_of(settings[name], "auc", epsilon) for name, epsilon in zip(best, epsilons, strict=True)
            ]
            axes.plot(epsilons, values, label=tool, linewidth=2.4 if tool == _DRAWN else 1.4, **look)
    level = mean_of([cell for cell in cells if not cell["private"]], "auc")
    if not np.isnan(level):
        axes.axhline(level, color=GREY, linestyle=":", label="scikit-learn, not private")
    axes.set_title(f"{dataset}: AUC", loc="left", fontsize=11)
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.xaxis.minorticks_off()
    axes.set_xlabel("ε (more privacy to the left)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)


def _times(axes: Axes, cells: Cells, looks: dict[str, dict[str, Any]]) -> None:
    """The time of a fit over that of ours just before it, setting by setting."""
    for (tool, _), mine in lines_of(cells).items():
        ratios = [cell["seconds"] / cell["ours_seconds"] for cell in mine if not cell["error"]]
        if ratios and tool in looks and tool != _DRAWN:
            place = list(looks)[::-1].index(tool)
            axes.plot(np.median(ratios), place, linestyle="", **looks[tool])
    axes.axvline(1.0, color=PALETTE[0], linewidth=2.4)
    axes.set_yticks(range(len(looks)), list(looks)[::-1])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.minorticks_off()
    axes.set_title("time of a fit, over ours", loc="left", fontsize=11)
    axes.set_xlabel("times as long as dperm's default (log scale)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#E2E2E2", linewidth=0.6)


DATASETS = ("adult", "bank", "cps")


@dataclass(frozen=True, kw_only=True)
class Size:
    """Which data sets, budgets and tools, how many rows, and how many of the folds are run."""

    datasets: tuple[str, ...] = DATASETS
    epsilons: tuple[float, ...] = (0.1, 1.0, 4.0)
    folds: int = 5
    most_rows: int | None = None
    peers: tuple[Peer, ...] = PEERS


FULL = Size()
QUICK = Size(datasets=("adult", "cps"), epsilons=(1.0,), folds=1, most_rows=4000, peers=(DIFFPRIVLIB, OPENDP))


def run(bench: Bench, size: Size | None = None) -> Report:
    """Environments first, then every cell, then the attacks; what is finished is not done again."""
    size = size or (QUICK if bench.quick else FULL)
    environments = _environments(size.peers, bench)
    tables, skipped = _tables(size, bench)
    jobs = [
        (peer, setting, table)
        for peer in (*HERE, *size.peers)
        for setting in peer.settings
        for table in tables
        if table.task == setting.task and (peer in HERE or environments[peer.name].python)
    ]
    cells: list[dict[str, Any]] = []
    report = bench.progress("fits beside ours")
    for place, (peer, setting, table) in enumerate(jobs):
        report(place, len(jobs))
        environment = environments.get(peer.name)
        cells += measure(peer, setting, environment, table, size.epsilons, size.folds, bench)
    report(len(jobs), len(jobs))
    attacks = []
    trials = [trial for trial in TRIALS if trial.peer in size.peers and environments[trial.peer.name].python]
    report = bench.progress("attacks")
    for place, trial in enumerate(trials):
        report(place, len(trials))
        attacks.append(try_claim(trial, environments[trial.peer.name], bench))
    report(len(trials), len(trials))
    made = [*environments.values(), *([] if size.peers != PEERS else [try_r_package("DPpack")])]
    results = bench.folder / "results.parquet"
    with atomic_path(results) as unfinished:
        pq.write_table(pa.Table.from_pylist(cells), unfinished)
    return Report(
        sections=tuple(sections(cells, attacks, made)),
        checks=tuple(checks(cells, attacks)),
        skipped=tuple(skipped),
        files=(results, draw(cells, bench.folder / "figure.png")),
    )


def _environments(peers: tuple[Peer, ...], bench: Bench) -> dict[str, Environment]:
    report = bench.progress("environments")
    made = {}
    for place, peer in enumerate(peers):
        report(place, len(peers))
        folder = bench.parts / "environments"
        made[peer.name] = make_environment(
            folder, peer.runner[4:], peer.check, peer.candidates, fresh=bench.fresh
        )
    report(len(peers), len(peers))
    return made


def _tables(size: Size, bench: Bench) -> tuple[list[Table], list[str]]:
    found, missing = [], []
    for name in size.datasets:
        try:
            found.append(prepare(name, bench.parts / "peers", size.most_rows))
        except DataUnavailable as error:
            missing.append(f"{name}: {error}")
    return found, missing


ITEMS = {
    "peers": Item(
        name="peers",
        title="Other tools on the same rows and folds, and whether their claimed ε survives our attack",
        paper="this library, beside diffprivlib, Opacus, JAX-Privacy, TF-Privacy, DP-EBM, OpenDP and AIM",
        run=run,
        published="Nothing was published: every figure but those of AIM is measured here. Packages come from the "
        "registry, each into an environment of its own in DIR/parts, 5 to 6 GB in all; with --quick two of them, 1 GB.",
        differs=(
            "A tool that cannot be installed is named with the message, and the others go on.",
            "Every process has one thread and fits 500 rows beforehand, untimed. Times are over those of our default, "
            "fitted to the same rows under the same relation just before.",
            "DP-EBM takes records, not encoded rows: it bins by itself, with public types and ranges.",
            "AIM is installed but not run, since a fit may take hours; its figures were measured before, on one split.",
            "Where a tool has several settings, the best on the test rows is an oracle, which flatters it.",
            "Slow settings are run on fewer folds; the tables say on how many.",
            "'Survives' proves nothing; 'broken' is a proof, with 95 % confidence, for the tables that were tried.",
        ),
    ),
}
