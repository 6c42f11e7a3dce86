"""Every cell of the sweeps in a process of its own, kept when it is finished, or the reason why it was not run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.item import Bench
from dperm_papers.scale import child, memory, rows
from dperm_papers.scale.cells import PACKAGES, SHARDS, SPARK, Cell, Shape, Sweep

LIMIT = 900.0
"""Seconds that a process may take for a cell, its start, its rows and all its fits included."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was measured of a cell; or ``reason``, why nothing was, and ``word``, which says so in a table."""

    cell: Cell
    seconds: float | None = None
    cpu_seconds: float | None = None
    timings: int = 0
    memory: int | None = None
    row_bytes: int = 0
    entries: int = 0
    load: float = 0.0
    word: str = ""
    reason: str = ""


class NotRun(Exception):
    """A cell that was not run here, and may be elsewhere or later."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(reason)
        self.word = word


def measure_all(sweeps: Sequence[Sweep], bench: Bench, limit: float = LIMIT) -> dict[Cell, Outcome]:
    """Cells that several sweeps have are measured once."""
    cells = list(dict.fromkeys(cell for sweep in sweeps for cell in sweep.cells()))
    report = bench.progress("fits of growing size")
    found: dict[Cell, Outcome] = {}
    with Files(bench.seed) as written:
        for done, cell in enumerate(cells):
            report(done, len(cells))
            found[cell] = outcome(cell, bench, written, limit, too_long(cell, found.values(), limit))
    report(len(cells), len(cells))
    return found


def outcome(cell: Cell, bench: Bench, written: Files, limit: float, hopeless: str | None) -> Outcome:
    """From its file if the cell was measured before; ``hopeless`` says why it is not begun otherwise."""
    key = {"cell": asdict(cell), "seed": bench.seed}

    def measured() -> list[dict[str, Any]]:
        if hopeless:
            raise NotRun(_over(limit), hopeless)
        return [_measured(cell, bench.seed, written, limit)]

    try:
        kept = cached(bench.parts, "scale", key, measured, bench.fresh)
    except NotRun as why:
        return Outcome(cell=cell, word=why.word, reason=str(why))
    return Outcome(cell=cell, **kept.to_pylist()[0])


def too_long(cell: Cell, before: Iterable[Outcome], limit: float) -> str | None:
    """Why a cell is not begun: in proportion to its time for fewer of such rows it would take longer than the limit."""
    seconds = {
        smaller.cell.shape.n: smaller.seconds
        for smaller in before
        if smaller.seconds is not None
        and replace(cell, shape=replace(cell.shape, n=smaller.cell.shape.n)) == smaller.cell
    }
    if not seconds:
        return None
    n = max(seconds)
    expected = seconds[n] * cell.shape.n / n
    if expected <= limit:
        return None
    return f"would take {expected:,.0f} s by its time for {n:,} rows, and may take {limit:.0f} s"


def _over(limit: float) -> str:
    return f"> {limit:.0f} s"


def _measured(cell: Cell, seed: int, written: Files, limit: float) -> dict[str, Any]:
    missing = _missing_package(cell)
    if missing:
        raise NotRun("not installed", missing)
    large = memory.too_large(cell, memory.free())
    if large:
        raise NotRun("too large", large)
    folder = written.folder(cell) if cell.shape.kind == SHARDS else None
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    answer = ask(child.command(cell, folder, seed), limit)
    if answer is None:
        return {"word": _over(limit), "reason": f"had not ended after {limit:.0f} s", "load": load}
    if "refused" in answer:
        return {"word": "refused", "reason": answer["refused"], "load": load}
    return {**answer, "load": load}


def _missing_package(cell: Cell) -> str | None:
    engine = cell.method.engine
    if engine and find_spec(PACKAGES[engine]) is None:
        return f"needs the package {PACKAGES[engine]}, which is not installed"
    if engine == SPARK and shutil.which("java") is None:
        return "needs a Java, which was not found"
    return None


def ask(command: list[str], limit: float) -> dict[str, Any] | None:
    """What the process says in its last line; None if it took too long, which ends it and all that it started."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        try:
            told, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)
        errors.seek(0)
        last = (errors.read().strip().splitlines() or [""])[-1]
    if process.returncode or not told.strip():
        raise NotRun("failed", f"ended with status {process.returncode}: {last[:200]}")
    answer: dict[str, Any] = json.loads(told.splitlines()[-1])
    if "failed" in answer:
        raise NotRun("failed", answer["failed"])
    return answer


def _end(process: subprocess.Popen[str]) -> None:
    """The process and what it left running."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


class Files:
    """Rows on the disk for the cells that need them: those of one shape at a time, in temporary folders."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._shape: Shape | None = None
        self._folders: dict[bool, tempfile.TemporaryDirectory[str]] = {}

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def folder(self, cell: Cell) -> Path:
        if cell.shape != self._shape:
            self._remove()
            self._shape = cell.shape
        private = cell.method.is_private
        if private not in self._folders:
            self._folders[private] = self._written(cell.shape, private)
        return Path(self._folders[private].name)

    def _written(self, shape: Shape, private: bool) -> tempfile.TemporaryDirectory[str]:
        needs, room = rows.expected_bytes(shape), shutil.disk_usage(tempfile.gettempdir()).free
        if needs > memory.SHARE * room:
            raise NotRun("too large", f"needs {needs / 1e9:.1f} GB of {room / 1e9:.1f} GB of disk")
        made = tempfile.TemporaryDirectory(prefix="dperm-scale-")
        try:
            rows.write(shape, Path(made.name), private=private, seed=self._seed)
        except BaseException:
            made.cleanup()
            raise
        return made

    def _remove(self) -> None:
        for made in self._folders.values():
            made.cleanup()
        self._folders.clear()
