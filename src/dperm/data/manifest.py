"""The manifest of a folder of shards: what is in it, and the sum of every file. Without one it is no data set."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dperm.data.kinds import Kind, kind_of
from dperm.data.private_files import content_of, new_file
from dperm.errors import InvalidInput
from dperm.strict_json import check_format, check_object, digest, header, matches, read_file

MANIFEST = "manifest.json"
FORMAT = "dperm shards"
MAX_BYTES = 64 << 20
_KEYS = ("format", "version", "rows_as", "shards", "digest")
_FILE = re.compile(r"shard-([0-9]{5,})\.([A-Za-z]+)\.npy")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Shard:
    """Rows of a shard, and the bytes and sum of each of its files."""

    rows: int
    files: Mapping[str, Mapping[str, Any]]

    def stated(self) -> dict[str, Any]:
        return {"rows": self.rows, "files": {name: dict(told) for name, told in self.files.items()}}

    @classmethod
    def from_dict(cls, stated: object, number: int) -> Shard:
        """The shard with this number, whose files can only lie in the folder itself and belong to no other one."""
        held = check_object("a shard", stated, ("rows", "files"))
        if not (matches(held["rows"], int) and held["rows"] >= 0 and isinstance(held["files"], dict)):
            raise InvalidInput("a shard has a number of rows, and files.")
        for name, told in held["files"].items():
            found = _FILE.fullmatch(name)
            if found is None or int(found[1]) != number:
                raise InvalidInput("a shard names a file that is not its own.")
            check_object("a file of a shard", told, ("bytes", "sha256"))
            if not (matches(told["bytes"], int) and told["bytes"] >= 0 and matches(told["sha256"], str)):
                raise InvalidInput("a file of a shard has a size and a checksum.")
            if _SHA256.fullmatch(told["sha256"]) is None:
                raise InvalidInput("a checksum has 64 hexadecimal digits.")
        return cls(rows=held["rows"], files=held["files"])

    @property
    def arrays(self) -> set[str]:
        """The names of the arrays that there is a file of."""
        return {name.split(".")[1] for name in self.files}

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
        return digest(self._stated())

    def _stated(self) -> dict[str, Any]:
        return {
            **header(FORMAT),
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
        found = read_file(folder / MANIFEST, cls._checked, "manifest of shards", MAX_BYTES)
        for shard in found.shards:
            shard.check(folder, content)
        return found

    @classmethod
    def _checked(cls, document: object) -> Manifest:
        """What JSON held, once its keys, types and digest are those of a manifest."""
        held = check_object("the manifest", check_format(document, FORMAT), _KEYS)
        if not isinstance(held["shards"], list):
            raise InvalidInput("shards must be a list.")
        if digest({key: value for key, value in held.items() if key != "digest"}) != held["digest"]:
            raise InvalidInput("it was changed since it was written.")
        shards = tuple(Shard.from_dict(stated, number) for number, stated in enumerate(held["shards"]))
        kind = kind_of(held["rows_as"])
        if any(shard.arrays != kind.files for shard in shards):
            raise InvalidInput(
                "rows, labels or persons of a shard are not told of, or told of and not there."
            )
        return cls(kind=kind, shards=shards)
