"""What a benchmark measured, as a file of docs/data: ``--data FILE`` of every benchmark writes one.

It holds tables as ``dperm reproduce`` writes them, so that ``make tables`` brings them to the pages.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.timing import Result, Skipped
from dperm.experiments.store import machine, versions
from dperm_papers.pages.cells import Table, cell
from dperm_papers.pages.files import Results
from dperm_papers.pages.runs import Run, Stopwatch

HEADINGS = ("what", "threads", "ms", "against", "ms", "ratio", "at most", "")
ALSO = ("torch", "triton", "opacus", "dask", "pyspark")


def data_option(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add ``--data FILE``; a folder that is not there is noticed before hours have passed."""
    parser.add_argument("--data", type=_parquet, metavar="FILE", help="also write a file of docs/data")
    return parser


def _parquet(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".parquet" or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a .parquet file in a folder that is there, got {text}")
    return path


def ratios(results: Iterable[Result | Skipped]) -> Table:
    """Times are in milliseconds unless the row says otherwise."""
    return Table(HEADINGS, [[cell(text) for text in _row(one)] for one in results])


def _row(one: Result | Skipped) -> Sequence[str]:
    if isinstance(one, Skipped):
        return (one.name, "", "", f"skipped: {one.reason}", "", "", "", "")
    target, verdict = "", ""
    if one.target is not None:
        target, verdict = short(one.target), "missed" if one.missed else "met"
    times = (short(one.milliseconds), one.reference, short(one.reference_milliseconds))
    return (one.name, str(one.threads or ""), *times, short(one.ratio), target, verdict)


def short(value: float) -> str:
    """Three significant digits without an exponent."""
    if value == 0:
        return "0"
    digits = next(places for places in range(12) if abs(value) * 10**places >= 100 or places == 11)
    return f"{value:,.{digits}f}"


def write(
    path: Path, command: str, watch: Stopwatch, tables: dict[str, Table], *, device: str = "", note: str = ""
) -> None:
    here = dict(machine())
    if device:
        here["processor"] = f"{here['processor']} beside {device}"
    run = Run(
        date=datetime.now(UTC).date().isoformat(),
        command=command,
        seconds=round(watch.seconds, 1),
        versions={**versions(), **_others()},
        machine=here,
        note=note,
    )
    print(f"wrote {Results(tables, run).write(path)}; make tables brings it to its page", file=sys.stderr)


def _others() -> dict[str, str]:
    found = {}
    for package in ALSO:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
