"""What a schema declares of one column, feature or target, and the encoded columns that a feature turns into."""

import math
import reprlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.schema import toml
from dperm.schema.columns import NUMBERS, TEXT, kind_of
from dperm.schema.hashing import WordHash, bags_of_text, hashed_rows, scaled
from dperm.schema.values import (
    Category,
    category_name,
    check_bounds,
    check_categories,
    check_cuts,
    check_fields,
    check_flag,
    check_fold,
    check_marks,
    check_name,
    check_number,
    check_spline,
    check_text,
    listed,
    missing_words,
    sentence,
    set_field,
    shortest,
)


@dataclass(frozen=True, kw_only=True)
class Numeric:
    """A numeric feature: clipped to ``range``, then moved into [-1/2, 1/2].

    ``centre`` is the public value that becomes 0 (the middle of the range unless declared). ``log``
    replaces a value v by log(1 + v) after clipping. A missing value (null, NaN or a mark in ``missing``)
    becomes 0; ``indicator`` adds a column that is 1/2 where the value is missing and -1/2 elsewhere.

    ``spline`` adds that many linear splines (B-splines of degree 1): each is 1 at its own of as many knots, 0 at the
    others and linear between them, less their public mean 1/K. The knots stand at equal distances from one end of the
    range to the other, after the logarithm if there is one. ``bins`` are cut points; they add one column
    for each bin between them, coded as a category. A missing value has zeros in all of these.

    Without a value of its own, ``spline`` follows the schema; a feature by itself then has no splines. ``unit`` is what
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
        check_fields(self, name=check_name, range=check_bounds, log=check_flag, indicator=check_flag)
        check_fields(self, missing=check_marks, spline=check_spline, unit=check_text)
        set_field(self, "bins", check_cuts("bins", self.bins, self.range))
        low, high = self.range
        if self.log and low < 0:
            raise InvalidInput(f"log needs a range that starts at 0 or above; got a range from {low:g}.")
        if self.centre is not None:
            check_fields(self, centre=check_number)
            if not low <= self.centre <= high:
                raise InvalidInput(f"centre must lie within the range; got {self.centre:g}.")
        if not (0 < self.reach < math.inf and math.isfinite(1 / self.reach)):
            raise InvalidInput(f"range is too wide or too narrow for floating point; got {list(self.range)}.")
        if self.bins and self.spline:
            raise InvalidInput("bins stand in place of splines; give bins or spline, not both.")

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
    def n_splines(self) -> int:
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
        """The values at the knots: the ends as declared, others with as many digits as tell them apart."""
        if not self.n_splines:
            return []
        low, high = map(self.label, self.range)
        inner = [self.at(k / (self.n_splines - 1)) for k in range(1, self.n_splines - 1)]
        attempts = (
            [low, *(self.label(float(f"{value:.{digits}g}")) for value in inner), high]
            for digits in range(3, 18)
        )
        numbers = [str(k + 1) for k in range(self.n_splines)]  # for a range with fewer floats than knots
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
        return 1 + self.indicator + self.n_splines + (len(self.bins) + 1 if self.bins else 0)

    @property
    def max_square(self) -> float:
        r"""Largest squared norm of the feature's columns before scaling.

        The linear column and the indicator add at most 1/4 each. Splines are non-negative with sum 1, so theirs are
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
            missing_words(self.missing, "shown by a column of its own" if self.indicator else ""),
        )


MOST_HASHED = 2**16


