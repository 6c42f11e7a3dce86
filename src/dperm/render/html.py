"""Pieces of web pages and of what a notebook shows. Whatever comes from outside passes :func:`safe`, and only there
becomes HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from dperm.render.style import CELL
from dperm.render.text import readable


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


class Cell(NamedTuple):
    """What stands in a table, and the class that it has there."""

    value: object
    style: str


def safe(value: object) -> Html:
    """Escaped; what a reader could not see is shown as a mark, and lines are kept."""
    if isinstance(value, Html):
        return value
    shown = "".join(letter if readable(letter) or letter == "\n" else "\ufffd" for letter in str(value))
    return Html(escape(shown).replace("\n", "<br>"))


def joined(parts: Iterable[object], between: str = "\n") -> Html:
    """All parts that are not empty."""
    return Html(between.join(safe(part) for part in parts if part))


def tag(name: str, *parts: object, style: str = "") -> Html:
    """An element with a class."""
    kind = f' class="{style}"' if style else ""
    return Html(f"<{name}{kind}>{joined(parts, '')}</{name}>")


def paragraph(text: object, style: str = "") -> Html:
    return tag("p", safe(text), style=style)


def code(value: object) -> Html:
    return tag("code", safe(value))


def bullets(lines: Iterable[object], styles: Sequence[str] | None = None) -> Html:
    items = list(lines)
    kinds = styles or [""] * len(items)
    return tag("ul", *(tag("li", line, style=kind) for line, kind in zip(items, kinds, strict=True)))


def section(title: str, *parts: object, style: str = "") -> Html:
    """A heading and what belongs to it; nothing without the latter."""
    body = joined(parts)
    return tag("section", tag("h2", title), body, style=style) if body else Html("")


def facts(rows: Iterable[tuple[object, object]], style: str = "facts") -> Html:
    """A list of names and what they are."""
    pairs = (tag("div", tag("dt", name), Html(f"<dd>{safe(value)}</dd>")) for name, value in rows)
    return tag("dl", *pairs, style=style)


def figure(caption: object, drawing: str) -> Html:
    return tag("figure", tag("figcaption", caption), Html(drawing))


def folded(summary: str, *parts: object, opened: bool = False) -> Html:
    """What a click shows and hides."""
    return Html(f"<details{' open' if opened else ''}>{tag('summary', summary)}{joined(parts, '')}</details>")


def table(
    head: Sequence[object] | None,
    rows: Iterable[Sequence[object]],
    numbers: Sequence[int] = (),
    style: str = "",
) -> Html:
    """Columns in ``numbers`` are aligned on the right; a :class:`Cell` has a class of its own."""

    def cell(name: str, place: int, value: object) -> str:
        kind = "n" if place in numbers else ""
        if isinstance(value, Cell):
            value, kind = value
        kind = f' class="{kind}"' if kind else ""
        return f"<{name}{kind}>{safe(value)}</{name}>"

    def line(name: str, row: Sequence[object]) -> str:
        return "<tr>" + "".join(cell(name, place, value) for place, value in enumerate(row)) + "</tr>"

    top = "" if head is None else f"<thead>{line('th', head)}</thead>"
    body = "".join(line("td", row) for row in rows)
    kind = f' class="{style}"' if style else ""
    return Html(f'<div class="wide"><table{kind}>{top}<tbody>{body}</tbody></table></div>')


def notebook_cell(*parts: object) -> Html:
    """What a notebook shows, with the style sheet."""
    return Html(f'<div class="dperm"><style>{CELL}</style>{joined(parts, "")}</div>')
