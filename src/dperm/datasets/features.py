"""The kinds of blocks that a schema turns into, and the columns that each turns into."""

import reprlib
from dataclasses import dataclass

from dperm.datasets.declared import Category, check_categories, check_fold, check_marks, check_name, set_field
from dperm.datasets.hashed import Hashed
from dperm.datasets.numeric import Numeric
from dperm.datasets.words import category_name, listed, missing_words, sentence
from dperm.errors import InvalidInput


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
