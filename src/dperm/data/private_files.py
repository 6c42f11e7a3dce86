"""Files that only their owner reads, each whole or not there, and what their bytes add up to."""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from dperm.errors import InvalidInput

UNFINISHED = ".unfinished"
_AT_ONCE = 2**20


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
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_AT_ONCE):
            total.update(block)
    return total.hexdigest()
