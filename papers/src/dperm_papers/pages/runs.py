"""Where results come from: date, command, seed, versions, machine, and how long they took."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from dperm.models.atomic import atomic_path

_PACKAGES = {"python": "Python", "numpy": "NumPy", "scikit-learn": "scikit-learn", "opendp": "OpenDP"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is known of a run. ``transcribed`` says from what, where the files of the run itself were not kept.

    ``seconds`` count all calls of the command; ``settings`` is what the command does not tell.
    """

    date: str
    command: str
    size: str = ""
    seed: int | None = None
    seconds: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    transcribed: str = ""
    note: str = ""

    @property
    def day(self) -> str:
        day = date.fromisoformat(self.date)
        return f"{day.day} {day:%B} {day.year}"

    @property
    def command_shown(self) -> str:
        return f"`{self.command}`" if self.command.startswith(("dperm ", "python ")) else self.command

    @property
    def took(self) -> str:
        return "" if self.seconds is None else duration(self.seconds)

    def in_words(self) -> str:
        made = f"transcribed from {self.transcribed} of" if self.transcribed else "run on"
        parts = [f"{made} {self.day}", self.command_shown]
        if self.size and self.size not in self.command:
            parts.append(f"{self.size} size")
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        parts += [f"{name} {value}" for name, value in self.settings.items()]
        if self.seconds is not None:
            parts.append(f"took {self.took}")
        if self.versions:
            others = ", ".join(
                f"{shown} {self.versions[name]}" for name, shown in _PACKAGES.items() if name in self.versions
            )
            parts.append(f"dperm {self.versions.get('dperm', '?')}" + (f" ({others})" if others else ""))
        if self.machine:
            parts.append(f"{self.machine['cores']} cores of {self.machine['processor']}")
        if self.note:
            parts.append(self.note)
        return "; ".join(parts)


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


# How long a command took that was stopped and went on.


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
