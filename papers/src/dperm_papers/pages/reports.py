"""What an item of ``dperm reproduce`` found, as tables: its sections, its checks, what was skipped and what differs."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from dperm.experiments.results import Study
from dperm.experiments.store import machine, merged, versions
from dperm_papers.pages.cells import Table, cell
from dperm_papers.pages.files import Results
from dperm_papers.pages.runs import Run
from dperm_papers.reproduce.item import Bench, Item, Report, Section

FILE = "tables.parquet"
"""In the folder of an item."""

CHECKS, SKIPPED, DIFFERS = "checks", "skipped", "differs"


def tables_of(item: Item, report: Report) -> dict[str, Table]:
    """The sections by their short names, and the rest by ``CHECKS``, ``SKIPPED`` and ``DIFFERS``."""
    claims = [[check.claim, check.verdict] for check in report.checks]
    return {
        **named(report.sections),
        CHECKS: Table(("claim", "here"), claims, "What was claimed, and whether it holds here"),
        SKIPPED: Table(("what, and why",), [[reason] for reason in report.skipped], "What was skipped"),
        DIFFERS: Table(("what, and why",), [[remark] for remark in item.differs], "What differs"),
    }


def named(sections: Iterable[Section]) -> dict[str, Table]:
    """Sections by the first words of their titles, and a number where these are the same."""
    tables: dict[str, Table] = {}
    for section in sections:
        short = slug(section.title)
        name, count = short, 1
        while name in tables:
            count += 1
            name = f"{short}-{count}"
        rows = [[cell(text) for text in row] for row in section.rows]
        tables[name] = Table(section.columns, rows, section.title)
    return tables


def slug(title: str) -> str:
    words = re.sub(r"[^\w\s-]", "", title.partition(":")[0].partition(",")[0]).lower().split()
    return "-".join(words[:5])


def size_of(bench: Bench) -> str:
    return "quick" if bench.quick else "middle" if bench.middle else "full"


def command_of(name: str, bench: Bench) -> str:
    """The command for one item, without the folders of a machine."""
    words = ["dperm reproduce", name]
    if size_of(bench) != "full":
        words.append(f"--{size_of(bench)}")
    if bench.seed:
        words.append(f"--seed {bench.seed}")
    if bench.most_rows is not None:
        words.append(f"--most-rows {bench.most_rows}")
    words += [f"--data {dataset}" for dataset in bench.datasets]
    return " ".join(words)


def run_of(name: str, report: Report, bench: Bench, seconds: float) -> Run:
    """Versions and machine are those of the batches, where there are any: they may be from an earlier call."""
    studies = [Study.of(table) for table in report.results if table.num_rows]
    return Run(
        date=datetime.now(UTC).date().isoformat(),
        command=command_of(name, bench),
        size=size_of(bench),
        seed=bench.seed,
        seconds=round(seconds, 1),
        versions=merged([study.versions for study in studies]) if studies else dict(versions()),
        machine=merged([study.machine for study in studies]) if studies else dict(machine()),
    )


def write_tables(item: Item, report: Report, bench: Bench, seconds: float, folder: Path) -> Path:
    """``tables.parquet`` of an item."""
    run = run_of(item.name, report, bench, seconds)
    return Results(tables_of(item, report), run).write(folder / FILE)
