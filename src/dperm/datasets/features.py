"""The kinds of features that a schema may declare, and the columns that each turns into."""

import math
import reprlib
from dataclasses import dataclass

from dperm.datasets.declared import (
    Category,
    check_bounds,
    check_categories,
    check_flag,
    check_marks,
    check_name,
    check_number,
    set_field,
)
from dperm.errors import InvalidInput


def category_name(value: Category) -> str:
    """How a category is written in a column name."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, kw_only=True)
class Numeric:
    """A numeric feature: clipped to ``range``, then moved into [-1/2, 1/2].

    ``centre`` is the public value that becomes 0 (the middle of the range unless declared). ``log``
    replaces a value v by log(1 + v) after clipping. A missing value (null, NaN or a mark in ``missing``)
    becomes 0; ``indicator`` adds a column that is 1/2 where the value is missing and -1/2 elsewhere.
    """

    name: str
    range: tuple[float, float]
    centre: float | None = None
    log: bool = False
    indicator: bool = False
    missing: tuple[str | float, ...] = ()

    def __post_init__(self) -> None:
        set_field(self, "name", check_name(self.name))
        set_field(self, "range", check_bounds("range", self.range))
        set_field(self, "log", check_flag("log", self.log))
        set_field(self, "indicator", check_flag("indicator", self.indicator))
        set_field(self, "missing", check_marks(self.missing))
        low, high = self.range
        if self.log and low < 0:
            raise InvalidInput(f"log needs a range that starts at 0 or above; got a range from {low:g}.")
        if self.centre is not None:
            set_field(self, "centre", check_number("centre", self.centre))
            if not low <= self.centre <= high:
                raise InvalidInput(f"centre must lie within the range; got {self.centre:g}.")
        if not (0 < self.reach < math.inf and math.isfinite(1 / self.reach)):
            raise InvalidInput(f"range is too wide or too narrow for floating point; got {list(self.range)}.")

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
    def column_names(self) -> list[str]:
        return [self.name, f"{self.name}=missing"] if self.indicator else [self.name]

    @property
    def n_columns(self) -> int:
        return 1 + self.indicator

    @property
    def max_square(self) -> float:
        """Largest squared norm of the feature's columns before scaling."""
        return self.n_columns / 4


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """A feature with declared ``categories``: one column each, 1 - 1/k for the row's own and -1/k elsewhere.

    An unknown category becomes a block of zeros. So does a missing value (null or a mark in
    ``missing``), unless ``missing_as`` names the category it counts as.
    """

    name: str
    categories: tuple[Category, ...]
    missing: tuple[str | float, ...] = ()
    missing_as: Category | None = None

    def __post_init__(self) -> None:
        set_field(self, "name", check_name(self.name))
        set_field(self, "categories", check_categories("categories", self.categories))
        set_field(self, "missing", check_marks(self.missing))
        kind = type(self.categories[0])
        if kind is bool and self.missing:
            raise InvalidInput("missing cannot be given for truth values; only null is missing there.")
        if kind is str and not all(isinstance(mark, str) for mark in self.missing):
            raise InvalidInput("missing must hold text, as the categories do.")
        if set(self.missing) & set(self.categories):
            raise InvalidInput("missing must not hold a declared category; remove it from one of the two.")
        if self.missing_as is not None and (
            type(self.missing_as) is not kind or self.missing_as not in self.categories
        ):
            raise InvalidInput(
                f"missing_as must be a declared category; got {reprlib.repr(self.missing_as)}."
            )

    @property
    def column_names(self) -> list[str]:
        return [f"{self.name}={category_name(value)}" for value in self.categories]

    @property
    def n_columns(self) -> int:
        return len(self.categories)

    @property
    def max_square(self) -> float:
        """Largest squared norm of the feature's columns before scaling: (1 - 1/k)^2 + (k - 1)/k^2."""
        return 1 - 1 / len(self.categories)


Feature = Numeric | Categorical
