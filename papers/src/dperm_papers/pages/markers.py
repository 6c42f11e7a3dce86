"""What stands between the markers of a page, each up to ``<!-- / -->``.

- ``<!-- table FILE NAME -->``: a table; ``<!-- table FILE NAME "FIRST" -->``: its rows whose first cell is FIRST.
- ``<!-- list FILE NAME -->``: a table as a list, a line for every row.
- ``<!-- tables FILE -->``: all tables of a file below their titles.
- ``<!-- data FILE -->``: the line on the run. ``<!-- runs -->``: a table of the runs of all files.
- ``<!-- value FILE NAME "ROW" "COLUMN" -->``: one figure within a line; ROW is the first cells of a row.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dperm.errors import InvalidInput
from dperm_papers.pages.cells import Cell, Number, Table
from dperm_papers.pages.files import Results
from dperm_papers.pages.reports import CHECKS, DIFFERS, SKIPPED
from dperm_papers.pages.runs import duration

END = "<!-- / -->"
_OPEN = r"<!-- (tables?|list|data|runs|value)((?: [^\s\"-][^\s\"]*| \"[^\"]*\")*) -->"
BLOCK = re.compile(rf"^{_OPEN}\n(.*?)^{END}$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(rf"{_OPEN}([^\n]*?){END}")
_WORD = re.compile(r'"([^"]*)"|(\S+)')
_AT_START = re.compile(r"^ {0,3}(?:[-*+>] +|\d+\. +)*<!-- value ", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """The files by name: ``read`` gives the results of one, ``names`` are all there are."""

    read: Callable[[str], Results]
    names: Callable[[], list[str]]


def marked(text: str) -> bool:
    return bool(BLOCK.search(text) or INLINE.search(text))


def files_in(text: str) -> set[str]:
    """The names of the files that the markers of a page name."""
    found = [*BLOCK.finditer(text), *INLINE.finditer(text)]
    return {_words(one[2])[0] for one in found if one[1] != "runs"}


def without_markers(text: str) -> str:
    """The page with nothing in the place of what its markers fill in."""
    return INLINE.sub("", BLOCK.sub("", text))


def filled(text: str, source: Source, data: str) -> str:
    """The page as the files have it; ``data`` is the way from the page to their folder."""
    if _AT_START.search(text):
        raise InvalidInput(
            "a value marker begins a line, where Markdown takes the line for HTML; put a word before it."
        )

    def block(found: re.Match[str]) -> str:
        body = _filled(found, source, data)
        return (
            f"{found[0].partition(chr(10))[0]}\n\n{body}\n{END}"  # blank lines: Markdown ends a table there
        )

    def inline(found: re.Match[str]) -> str:
        return f"{found[0].partition(' -->')[0]} -->{_filled(found, source, data)}{END}"

    filled = INLINE.sub(inline, BLOCK.sub(block, text))
    rest = without_markers(filled)
    stray = re.search(r"^.*<!-- (?:tables?|list|data|runs|value|/) .*$", rest, re.MULTILINE)
    if stray:
        raise InvalidInput(
            f'the marker in the line "{stray[0].strip()[:100]}" is not one of ours, or has no {END} of its own.'
        )
    return filled


def _words(given: str) -> list[str]:
    return [quoted or plain for quoted, plain in _WORD.findall(given)]


def _filled(found: re.Match[str], source: Source, data: str) -> str:
    kind, words = found[1], _words(found[2])
    try:
        if kind not in _KINDS or len(words) not in _KINDS[kind][0]:
            raise InvalidInput(f"a marker is one of {', '.join(_SHOWN)}.")
        return _KINDS[kind][1](source, data, *words)
    except InvalidInput as error:
        raise InvalidInput(f"<!-- {kind}{found[2]} -->: {error}") from error


def _table(source: Source, data: str, file: str, name: str, first: str | None = None) -> str:
    table = source.read(file).table(name)
    return (table if first is None else table.below(first)).as_markdown()


def _list(source: Source, data: str, file: str, name: str) -> str:
    lines = [": ".join(str(shown) for shown in row) for row in source.read(file).table(name).rows]
    fails = ": does not hold"
    shown = [
        line.removesuffix(fails) + ": **does not hold**" if line.endswith(fails) else line for line in lines
    ]
    return "".join(f"- {line}\n" for line in shown) or "Nothing.\n"


def _tables(source: Source, data: str, file: str) -> str:
    found = source.read(file).tables
    shown = [
        f"**{table.title or name}**\n\n{table.as_markdown()}"
        for name, table in found.items()
        if name not in (CHECKS, SKIPPED, DIFFERS)
    ]
    return "\n".join(shown)


def _data(source: Source, data: str, file: str) -> str:
    return f"<small>Data: {_link(file, data)}, {source.read(file).run.in_words()}.</small>\n"


def _value(source: Source, data: str, file: str, name: str, row: str, column: str) -> str:
    shown: Cell = source.read(file).table(name).at(row, column)
    return shown.alone if isinstance(shown, Number) else shown


def _runs(source: Source, data: str) -> str:
    rows, reproduced = [], 0.0
    for name in source.names():
        results = source.read(name)
        run = results.run
        checks = results.tables[CHECKS].rows if CHECKS in results.tables else []
        held = sum(verdict == "holds" for _, verdict in checks)
        shown = f"{held} of {len(checks)}" if checks else ""
        size = "transcribed" if run.transcribed else run.size
        reproduced += (run.seconds or 0.0) if run.command.startswith("dperm reproduce") else 0.0
        rows.append((_link(name, data), run.command_shown, size, run.took, run.date, shown))
    rows.append(("", "all of `dperm reproduce`", "", duration(reproduced), "", ""))
    return Table(("data", "command", "size", "took", "run on", "claims that hold"), rows).as_markdown()


def _link(file: str, data: str) -> str:
    return f"[{file}.parquet]({data}/{file}.parquet)"


_KINDS: Mapping[str, tuple[tuple[int, ...], Callable[..., str]]] = {
    "table": ((2, 3), _table),
    "list": ((2,), _list),
    "tables": ((1,), _tables),
    "data": ((1,), _data),
    "runs": ((0,), _runs),
    "value": ((4,), _value),
}
_SHOWN = (
    'table FILE NAME ["FIRST"]',
    "list FILE NAME",
    "tables FILE",
    "data FILE",
    "runs",
    'value FILE NAME "ROW" "COLUMN"',
)
