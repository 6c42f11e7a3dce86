"""Bars for runs that keep their finished batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Counter:
    """One bar of finished batches; those that were finished before do not count for the time left."""

    def __init__(self, bars: Progress, what: str) -> None:
        self._bars, self._task = bars, bars.add_task(escape(what), total=None)
        self.kept, self.total = 0, 0
        self._started = False

    def __call__(self, done: int, total: int) -> None:
        if self._started:
            self._bars.update(self._task, completed=done)
        else:
            self.kept, self.total, self._started = done, total, True
            self._bars.reset(self._task, total=total, completed=done)


@contextmanager
def shown(folder: Path, amount: ProgressColumn) -> Iterator[Progress]:
    """Bars on a terminal, with the time left. An interrupt says where the finished batches are."""
    screen = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        amount,
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    try:
        with Progress(
            *columns,
            console=screen,
            transient=True,
            disable=not screen.is_terminal,
            speed_estimate_period=3600,
        ) as bars:
            yield bars
    except KeyboardInterrupt:
        click.echo(
            f"Finished batches are kept in {folder / 'parts'}; the same command goes on from there.", err=True
        )
        raise
