"""File formats: a reader is one format, found by what the name of a file ends in."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from dperm.errors import InvalidInput
from dperm.installed import register_installed
from dperm.schema.schema import AS_NAMED, FileLayout, Schema

ENTRY_POINTS = "dperm.readers"
"""The group of entry points by which an installed package makes its own file formats known."""

ROWS_AT_ONCE = 65_536


class Reader(ABC):
    """A file of one format. Errors name the file and the column, never what they hold.

    Parameters
    ----------
    file : Path
        A file that exists, is not empty and has one of the ``endings``; it may still hold something else.
    layout : FileLayout
        The table ``[file]`` of the schema.
    """

    endings: ClassVar[tuple[str, ...]]
    """What the names of such files end in, in small letters."""

    magic: ClassVar[Mapping[bytes, str]] = {}
    """First bytes of such files with the ending that they mean, for data from standard input."""

    def __init__(self, file: Path, layout: FileLayout = AS_NAMED) -> None:
        self.file, self.layout = file, layout

    @abstractmethod
    def column_types(self) -> dict[str, Any]:
        """The names of the columns with their declared Arrow types, None where the file declares none."""

    @abstractmethod
    def count(self) -> int:
        """How many rows there are, before a cell is looked at."""

    @abstractmethod
    def read(self, schema: Schema | None = None, *, as_text: bool = False, only: str | None = None) -> Any:
        """A PyArrow table, as :func:`dperm.schema.read_table` describes it."""

    def batches(self, schema: Schema | None, skip: int, person: str | None) -> Iterator[Any]:
        """Record batches from row ``skip`` on; a format that can read a part of a file overrides this."""
        return from_row(iter(self.read(schema).to_batches(ROWS_AT_ONCE)), skip)

    @staticmethod
    def wanted(names: Sequence[str], schema: Schema | None, only: str | None = None) -> list[str]:
        """The columns to be read: those that the schema declares, or all, or of these one."""
        return [
            name for name in names if (schema is None or name in schema.column_names) and only in (None, name)
        ]

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse columns without a name of their own."""
        if not names or "" in names or len(set(names)) != len(names):
            raise InvalidInput(
                f"{self.file.name}: every column needs a name of its own, in the first line of a CSV file."
            )


_READERS: list[type[Reader]] = []
Kind = TypeVar("Kind", bound=type[Reader])


def register_reader(reader: Kind) -> Kind:
    """Make a file format known; usable as a class decorator."""
    if not (isinstance(reader, type) and issubclass(reader, Reader)) or inspect.isabstract(reader):
        raise InvalidInput(
            f"only classes that implement Reader can be registered as a format; got {reader!r}."
        )
    taken = {ending for known in _READERS for ending in known.endings if known is not reader}
    if taken & set(reader.endings):
        raise InvalidInput(
            f"files ending in {reader.endings[0]} have a reader already; choose another ending."
        )
    if reader not in _READERS:
        _READERS.append(reader)
    return reader


@cache
def _load_installed() -> None:
    register_installed(ENTRY_POINTS, "file format", register_reader)


def readers() -> tuple[type[Reader], ...]:
    """All file formats, those of installed packages last."""
    _load_installed()
    return tuple(_READERS)


def reader_of(path: str | os.PathLike[str], layout: FileLayout = AS_NAMED) -> Reader:
    """The reader of a file that there is and whose name ends as one of a known format."""
    file = Path(path)
    known = {ending: reader for reader in readers() for ending in reader.endings}
    ending = max((end for end in known if file.name.lower().endswith(end)), key=len, default=None)
    if ending is None:
        *others, last = known
        raise InvalidInput(f"{file.name}: a file ending in {', '.join(others)} or {last} was expected.")
    if not file.is_file():
        raise InvalidInput(f"{file.name}: there is no such file.")
    if file.stat().st_size == 0:
        raise InvalidInput(f"{file.name}: the file is empty.")
    return known[ending](file, layout)


def from_row(batches: Iterator[Any], skip: int) -> Iterator[Any]:
    """What is left of some batches when the first ``skip`` rows are left out."""
    for batch in batches:
        left = max(0, min(skip, batch.num_rows))
        skip -= left
        if left < batch.num_rows:
            yield batch.slice(left) if left else batch
