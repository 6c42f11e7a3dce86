"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file in the folder of ``path`` to write to; it takes the place of ``path`` when the block ends.

    If the block raises, the new file is removed and whatever was at ``path`` stays as it was.
    """
    path = Path(path)
    unfinished = _new_beside(path)
    try:
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise ``OSError`` now if :func:`atomic_path` could make no file for ``path`` later; nothing is left behind."""
    path = Path(path)
    with suppress(FileNotFoundError):
        path.lstat()  # a name that the disk does not take shows here
    _new_beside(path).unlink()


def _new_beside(path: Path) -> Path:
    unfinished = path.parent / f".dperm-{secrets.token_hex(8)}.tmp"
    unfinished.open("xb").close()
    return unfinished
