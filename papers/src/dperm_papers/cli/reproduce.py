"""``dperm reproduce``: the papers' tables and figures in one command."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from importlib.util import find_spec
from pathlib import Path

import click
from click.core import ParameterSource
from rich import box
from rich.progress import TaskProgressColumn
from rich.table import Table

from dperm.cli import completion
from dperm.cli.output import Counter, console, did_you_mean, shown
from dperm.errors import InvalidInput
from dperm_papers.pages.reports import command_of, size_of, write_tables
from dperm_papers.pages.runs import Stopwatch, add_seconds, duration, timed
from dperm_papers.pages.writing import finished_in, pages_in, write_docs
from dperm_papers.reproduce import Bench, Item, Report, Section, find_item, item_names

# What an item found, as a part of its HTML page: verdicts, what was skipped and why, tables, what differs.


def verdicts(report: Report) -> str:
    """What holds, what does not, and what was skipped and why; every text is escaped."""
    checks = [("yes" if check.holds else "no", check.verdict, check.claim) for check in report.checks]
    skipped = [("skipped", "skipped", reason) for reason in report.skipped]
    lines = [
        f'<li><span class="verdict {kind}">{verdict}</span> <span>{escape(text)}</span></li>'
        for kind, verdict, text in (*checks, *skipped)
    ]
    return _card("Verdicts", f"<ul class=verdicts>{''.join(lines)}</ul>") if lines else ""


def tables(item: Item, report: Report) -> str:
    """The tables of the item, and what differs from the paper."""
    ours = _card("Tables", "".join(map(_html_table, report.sections)))
    differs = "".join(f"<li>{escape(line)}</li>" for line in item.differs)
    return ours + _card("What differs from the paper", f"<ul>{differs}</ul>" if differs else "")


def pictures(report: Report) -> str:
    """The figures of an item that has no curves to draw, inside of the page."""
    if any(len(table) for table in report.results):
        return ""
    shown = [
        f'<img class=picture alt="{escape(file.stem)}" src="data:image/png;base64,'
        f'{b64encode(file.read_bytes()).decode()}">'
        for file in report.files
        if file.suffix == ".png"
    ]
    return _card("Figure", "".join(shown))


def _html_table(section: Section) -> str:
    head = "".join(f"<th scope=col>{escape(name)}</th>" for name in section.columns)
    rows = "".join(
        "<tr>" + "".join(_cell(text, place) for place, text in enumerate(row)) + "</tr>"
        for row in section.rows
    )
    return (
        f"<h3>{escape(section.title)}</h3><div class=scroll tabindex=0><table class=plain>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(text: str, place: int) -> str:
    return f"<th scope=row>{escape(text)}</th>" if place == 0 else f"<td>{escape(text)}</td>"


def _card(title: str, content: str) -> str:
    """A card of the page, none where it would be empty."""
    return f"<section class=card><h2>{escape(title)}</h2>{content}</section>\n" if content else ""


NOT_A_RELEASE = "All figures are evaluations on held-out rows, not private releases."


@click.command(
    short_help="The papers' tables and figures.",
    epilog=f"Names: {', '.join(item_names())}. --list says what they are.",
)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=completion.starting_with(item_names))
@click.option("--all", "every", is_flag=True, help="Everything that can be reproduced.")
@click.option("--list", "listed", is_flag=True, help="List the names and stop.")
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    default="dperm-reproduced",
    show_default=True,
    shell_complete=completion.folders,
    help="Folder for DIR/NAME/.",
)
@click.option("--quick", is_flag=True, help="Fewer repeats, ε and rows, which still show the shape.")
@click.option(
    "--middle", is_flag=True, help="defaults: three folds, at most 60,000 rows, fewer methods and ε."
)
@click.option("--html", is_flag=True, help="Also write DIR/NAME/report.html, interactive and self-contained.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Seed of the noise and of the secret orders.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    default=1,
    show_default=True,
    help="Processes that train side by side, a data set each. Models do not depend on it; times in tables do.",
)
@click.option(
    "--most-rows",
    type=click.IntRange(100),
    metavar="N",
    show_default="60,000 for defaults, 50,000 for plan",
    help="defaults, plan: at most N rows of each data set, drawn by its name.",
)
@click.option(
    "--data",
    "datasets",
    metavar="NAME",
    multiple=True,
    show_default="all",
    help="Only this data set, in what compares data sets. Repeatable.",
)
@click.option("--fresh", is_flag=True, help="Run all batches, also those that are finished in the folder.")
@click.option(
    "--write-docs",
    "docs",
    metavar="DOCS",
    show_default="none",
    shell_complete=completion.folders,
    help="Then take tables and figures into the folder DOCS and write its pages. Without names nothing is run; what is "
    "finished in --out, if that is given, is taken.",
)
@click.pass_context
def reproduce(
    context: click.Context,
    names: tuple[str, ...],
    every: bool,
    listed: bool,
    folder: str,
    quick: bool,
    middle: bool,
    html: bool,
    seed: int,
    jobs: int,
    most_rows: int | None,
    datasets: tuple[str, ...],
    fresh: bool,
    docs: str | None,
) -> None:
    """Run what a table or figure of a paper shows, and print our figures beside the published ones.

    Writes a figure, results.parquet, report.md and its tables as tables.parquet to DIR/NAME/. Finished batches are
    kept in DIR/parts: the same command goes on where it was stopped, and items with a run in common do it once.
    peers installs other tools from the package registry into environments of their own in DIR/parts: 5 to 6 GB, with
    --quick 1 GB.

    \b
    Examples:
      dperm reproduce --list
      dperm reproduce rsgd-fig1 --quick
      dperm reproduce --all --jobs 2 --out results --html
      dperm reproduce --write-docs docs --out results
    """
    if listed:
        for name in item_names():
            click.echo(f"{name:<14}{find_item(name).title}")
        return
    if not names and not every and docs is None:
        raise click.UsageError(f"give names or --all; there are {', '.join(item_names())}.")
    wanted = item_names() if every else tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in item_names():
            close = did_you_mean(name, item_names())
            raise InvalidInput(
                f"there is nothing named {name!r} to reproduce; choose from {', '.join(item_names())}.{close}"
            )
    items = [find_item(name) for name in wanted]
    _check_datasets(items, datasets)
    if find_spec("matplotlib") is None:
        raise InvalidInput("figures need matplotlib. Install it with: pip install 'dperm[cli]'")
    out = Path(folder)
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"{out} is a file; --out takes a folder.")
    if docs is not None:
        pages_in(Path(docs))
    if not wanted:
        given = context.get_parameter_source("folder") is not ParameterSource.DEFAULT
        _write_docs(str(docs), finished_in(out) if given else {})
        return
    watch = Stopwatch()
    bench = Bench(
        folder=out,
        parts=out / "parts",
        quick=quick,
        middle=middle,
        seed=seed,
        fresh=fresh,
        most_rows=most_rows,
        datasets=datasets,
    )
    trained = _train_side_by_side(items, bench, jobs) if jobs > 1 else set[str]()
    took = [
        (item.name, _reproduce(item, replace(bench, fresh=fresh and item.name not in trained), html))
        for item in items
    ]
    if len(took) > 1:
        console().print("Times: " + ", ".join(f"{name} {duration(seconds)}" for name, seconds in took) + ".")
    console().print(f"{NOT_A_RELEASE} Took {duration(watch.here)} in all.")
    if docs is not None:
        _write_docs(docs, finished_in(out, wanted))


def _write_docs(docs: str, finished: dict[str, Path]) -> None:
    written = write_docs(Path(docs), finished)
    taken = f"Took {', '.join(finished)} to {docs}. " if finished else ""
    changed = f"Wrote {', '.join(map(str, written))}." if written else f"{docs} is what the data say."
    console().print(taken + changed)


def _check_datasets(items: Sequence[Item], wanted: Sequence[str]) -> None:
    known = dict.fromkeys(name for item in items for name in item.datasets())
    for name in wanted:
        if name not in known:
            what = (
                f"choose from {', '.join(known)}.{did_you_mean(name, known)}"
                if known
                else "none is asked for."
            )
            raise InvalidInput(f"--data {name}: nothing here compares a data set of that name; {what}")


def _train_side_by_side(items: Sequence[Item], bench: Bench, jobs: int) -> set[str]:
    """The names of the items whose models are trained now. Each notes how long they took, all processes together."""
    from dperm_papers.reproduce.pieces import pieces_of, run_side_by_side

    pieces = pieces_of(items, bench)
    trained = {name for piece in pieces for name in piece.items}
    if bench.fresh:
        for name in trained:
            _times(name, bench).unlink(missing_ok=True)
    with shown(bench.folder, TaskProgressColumn()) as bars:
        report = Counter(bars, f"{jobs} processes")
        report(0, len(pieces))
        for done, finished in enumerate(run_side_by_side(pieces, bench, jobs), 1):
            report(done, len(pieces))
            for name, seconds in finished.seconds.items():
                add_seconds(_times(name, bench), command_of(name, bench), seconds)
            took = duration(sum(finished.seconds.values()))
            console().print(f"{done} of {len(pieces)}: {finished.piece}, {took}", style="dim")
    return trained


def _times(name: str, bench: Bench) -> Path:
    return bench.folder / name / "seconds.json"


def _reproduce(item: Item, bench: Bench, html: bool) -> float:
    """Run, print and save one item in a folder of its own; the seconds it took, in earlier calls too."""
    own = bench.folder / item.name
    own.mkdir(parents=True, exist_ok=True)
    with timed(_times(item.name, bench), command_of(item.name, bench), bench.fresh) as watch:
        _run_and_write(item, bench, own, html, watch)
    return watch.seconds


def _run_and_write(item: Item, bench: Bench, own: Path, html: bool, watch: Stopwatch) -> None:
    with shown(bench.folder, TaskProgressColumn()) as bars:

        def stages(stage: str) -> Counter:
            return Counter(bars, f"{item.name}: {stage}")

        report = item.run(replace(bench, folder=own, progress=stages))
    files = [
        *report.files,
        write_tables(item, report, bench, watch.seconds, own),
        _write_markdown(item, report, bench, watch.seconds, own / "report.md"),
    ]
    if html:
        from dperm.experiments.html import write_html

        parts = {"above": verdicts(report) + pictures(report), "below": tables(item, report)}
        files.append(write_html(report.results, own / "report.html", title=item.title, **parts))
    show(item, report)
    console().print(f"Took {duration(watch.seconds)}. Wrote {', '.join(map(str, files))}.\n")


def show(item: Item, report: Report) -> None:
    """Print the tables, the checks, what was left out, and what differs from the paper."""
    screen = console()
    screen.print(f"{item.name}: {item.title}", style="bold")
    screen.print(f"{item.paper}. {item.published}\n")
    for section in report.sections:
        screen.print(section.title, style="bold")
        screen.print(_table(section))
    for check in report.checks:
        screen.print(str(check), style="" if check.holds else "yellow")
    for reason in report.skipped:
        screen.print(f"Skipped: {reason}", style="yellow")
    for remark in item.differs:
        screen.print(f"Differs: {remark}", style="dim")


def _table(section: Section) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(section.columns):
        table.add_column(name, justify="left" if place == 0 else "right", overflow="fold")
    for row in section.rows:
        table.add_row(*row)
    return table


def _write_markdown(item: Item, report: Report, bench: Bench, seconds: float, path: Path) -> Path:
    from dperm.models.atomic import atomic_path

    parts = [
        f"# {item.name}: {item.title}",
        f"{item.paper}. {item.published} {NOT_A_RELEASE}",
        f"`{command_of(item.name, bench)}`: {size_of(bench)} sizes, {duration(seconds)} in all processes "
        "and calls together; a batch that another item had trained took none.",
        *(section.as_markdown() for section in report.sections),
        _listed("Checks", [str(check) for check in report.checks]),
        _listed("Skipped", report.skipped),
        _listed("What differs", item.differs),
    ]
    with atomic_path(path) as unfinished:
        unfinished.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    return path


def _listed(title: str, lines: Sequence[str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""
