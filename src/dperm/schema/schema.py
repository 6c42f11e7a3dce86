"""What is publicly known of a table before any row is read: its columns, ranges, categories and label.

A :class:`Schema` is declared by a person, never learned. It is also hostile input: it is only data, its
size is limited, and anything it does not know is an error.
"""

import math
import os
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeGuard

from dperm.errors import InvalidInput
from dperm.schema import toml
from dperm.schema.dates import Date
from dperm.schema.features import Block, Categorical, Cross, Hashed, Leaf, Numeric, Target
from dperm.schema.values import (
    Category,
    check_finished,
    check_list,
    check_number,
    check_spline,
    check_text,
    set_field,
    shortest,
)

DELIMITERS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
ENCODINGS: Final = ("utf-8", "latin-1", "cp1252")
_LONGEST_SHEET = 31  # that Excel allows


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """The table ``[file]`` of a schema. What is empty is found without a look at a row.

    ``delimiter`` parts the columns of a text file; otherwise a name that ends in .tsv says tabs, and for other names,
    or where that parts nothing, the header line tells (:func:`dperm.schema.readers.text.delimiter_of`). ``decimal`` is
    the decimal mark, ``encoding`` that of the text, ``sheet`` the sheet of a workbook, otherwise its first.
    """

    delimiter: str = ""
    decimal: str = "."
    encoding: str = "utf-8"
    sheet: str = ""

    def __post_init__(self) -> None:
        _check_one("delimiter", self.delimiter, ("", *DELIMITERS))
        _check_one("decimal", self.decimal, (".", ","))
        _check_one("encoding", self.encoding, ENCODINGS)
        set_field(self, "sheet", check_text("sheet", self.sheet))
        if len(self.sheet) > _LONGEST_SHEET:
            raise InvalidInput(f"sheet must be the name of a sheet, of at most {_LONGEST_SHEET} letters.")
        if self.delimiter == self.decimal:
            raise InvalidInput("delimiter and decimal must differ.")


