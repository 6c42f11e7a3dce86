"""Small pieces of a web page. Whatever comes from a file passes :func:`safe`, and only there becomes HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from dperm.release.deployment import readable

BLANK = "not stated"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def safe(value: object) -> Html:
    """Escaped; what a reader could not see is shown as a mark, and lines are kept."""
    if isinstance(value, Html):
        return value
    shown = "".join(letter if readable(letter) or letter == "\n" else "\ufffd" for letter in str(value))
    return Html(escape(shown).replace("\n", "<br>"))


def joined(parts: Iterable[str]) -> Html:
    return Html("\n".join(safe(part) for part in parts if part))


def paragraph(text: object, style: str = "") -> Html:
    return Html(f"<p{_class(style)}>{safe(text)}</p>")


def bullets(lines: Iterable[object], styles: Sequence[str] | None = None) -> Html:
    items = list(lines)
    kinds = styles or [""] * len(items)
    return Html(
        "<ul>"
        + "".join(f"<li{_class(kind)}>{safe(line)}</li>" for line, kind in zip(items, kinds, strict=True))
        + "</ul>"
    )


def section(title: str, *parts: str, style: str = "") -> Html:
    body = joined(parts)
    return Html(f"<section{_class(style)}><h2>{safe(title)}</h2>{body}</section>") if body else Html("")


def blank(key: str) -> Html:
    """A visible gap, and the key of deployment.toml that fills it."""
    return Html(f'<span class="blank">{BLANK} <small>({safe(key)})</small></span>')


def facts(rows: Iterable[tuple[object, object]], style: str = "facts") -> Html:
    """A list of names and what they are."""
    body = "".join(f"<div><dt>{safe(name)}</dt><dd>{safe(value)}</dd></div>" for name, value in rows)
    return Html(f"<dl{_class(style)}>{body}</dl>")


def table(
    head: Sequence[object] | None,
    rows: Iterable[Sequence[object]],
    numbers: Sequence[int] = (),
    status: int | None = None,
    style: str = "",
) -> Html:
    """Columns in ``numbers`` are aligned on the right; ``status`` is one that begins with ok or FAILED."""

    def cell(tag: str, place: int, value: object) -> str:
        kind = "n" if place in numbers else ""
        if place == status and tag == "td":
            kind = "ok" if str(value).startswith("ok") else "failed"
        return f"<{tag}{_class(kind)}>{safe(value)}</{tag}>"

    def line(tag: str, row: Sequence[object]) -> str:
        return "<tr>" + "".join(cell(tag, place, value) for place, value in enumerate(row)) + "</tr>"

    top = "" if head is None else f"<thead>{line('th', head)}</thead>"
    body = "".join(line("td", row) for row in rows)
    return Html(f'<div class="wide"><table{_class(style)}>{top}<tbody>{body}</tbody></table></div>')


def code(value: object) -> Html:
    return Html(f"<code>{safe(value)}</code>")


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
