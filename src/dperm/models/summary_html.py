"""A summary as a part of a web page, without scripts; every name is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dperm.models.summary_text import WITHIN, figures, heads, left_out_words, number, shown_rows
from dperm.models.terms import CURVE, THEIR_MEAN, short

if TYPE_CHECKING:
    from dperm.models.summary import Summary, SummaryRow

WIDTH, HEIGHT = 120.0, 26.0
STYLE = (
    "<style>.dperm-summary table{border-collapse:collapse}.dperm-summary td,.dperm-summary th"
    "{padding:.15em .7em;text-align:left;border:0;background:none}.dperm-summary .n{text-align:right;"
    "font-variant-numeric:tabular-nums}.dperm-summary tr{border-bottom:1px solid #8884}"
    ".dperm-summary .dim{opacity:.65}.dperm-summary p{margin:.4em 0}</style>"
)


def as_section(summary: Summary) -> str:
    """A heading and a table, in the styles of the page around it."""
    return f'<section class="dperm-summary"><h2>What the model says</h2>{_told(summary)}</section>'


def as_cell(summary: Summary, head: bool = True) -> str:
    """For a notebook, with styles of its own; ``head`` tells the model and its guarantee."""
    about = f"<p><b>{escape(summary.title)}</b><br>{escape(summary.privacy)}</p>" if head else ""
    return f'<div class="dperm-summary">{STYLE}{about}{_told(summary)}</div>'


def _told(summary: Summary) -> str:
    rows, left_out = shown_rows(summary.rows)
    head = "".join(f"<th class=n>{name}</th>" for name in heads(summary, rows))
    body = "".join(_row(summary, above, row) for above, row in zip([None, *rows], rows, strict=False))
    within = [WITHIN] if summary.tells_noise and any(row.within_noise for row in rows) else []
    remarks = "".join(
        f"<p class=dim>{escape(line)}</p>"
        for line in (*left_out_words(left_out), summary.noise, *summary.remarks, *within)
    )
    return (
        f"<p>What each feature adds to {escape(summary.score)}.</p><div style='overflow-x:auto'><table>"
        f"<thead><tr><th>feature</th><th></th>{head}<th></th></tr></thead>"
        f"<tbody>{body}</tbody></table></div>{remarks}"
    )


def _row(summary: Summary, above: SummaryRow | None, row: SummaryRow) -> str:
    words = ", ".join(part for part in (row.level, row.per) if part and part != THEIR_MEAN)
    if row.output is not None:
        words = f"{words} → {row.output}"
    numbers = "".join(f"<td class=n>{cell}</td>" for cell in figures(row))
    mark = "*" if summary.tells_noise and row.within_noise else ""
    name = "" if above is not None and above.feature == row.feature else row.feature
    last = f"{mark}{_curve(row) if row.kind == CURVE else ''}"
    return f"<tr><td>{escape(name)}</td><td>{escape(words)}</td>{numbers}<td>{last}</td></tr>"


def _curve(row: SummaryRow) -> str:
    changes = [change for _, change, _ in row.curve]
    low, reach = min(changes), (max(changes) - min(changes)) or 1.0
    last = max(len(changes) - 1, 1)
    points = " ".join(
        f"{2 + WIDTH * place / last:.1f},{2 + HEIGHT * (1 - (change - low) / reach):.1f}"
        for place, change in enumerate(changes)
    )
    told = "; ".join(
        f"{value if isinstance(value, str) else short(value)}: {number(change)}"
        for value, change, _ in row.curve
    )
    across, down = f"{WIDTH + 4:.0f}", f"{HEIGHT + 4:.0f}"
    line = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    size = f'viewBox="0 0 {across} {down}" style="width:{across}px;height:{down}px"'
    return f'<svg {size} role="img"><title>{escape(told)}</title>{line}</svg>'
