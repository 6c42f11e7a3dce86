"""Text for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence

WIDTH = 80
_STEPS = "▁▂▃▄▅▆▇█"
_JOINERS = "\u200c\u200d"  # some scripts cannot be written without them


def aligned(rows: Sequence[Sequence[str]], sides: str = "", indent: str = "") -> list[str]:
    """Lines of a table. ``sides`` has ``r`` for each column on the right; columns without a word take no room."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    put = [str.rjust if side == "r" else str.ljust for side in sides.ljust(len(widths), "l")]
    return [
        indent
        + "  ".join(
            side(cell, width) for side, cell, width in zip(put, row, widths, strict=True) if width
        ).rstrip()
        for row in rows
    ]


def wrapped(sentence: str) -> str:
    return textwrap.fill(sentence, WIDTH, subsequent_indent="  ")


def cut(label: str, longest: int) -> str:
    return label if len(label) <= longest else label[: longest - 1] + "…"


def sparkline(values: Sequence[float]) -> str:
    """A curve of so many letters, from the least value to the largest."""
    low, reach = min(values), (max(values) - min(values)) or 1.0
    return "".join(_STEPS[round((value - low) / reach * (len(_STEPS) - 1))] for value in values)


def readable(letter: str) -> bool:
    """Whether a reader sees what is there: no control characters, no marks that reverse or hide text."""
    return letter.isprintable() or letter in _JOINERS or unicodedata.category(letter) == "Zs"
