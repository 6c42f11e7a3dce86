"""How long a command took that was stopped and went on."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dperm.models.atomic import atomic_path


class Stopwatch:
    def __init__(self, before: float = 0.0) -> None:
        self._before, self._started = before, time.perf_counter()

    @property
    def here(self) -> float:
        """Seconds of this call."""
        return time.perf_counter() - self._started

    @property
    def seconds(self) -> float:
        """Those of earlier calls too."""
        return self._before + self.here


@contextmanager
def timed(path: Path, command: str, fresh: bool = False) -> Iterator[Stopwatch]:
    """Add up the seconds of the same command in a small file, also when it is stopped; ``fresh`` starts at zero."""
    if fresh:
        path.unlink(missing_ok=True)
    watch = Stopwatch(_noted(path, command))
    try:
        yield watch
    finally:
        _note(path, command, watch.seconds)


def add_seconds(path: Path, command: str, seconds: float) -> None:
    """What another process took for the same command."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _note(path, command, _noted(path, command) + seconds)


def _noted(path: Path, command: str) -> float:
    if not path.is_file():
        return 0.0
    noted = json.loads(path.read_text(encoding="utf-8"))
    return float(noted["seconds"]) if noted.get("command") == command else 0.0


def _note(path: Path, command: str, seconds: float) -> None:
    with atomic_path(path) as unfinished:
        noted = {"command": command, "seconds": round(seconds, 1)}
        unfinished.write_text(json.dumps(noted) + "\n", encoding="utf-8")
