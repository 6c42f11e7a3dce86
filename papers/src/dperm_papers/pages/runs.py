"""Where results come from: date, command, seed, versions, machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

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
