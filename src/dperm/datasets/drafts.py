"""A schema to be finished by a person: from names and storage types, never from values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dperm.datasets import toml
from dperm.datasets.declared import TODO
from dperm.errors import InvalidInput

_IDENTIFIERS = frozenset(
    {
        *(
            "id",
            "ids",
            "uid",
            "uuid",
            "guid",
            "identifier",
            "key",
            "mrn",
            "ssn",
            "nhs",
            "nin",
            "iban",
            "passport",
        ),
        *("email", "mail", "phone", "telephone", "mobile", "fax", "address", "street"),
        *("name", "names", "surname", "firstname", "lastname", "forename", "fullname"),
    }
)
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

_OF_TARGET = "the labels, of two the positive one last; for a number range = [low, high] in its place"

HEAD = """\
# A draft: every TODO is for you to fill in, from the questionnaire, the code book or common sense,
# never from the rows: a smallest age or a list of towns looked up in them tells about single people.
#
#   range = [18, 98]               a number; values outside are moved to the nearer end, so take what you
#                                  expect of most people, not of every one (log = true for money and the like)
#   categories = ["rent", "own"]   a category, spelled as in the table (fold = true: case and blanks do not count)
#   date = ["2015-01-01", "2025-12-31"]     a date; cycles = ["month", "weekday"] adds these
#   hashed = 64                    text, or a category that nobody can list
#   missing = ["?", "NA"]          marks of a missing value; unit = "years" is shown to people
#
# Delete what is not to be learned from: a column without a table here is not read.
# If one person may have several rows, say which column has their ids, above [target], so that the guarantee
# is for persons:  person = "patient_id"
# Then, on the machine with the data: dperm schema check DATA --schema THIS_FILE
"""


@dataclass
class Draft:
    """What is known of one column: values for its keys, some of them TODO, and words for the person.

    ``remarks`` stand before the table, ``hint`` behind what is to be filled in.
    """

    name: str
    keys: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    hint: str = ""
    left_out: bool = False

    def text(self, table: str) -> str:
        """The table of the column, behind comment signs if it is better left out."""
        lines = [f"[{table}]"]
        for key, value in self.keys.items():
            hint = f"  # {self.hint}" if self.hint and value == TODO and key != "name" else ""
            lines.append(f"{key} = {toml.value_text(value)}{hint}")
        if self.left_out:
            lines = [f"# {line}" for line in lines]
        return "".join(
            f"{line}\n" for line in (*(f"# {_one_line(remark)}" for remark in self.remarks), *lines)
        )


def draft_of(name: str, kind: Any = None) -> Draft:
    """The draft for a column with this storage type, None where the file declares none."""
    if looks_like_identifier(name):
        draft = Draft(name, {"hashed": TODO}, left_out=True)
        draft.remarks.append(
            f"By its name {toml.key(name)} tells who a person is: leave it out, unless it is something else."
        )
        return draft
    if kind is None:
        return Draft(name, {"range": TODO}, hint="a number; or in its place categories, date or hashed")
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return Draft(name, {"categories": [False, True]})
    if types.is_date(kind) or types.is_timestamp(kind):
        return Draft(name, {"date": TODO})
    if types.is_integer(kind):
        return Draft(name, {"range": TODO}, hint="or, for codes, categories = [1, 2, 3]")
    if types.is_floating(kind) or types.is_decimal(kind):
        return Draft(name, {"range": TODO})
    if types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view():
        return Draft(name, {"categories": TODO}, hint="or, if nobody can list them, hashed = 64")
    return Draft(
        name, {"range": TODO}, [f"the file stores {kind}, which no feature takes: convert it"], left_out=True
    )


def looks_like_identifier(name: str) -> bool:
    """Whether a column tells, by its name alone, who a person is."""
    return any(part.lower() in _IDENTIFIERS for part in _PART.findall(name))


def draft_text(drafts: Sequence[Draft], target: Draft | None, remarks: Sequence[str] = ()) -> str:
    """The text of a schema file with what is still to be said."""
    if target is None:
        target = Draft(TODO, {"name": TODO, "classes": TODO}, ["the column to predict"], _OF_TARGET)
    parts = [HEAD + "".join(f"# {_one_line(remark)}\n" for remark in remarks), target.text("target")]
    parts.extend(draft.text(f"features.{toml.key(draft.name)}") for draft in drafts)
    return "\n".join(parts)


def target_draft(name: str, kind: Any = None) -> Draft:
    """What is to be predicted, by the storage type of its column."""
    draft = draft_of(name, kind)
    classes = draft.keys.get("categories", TODO)
    return Draft(
        name,
        {"name": name, "classes": classes},
        hint=_OF_TARGET,
    )


def draft_schema(columns: Mapping[str, Any], target: str | None = None) -> str:
    """The text of a schema to be finished.

    Parameters
    ----------
    columns : mapping of str
        The names of the columns, with the Arrow types that a file declares, or None.
    target : str, optional
        The column to predict.
    """
    check_target_name(columns, target)
    chosen = None if target is None else target_draft(target, columns[target])
    drafts = [draft_of(name, kind) for name, kind in columns.items() if name != target]
    return draft_text(drafts, chosen)


def check_target_name(columns: Mapping[str, Any], target: str | None) -> None:
    if target is not None and target not in columns:
        raise InvalidInput(f"the table has no column named {target!r}, which is to be the target.")


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
