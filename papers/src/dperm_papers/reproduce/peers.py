"""Other tools beside ours: the same rows and folds, and whether each claimed epsilon survives our attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dperm.errors import DataUnavailable
from dperm.models.atomic import atomic_path
from dperm_papers.peers.catalogue import DIFFPRIVLIB, HERE, OPENDP, PEERS, Peer
from dperm_papers.peers.cells import measure
from dperm_papers.peers.environments import Environment, make_environment
from dperm_papers.peers.r_package import try_r_package
from dperm_papers.peers.rows import Table, prepare
from dperm_papers.peers.trials import TRIALS, try_claim
from dperm_papers.reproduce.item import Bench, Item, Report
from dperm_papers.reproduce.peers_drawing import draw
from dperm_papers.reproduce.peers_tables import checks, sections

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
