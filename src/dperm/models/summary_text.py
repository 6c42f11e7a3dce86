"""A summary for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dperm.models.intervals.table import cells
from dperm.models.terms import COLUMN, CURVE, LEVEL, THEIR_MEAN

if TYPE_CHECKING:
    from dperm.models.summary import Summary, SummaryRow

WIDTH = 80
MOST_COLUMNS, MOST_LEVELS = 40, 12  # encoded columns, and levels of one feature, that are shown
STEPS = "▁▂▃▄▅▆▇█"
SIGNS = {"at most": " ≤", "at least": " ≥"}
WITHIN = "* less than two standard deviations of the noise: it may be noise alone."


def as_text(summary: Summary) -> str:
    rows, left_out = shown_rows(summary.rows)
    head = heads(summary, rows)
    starred = summary.tells_noise and any(row.within_noise for row in rows)
    sentences = [summary.noise, *summary.remarks, *([WITHIN] if starred else [])]
    return "\n".join(
        [
            f"{summary.title}: what is added to {summary.score}",
            summary.privacy,
            "",
            *_aligned([("", "", "", *head, ""), *_cells(summary, rows)]),
            *(f"  {line}" for line in left_out_words(left_out)),
            "",
            *(textwrap.fill(sentence, WIDTH, subsequent_indent="  ") for sentence in sentences),
        ]
    )


def heads(summary: Summary, rows: Sequence[SummaryRow]) -> tuple[str, ...]:
    """Of the columns with numbers."""
    if summary.tells_intervals:
        return ("change", "estimate", "error", "95 % interval", "privacy")
    noise = "" if rows[0].noise is None else f"± noise{SIGNS.get(summary.sure, '')}"
    return ("change", noise)


def figures(row: SummaryRow) -> tuple[str, ...]:
    """What stands in those columns."""
    if row.interval is not None:
        return (number(row.change), *cells(row.interval)[1:])
    return (number(row.change), "" if row.noise is None else f"{row.noise:.2g}")


def shown_rows(rows: Sequence[SummaryRow]) -> tuple[list[SummaryRow], int]:
    """All rows, but of many encoded columns, or of many levels of a feature, those with the largest changes only."""
    groups: dict[tuple[str, str | None], list[SummaryRow]] = {}
    for row in rows:
        if row.kind == COLUMN:
            groups.setdefault((COLUMN, None), []).append(row)
        elif row.kind == LEVEL:
            groups.setdefault((row.feature, row.output), []).append(row)
    small: set[int] = set()
    for (name, _), group in groups.items():
        most = MOST_COLUMNS if name == COLUMN else MOST_LEVELS
        small.update(id(row) for row in sorted(group, key=lambda row: -abs(row.change))[most:])
    return [row for row in rows if id(row) not in small], len(small)


def left_out_words(count: int) -> list[str]:
    return [f"and {count} more with smaller changes; to_dict() and --json have all"] if count else []


def number(value: float) -> str:
    """Three digits that count, with a sign."""
    return f"{value:+.3g}"


def _aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = [str.ljust] * 3 + [str.rjust] * (len(lines[0]) - 4) + [str.ljust]
    return [
        "  "
        + "  ".join(
            side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True) if width
        ).rstrip()
        for line in lines
    ]


def _cells(summary: Summary, rows: Sequence[SummaryRow]) -> list[tuple[str, ...]]:
    """What a row shares with the one above is left blank."""
    told: list[tuple[str, ...]] = []
    above: SummaryRow | None = None
    for row in rows:
        same = above is not None and above.feature == row.feature
        again = same and above is not None and (above.level, above.per) == (row.level, row.per)
        told_before = row.level and same and above is not None and above.per == row.per
        against = "" if told_before or row.per == THEIR_MEAN else row.per
        told.append(
            (
                "" if same else row.feature,
                "" if again else f"{row.level} {against}".strip(),
                row.output or "",
                *figures(row),
                ("* " if summary.tells_noise and row.within_noise else "  ") + _curve(row),
            )
        )
        above = row
    return told


def _curve(row: SummaryRow) -> str:
    if row.kind != CURVE:
        return ""
    changes = np.array([change for _, change, _ in row.curve])
    heights = np.rint((changes - changes.min()) / (np.ptp(changes) or 1.0) * (len(STEPS) - 1)).astype(int)
    ends = " to ".join(f"{end:+.2g}" for end in (changes.min(), changes.max()))
    return f"{''.join(STEPS[height] for height in heights)} {ends}"
