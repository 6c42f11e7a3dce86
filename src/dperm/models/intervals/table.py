"""Intervals as a small table: for a terminal, a notebook and JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dperm.models.intervals.first_order import Ends
from dperm.render.html import Html, notebook_cell, paragraph, safe, table
from dperm.render.numbers import TOO_NOISY, signed
from dperm.render.text import aligned, wrapped

MOST = 40  # coefficients that are shown
ASSUMED = "Assumed are rows that are independent of each other, a model of the right form, rows no longer than x_norm."
HELP = (
    "The noise on the released curvature is too large beside it for any interval to be right: more rows, a larger "
    "epsilon or fewer features would help, and where columns follow from others, as those of a category do, the schema."
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
        told = {key: float(values[place]) for key, values in vars(found).items()}
        if not math.isfinite(told["estimate"]) or (math.isinf(told["low"]) and math.isinf(told["high"])):
            return cls(name=name)
        return cls(name=name, **told)

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
        return {row.name: row for row in self.rows}[name]

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

    @property
    def _more(self) -> list[str]:
        return [f"and {len(self.rows) - MOST} more; to_dict() has all"] if len(self.rows) > MOST else []

    def __str__(self) -> str:
        body = aligned([self._head, *map(cells, self.rows[:MOST])], "lrrrr", "  ")
        more = (f"  {line}" for line in self._more)
        title = f"{self.title}: coefficients"
        return "\n".join([title, self.privacy, "", *body, *more, "", *map(wrapped, self.remarks)])

    def _repr_html_(self) -> str:
        return notebook_cell(
            paragraph(Html(f"<b>{safe(self.title)}</b><br>{safe(self.privacy)}")),
            table(self._head, map(cells, self.rows[:MOST]), numbers=range(1, 5)),
            *map(paragraph, (*self._more, *self.remarks)),
        )


def cells(row: Interval) -> tuple[str, str, str, str, str]:
    """One row as text; the share of privacy in per cent."""
    if row.estimate is None or row.error is None or row.privacy is None:
        return row.name, "", "", TOO_NOISY, ""
    return row.name, signed(row.estimate), f"{row.error:.2g}", row.words, f"{100 * row.privacy:.0f} %"


def interval_words(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return TOO_NOISY
    if math.isinf(low):
        return f"at most {signed(high)}"
    return f"at least {signed(low)}" if math.isinf(high) else f"{signed(low)} to {signed(high)}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
