"""A feature of a schema whose values nobody listed: text, or a category with too many values to name."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.columns import NUMBERS, TEXT, kind_of
from dperm.datasets.declared import check_flag, check_marks, check_name, set_field
from dperm.datasets.hashing import WordHash, bags_of_text, hashed_rows, scaled
from dperm.datasets.words import missing_words, sentence
from dperm.errors import InvalidInput

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
        set_field(self, "name", check_name(self.name))
        set_field(self, "words", check_flag("words", self.words))
        set_field(self, "missing", check_marks(self.missing))
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
