"""Write rows of any number into a folder of shards, a piece at a time.

A journal says which shards are whole, so that another run goes on from there.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from dperm.data.feeds import Feed, array_feed, number_feed, pair_feed, peeked, table_feed
from dperm.data.folder import (
    MANIFEST,
    UNFINISHED,
    FolderShards,
    Manifest,
    Shard,
    Summed,
    make_private,
    new_file,
    only_writer,
    sync_folder,
)
from dperm.data.kinds import Arrays, DenseKind, Kind, kind_by
from dperm.errors import InvalidInput
from dperm.schema import Schema
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
            with suppress(InvalidInput):  # from the first that is not whole on
                for number, line in enumerate(held):
                    shard = Shard.from_dict(line, number)
                    shard.check(self._folder, content=True)
                    self.shards.append(shard)
        self.started_anew = len(held) > len(self.shards)
        self._sweep()
        self._write("wb", self._about, *(shard.stated() for shard in self.shards))
        sync_folder(self._folder)

    def add(self, shard: Shard) -> None:
        self.shards.append(shard)
        self._write("ab", shard.stated())

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

    def _write(self, mode: str, *lines: dict[str, Any]) -> None:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        with open(self._path, mode, opener=private) as file:
            file.writelines(canonical(line) + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())


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


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines up to the first that is not whole: a run may have ended in the middle of one."""
    found: list[dict[str, Any]] = []
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        record = None
        with suppress(InvalidInput):
            record = parse(line) if line.endswith(b"\n") else None
        if not isinstance(record, dict):
            break
        found.append(record)
    return found


SHARD_BYTES = 32 * 2**20
"""Of a shard, about, unless its rows are said."""

_ALIGNED = 1024  # shards are whole blocks of every kind of rows

Progress = Callable[[int, int | None], None]
"""Called with the rows that are written, and with all there are, if known."""


def write_shards(
    source: Any,
    schema: Schema | str | os.PathLike[str] | dict[str, Any] | None,
    folder: str | os.PathLike[str],
    *,
    y: Any = None,
    classes: Sequence[Any] | None = None,
    person: str | None = None,
    rows_per_shard: int | None = None,
    progress: Progress | None = None,
) -> FolderShards:
    """Convert rows, a piece at a time, to a folder of shards that ``fit`` reads in place of a table.

    A run that was interrupted is gone on with by the same call, where the source is files that have not changed since;
    otherwise it starts anew, with a warning. Memory does not depend on the number of rows.

    Parameters
    ----------
    source
        With a schema, a table: a file that ``read_table`` reads, a folder of Parquet files, a PyArrow dataset, table or
        reader, a pandas or polars frame, or an iterator of frames. Without one, numbers: any of these where all columns
        are numbers, a two-dimensional array, or an iterator of pairs (X, y) of arrays.
    schema : Schema, path or dictionary, or None
        With it rows are kept as codes and a few floats, bounded by what is declared; the labels are those of its
        target. Without it they are kept as float32 numbers, as they are.
    folder : path
        A new or empty folder. Files in it are readable by their owner only: *shards are as sensitive as the source*.
    y : array or str, optional
        Without a schema: the labels of an array, or the name of their column.
    classes : sequence, optional
        Without a schema: all labels that may occur. Otherwise labels are numbers.
    person : str, optional
        Without a schema: the name of the column with the ids of persons, which is kept beside the rows. Otherwise it is
        the one that the schema names.
    rows_per_shard : int, optional
        A public number; by default shards have about 32 MB.
    progress : callable, optional
        Called with the rows written so far and the number of all, if it is known.

    Returns
    -------
    FolderShards
        What ``open_shards(folder)`` gives.

    Guarantee
    ---------
    A folder with a manifest is complete. Every row depends on its own record and on the schema only. An error names a
    column and a rule, never a value, and leaves no file behind.
    """
    kind, feed = read_as(source, None if schema is None else Schema.parse(schema), y, classes, person)
    return write_feed(kind, feed, rows_of_a_shard(kind, rows_per_shard), Path(folder), progress)