@dataclass(frozen=True, kw_only=True)
class Hashed:
    """A feature in ``hashed`` columns: the column of a value, and its sign, are a public hash of it.

    A value is one category: +1 or -1 in its column. With ``words`` it is text: the words are counted, each counts in
    its own column, and the block is scaled to norm 1. Missing values (null or a mark in ``missing``) and text without
    words become zeros. Two values may share a column; with more columns fewer do.
    """

    name: str
    hashed: int
    words: bool = False
    missing: tuple[str | float, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, name=check_name, words=check_flag, missing=check_marks)
        if (
            isinstance(self.hashed, bool)
            or not isinstance(self.hashed, int)
            or not 2 <= self.hashed <= MOST_HASHED
        ):
            raise InvalidInput(f"hashed must be a whole number of columns from 2 to {MOST_HASHED}.")
        if not all(isinstance(mark, str) for mark in self.missing):
            raise InvalidInput("missing must hold text where values are hashed.")

    @property
    def column_names(self) -> list[str]:
        return [f"{self.name}#{column}" for column in range(self.hashed)]

    @property
    def n_columns(self) -> int:
        return self.hashed

    @property
    def max_square(self) -> float:
        return 1.0

    @property
    def levels(self) -> list[str]:
        """None: a column stands for every value that is hashed to it."""
        return []

    def in_words(self) -> str:
        """What is declared, in a line."""
        what = "words of a text" if self.words else "text or a category without a list"
        return sentence(f"{what}, hashed into {self.hashed} columns", missing_words(self.missing))

    def check_column(self, column: Any) -> None:
        """Refuse a column that does not hold text, or for categories whole numbers."""
        from pyarrow import types

        found = kind_of(column)
        whole = found == NUMBERS and types.is_integer(column.type) and not self.words
        if found not in (None, TEXT) and not whole:
            wanted = "text" if self.words else "text or whole numbers"
            raise InvalidInput(f"Column {self.name!r}: hashed needs {wanted}, the table holds {found}.")

    def encode(self, column: Any, scale: float, out: NDArray[np.float64]) -> None:
        """Fill the columns of the feature, each row from its own value."""
        values = column.to_pylist()
        kept = (None if value is None or value in self.missing else str(value) for value in values)
        if self.words:
            bags: Any = bags_of_text(list(kept))
        else:
            bags = ({} if value is None else {value: 1.0} for value in kept)
        rows = scaled(hashed_rows(bags, WordHash(self.hashed)), None, scale)
        out[:] = rows.toarray()


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """A feature with declared ``categories``: one column each, 1 - 1/k for the row's own and -1/k elsewhere.

    An unknown category becomes a block of zeros. So does a missing value (null or a mark in
    ``missing``), unless ``missing_as`` names the category it counts as. With ``fold`` text is compared without its
    case and without blanks at its ends or more than one inside.
    """

    name: str
    categories: tuple[Category, ...]
    missing: tuple[str | float, ...] = ()
    missing_as: Category | None = None
    fold: bool = False

    def __post_init__(self) -> None:
        check_fields(self, name=check_name, categories=check_categories, missing=check_marks)
        kind = type(self.categories[0])
        if kind is bool and self.missing:
            raise InvalidInput("missing cannot be given for truth values; only null is missing there.")
        if kind is str and not all(isinstance(mark, str) for mark in self.missing):
            raise InvalidInput("missing must hold text, as the categories do.")
        if set(self.missing) & set(self.categories):
            raise InvalidInput("missing must not hold a declared category; remove it from one of the two.")
        set_field(self, "fold", check_fold("categories", self.fold, self.categories, self.missing))
        if self.missing_as is not None and (
            type(self.missing_as) is not kind or self.missing_as not in self.categories
        ):
            raise InvalidInput(
                f"missing_as must be a declared category; got {reprlib.repr(self.missing_as)}."
            )

    @property
    def column_names(self) -> list[str]:
        return [f"{self.name}={value}" for value in self.levels]

    @property
    def n_columns(self) -> int:
        return len(self.categories)

    @property
    def max_square(self) -> float:
        """Largest squared norm of the feature's columns before scaling: (1 - 1/k)^2 + (k - 1)/k^2."""
        return 1 - 1 / len(self.categories)

    @property
    def levels(self) -> list[str]:
        """The categories in words."""
        return [category_name(value) for value in self.categories]

    def in_words(self) -> str:
        """What is declared, in a line."""
        instead = "" if self.missing_as is None else f"counted as {category_name(self.missing_as)}"
        return sentence(
            f"one of {len(self.categories)} categories: {listed(self.categories)}",
            "case and blanks do not count" if self.fold else "",
            missing_words(self.missing, instead),
        )


