"""Intervals as a small table: for a terminal, a notebook and JSON."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np

from dperm.models.intervals.first_order import Ends

TOO_NOISY = "too noisy to say"
WIDTH = 80
MOST = 40  # coefficients that are shown
ASSUMED = "Assumed are rows that are independent of each other, a model of the right form, rows no longer than x_norm."
HELP = (
    "The noise on the released curvature is too large beside it for any interval to be right: more rows, a larger "
    "epsilon or fewer features would help, and where columns follow from others, as those of a category do, the schema."
)
_STYLE = (
    "<style>.dperm-intervals table{border-collapse:collapse}.dperm-intervals td,.dperm-intervals th"
    "{padding:.15em .7em;text-align:right;border:0;background:none;font-variant-numeric:tabular-nums}"
    ".dperm-intervals td:first-child,.dperm-intervals th:first-child{text-align:left}"
    ".dperm-intervals tr{border-bottom:1px solid #8884}.dperm-intervals p{margin:.4em 0}</style>"
)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One number, and how surely it is known.

    Attributes
    ----------
    name : str
        The feature, ``intercept`` or ``contrast``.
    estimate, error : float or None
        Corrected for the penalty, and its standard error to first order; None where it is too noisy to say.
    low, high : float or None
        Ends of the interval; one that the noise sets no bound is infinite.
    privacy : float or None
        Share of the variance that would not be there without privacy.
    """

    name: str
    estimate: float | None = None
    error: float | None = None
    low: float | None = None
    high: float | None = None
    privacy: float | None = None

    @classmethod
    def of(cls, found: Ends | None, place: int, name: str) -> Interval:
        """Nothing is told where no end of an interval is known, nor an estimate."""
        if found is None:
            return cls(name=name)
        numbers = (found.estimate, found.error, found.low, found.high, found.privacy)
        estimate, error, low, high, privacy = (float(values[place]) for values in numbers)
        if not math.isfinite(estimate) or (math.isinf(low) and math.isinf(high)):
            return cls(name=name)
        return cls(name=name, estimate=estimate, error=error, low=low, high=high, privacy=privacy)

    @property
    def too_noisy(self) -> bool:
        return self.estimate is None

    @property
    def words(self) -> str:
        """The interval as a person would say it."""
        return interval_words(self.low, self.high)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: an end without a bound is None."""
        bounds = {name: _finite(getattr(self, name)) for name in ("low", "high")}
        return {**asdict(self), **bounds, "too_noisy": self.too_noisy}


@dataclass(frozen=True, eq=False, kw_only=True)
class Intervals:
    """Estimates and intervals of a model's coefficients.

    Attributes
    ----------
    rows : tuple of Interval
    level : float
        How often such intervals hold what is estimated, each by itself.
    title, privacy : str
        Which model it is, and what is guaranteed.
    noise_level : float
        How noisy the released curvature is; beyond 0.1 nothing is told.
    """

    title: str
    privacy: str
    level: float
    noise_level: float
    rows: tuple[Interval, ...]

    def __getitem__(self, name: str) -> Interval:
        """The row of this name."""
        found = {row.name: row for row in self.rows}
        if name not in found:
            raise KeyError(name)
        return found[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            **asdict(self),
            "noise_level": _finite(self.noise_level),
            "rows": [row.to_dict() for row in self.rows],
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        return (ASSUMED, HELP) if all(row.too_noisy for row in self.rows) else (ASSUMED,)

    @property
    def _head(self) -> tuple[str, str, str, str, str]:
        return "", "estimate", "error", f"{100 * self.level:g} % interval", "privacy"

    def __str__(self) -> str:
        lines = [self._head, *map(cells, self.rows[:MOST])]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        sides = (str.ljust, str.rjust, str.rjust, str.rjust, str.rjust)
        body = [
            "  "
            + "  ".join(
                side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)
            ).rstrip()
            for line in lines
        ]
        more = [f"  and {len(self.rows) - MOST} more; to_dict() has all"] if len(self.rows) > MOST else []
        said = (textwrap.fill(sentence, WIDTH, subsequent_indent="  ") for sentence in self.remarks)
        return "\n".join([f"{self.title}: coefficients", self.privacy, "", *body, *more, "", *said])

    def _repr_html_(self) -> str:
        top = "".join(f"<th>{escape(cell)}</th>" for cell in self._head)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells(row)) + "</tr>"
            for row in self.rows[:MOST]
        )
        more = f"<p>and {len(self.rows) - MOST} more</p>" if len(self.rows) > MOST else ""
        said = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.remarks)
        return (
            f'<div class="dperm-intervals">{_STYLE}<p><b>{escape(self.title)}</b><br>{escape(self.privacy)}</p>'
            f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{more}{said}</div>"
        )


def cells(row: Interval) -> tuple[str, str, str, str, str]:
    """One row as text; the share of privacy in per cent."""
    if row.estimate is None or row.error is None or row.privacy is None:
        return row.name, "", "", TOO_NOISY, ""
    return row.name, f"{row.estimate:+.3g}", f"{row.error:.2g}", row.words, f"{100 * row.privacy:.0f} %"


def interval_words(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return TOO_NOISY
    if math.isinf(low):
        return f"at most {high:+.3g}"
    return f"at least {low:+.3g}" if math.isinf(high) else f"{low:+.3g} to {high:+.3g}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
