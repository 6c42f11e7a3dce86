"""What the ids of persons in a table look like, for the owner of the data. NOT PRIVATE: it is counted from the rows."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dperm.datasets.declared import folded
from dperm.datasets.findings import Finding, PersonCheck, share
from dperm.datasets.person_column import person_column
from dperm.errors import InvalidInput


def check_persons(name: str, table: Any) -> PersonCheck:
    """Counts about the column of ids; ``table`` is None where it has no such column."""
    if table is None:
        return PersonCheck(name=name, absent=True)
    try:
        found = person_column(table, name)
    except InvalidInput:
        return PersonCheck(name=name, unread=True)
    counts = np.bincount(found.person, minlength=len(found.names))
    given = np.array([told is not None for told in found.names], dtype=bool)
    spellings = {folded(told) for told in found.names if told is not None}
    return PersonCheck(
        name=name,
        n_persons=int(given.sum()),
        most_rows=int(counts[given].max(initial=0)),
        missing=int(counts[~given].sum()),
        spelled_alike=int(given.sum()) - len(spellings),
    )


def person_findings(check: PersonCheck, n_rows: int, names: Sequence[str]) -> Iterator[Finding]:
    """What looks wrong about ids, and what is worth knowing."""

    def finding(text: str, wrong: bool = True) -> Finding:
        return Finding(column=check.name, text=text, wrong=wrong)

    if check.absent:
        close = difflib.get_close_matches(check.name, names, 1)
        meant = f" Is {close[0]!r} meant?" if close else " Correct person in the schema."
        yield finding(f"the table has no such column, which should hold the ids of persons.{meant}")
    elif check.unread:
        yield finding("ids of persons must be text or whole numbers. Convert the column.")
    elif n_rows == 0:
        return
    elif check.missing:
        told = f"{share(check.missing, n_rows)} of the rows have no id of a person, which fit refuses."
        yield finding(f"{told} Leave them out, or give each an id of its own.")
    if check.spelled_alike:
        yield finding(
            f"{check.spelled_alike:,} ids differ from others by case or blanks alone. A person with two ids is "
            "protected as two: spell ids alike."
        )
    if check.n_persons == n_rows > 1:
        yield finding(
            "every row has an id of its own. If a person can have one row only, --max-rows-per-person 1 asks for the "
            "noise of rows.",
            False,
        )
