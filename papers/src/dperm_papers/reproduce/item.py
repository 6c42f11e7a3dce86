"""What one reproduced table or figure is, what it is given to run with, and what it hands back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

Progress = Callable[[int, int], None]
"""Told the number of finished parts and their total."""


def untold(stage: str) -> Progress:
    """Progress that nobody looks at."""
    return lambda done, total: None


FIGURE_ONLY = "Published as a figure only: there is no number to put beside ours."


@dataclass(frozen=True, kw_only=True)
class Section:
    """A table of texts."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def as_markdown(self) -> str:
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(frozen=True, kw_only=True)
class Check:
    """Something that was published, or must be so, and whether it is so here."""

    claim: str
    holds: bool

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "does not hold"

    def __str__(self) -> str:
        return f"{self.claim}: {self.verdict if self.holds else self.verdict.upper()}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Report:
    """What an item found: tables to print, checks, what was left out and why, and the figures it drew.

    ``results`` are tables of runs, one row per model, for the Parquet file and the HTML page.
    """

    sections: tuple[Section, ...] = ()
    checks: tuple[Check, ...] = ()
    skipped: tuple[str, ...] = ()
    results: tuple[pa.Table, ...] = ()
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Bench:
    """Where an item works and how much of it.

    ``folder`` is the item's own; ``parts`` keeps finished batches and is shared, so that items with a run in common
    do it once. ``datasets`` limits the items that name theirs to some of them, ``most_rows`` the rows of each where
    an item takes data sets of any number; ``middle`` asks for a size between the quick and the full one. ``progress``
    makes, from the name of a stage, what is told of its finished batches.
    """

    folder: Path
    parts: Path
    quick: bool = False
    middle: bool = False
    seed: int = 0
    fresh: bool = False
    most_rows: int | None = None
    datasets: tuple[str, ...] = ()
    progress: Callable[[str], Progress] = untold

    def among(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of these data sets that are asked for."""
        return tuple(name for name in names if not self.datasets or name in self.datasets)


@dataclass(frozen=True, eq=False, kw_only=True)
class Item:
    """A table or figure of a paper.

    ``published`` tells where the published figures stand, ``differs`` what is not as in the paper and why. What
    compares data set by data set names them in ``datasets``: each can then be run apart, its batches kept, and the
    item made of them. Items of one ``family`` have runs in common.
    """

    name: str
    title: str
    paper: str
    run: Callable[[Bench], Report]
    published: str = FIGURE_ONLY
    differs: tuple[str, ...] = ()
    datasets: Callable[[], Sequence[str]] = tuple
    family: str = ""
