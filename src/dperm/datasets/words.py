"""What a schema declares, in words for people who do not read TOML."""

from collections.abc import Sequence

from dperm.datasets.declared import Category, shortest

MOST_LISTED = 12


def category_name(value: Category | float) -> str:
    """How a category is written in a column name."""
    return str(value).lower() if isinstance(value, bool) else str(shortest(value))


def listed(values: Sequence[Category | float]) -> str:
    """The first few of some values, and how many more there are."""
    shown = ", ".join(category_name(value) or "(empty)" for value in values[:MOST_LISTED])
    more = len(values) - MOST_LISTED
    return f"{shown} and {more:,} more" if more > 0 else shown


def sentence(head: str, *details: str) -> str:
    """A head and those of the details that there are."""
    return "; ".join((head, *(detail for detail in details if detail)))


def missing_words(marks: Sequence[str | float], instead: str = "") -> str:
    """What stands for a missing value, and what it counts as."""
    told = f"missing if {listed(marks)}" if marks else "missing" if instead else ""
    return f"{told}, {instead}" if told and instead else told
