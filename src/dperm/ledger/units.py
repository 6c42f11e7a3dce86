"""Whom the budget of a dataset protects, one row or one person, and which charges count there."""

from __future__ import annotations

from dperm.errors import InvalidInput
from dperm.neighbours import Neighbours

ROW, PERSON = "row", "person"

_ROW_FOR_PERSONS = (
    "is kept for one person, and this release protects one row, so a person with several rows less. Fit with groups=, "
    "the id of the person of each row, or keep a second ledger for rows."
)
_PERSON_REMOVED = (
    "is kept for one row under add-remove, and this release protects one person. To take away one row of a person "
    "with several changes that person and removes nobody, which the release does not promise to hide. Keep a ledger "
    "with unit='person' for it, or one under replace-one."
)


def parse_unit(unit: object) -> str:
    """One of the two words, or an error."""
    if unit not in (ROW, PERSON):
        raise InvalidInput(f"unit must be 'row' or 'person'; got {unit!r}.")
    return str(unit)


def refusal(unit: str, kept_for: str, neighbours: Neighbours) -> str | None:
    """Why a release that protects this unit does not count where the other is protected; None where it does.

    docs/proofs/ledger.md, section 3.
    """
    if unit == kept_for:
        return None
    if kept_for == PERSON:
        return _ROW_FOR_PERSONS
    return None if neighbours is Neighbours.REPLACE_ONE else _PERSON_REMOVED