Leaf = Numeric | Categorical | Hashed
"""What a column of the table, or a part of a date, turns into."""


@dataclass(frozen=True, kw_only=True)
class Cross:
    """Pairs of levels of two features: one column each, 1 - 1/k for the row's own pair and -1/k elsewhere.

    A level is a category or a bin. Where one of the two has none, the whole block is zeros.
    """

    left: Leaf
    right: Leaf

    @property
    def name(self) -> str:
        return f"{self.left.name} & {self.right.name}"

    @property
    def levels(self) -> list[str]:
        return [f"{left} & {right}" for left in self.left.levels for right in self.right.levels]

    @property
    def column_names(self) -> list[str]:
        return [
            f"{self.left.name}={left} & {self.right.name}={right}"
            for left in self.left.levels
            for right in self.right.levels
        ]

    @property
    def n_columns(self) -> int:
        return len(self.left.levels) * len(self.right.levels)

    @property
    def max_square(self) -> float:
        """As for categories."""
        return 1 - 1 / self.n_columns

    def in_words(self) -> str:
        """What is declared, in a line."""
        return f"{self.left.name} and {self.right.name} together: one of {self.n_columns} pairs"


Block = Leaf | Cross


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is predicted: one of ``classes``, or on which side of ``threshold``, or a number in ``range``.

    Of two classes the second is the positive one. ``rest`` makes the last class stand for every value that is not
    listed; ``fold`` leaves the case and the blanks of labels aside. A threshold t makes the two classes "<=t" and
    ">t". ``unit`` is what one step of a number is called; it is shown to people only.
    """

    name: str
    classes: tuple[Category, ...] = ()
    rest: bool = False
    fold: bool = False
    threshold: float | None = None
    range: tuple[float, float] | None = None
    unit: str = ""

    missing: ClassVar[tuple[str | float, ...]] = ()
    """None: a label must be there."""

    def __post_init__(self) -> None:
        check_fields(self, name=check_name, unit=check_text, rest=check_flag)
        if (self.classes != ()) + (self.threshold is not None) + (self.range is not None) != 1:
            raise InvalidInput("exactly one of classes, threshold and range must be given.")
        if self.rest and self.classes == ():
            raise InvalidInput("rest needs classes.")
        if self.fold and self.classes == ():
            raise InvalidInput("fold needs classes.")
        if self.unit and self.range is None:
            raise InvalidInput("unit needs range, a target that is a number.")
        if self.classes != ():
            check_fields(self, classes=check_categories)
            set_field(self, "fold", check_fold("classes", self.fold, self.classes))
        elif self.threshold is not None:
            check_fields(self, threshold=check_number)
        else:
            check_fields(self, range=check_bounds)

    @property
    def categories(self) -> tuple[Category, ...]:
        """What its column holds; none where it holds numbers."""
        return self.classes

    @property
    def labels(self) -> tuple[Category, ...]:
        """The labels that can occur, in the declared order; none for a numeric target."""
        if self.threshold is None:
            return self.classes
        number = toml.scalar(shortest(self.threshold))
        return (f"<={number}", f">{number}")

    def in_words(self) -> str:
        """What is declared, in a line."""
        if self.range is not None:
            low, high = (toml.scalar(shortest(end)) for end in self.range)
            return sentence(
                f"number from {low} to {high}{f' {self.unit}' if self.unit else ''}",
                "values beyond are moved to the nearer end",
            )
        return sentence(
            f"one of {len(self.labels)} classes: {listed(self.labels)}",
            "case and blanks do not count" if self.fold else "",
            f"{listed(self.classes[-1:])} stands for every other label" if self.rest else "",
        )
