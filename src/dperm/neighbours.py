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
