"""What the ids of persons in a table look like, for the owner of the data. NOT PRIVATE: it is counted from the rows."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dperm.datasets.columns import TEXT, folded_column, kind_of
from dperm.datasets.findings import Finding, PersonCheck, share
from dperm.datasets.person_column import ids_or_nothing


def check_persons(name: str, column: Any) -> PersonCheck:
    """Counts about the column of ids; ``column`` is None where the table has none."""
    ids = None if column is None else ids_or_nothing(column)
    if ids is None:
        return PersonCheck(name=name, absent=column is None, unread=column is not None)
    given = ids.drop_null()
    counts = np.asarray(given.value_counts().field("counts"), np.int64)
    folded = len(folded_column(given).unique()) if kind_of(given) == TEXT and len(given) else len(counts)
    return PersonCheck(
        name=name,
        n_persons=len(counts),
        most_rows=int(counts.max(initial=0)),
        missing=ids.null_count,
        spelled_alike=len(counts) - folded,
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
        yield finding("ids of persons must be text or numbers. Convert the column.")
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