def _check_one(key: str, value: object, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        choices = ", ".join(repr(item) for item in known if item)
        raise InvalidInput(f"{key} must be one of {choices}; got {reprlib.repr(value)}.")


AS_NAMED: Final = FileLayout()
"""What is assumed where nothing is declared."""


Feature = Numeric | Date | Categorical | Hashed
"""What a schema declares of one column of the table."""

DEFAULT_SPLINES = 8
MOST_DEFAULT_SPLINES = 160
FEWEST_DEFAULT_SPLINES = 4
MOST_CROSSED = 4096
"""Most columns that all crossed features of a schema may turn into."""


def default_splines(n_numbers: int, n_classes: int = 2) -> int:
    """How many splines each number gets where the schema declares nothing.

    Eight each for up to 20 numbers. More numbers share 160 splines evenly, and where that leaves fewer than four to
    each there are none. With more than two classes every spline has a coefficient for each of them, and they count.
    """
    outputs = n_classes if n_classes > 2 else 1
    share = min(DEFAULT_SPLINES, MOST_DEFAULT_SPLINES // max(n_numbers * outputs, 1))
    return share if share >= FEWEST_DEFAULT_SPLINES else 0


def with_splines(features: Sequence[Feature], spline: int | None, n_classes: int = 2) -> tuple[Feature, ...]:
    """The features, each number with the splines that it gets: its own, those of the schema, or the default."""
    n_open = sum(map(_takes_splines, features))
    splines = default_splines(n_open, n_classes) if spline is None else spline
    return tuple(replace(item, spline=splines) if _takes_splines(item) else item for item in features)


def _takes_splines(feature: Feature) -> TypeGuard[Numeric | Date]:
    return isinstance(feature, Numeric | Date) and feature.spline is None and not feature.bins


def parts_of(features: Sequence[Feature]) -> tuple[Leaf, ...]:
    """The blocks of the features: a date has several."""
    return tuple(
        part for feature in features for part in (feature.parts if isinstance(feature, Date) else (feature,))
    )


def check_cross(value: object) -> tuple[tuple[str, str], ...]:
    """Pairs of different names, no pair twice."""
    pairs: list[tuple[str, str]] = []
    for pair in check_list("cross", value):
        names = [check_text("cross", name) for name in check_list("cross", pair)]
        if len(names) != 2 or names[0] == names[1]:
            raise InvalidInput(f"cross must list pairs of two features; got {reprlib.repr(pair)}.")
        pairs.append((names[0], names[1]))
    if len({frozenset(pair) for pair in pairs}) != len(pairs):
        raise InvalidInput("cross must not hold a pair of features twice.")
    return tuple(pairs)


def crossed(parts: Sequence[Leaf], pairs: Sequence[tuple[str, str]]) -> tuple[Cross, ...]:
    """The blocks of all pairs of levels."""
    known: Mapping[str, Leaf] = {part.name: part for part in parts}
    blocks, total = [], 0
    for pair in pairs:
        for name in pair:
            if name not in known:
                raise InvalidInput(f"cross names {reprlib.repr(name)}, which is not a feature.")
            if not known[name].levels:
                raise InvalidInput(
                    f"cross needs categories or bins, which {reprlib.repr(name)} does not have."
                )
        block = Cross(left=known[pair[0]], right=known[pair[1]])
        total += block.n_columns
        if total > MOST_CROSSED:
            raise InvalidInput(
                f"cross turns into more than {MOST_CROSSED} columns with {reprlib.repr(block.name)}, which has "
                f"{block.n_columns}. Leave it out, or give one of the two fewer categories or bins."
            )
        blocks.append(block)
    return tuple(blocks)


MAX_COLUMNS = 1_000_000
"""Most columns that the features of one schema may turn into."""

ROUNDING_SLACK = 1e-9
"""Share of the norm kept free, so that rounding in a row or in its norm cannot pass the bound of 1."""

SMALLEST_NORM_SHARE = 1e-3

_OF_ROWS = ("norm_share", "spline", "cross")


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A declared target and declared features, in the order of the encoded columns.

    ``norm_share`` is the norm that rows are expected to stay within, as a share of the longest row that the
    declarations allow; longer rows are shortened to it. It comes from knowledge of the subject, not from rows.
    ``spline`` is the number of splines of every number that declares none and has no bins; if it is not declared
    either, :func:`dperm.schema.schema.default_splines` says how many. ``cross`` lists pairs of features with
    categories or bins whose combinations become columns too. ``file`` is how files of text are written. ``person``
    names the column with the ids of persons, where one may have several rows; it is no feature.

    Guarantee
    ---------
    With these declarations alone, :func:`dperm.schema.encode` maps any record whatever to a row of
    Euclidean norm at most 1, independently of all other records.
    """

    target: Target
    features: tuple[Feature, ...]
    norm_share: float = 1.0
    spline: int | None = None
    cross: tuple[tuple[str, str], ...] = ()
    file: FileLayout = AS_NAMED
    person: str | None = None

    def __post_init__(self) -> None:
        set_field(self, "features", tuple(self.features))
        set_field(self, "norm_share", check_number("norm_share", self.norm_share))
        if not SMALLEST_NORM_SHARE <= self.norm_share <= 1:
            raise InvalidInput(
                f"norm_share must be a number from {SMALLEST_NORM_SHARE:g} to 1, the share of the longest "
                "possible row at which rows are cut."
            )
        set_field(self, "spline", check_spline("spline", self.spline))
        set_field(self, "cross", check_cross(self.cross))
        if not self.features:
            raise InvalidInput("features must declare at least one feature.")
        if self.n_columns > MAX_COLUMNS:
            raise InvalidInput(
                f"features turn into {self.n_columns} columns, more than the limit of {MAX_COLUMNS}. "
                "Use fewer categories or splines."
            )
        names = [feature.name for feature in self.features]
        if self.target.name in names:
            raise InvalidInput(f"features must not hold the target {self.target.name!r}.")
        if self.person is not None:
            self._check_person(names)
        parts = [part.name for part in parts_of(self.features)]
        columns = [column for block in self.blocks for column in block.column_names]
        if any(len(set(found)) != len(found) for found in (names, parts, columns)):
            raise InvalidInput("features lead to two columns of the same name; rename one of them.")

    def _check_person(self, features: list[str]) -> None:
        if check_text("person", self.person) == "":
            raise InvalidInput(
                "person must name the column with the ids of the persons; leave it out if there is none."
            )
        if self.person in (*features, self.target.name):
            raise InvalidInput(
                f"person names the column {self.person!r}, which is declared as a feature or the target too. An id is "
                "nothing to learn from: leave it out of [features]."
            )

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of a table that are read: the features, the target, and the ids of persons."""
        ids = () if self.person is None else (self.person,)
        return (*(feature.name for feature in self.features), self.target.name, *ids)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """What becomes columns, in their order: the features with the splines that they get, then the crossed ones."""
        parts = parts_of(with_splines(self.features, self.spline, len(self.target.labels)))
        return (*parts, *crossed(parts, self.cross))

    @property
    def n_columns(self) -> int:
        """Number of encoded columns."""
        return sum(block.n_columns for block in self.blocks)

    @property
    def scale(self) -> float:
        """The public factor that brings every possible row, or every row within ``norm_share``, into the unit ball."""
        longest = math.sqrt(math.fsum(block.max_square for block in self.blocks))
        return (1 - ROUNDING_SLACK) / (longest * self.norm_share)

    @property
    def classes(self) -> tuple[Category, ...]:
        """The labels of the target in the declared order; none for a numeric target."""
        return self.target.labels

    def with_spline(self, splines: int | None) -> "Schema":
        """A copy with this many splines for every number without bins, whatever was declared; None changes nothing."""
        if splines is None:
            return self
        return replace(self, features=_each_number(self.features, spline=None), spline=splines)

    def plain(self) -> "Schema":
        """A copy in which every number is one column, with its indicator where declared: no splines, bins, crosses."""
        return replace(self, features=_each_number(self.features, spline=None, bins=()), spline=0, cross=())

    def settled(self) -> "Schema":
        """An equal encoding in which no number of splines is left to the default, so that it cannot change later."""
        features = tuple(
            replace(feature, spline=feature.spline or None)
            if isinstance(feature, Numeric | Date)
            else feature
            for feature in with_splines(self.features, self.spline, len(self.target.labels))
        )
        return replace(self, features=features, spline=0)

    @classmethod
    def parse(cls, value: "Schema | str | os.PathLike[str] | Mapping[str, Any]") -> "Schema":
        """A schema from a schema, the path of a TOML file, or nested dictionaries."""
        if isinstance(value, Schema):
            return value
        if isinstance(value, str | os.PathLike):
            return cls.from_toml(value)
        return cls.from_dict(value)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> "Schema":
        """Read a schema file; its format is explained in ``docs/schema.md``."""
        return cls.from_dict(toml.read(Path(path)), origin=Path(path).name)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, origin: str = "schema") -> "Schema":
        """Build a schema from nested dictionaries; ``origin`` is the file to name in errors."""
        if not isinstance(data, Mapping):
            raise InvalidInput(f"{origin}: two tables were expected, [target] and [features].")
        for key in data:
            if key not in ("target", "features", "rows", "file", "person"):
                raise InvalidInput(
                    f"{origin}: unknown table {reprlib.repr(key)}; expected [target], [features] and, where "
                    'wanted, [rows] and [file], and person = "COLUMN" before them.'
                )
        for key in ("target", "features"):
            if not isinstance(data.get(key), Mapping):
                raise InvalidInput(f"{origin}: the table [{key}] is missing or is not a table.")
        where = f"{origin}, [target]"
        try:
            about = dict(data["target"])
            check_finished(about)
            target = _build(Target, about.pop("name", ""), about)
            features = []
            for name, table in data["features"].items():
                where = f"{origin}, [features.{reprlib.repr(name)[1:-1] if isinstance(name, str) else name}]"
                features.append(_feature(name, table))
            where = f"{origin}, [rows]"
            rows = data.get("rows", {})
            if not (isinstance(rows, Mapping) and set(rows) <= set(_OF_ROWS)):
                raise InvalidInput(f"a table with the keys {', '.join(_OF_ROWS)} was expected.")
            where = f"{origin}, [file]"
            file = _build(FileLayout, None, data.get("file", {}))
            where = f"{origin}, [features]" + (" and [rows]" if rows else "")
            person = data.get("person")
            if "person" in data and not isinstance(person, str):
                where = origin
                raise InvalidInput(f"person must be the name of a column; got {reprlib.repr(person)}.")
            return cls(target=target, features=tuple(features), file=file, person=person, **rows)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries that :meth:`from_dict` reads back to an equal schema."""
        rows, file = _table(self, ("target", "features", "file", "person")), _table(self.file)
        return {
            **({} if self.person is None else {"person": self.person}),
            "target": {"name": self.target.name, **_table(self.target)},
            **({"file": file} if file else {}),
            **({"rows": rows} if rows else {}),
            "features": {feature.name: _table(feature) for feature in self.features},
        }

    def to_toml(self) -> str:
        """Text of a file that :meth:`from_toml` reads back to an equal schema."""
        return toml.write(self.to_dict())


def _build(kind: type[Any], name: object, table: object) -> Any:
    if not isinstance(table, Mapping):
        raise InvalidInput(f"a table of keys was expected; got {reprlib.repr(table)}.")
    check_finished(table)
    keys = [field.name for field in fields(kind) if field.name != "name"]
    for key in table:
        if key not in keys:
            known = ["name", *keys] if kind is Target else keys  # a feature's name is that of its table
            raise InvalidInput(f"unknown key {reprlib.repr(key)}; the keys are {', '.join(known)}.")
    return kind(**table) if kind is FileLayout else kind(name=name, **table)


def _feature(name: object, table: object) -> Feature:
    kinds: dict[str, type[Feature]] = {
        "range": Numeric,
        "date": Date,
        "categories": Categorical,
        "hashed": Hashed,
    }
    if isinstance(table, Mapping):
        check_finished(table)
    stated = [kind for key, kind in kinds.items() if isinstance(table, Mapping) and key in table]
    if isinstance(table, Mapping) and len(stated) != 1:
        close = [
            found for key in table for found in get_close_matches(str(key)[:40], kinds, 1) if key not in kinds
        ]
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidInput(
            f"exactly one of range (a number), date, categories and hashed (columns) must be given.{meant}"
        )
    feature: Feature = _build(stated[0] if stated else Numeric, name, table)
    return feature


def _each_number(features: tuple[Feature, ...], **changes: Any) -> tuple[Feature, ...]:
    return tuple(replace(item, **changes) if isinstance(item, Numeric | Date) else item for item in features)


def _table(
    item: Feature | Target | FileLayout | Schema, skipped: tuple[str, ...] = ("name",)
) -> dict[str, Any]:
    """The declared values that differ from the defaults, as a TOML file holds them."""
    declared = [(field, getattr(item, field.name)) for field in fields(item) if field.name not in skipped]
    return {
        field.name: _written(value)
        for field, value in declared
        if field.default is MISSING or value != field.default
    }


def _written(value: Any) -> Any:
    return [_written(part) for part in value] if isinstance(value, tuple) else shortest(value)


def predicting(schema: Schema, name: str) -> Schema:
    """The schema of a model that predicts the column ``name``.

    A declared feature becomes the target with its own categories or range, and is no feature any more; the column that
    was the target before is left out, since it may not be known when this one is asked for. A name that is no feature
    is another name for the declared target.
    """
    feature = next((feature for feature in schema.features if feature.name == name), None)
    if feature is None:
        return replace(schema, target=replace(schema.target, name=name))
    if isinstance(feature, Categorical):
        target = Target(name=name, classes=feature.categories, fold=feature.fold)
    elif isinstance(feature, Numeric):
        target = Target(name=name, range=feature.range)
    else:
        raise InvalidInput(f"{name!r} cannot be predicted: a target has categories or a range.")
    return replace(
        schema,
        target=target,
        features=tuple(other for other in schema.features if other is not feature),
        cross=tuple(pair for pair in schema.cross if name not in pair),
    )
