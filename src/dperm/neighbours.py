"""Which two datasets count as neighbours: the relation every guarantee is stated for."""

from enum import StrEnum

from dperm.errors import InvalidInput


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
    def parse(cls, value: "str | Neighbours") -> "Neighbours":
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
