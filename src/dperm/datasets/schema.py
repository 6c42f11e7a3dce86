"""What is publicly known of a table before any row is read: its columns, ranges, categories and label.

A :class:`Schema` is declared by a person, never learned. It is also hostile input: it is only data, its
size is limited, and anything it does not know is an error.
"""

import math
import os
import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from dperm.datasets import toml
from dperm.errors import InvalidInput

MAX_COLUMNS = 1_000_000
"""Most columns that the features of one schema may turn into."""

LARGEST_INTEGER = 2**53 - 1
"""Largest integer that may name a category: floats hold it exactly, and nothing else rounds to it."""

ROUNDING_SLACK = 1e-9
"""Share of the norm kept free, so that rounding in a row or in its norm cannot pass the bound of 1."""

SMALLEST_NORM_SHARE = 1e-3

Category = str | int
"""A category or class: text, an integer or a truth value; one kind within one list."""


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{key} must be a number; got {reprlib.repr(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInput(f"{key} must be a finite number; got {reprlib.repr(value)}.")
    return number


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{key} must be true or false; got {reprlib.repr(value)}.")
    return value


def _list(key: str, value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"{key} must be a list; got {reprlib.repr(value)}.")
    return list(value)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidInput(f"{key} must be text; got {reprlib.repr(value)}.")
    return value


def _name(value: object) -> str:
    if _text("name", value) == "":
        raise InvalidInput("name must not be empty.")
    return str(value)


def _bounds(key: str, value: object) -> tuple[float, float]:
    numbers = [_number(key, bound) for bound in _list(key, value)]
    if len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise InvalidInput(
            f"{key} must be two numbers [low, high] with low < high; got {reprlib.repr(value)}."
        )
    return numbers[0], numbers[1]


def _categories(key: str, value: object) -> tuple[Category, ...]:
    values = _list(key, value)
    kinds = {type(item) for item in values}
    if len(values) < 2 or kinds not in ({str}, {int}, {bool}):
        raise InvalidInput(
            f"{key} must list at least two values of one kind: text, integers or truth values; "
            f"got {reprlib.repr(value)}."
        )
    if len(set(values)) != len(values):
        raise InvalidInput(f"{key} must not repeat a value; got {reprlib.repr(value)}.")
    for item in values:
        if isinstance(item, str):
            _text(key, item)
        elif abs(item) > LARGEST_INTEGER:
            raise InvalidInput(
                f"{key} must hold integers of at most 2**53 - 1 in size; got {reprlib.repr(item)}."
            )
    return tuple(values)


def _marks(value: object) -> tuple[str | float, ...]:
    """Marks of a missing value: text, or numbers (kept as floats)."""
    return tuple(
        _text("missing", mark) if isinstance(mark, str) else _number("missing", mark)
        for mark in _list("missing", value)
    )


def category_name(value: Category) -> str:
    """How a category is written in a column name."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, kw_only=True)
class Numeric:
    """A numeric feature: clipped to ``range``, then moved into [-1/2, 1/2].

    ``centre`` is the public value that becomes 0 (the middle of the range unless declared). ``log``
    replaces a value v by log(1 + v) after clipping. A missing value (null, NaN or a mark in ``missing``)
    becomes 0; ``indicator`` adds a column that is 1/2 where the value is missing and -1/2 elsewhere.
    """

    name: str
    range: tuple[float, float]
    centre: float | None = None
    log: bool = False
    indicator: bool = False
    missing: tuple[str | float, ...] = ()

    def __post_init__(self) -> None:
        _set(self, "name", _name(self.name))
        _set(self, "range", _bounds("range", self.range))
        _set(self, "log", _flag("log", self.log))
        _set(self, "indicator", _flag("indicator", self.indicator))
        _set(self, "missing", _marks(self.missing))
        low, high = self.range
        if self.log and low < 0:
            raise InvalidInput(f"log needs a range that starts at 0 or above; got a range from {low:g}.")
        if self.centre is not None:
            _set(self, "centre", _number("centre", self.centre))
            if not low <= self.centre <= high:
                raise InvalidInput(f"centre must lie within the range; got {self.centre:g}.")
        if not (0 < self.reach < math.inf and math.isfinite(1 / self.reach)):
            raise InvalidInput(f"range is too wide or too narrow for floating point; got {list(self.range)}.")

    def _axis(self, value: float) -> float:
        return math.log1p(value) if self.log else value

    @property
    def origin(self) -> float:
        """The point, after the logarithm if there is one, that is moved to 0."""
        if self.centre is not None:
            return self._axis(self.centre)
        low, high = map(self._axis, self.range)
        return low + (high - low) / 2

    @property
    def reach(self) -> float:
        """Largest distance of a clipped value from ``origin``."""
        low, high = map(self._axis, self.range)
        return max(high - self.origin, self.origin - low)

    @property
    def column_names(self) -> list[str]:
        return [self.name, f"{self.name}=missing"] if self.indicator else [self.name]

    @property
    def n_columns(self) -> int:
        return 1 + self.indicator

    @property
    def max_square(self) -> float:
        """Largest squared norm of the feature's columns before scaling."""
        return self.n_columns / 4


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """A feature with declared ``categories``: one column each, 1 - 1/k for the row's own and -1/k elsewhere.

    An unknown category becomes a block of zeros. So does a missing value (null or a mark in
    ``missing``), unless ``missing_as`` names the category it counts as.
    """

    name: str
    categories: tuple[Category, ...]
    missing: tuple[str | float, ...] = ()
    missing_as: Category | None = None

    def __post_init__(self) -> None:
        _set(self, "name", _name(self.name))
        _set(self, "categories", _categories("categories", self.categories))
        _set(self, "missing", _marks(self.missing))
        kind = type(self.categories[0])
        if kind is bool and self.missing:
            raise InvalidInput("missing cannot be given for truth values; only null is missing there.")
        if kind is str and not all(isinstance(mark, str) for mark in self.missing):
            raise InvalidInput("missing must hold text, as the categories do.")
        if set(self.missing) & set(self.categories):
            raise InvalidInput("missing must not hold a declared category; remove it from one of the two.")
        if self.missing_as is not None and (
            type(self.missing_as) is not kind or self.missing_as not in self.categories
        ):
            raise InvalidInput(
                f"missing_as must be a declared category; got {reprlib.repr(self.missing_as)}."
            )

    @property
    def column_names(self) -> list[str]:
        return [f"{self.name}={category_name(value)}" for value in self.categories]

    @property
    def n_columns(self) -> int:
        return len(self.categories)

    @property
    def max_square(self) -> float:
        """Largest squared norm of the feature's columns before scaling: (1 - 1/k)^2 + (k - 1)/k^2."""
        return 1 - 1 / len(self.categories)


Feature = Numeric | Categorical


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is predicted: one of ``classes``, or on which side of ``threshold``, or a number in ``range``.

    Of two classes the second is the positive one. ``rest`` makes the last class stand for every value
    that is not listed. A threshold t makes the two classes "<=t" and ">t".
    """

    name: str
    classes: tuple[Category, ...] = ()
    rest: bool = False
    threshold: float | None = None
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        _set(self, "name", _name(self.name))
        _set(self, "rest", _flag("rest", self.rest))
        if (self.classes != ()) + (self.threshold is not None) + (self.range is not None) != 1:
            raise InvalidInput("exactly one of classes, threshold and range must be given.")
        if self.rest and self.classes == ():
            raise InvalidInput("rest needs classes.")
        if self.classes != ():
            _set(self, "classes", _categories("classes", self.classes))
        elif self.threshold is not None:
            _set(self, "threshold", _number("threshold", self.threshold))
        else:
            _set(self, "range", _bounds("range", self.range))

    @property
    def labels(self) -> tuple[Category, ...]:
        """The labels that can occur, in the declared order; none for a numeric target."""
        if self.threshold is None:
            return self.classes
        number = toml.scalar(_short(self.threshold))
        return (f"<={number}", f">{number}")


def _set(instance: object, field: str, value: object) -> None:
    object.__setattr__(instance, field, value)


def _short(value: Any) -> Any:
    """17.0 as 17, so that a written schema reads as a person would write it."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def _build(kind: type[Any], name: object, table: object) -> Any:
    if not isinstance(table, Mapping):
        raise InvalidInput(f"a table of keys was expected; got {reprlib.repr(table)}.")
    keys = [field.name for field in fields(kind) if field.name != "name"]
    for key in table:
        if key not in keys:
            raise InvalidInput(f"unknown key {reprlib.repr(key)}; the keys are {', '.join(keys)}.")
    return kind(name=name, **table)


def _feature(name: object, table: object) -> Feature:
    if isinstance(table, Mapping) and ("range" in table) == ("categories" in table):
        raise InvalidInput("exactly one of range (a number) and categories must be given.")
    kind = Categorical if isinstance(table, Mapping) and "categories" in table else Numeric
    feature: Feature = _build(kind, name, table)
    return feature


def _table(item: Feature | Target) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for field in fields(item):
        value = getattr(item, field.name)
        if field.name != "name" and (field.default is MISSING or value != field.default):
            written[field.name] = [_short(v) for v in value] if isinstance(value, tuple) else _short(value)
    return written


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A declared target and declared features, in the order of the encoded columns.

    ``norm_share`` is the norm that rows are expected to stay within, as a share of the longest row that the
    declarations allow; longer rows are shortened to it. It comes from knowledge of the subject, not from rows.

    Guarantee
    ---------
    With these declarations alone, :func:`dperm.datasets.encode` maps any record whatever to a row of
    Euclidean norm at most 1, independently of all other records.
    """

    target: Target
    features: tuple[Feature, ...]
    norm_share: float = 1.0

    def __post_init__(self) -> None:
        _set(self, "features", tuple(self.features))
        _set(self, "norm_share", _number("norm_share", self.norm_share))
        if not SMALLEST_NORM_SHARE <= self.norm_share <= 1:
            raise InvalidInput(
                f"norm_share must be a number from {SMALLEST_NORM_SHARE:g} to 1, the share of the longest "
                "possible row at which rows are cut."
            )
        if not self.features:
            raise InvalidInput("features must declare at least one feature.")
        if self.n_columns > MAX_COLUMNS:
            raise InvalidInput(
                f"features turn into {self.n_columns} columns, more than the limit of {MAX_COLUMNS}. "
                "Use fewer categories."
            )
        names = [feature.name for feature in self.features]
        if self.target.name in names:
            raise InvalidInput(f"features must not hold the target {self.target.name!r}.")
        columns = [column for feature in self.features for column in feature.column_names]
        if len(set(names)) != len(names) or len(set(columns)) != len(columns):
            raise InvalidInput("features lead to two columns of the same name; rename one of them.")

    @property
    def n_columns(self) -> int:
        """Number of encoded columns."""
        return sum(feature.n_columns for feature in self.features)

    @property
    def scale(self) -> float:
        """The public factor that brings every possible row, or every row within ``norm_share``, into the unit ball."""
        longest = math.sqrt(math.fsum(feature.max_square for feature in self.features))
        return (1 - ROUNDING_SLACK) / (longest * self.norm_share)

    @property
    def classes(self) -> tuple[Category, ...]:
        """The labels of the target in the declared order; none for a numeric target."""
        return self.target.labels

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
            if key not in ("target", "features", "rows"):
                raise InvalidInput(
                    f"{origin}: unknown table {reprlib.repr(key)}; expected [target], [features] and, where "
                    "wanted, [rows]."
                )
        for key in ("target", "features"):
            if not isinstance(data.get(key), Mapping):
                raise InvalidInput(f"{origin}: the table [{key}] is missing or is not a table.")
        where = f"{origin}, [target]"
        try:
            about = dict(data["target"])
            target = _build(Target, about.pop("name", ""), about)
            features = []
            for name, table in data["features"].items():
                where = f"{origin}, [features.{reprlib.repr(name)[1:-1] if isinstance(name, str) else name}]"
                features.append(_feature(name, table))
            where = f"{origin}, [rows]"
            rows = data.get("rows", {})
            if not (isinstance(rows, Mapping) and set(rows) <= {"norm_share"}):
                raise InvalidInput("a table with the one key norm_share was expected.")
            where = f"{origin}, [features]"
            return cls(target=target, features=tuple(features), **rows)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries that :meth:`from_dict` reads back to an equal schema."""
        return {
            "target": {"name": self.target.name, **_table(self.target)},
            **({} if self.norm_share == 1 else {"rows": {"norm_share": self.norm_share}}),
            "features": {feature.name: _table(feature) for feature in self.features},
        }

    def to_toml(self) -> str:
        """Text of a file that :meth:`from_toml` reads back to an equal schema."""
        return toml.write(self.to_dict())
