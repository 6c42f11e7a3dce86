"""The manifest of a folder of shards: what is in it, and the sum of every file. Without one it is no data set."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dperm.data.kinds import Kind, kind_of
from dperm.data.private_files import content_of, digest_of, new_file
from dperm.errors import InvalidInput

MANIFEST = "manifest.json"
FORMAT, VERSION = "dperm shards", 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Shard:
    """Rows of a shard, and the bytes and sum of each of its files."""

    rows: int
    files: Mapping[str, Mapping[str, Any]]

    def stated(self) -> dict[str, Any]:
        return {"rows": self.rows, "files": {name: dict(told) for name, told in self.files.items()}}

    @classmethod
    def from_dict(cls, stated: Mapping[str, Any]) -> Shard:
        """A shard whose files can only lie in the folder itself."""
        rows, files = stated["rows"], stated["files"]
        if not isinstance(rows, int) or rows < 0 or not isinstance(files, Mapping):
            raise ValueError
        for name, told in files.items():
            if (
                Path(name).name != name
                or not isinstance(told["bytes"], int)
                or not isinstance(told["sha256"], str)
            ):
                raise ValueError
        return cls(rows=rows, files=files)

    def path(self, folder: Path, array: str) -> Path | None:
        """The file of one array; an array without columns has none."""
        for name in self.files:
            if name.endswith(f".{array}.npy"):
                return folder / name
        return None

    def check(self, folder: Path, content: bool) -> None:
        """Refuse files that are not as they were written: by their size, or by every byte."""
        for name, told in self.files.items():
            path = folder / name
            if not path.is_file() or path.stat().st_size != told["bytes"]:
                raise InvalidInput(f"{name} is missing or has not the size that the manifest tells.")
            if content and content_of(path) != told["sha256"]:
                raise InvalidInput(
                    f"{name} was changed since it was written: its checksum is not the one told."
                )


@dataclass(frozen=True, eq=False, kw_only=True)
class Manifest:
    """What a folder of shards holds."""

    kind: Kind
    shards: tuple[Shard, ...]

    @property
    def n_rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def n_bytes(self) -> int:
        return sum(told["bytes"] for shard in self.shards for told in shard.files.values())

    @property
    def digest(self) -> str:
        """Names the content: the sum of everything that is stated, the sums of the files among it."""
        return digest_of(self._stated())

    def _stated(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "rows_as": self.kind.stated(),
            "shards": [shard.stated() for shard in self.shards],
        }

    def write(self, folder: Path) -> None:
        with new_file(folder / MANIFEST) as file:
            document = {**self._stated(), "digest": self.digest}
            file.write(json.dumps(document, indent=1, ensure_ascii=True).encode())

    @classmethod
    def read(cls, folder: str | os.PathLike[str], *, content: bool = False) -> Manifest:
        """The manifest of a folder whose files are there in the sizes told, or with every byte, if asked for."""
        folder = Path(folder)
        if not (folder / MANIFEST).is_file():
            raise InvalidInput(
                f"{folder.name}: this folder holds no finished shards. Write them with dperm convert; if that was "
                "interrupted, run it again."
            )
        told = _document(folder / MANIFEST)
        shards = None if told is None else _shards(told.get("shards"))
        if told is None or told.get("format") != FORMAT or shards is None:
            raise InvalidInput(f"{folder.name}: {MANIFEST} is not a manifest of shards.")
        if told.get("version") != VERSION:
            raise InvalidInput(f"{folder.name}: the shards were written by another version; write them anew.")
        stated = told.get("rows_as")
        if digest_of({key: value for key, value in told.items() if key != "digest"}) != told.get("digest"):
            raise InvalidInput(f"{folder.name}: {MANIFEST} was changed since it was written.")
        found = cls(kind=_kind(stated), shards=shards)
        for shard in found.shards:
            shard.check(folder, content)
        return found


def _document(path: Path) -> dict[str, Any] | None:
    try:
        told = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def _kind(stated: Any) -> Kind:
    try:
        return kind_of(stated)
    except (KeyError, TypeError, AttributeError):
        pass
    raise InvalidInput(f"{MANIFEST} does not say in what form rows are kept.")


def _shards(told: Any) -> tuple[Shard, ...] | None:
    if not isinstance(told, Sequence):
        return None
    try:
        return tuple(Shard.from_dict(stated) for stated in told)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
