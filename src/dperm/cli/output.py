"""What the commands share when they write: a console, tables that fit it, JSON, and files that must not be lost."""

import json
import secrets
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
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
from rich.table import Table

from dperm.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def console() -> Console:
    """Standard output; into a pipe or file at least 100 columns, so that no table is cut there."""
    screen = Console(highlight=False, markup=False)
    if not screen.is_terminal:
        screen.width = max(100, screen.width)
    return screen


def plain_table(left: Sequence[str], right: Sequence[str] = (), no_wrap: bool = True) -> Table:
    """An empty table with these headings over a line, the ``right`` ones over numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in left:
        table.add_column(heading, no_wrap=no_wrap)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=no_wrap)
    return table


def fitting(
    screen: Console,
    columns: Sequence[str],
    optional: Sequence[str],
    make: Callable[[list[str]], Table],
    wide: bool = False,
) -> tuple[Table, list[str]]:
    """The table of these columns, and those that a terminal has no room for.

    Of the ``optional`` ones the last are left out first. Into a pipe or a file, or if ``wide``, all are shown in lines
    as long as it takes.
    """
    left_out: list[str] = []
    while True:
        table = make([name for name in columns if name not in left_out])
        width = screen.measure(table, options=screen.options.update(width=1000, max_width=1000)).maximum
        if wide or not screen.is_terminal:
            screen.width = max(screen.width, width)
        if width <= screen.width or len(left_out) == len(optional):
            return table, [name for name in columns if name in left_out]
        left_out.append(optional[-1 - len(left_out)])


def say(text: str) -> None:
    """Lines of text as they are; on a terminal those that are too long are broken between words."""
    screen = console()
    if screen.is_terminal:
        text = "\n".join(_broken(line, screen.width) for line in text.splitlines())
    click.echo(text)


def hand_out(found: Any, path: Path | None, force: bool, as_json: bool) -> None:
    """A private release: into a file if one was named, and shown as text or as JSON."""
    if path is not None:
        path = still_free(path, force)
        found.save(path)
    if as_json:
        print_json(found.to_dict())
    else:
        say(str(found))
    say_where(found.ledger_entry, path)


def still_free(path: Path, force: bool) -> Path:
    """The same path, or one beside it if a file has come there since the work began: what was paid for is kept."""
    taken = path.exists() and not force
    return path.with_name(f"{path.stem}-{secrets.token_hex(4)}{path.suffix}") if taken else path


def say_where(ledger_entry: str | None, path: Path | None) -> None:
    if ledger_entry is not None:
        click.echo(f"Charged to {ledger_entry}.", err=True)
    if path is not None:
        click.echo(f"Saved to {path}.", err=True)


def _broken(line: str, width: int) -> str:
    start = len(line) - len(line.lstrip())
    return textwrap.fill(
        line, width, subsequent_indent=" " * (start + 2), break_long_words=False, break_on_hyphens=False
    )


def warn(text: str) -> None:
    """Say one line beside the result."""
    click.echo(f"dperm: warning: {text}", err=True)


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=1, allow_nan=False))


def check_free(path: Path, force: bool) -> None:
    """Find out before the work whether the result can be written to ``path``."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; give the name of a file in it.")
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{path} is a device or a pipe; give the name of a file.")
    if not path.parent.is_dir():
        raise InvalidInput(f"{path.parent} is not a folder; create it before writing {path.name} there.")
    if path.exists() and not force:
        raise InvalidInput(f"{path} exists already; use --force to replace it, or another name.")


def free_output(name: str | None, force: bool) -> Path | None:
    """The file for a release, once it is known that it can be written."""
    if name is None:
        return None
    from dperm.models.atomic import check_writable

    path = Path(name)
    check_free(path, force)
    check_writable(path)
    return path


FIGURES = (".png", ".svg", ".pdf")


def check_figure(path: Path, force: bool) -> None:
    """The same for a figure, whose kind follows from the name; it needs matplotlib."""
    if path.suffix.lower() not in FIGURES:
        raise InvalidInput(f"{path.name} must end in one of {', '.join(FIGURES)}.")
    if find_spec("matplotlib") is None:
        raise InvalidInput("figures need matplotlib. Install it with: pip install 'dperm[cli]'")
    check_free(path, force)


def write_figure(figure: "Figure", path: Path) -> None:
    """Write a figure whole or not at all."""
    from dperm.experiments.figures import save
    from dperm.models.atomic import atomic_path

    with atomic_path(path) as unfinished:
        save(figure, unfinished, path.suffix[1:].lower())


MOST = 3


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question to append to a message, with a blank before it; empty if nothing is close."""
    names = list(dict.fromkeys(known))
    close = get_close_matches(word.lower(), names, MOST)
    if not close and word:
        close = [name for name in names if name.startswith(word.lower())][:MOST]
    if not close:
        return ""
    *first, last = (repr(name) for name in close)
    return f" Did you mean {', '.join(first)} or {last}?" if first else f" Did you mean {last}?"


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


def progress_bars(amount: ProgressColumn) -> Progress:
    """Bars on a terminal, with the time left; to be used in a with statement."""
    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeElapsedColumn(), TextColumn("left"))
    return Progress(
        *columns,
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
        speed_estimate_period=3600,
    )


@contextmanager
def shown(folder: Path, amount: ProgressColumn) -> Iterator[Progress]:
    """Bars of a run that keeps its finished batches: an interrupt says where they are."""
    try:
        with progress_bars(amount) as bars:
            yield bars
    except KeyboardInterrupt:
        click.echo(
            f"Finished batches are kept in {folder / 'parts'}; the same command goes on from there.", err=True
        )
        raise
