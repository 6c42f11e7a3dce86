"""The journal of an unfinished conversion: which shards are whole, so that another run goes on from there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

from dperm.data.manifest import MANIFEST, Shard
from dperm.data.private_files import UNFINISHED, sync_folder
from dperm.errors import InvalidInput
from dperm.strict_json import canonical, parse

JOURNAL = "journal.jsonl"


class Journal:
    """Finished shards of one conversion, a line each, each on disk before the next shard begins.

    The first line says of what rows and in what form; a run of others starts anew.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self._folder, self._about = folder, about
        self._path = folder / JOURNAL
        self.shards: list[Shard] = []
        self.started_anew = False
        """Whether there were shards of an earlier run that could not be used."""

    def begin(self) -> None:
        """Take over the finished shards of a run of the same rows, once every byte of them is known to be whole."""
        known = _lines(self._path)
        held = [line for line in known[1:] if "rows" in line]
        if known and known[0] == self._about and self._about["identity"] is not None:
            for number, line in enumerate(held):
                shard = _whole(line, number, self._folder)
                if shard is None:
                    break
                self.shards.append(shard)
        self.started_anew = len(held) > len(self.shards)
        self._sweep()
        with self._open("wb") as file:
            for line in (self._about, *(shard.stated() for shard in self.shards)):
                file.write(canonical(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._folder)

    def add(self, shard: Shard) -> None:
        self.shards.append(shard)
        with self._open("ab") as file:
            file.write(canonical(shard.stated()) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def end(self) -> None:
        self._path.unlink(missing_ok=True)

    def undo(self) -> None:
        """Remove everything that was written."""
        self.shards = []
        self._sweep()
        self.end()

    def _sweep(self) -> None:
        """Remove what a run left behind that is not part of a finished shard."""
        keep = {name for shard in self.shards for name in shard.files}
        for path in self._folder.iterdir():
            if is_ours(path.name) and path.name not in (*keep, JOURNAL):
                path.unlink()

    def _open(self, mode: str) -> IO[bytes]:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        return open(self._path, mode, opener=private)


def is_ours(name: str) -> bool:
    return name.endswith(UNFINISHED) or (name.startswith("shard-") and name.endswith(".npy"))


def check_usable(folder: Path) -> None:
    """Refuse a folder that holds finished shards, or anything that no conversion has written."""
    if (folder / MANIFEST).exists():
        raise InvalidInput(f"{folder.name}: the folder holds finished shards already; choose another one.")
    if any(not is_ours(path.name) and path.name != JOURNAL for path in folder.iterdir()):
        raise InvalidInput(f"{folder.name}: the folder holds other files; choose an empty or a new one.")
    if not (folder / JOURNAL).exists() and any(folder.iterdir()):
        raise InvalidInput(
            f"{folder.name}: the folder holds shards of an unknown source; choose another one."
        )


def _whole(line: object, number: int, folder: Path) -> Shard | None:
    """The shard that a line tells of, if every byte of it is there."""
    try:
        shard = Shard.from_dict(line, number)
        shard.check(folder, content=True)
    except InvalidInput:
        return None
    return shard


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines up to the first that is not whole: a run may have ended in the middle of one."""
    found: list[dict[str, Any]] = []
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            told = _told(line)
            if told is None:
                break
            found.append(told)
    return found


def _told(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        told = parse(line)
    except InvalidInput:
        return None
    return told if isinstance(told, dict) else None
