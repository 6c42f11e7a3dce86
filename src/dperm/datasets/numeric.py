"""A declared number: its linear column, and the hats or bins beside it."""

import math
from dataclasses import dataclass

from dperm.datasets import toml
from dperm.datasets.declared import (
    check_bounds,
    check_cuts,
    check_flag,
    check_hats,
    check_marks,
    check_name,
    check_number,
    check_text,
    set_field,
    shortest,
)
from dperm.datasets.words import missing_words, sentence
from dperm.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Numeric:
    """A numeric feature: clipped to ``range``, then moved into [-1/2, 1/2].

    ``centre`` is the public value that becomes 0 (the middle of the range unless declared). ``log``
    replaces a value v by log(1 + v) after clipping. A missing value (null, NaN or a mark in ``missing``)
    becomes 0; ``indicator`` adds a column that is 1/2 where the value is missing and -1/2 elsewhere.

    ``spline`` adds that many hats: piecewise-linear functions of the value, each 1 at its own of as many knots and
    0 at the others, less their public mean 1/K. The knots stand at equal distances from one end of the range to the
    other, after the logarithm if there is one. ``bins`` are cut points; they add one column for each bin between
    them, coded as a category. A missing value has zeros in all of these.

    Without a value of its own, ``spline`` follows the schema; a feature by itself then has no hats. ``unit`` is what
    one step of the value is called; it is shown to people and changes no row.
    """

    name: str
    range: tuple[float, float]
    centre: float | None = None
    log: bool = False
    indicator: bool = False
    missing: tuple[str | float, ...] = ()
    spline: int | None = None
    bins: tuple[float, ...] = ()
    unit: str = ""

    def __post_init__(self) -> None:
        set_field(self, "name", check_name(self.name))
        set_field(self, "range", check_bounds("range", self.range))
        set_field(self, "log", check_flag("log", self.log))
        set_field(self, "indicator", check_flag("indicator", self.indicator))
        set_field(self, "missing", check_marks(self.missing))
        set_field(self, "spline", check_hats("spline", self.spline))
        set_field(self, "unit", check_text("unit", self.unit))
        set_field(self, "bins", check_cuts("bins", self.bins, self.range))
        low, high = self.range
        if self.log and low < 0:
            raise InvalidInput(f"log needs a range that starts at 0 or above; got a range from {low:g}.")
        if self.centre is not None:
            set_field(self, "centre", check_number("centre", self.centre))
            if not low <= self.centre <= high:
                raise InvalidInput(f"centre must lie within the range; got {self.centre:g}.")
        if not (0 < self.reach < math.inf and math.isfinite(1 / self.reach)):
            raise InvalidInput(f"range is too wide or too narrow for floating point; got {list(self.range)}.")
        if self.bins and self.spline:
            raise InvalidInput("bins stand in place of hats; give bins or spline, not both.")

    def _axis(self, value: float) -> float:
        return math.log1p(value) if self.log else value

    @property
    def origin(self) -> float:
        """The point, after the logarithm if there is one, that is moved to 0."""
        if self.centre is not None:
            return self._axis(self.centre)
        low, high = map(self._axis, self.range)
        return low + (high - low) / 2

    @property
    def reach(self) -> float:
        """Largest distance of a clipped value from ``origin``."""
        low, high = map(self._axis, self.range)
        return max(high - self.origin, self.origin - low)

    @property
    def ends(self) -> tuple[float, float]:
        """Where the ends of the range come to lie within [-1/2, 1/2]; at least one of them is an end of that."""
        low, high = ((self._axis(end) - self.origin) * (0.5 / self.reach) for end in self.range)
        return low, high

    def at(self, share: float) -> float:
        """The value at this share of the way from the low to the high end, after the logarithm if there is one."""
        low, high = self.range
        point = (1 - share) * self._axis(low) + share * self._axis(high)
        return min(max(math.expm1(point) if self.log else point, low), high)

    def label(self, value: float) -> str:
        """A value as it is shown to people."""
        return toml.scalar(shortest(value))

    @property
    def n_hats(self) -> int:
        return self.spline or 0

    @property
    def levels(self) -> list[str]:
        """The bins in words: from a cut point, itself included, to the next one, which is not."""
        if not self.bins:
            return []
        edges = [self.label(edge) for edge in (self.range[0], *self.bins, self.range[1])]
        closed = [")"] * (len(edges) - 2) + ["]"]
        return [f"[{edges[i]}, {edges[i + 1]}{mark}" for i, mark in enumerate(closed)]

    @property
    def knots(self) -> list[str]:
        """The values at the peaks of the hats: the ends as declared, others with as many digits as tell them apart."""
        if not self.n_hats:
            return []
        low, high = map(self.label, self.range)
        inner = [self.at(k / (self.n_hats - 1)) for k in range(1, self.n_hats - 1)]
        attempts = (
            [low, *(self.label(float(f"{value:.{digits}g}")) for value in inner), high]
            for digits in range(3, 18)
        )
        numbers = [str(k + 1) for k in range(self.n_hats)]  # for a range with fewer floats than knots
        return next((names for names in attempts if len(set(names)) == len(names)), numbers)

    @property
    def column_names(self) -> list[str]:
        return [
            self.name,
            *([f"{self.name}=missing"] if self.indicator else []),
            *(f"{self.name}@{knot}" for knot in self.knots),
            *(f"{self.name}={level}" for level in self.levels),
        ]

    @property
    def n_columns(self) -> int:
        return 1 + self.indicator + self.n_hats + (len(self.bins) + 1 if self.bins else 0)

    @property
    def max_square(self) -> float:
        r"""Largest squared norm of the feature's columns before scaling.

        The linear column and the indicator add at most 1/4 each. Hats are non-negative with sum 1, so theirs are
        :math:`\sum (h_k - 1/K)^2 = \sum h_k^2 - 1/K \le 1 - 1/K`, reached at every knot and so at both ends of the
        range, at one of which the linear column is at 1/2 in size: the bound on the sum is the largest sum. Bins are
        as categories.
        """
        others = self.n_columns - 1 - self.indicator
        return (1 + self.indicator) / 4 + (1 - 1 / others if others else 0.0)

    def in_words(self) -> str:
        """What is declared, in a line."""
        low, high = map(self.label, self.range)
        return sentence(
            f"number from {low} to {high}{f' {self.unit}' if self.unit else ''}",
            "values beyond are moved to the nearer end",
            "its logarithm is used" if self.log else "",
            missing_words(self.missing, "told by a column of its own" if self.indicator else ""),
        )
