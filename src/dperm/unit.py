"""The unit of privacy: what a guarantee hides, one row or one person with all their rows (docs/proofs/persons.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dperm.errors import InvalidInput

ROW, PERSON = "row", "person"
UNITS = {ROW: "one row", PERSON: "one person"}
"""Each unit in the words of a guarantee."""

FEWEST_KEPT, MOST_ROWS_PER_PERSON = 256, 2**20
SHARE_BITS = 30  # of how much of its person a row is, where rows are counted by it


class Neighbours(StrEnum):
    """The neighbouring relation.

    ``REPLACE_ONE``: one row differs and the number of rows is public.
    ``ADD_REMOVE``: one row is present or absent. The number of rows is private, so a public
    *capacity* stands in for it: the table is thought of as filled up with empty rows (x = 0), whose
    gradient is zero, and neighbours swap one empty row for a real one.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"

    @classmethod
    def parse(cls, value: str | Neighbours) -> Neighbours:
        try:
            return cls(value)
        except ValueError:
            names = ", ".join(repr(member.value) for member in cls)
            raise InvalidInput(f"neighbours must be one of {names}; got {value!r}.") from None

    @property
    def rows_changed(self) -> int:
        """How many real rows' contributions can differ in a sum: two when one replaces another."""
        return 2 if self is Neighbours.REPLACE_ONE else 1

    def check_max_rows(self, max_rows: object) -> None:
        """``max_rows`` is given where the number of rows is private, and only there."""
        if self is Neighbours.ADD_REMOVE and max_rows is None:
            raise InvalidInput(
                "neighbours='add-remove' keeps the number of rows private, so it needs max_rows, a public number of "
                "rows, or with groups of persons, that the table never exceeds; or use neighbours='replace-one'."
            )
        if self is Neighbours.REPLACE_ONE and max_rows is not None:
            raise InvalidInput(
                "max_rows belongs to neighbours='add-remove'; under replace-one the row count is public."
            )

    def public_count(self, n_rows: int, max_rows: int | None) -> int:
        """The number that is public: that of the rows or, where it is private, the one that bounds it."""
        self.check_max_rows(max_rows)
        return n_rows if max_rows is None else max_rows


class PersonLoss(StrEnum):
    """What stands for a person in the sum of losses (docs/proofs/persons.md).

    ``MEAN``: the mean of the losses of their rows, however many. ``SUM``: the sum over at most so many rows.
    """

    MEAN = "mean"
    SUM = "sum"

    @classmethod
    def parse(cls, value: str | PersonLoss) -> PersonLoss:
        try:
            return cls(value)
        except ValueError:
            names = ", ".join(repr(member.value) for member in cls)
            raise InvalidInput(f"person_loss must be one of {names}; got {value!r}.") from None


@dataclass(frozen=True, kw_only=True)
class Persons:
    """The unit of privacy is one person: all rows of one id, of which at most ``rows_per_person`` are kept."""

    rows_per_person: int
    loss: PersonLoss = PersonLoss.MEAN

    def __post_init__(self) -> None:
        whole = isinstance(self.rows_per_person, int) and not isinstance(self.rows_per_person, bool)
        if not (whole and 1 <= self.rows_per_person <= MOST_ROWS_PER_PERSON):
            raise InvalidInput(
                f"max_rows_per_person must be a whole number from 1 to {MOST_ROWS_PER_PERSON}; got "
                f"{self.rows_per_person!r}."
            )


@dataclass(frozen=True, kw_only=True)
class PrivacyUnit:
    """What a guarantee hides: two data sets that differ in one unit are neighbours.

    Parameters
    ----------
    relation : Neighbours
        Whether one unit is replaced by another, or present in one data set and absent from the other.
    unit : {"row", "person"}
    max_units : int, optional
        Under add-remove, the number of units that no data set exceeds. Under replace-one their number is public.
    max_rows : int
        How many rows of one unit count at most.
    combine : PersonLoss
        How the losses of these rows become that of the unit.
    """

    relation: Neighbours = Neighbours.REPLACE_ONE
    unit: str = ROW
    max_units: int | None = None
    max_rows: int = 1
    combine: PersonLoss = PersonLoss.MEAN

    def __post_init__(self) -> None:
        parse_unit(self.unit)

    @classmethod
    def in_words(cls, words: str, relation: str) -> PrivacyUnit:
        """The unit that a file names so."""
        named = {told: unit for unit, told in UNITS.items()}
        if words not in named:
            raise InvalidInput(f"unit must be {' or '.join(named)}.")
        return cls(relation=Neighbours.parse(relation), unit=named[words])

    @property
    def words(self) -> str:
        return UNITS[self.unit]

    def protects(self, unit: str) -> bool:
        """Whether a guarantee for this unit is one for ``unit`` too.

        One row of a person that is replaced is a person that is replaced. One row of several that is taken away takes
        nobody away: under add-remove a guarantee for persons is none for rows (docs/proofs/ledger.md, section 3).
        """
        return unit == self.unit or (unit == ROW and self.relation is Neighbours.REPLACE_ONE)


def parse_unit(unit: object) -> str:
    """One of the two words, or an error."""
    if unit not in (ROW, PERSON):
        raise InvalidInput(f"unit must be 'row' or 'person'; got {unit!r}.")
    return str(unit)


def rows_kept(n_persons: int) -> int:
    """How many rows of one person are kept where no number is declared: so many that only rounding asks for a bound.

    Sums over n persons of k rows each are rounded by at most about n^2 k 2^-57 of one person's bound; this k keeps that
    at a thousandth, as long as it is above ``FEWEST_KEPT``.
    """
    return int(min(max(2e-3 * 2.0**57 / n_persons**2, FEWEST_KEPT), MOST_ROWS_PER_PERSON))
