"""A folder of shards: private files, the manifest that says what is in it, and its rows for ``fit``.

The manifest holds the sum of every file. Without one a folder is no data set. Every file is whole or not there.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import secrets
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from dperm.data.kinds import LABELS, PERSONS, Kind, kind_of
from dperm.engine.shards.sources import ShardSource
from dperm.errors import InvalidInput
from dperm.strict_json import check_format, check_object, digest, header, matches, read_file

UNFINISHED = ".unfinished"


def make_private(folder: Path) -> bool:
    """The folder, for its owner alone; whether it is new."""
    is_new = not folder.exists()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(folder, 0o700)
    return is_new


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Nobody else writes to the folder meanwhile, where the system has such locks; they end with the process."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - not on this system
        yield
        return
    descriptor, taken = os.open(folder, os.O_RDONLY), False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = True
        if not taken:
            raise InvalidInput(f"{folder.name}: another process is writing to this folder.")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name when the block ends without an error, and is gone otherwise."""
    unfinished = path.with_name(f"{path.name}-{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        sync_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """See to it that names in a folder survive a loss of power, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Summed:
    """A file that counts and sums up what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._write: Callable[[Any], int] = file.write
        self._sum = hashlib.sha256()
        self._bytes = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._sum.update(view)
        self._bytes += len(view)
        return self._write(view)

    @property
    def stated(self) -> dict[str, Any]:
        return {"bytes": self._bytes, "sha256": self._sum.hexdigest()}


def content_of(path: Path) -> str:
    """The sum of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        return {"rows": self.rows, "files": {name: dict(about) for name, about in self.files.items()}}

    @classmethod
    def from_dict(cls, stated: object, number: int) -> Shard:
        """The shard with this number, whose files can only lie in the folder itself and belong to no other one."""
        held = check_object("a shard", stated, ("rows", "files"))
        if not (matches(held["rows"], int) and held["rows"] >= 0 and isinstance(held["files"], dict)):
            raise InvalidInput("a shard has a number of rows, and files.")
        for name, about in held["files"].items():
            found = _FILE.fullmatch(name)
            if found is None or int(found[1]) != number:
                raise InvalidInput("a shard names a file that is not its own.")
            check_object("a file of a shard", about, ("bytes", "sha256"))
            if not (matches(about["bytes"], int) and about["bytes"] >= 0 and matches(about["sha256"], str)):
                raise InvalidInput("a file of a shard has a size and a checksum.")
            if _SHA256.fullmatch(about["sha256"]) is None:
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
        for name, about in self.files.items():
            path = folder / name
            if not path.is_file() or path.stat().st_size != about["bytes"]:
                raise InvalidInput(f"{name} is missing or has not the size that the manifest tells.")
            if content and content_of(path) != about["sha256"]:
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
        return sum(about["bytes"] for shard in self.shards for about in shard.files.values())

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


MAPPED_BYTES = 512 * 2**20
"""Bytes of shards that may stay mapped between passes."""

_MAPS: dict[tuple[str, int], list[weakref.ref[mmap.mmap]]] = {}


class FolderShards(ShardSource):
    """Rows in a folder that ``write_shards`` has written. They are mapped, not read into memory.

    Sizes of the files are checked on opening, and every byte with ``check=True``.
    """

    keeps_places = True

    def __init__(self, folder: str | os.PathLike[str], *, check: bool = False) -> None:
        self.folder = Path(folder).absolute()
        self._manifest = Manifest.read(self.folder, content=check)
        kind = self._manifest.kind
        self.sizes = tuple(shard.rows for shard in self._manifest.shards)
        self.n_features, self.feature_names = kind.n_features, kind.feature_names
        self.classes = kind.classes
        self.has_labels, self.person = kind.has_labels, kind.person
        self.key = self._manifest.digest

    @property
    def schema(self) -> Any:
        """The schema that the rows were made with, or None."""
        return getattr(self._manifest.kind, "schema", None)

    def load(self, shard: int) -> tuple[Any, Any]:
        known = self._manifest.shards[shard]
        found = {name: self._array(shard, name) for name in ("X", "codes", "floats")}
        arrays = {name: array for name, array in found.items() if array is not None}
        return self._manifest.kind.rows(arrays, known.rows), self.labels(shard)

    def labels(self, shard: int) -> NDArray[Any] | None:
        places = self._array(shard, LABELS)
        if places is None or self.classes is None:
            return places
        if len(places) and not (
            places.dtype.kind == "i" and 0 <= places.min() <= places.max() < len(self.classes)
        ):
            raise InvalidInput(
                "a shard holds labels that its manifest does not tell of; write the shards anew."
            )
        return np.asarray(np.asarray(self.classes)[places])

    def persons(self, shard: int) -> NDArray[Any]:
        found = self._array(shard, PERSONS)
        return super().persons(shard) if found is None else found

    def rest(self, shard: int) -> None:
        """Let the system have back the memory of a shard's maps, where all shards together are more than a share of it.

        What is mapped stays in the cache of the file system; the next pass takes it from there.
        """
        if self._manifest.n_bytes > MAPPED_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            for reference in _MAPS.get((self.key, shard), []):
                mapped = reference()
                if mapped is not None:
                    mapped.madvise(mmap.MADV_DONTNEED)

    def _array(self, shard: int, name: str) -> NDArray[Any] | None:
        path = self._manifest.shards[shard].path(self.folder, name)
        if path is None:
            return None
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        maps = [reference for reference in _MAPS.get((self.key, shard), []) if reference() is not None]
        _MAPS[self.key, shard] = [*maps, weakref.ref(array._mmap)]
        if name not in (LABELS, PERSONS):
            return cast("NDArray[Any]", array)
        if array.shape != (self.sizes[shard],):
            raise InvalidInput("a shard has not as many labels or persons as rows; write the shards anew.")
        return np.asarray(array)

    def __repr__(self) -> str:
        return f"FolderShards({str(self.folder)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return FolderShards, (self.folder,)
