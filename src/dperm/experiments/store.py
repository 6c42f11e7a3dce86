"""Finished batches as files that are whole or not there, in a folder named by what is compared."""

import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dperm import __version__
from dperm.errors import InvalidInput
from dperm.experiments.results import COLUMNS, Skipped
from dperm.experiments.spec import Spec, canonical_json
from dperm.models.atomic import atomic_path

PART_COLUMNS = COLUMNS.append(pa.field("candidate", pa.int64()))
_KEY = b"dperm-part"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "opendp", "dp-accounting", "pyarrow")


@cache
def versions() -> Mapping[str, str]:
    """Of this library, of Python and of the packages that compute."""
    found = {"dperm": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@cache
def machine() -> Mapping[str, str]:
    """What times depend on; nothing that names the machine."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": str(os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def merged(facts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The facts of several parts as one; where they differ, all that occur."""
    names = sorted({name for some in facts for name in some})
    return {name: " / ".join(dict.fromkeys(some[name] for some in facts if name in some)) for name in names}


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """A finished batch: the rows of all candidates, and what was skipped and why."""

    rows: pa.Table
    skipped: tuple[Skipped, ...]
    versions: Mapping[str, str] = field(default_factory=versions)
    machine: Mapping[str, str] = field(default_factory=machine)

    @classmethod
    def make(cls, rows: Sequence[dict[str, Any]], skipped: Sequence[Skipped]) -> "Part":
        return cls(
            rows=pa.Table.from_pylist(list(rows), schema=PART_COLUMNS),
            skipped=tuple(dict.fromkeys(skipped)),
        )


class Store:
    """The parts of one spec: files ``CONFIGURATION-GROUP.parquet``, or without a folder in memory.

    A part is written beside its place and then put there, so a killed process leaves whole parts only. What
    cannot be read as Parquet counts as not there; a whole file that is not of this spec is refused.
    """

    def __init__(self, spec: Spec, folder: str | os.PathLike[str] | None, *, fresh: bool = False) -> None:
        self.spec = spec
        self.folder = None if folder is None else Path(folder) / spec.identity[:16]
        self._parts: dict[tuple[int, int], Part] = {}
        if self.folder is None:
            return
        if fresh and self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._describe(self.folder / "spec.json")

    def _describe(self, path: Path) -> None:
        text = json.dumps(self.spec.document, indent=1, sort_keys=True) + "\n"
        if path.exists():
            if path.read_text() != text:
                raise InvalidInput(
                    f"{path} is not the description of this comparison; move {path.parent} away."
                )
            return
        with atomic_path(path) as unfinished:
            unfinished.write_text(text)

    def get(self, configuration: int, group: int) -> Part | None:
        """The part, if that batch is finished."""
        if (configuration, group) not in self._parts and self.folder is not None:
            part = self._read(self._path(self.folder, configuration, group), configuration, group)
            if part is not None:
                self._parts[configuration, group] = part
        return self._parts.get((configuration, group))

    def put(self, configuration: int, group: int, part: Part) -> None:
        self._parts[configuration, group] = part
        if self.folder is None:
            return
        facts = {
            **self._key(configuration, group),
            "skipped": [asdict(skipped) for skipped in part.skipped],
            "versions": part.versions,
            "machine": part.machine,
        }
        table = part.rows.replace_schema_metadata({_KEY: canonical_json(facts).encode()})
        with atomic_path(self._path(self.folder, configuration, group)) as unfinished:
            pq.write_table(table, unfinished)

    def _key(self, configuration: int, group: int) -> dict[str, Any]:
        return {"identity": self.spec.identity, "configuration": configuration, "group": group}

    @staticmethod
    def _path(folder: Path, configuration: int, group: int) -> Path:
        return folder / f"{configuration:03d}-{group:03d}.parquet"

    def _read(self, path: Path, configuration: int, group: int) -> Part | None:
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowInvalid):
            return None
        facts = json.loads((table.schema.metadata or {}).get(_KEY, b"{}"))
        key = self._key(configuration, group)
        if {name: facts.get(name) for name in key} != key or not table.schema.equals(PART_COLUMNS):
            raise InvalidInput(
                f"{path} is not a part of this comparison; move it away, or start anew (fresh=True, --fresh)."
            )
        return Part(
            rows=table.replace_schema_metadata(None),
            skipped=tuple(Skipped(**skipped) for skipped in facts["skipped"]),
            versions=facts["versions"],
            machine=facts["machine"],
        )