def write_feed(
    kind: Kind, feed: Feed, size: int, folder: Path, progress: Progress | None = None
) -> FolderShards:
    """Shards of ``size`` rows of what a feed gives."""
    is_new = make_private(folder)
    with only_writer(folder):
        check_usable(folder)
        journal = Journal(folder, {"rows_as": kind.stated(), "size": size, "identity": feed.identity})
        try:
            journal.begin()
            if journal.started_anew:
                warnings.warn(
                    f"{folder.name}: the conversion starts anew: what an earlier run left is not of the same files and "
                    "settings, or not whole.",
                    stacklevel=3,
                )
            _write(kind, feed, size, folder, journal, progress)
        except Exception as error:
            if not isinstance(error, OSError):  # a full disk may be made room on
                journal.undo()
                if is_new:
                    folder.rmdir()
            raise
        Manifest(kind=kind, shards=tuple(journal.shards)).write(folder)
        journal.end()
    return FolderShards(folder)


def read_as(
    source: Any, schema: Schema | None, y: Any, classes: Sequence[Any] | None, person: str | None = None
) -> tuple[Kind, Feed]:
    """How rows are to be kept, and the feed of them. No row is looked at unless they come in pairs of arrays."""
    if schema is not None:
        if not (y is None and classes is None and person is None):
            raise InvalidInput(
                "with a schema the labels are those of its target, and it names the persons; leave y, classes and "
                "person out."
            )
        return kind_by(schema), table_feed(source, schema)
    if person is not None and not (isinstance(y, str) or _is_table(source)):
        raise InvalidInput("person is the name of a column: give a table with names.")
    if isinstance(source, np.ndarray):
        feed = array_feed(source, None if y is None else np.asarray(y))
        return DenseKind(source.shape[1], classes=classes, names=None, has_labels=y is not None), feed
    if isinstance(y, str) or _is_table(source):
        names, feed = number_feed(source, y, person)
        labelled = y is not None
        return DenseKind(len(names), classes=classes, names=names, has_labels=labelled, person=person), feed
    if not isinstance(source, Iterable) or y is not None:
        raise InvalidInput(
            "without a schema give an array and y, a table and the name of its target, or pairs (X, y)."
        )
    first, feed = peeked(pair_feed(source))
    if first is None:
        raise InvalidInput("there are no rows; only a table with a schema may be empty.")
    X, labels = first
    return DenseKind(X.shape[1], classes=classes, names=None, has_labels=labels is not None), feed


def _is_table(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) or hasattr(source, "schema") or hasattr(source, "columns")


def rows_of_a_shard(kind: Kind, asked: int | None) -> int:
    """As many as were asked for, up to whole blocks, or about ``SHARD_BYTES``."""
    if asked is None:
        return max(1, SHARD_BYTES // (kind.row_bytes * _ALIGNED)) * _ALIGNED
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
        raise InvalidInput(f"rows_per_shard must be a whole number of at least 1; got {asked!r}.")
    return -(-asked // _ALIGNED) * _ALIGNED


def _write(
    kind: Kind, feed: Feed, size: int, folder: Path, journal: Journal, progress: Progress | None
) -> None:
    done = sum(shard.rows for shard in journal.shards)
    if any(shard.rows < size for shard in journal.shards):
        return  # only the last shard of all is short
    room: Arrays = {}
    filled = 0

    def finish() -> None:
        whole = kind.arrays({name: lines[:filled] for name, lines in room.items()})
        journal.add(_shard(folder, len(journal.shards), filled, whole))

    for piece in feed.pieces(done):
        lines = kind.lines(piece)
        n = len(next(iter(lines.values())))
        taken = 0
        while taken < n:
            if not room:
                room = {name: np.empty((size, *part.shape[1:]), part.dtype) for name, part in lines.items()}
            count = min(n - taken, size - filled)
            for name, part in lines.items():
                room[name][filled : filled + count] = part[taken : taken + count]
            filled, taken = filled + count, taken + count
            if filled == size:
                finish()
                filled = 0
        done += n
        if progress is not None:
            progress(done, feed.total)
    if filled:
        finish()


def _shard(folder: Path, number: int, rows: int, arrays: Arrays) -> Shard:
    files = {}
    for array, values in arrays.items():
        name, whole = f"shard-{number:05d}.{array}.npy", np.ascontiguousarray(values)
        with new_file(folder / name) as file:
            summed = Summed(file)
            np.lib.format.write_array_header_2_0(summed, np.lib.format.header_data_from_array_1_0(whole))
            summed.write(whole)
        files[name] = summed.stated
    return Shard(rows=rows, files=files)
