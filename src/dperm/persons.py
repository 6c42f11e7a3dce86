"""One person as the unit of privacy: how the rows of one id count (docs/proofs/persons.md)."""

from dataclasses import dataclass
from enum import StrEnum

from dperm.errors import InvalidInput

FEWEST_KEPT, MOST_ROWS_PER_PERSON = 256, 2**20
SHARE_BITS = 30  # of how much of its person a row is, where rows are counted by it


class PersonLoss(StrEnum):
    """What stands for a person in the sum of losses (docs/proofs/persons.md).

    ``MEAN``: the mean of the losses of their rows, however many. ``SUM``: the sum over at most so many rows.
    """

    MEAN = "mean"
    SUM = "sum"

    @classmethod
    def parse(cls, value: "str | PersonLoss") -> "PersonLoss":
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


def rows_kept(n_persons: int) -> int:
    """How many rows of one person are kept where no number is declared: so many that only rounding asks for a bound.

    Sums over n persons of k rows each are rounded by at most about n^2 k 2^-57 of one person's bound; this k keeps that
    at a thousandth, as long as it is above ``FEWEST_KEPT``.
    """
    return int(min(max(2e-3 * 2.0**57 / n_persons**2, FEWEST_KEPT), MOST_ROWS_PER_PERSON))
