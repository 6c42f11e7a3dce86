"""Compare a schema with a table, before anything is spent. NOT PRIVATE: what it tells comes from the rows."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.schema.columns import (
    DATES,
    MISSING,
    NUMBERS,
    TEXT,
    TRUTH_VALUES,
    UNKNOWN,
    arrow_columns,
    as_codes,
    blank_cells,
    check_columns,
    counted,
    declared_kind,
    distinct,
    kind_of,
    number_of,
    tolerant_numbers,
    tolerant_truth,
)
from dperm.schema.dates import Date, day_of
from dperm.schema.encoding import encode, person_column
from dperm.schema.features import Categorical, Hashed, Numeric, Target
from dperm.schema.findings import ColumnCheck, Finding, PersonCheck, SchemaCheck, share
from dperm.schema.schema import Feature, Schema
from dperm.schema.values import folded

_ROWS_AT_ONCE = 65_536
MANY = 0.05
HALF = 0.5
RARE = 0.05
_FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y")
_KINDS: dict[type, str] = {Numeric: "number", Date: "date", Categorical: "category", Hashed: "text"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Compared:
    """A declared column beside that of the table: the counts, and a column that ``encode`` takes."""

    check: ColumnCheck
    column: Any
    clean: Any
    codes: NDArray[np.int64] | None = None


def check_schema(table: Any, schema: Schema, *, names: Sequence[str] | None = None) -> SchemaCheck:
    """How well a table fits a schema. NOT PRIVATE: for the owner of the data alone, and charged to no ledger.

    Parameters
    ----------
    table : PyArrow table, pandas or polars frame, or dictionary of columns
        Numbers, dates and truth values may come as text, as in a file that was read with ``as_text``: cells that are
        not of the declared kind are counted.
    schema : Schema
    names : sequence of str, optional
        All columns of the file, where the table holds some of them only.

    Returns
    -------
    SchemaCheck
        Counts, never a value, and what they suggest. ``str`` of it is a report.
    """
    items = (*schema.features, schema.target)
    held = _names(table)
    known = list(names) if names is not None else held
    present = [item.name for item in items if item.name in held]
    if not present:
        raise InvalidInput(
            "The table has none of the columns that the schema declares; is it the right file?"
        )
    columns = arrow_columns(table, present)
    n_rows = len(columns[present[0]])
    compared = [_compare(item, columns.get(item.name), n_rows) for item in items]
    target = compared[-1]
    lengths = _lengths(schema, compared[:-1], n_rows)
    labels = schema.classes
    persons = (
        None
        if schema.person is None
        else check_persons(schema.person, table if schema.person in held else None)
    )
    of_persons = () if persons is None else person_findings(persons, n_rows, known)
    of_columns = (
        finding
        for item, found in zip(items, compared, strict=True)
        for finding in column_findings(item, found, n_rows, known)
    )
    return SchemaCheck(
        n_rows=n_rows,
        columns=tuple(found.check for found in compared),
        classes={}
        if target.codes is None
        else {str(label): int((target.codes == place).sum()) for place, label in enumerate(labels)},
        undeclared=tuple(name for name in known if name not in schema.column_names),
        shortened=int((lengths > schema.norm_share).sum()),
        typical_length=float(np.median(lengths)) if n_rows else 0.0,
        findings=(*of_columns, *table_findings(schema, target.codes, n_rows), *of_persons),
        persons=persons,
    )


def _names(table: Any) -> list[str]:
    import pyarrow as pa

    table = check_columns(table, [])
    if isinstance(table, pa.Table | pa.RecordBatch):
        return list(table.schema.names)
    return [str(name) for name in (table if isinstance(table, Mapping) else table.columns)]


def _compare(item: Feature | Target, column: Any, n_rows: int) -> Compared:
    import pyarrow as pa

    kind = "target" if isinstance(item, Target) else _KINDS[type(item)]
    common: dict[str, Any] = {"name": item.name, "kind": kind, "declared": item.in_words()}
    if column is None:
        return Compared(
            check=ColumnCheck(**common, absent=True), column=None, clean=pa.chunked_array([pa.nulls(n_rows)])
        )
    if isinstance(item, Hashed):
        return _compare_hashed(item, column, common)
    if isinstance(item, Categorical) or (isinstance(item, Target) and item.classes):
        return _compare_levels(item, column, common)
    return _compare_numbers(item, column, common)


def _compare_numbers(item: Numeric | Date | Target, column: Any, common: dict[str, Any]) -> Compared:
    import pyarrow as pa

    if isinstance(item, Date):
        days = item.parts[0]
        assert isinstance(days, Numeric)
        values, unread = item.days_or_nothing(column)
        ends: tuple[float, float] | None = days.range
        moments = (np.clip(np.nan_to_num(values), -1e8, 1e8) * 86_400_000_000).astype(np.int64)
        clean = pa.array(moments, mask=np.isnan(values)).cast(pa.timestamp("us"))
    else:
        values, unread = tolerant_numbers(column, item.missing)
        ends = item.range
        clean = pa.array(values, from_pandas=True)
    low, high = (-np.inf, np.inf) if ends is None else ends
    codes = None
    if isinstance(item, Target) and item.threshold is not None:
        codes = np.where(np.isnan(values), MISSING, (values > item.threshold).astype(np.int64))
    check = ColumnCheck(
        **common,
        distinct=len(np.unique(values[~np.isnan(values)])),
        missing=int((np.isnan(values) & ~unread).sum()),
        below=int((values < low).sum()),
        above=int((values > high).sum()),
        unread=int(unread.sum()),
    )
    return Compared(check=check, column=column, clean=pa.chunked_array([clean]), codes=codes)


def _compare_levels(item: Categorical | Target, column: Any, common: dict[str, Any]) -> Compared:
    import pyarrow as pa

    rest = isinstance(item, Target) and item.rest
    values, marks = item.categories, item.missing
    declared = declared_kind(values)
    unread = np.zeros(len(column), bool)
    clean = column
    if declared == NUMBERS:
        numbers, unread = tolerant_numbers(column, marks)
        clean = pa.chunked_array([pa.array(numbers, from_pandas=True)])
    elif declared == TRUTH_VALUES:
        truth, unread = tolerant_truth(column)
        clean = pa.chunked_array([pa.array(truth, from_pandas=True).cast(pa.bool_())])
    elif kind_of(column) not in (TEXT, None):
        unread = ~column.is_null().to_numpy()
        clean = pa.chunked_array([pa.nulls(len(column), pa.string())])
    codes = as_codes("", clean, values[: -1 if rest else None], marks if declared == TEXT else (), item.fold)
    empty = (codes == UNKNOWN) & blank_cells(clean)
    codes[empty & (not rest)] = MISSING
    if rest:
        codes[codes == UNKNOWN] = len(values) - 1
    kept = clean.filter(pa.array((codes != MISSING) & ~unread))
    check = ColumnCheck(
        **common,
        distinct=distinct(kept),
        missing=int(((codes == MISSING) & ~unread).sum()),
        unknown=int((codes == UNKNOWN).sum()),
        unread=int(unread.sum()),
    )
    return Compared(check=check, column=column, clean=clean, codes=codes)


def _compare_hashed(item: Hashed, column: Any, common: dict[str, Any]) -> Compared:
    import pyarrow as pa
    import pyarrow.compute as pc

    refused = False
    try:
        item.check_column(column)
    except InvalidInput:
        refused = True
    missing = column.is_null().to_numpy()
    if refused:
        check = ColumnCheck(**common, missing=int(missing.sum()), unread=int((~missing).sum()))
        return Compared(check=check, column=column, clean=pa.chunked_array([pa.nulls(len(column))]))
    if kind_of(column) == TEXT:
        marks = pa.array(item.missing, type=column.type)
        missing = (
            missing | blank_cells(column) | pc.is_in(column, value_set=marks).fill_null(False).to_numpy()
        )
    check = ColumnCheck(
        **common, missing=int(missing.sum()), distinct=distinct(column.filter(pa.array(~missing)))
    )
    return Compared(check=check, column=column, clean=column)


def _lengths(schema: Schema, compared: Sequence[Compared], n_rows: int) -> NDArray[np.float64]:
    """The length of each row as a share of the longest possible one."""
    features = [
        replace(feature, format="", missing=()) if isinstance(feature, Date) else feature
        for feature in schema.features
    ]
    whole = replace(schema, features=tuple(features), norm_share=1.0)
    lengths = np.empty(n_rows)
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        part = {found.check.name: found.clean.slice(start, _ROWS_AT_ONCE) for found in compared}
        rows = encode(part, whole)
        lengths[start : start + len(rows)] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return lengths


def column_findings(
    item: Feature | Target, compared: Compared, n_rows: int, names: Sequence[str]
) -> Iterator[Finding]:
    """What looks wrong about one column, and what is worth knowing."""
    check, column, codes = compared.check, compared.column, compared.codes
    is_target = isinstance(item, Target)

    def finding(text: str, wrong: bool = True) -> Finding:
        return Finding(column=item.name, text=text, wrong=wrong)

    if check.absent:
        close = difflib.get_close_matches(item.name, names, 1)
        meant = f" Is {close[0]!r} meant?" if close else " Correct the name or leave it out of the schema."
        yield finding(f"the table has no such column.{meant}", not is_target or bool(close))
        return
    if n_rows == 0:
        return
    if check.unread:
        yield finding(f"{share(check.unread, n_rows)} of the cells are {_unread(item, column)}")
    outside = check.below + check.above
    for count, side in ((check.below, "below"), (check.above, "above")):
        if count > MANY * n_rows:
            units = ": are the units right?" if count > HALF * n_rows else " and are moved to its end."
            yield finding(
                f"{share(count, n_rows)} of the values are {side} the range{units}", count > HALF * n_rows
            )
    if check.unknown:
        yield from _unknown(item, check, column, n_rows)
    if is_target and check.missing:
        yield finding(f"{share(check.missing, n_rows)} of the labels are missing. Leave such rows out.")
    elif check.missing > HALF * n_rows:
        yield finding(f"{share(check.missing, n_rows)} of the values are missing.", check.missing == n_rows)
    elif (
        check.missing
        and isinstance(item, Numeric | Date)
        and not item.indicator
        and check.missing > MANY * n_rows
    ):
        yield finding(
            f"{share(check.missing, n_rows)} of the values are missing; indicator = true would tell the model.",
            False,
        )
    if check.distinct == 1 and n_rows > 1 and not (check.missing or check.unread):
        yield finding("every row has the same value: it adds noise to a model and nothing else.")
    elif check.distinct == n_rows > 20 and isinstance(item, Categorical | Hashed):
        yield finding("no two rows have the same value: is it an identifier? Then leave it out.")
    if codes is not None and not isinstance(item, Target) and outside == 0:
        yield from _unused(item, codes)


def _unread(item: Feature | Target, column: Any) -> str:
    """What cells are that cannot be read, and the way out."""
    found = kind_of(column)
    if isinstance(item, Target):
        return (
            "not of the declared kind. Declare classes = [...] as they are written, or a range for numbers."
        )
    if found not in (TEXT, None):
        return {
            DATES: "dates. Declare date = [first, last].",
            NUMBERS: "numbers. Declare range = [low, high], or categories that are whole numbers.",
        }.get(str(found), f"{found}. Change the declaration.")
    if isinstance(item, Date):
        mine = _dated(item.format)
        dates = {form: counted(column, _also(_dated(form), mine)) for form in _FORMATS}
        form = max(_FORMATS, key=dates.__getitem__)
        way = (
            f'format = "{form}" would read some or all.' if dates[form] else "List their marks under missing."
        )
        return f"text that is no date. {way}"
    if isinstance(item, Categorical) and declared_kind(item.categories) != NUMBERS:
        return "neither true nor false. Declare the categories as they are written."
    if counted(column, lambda text: number_of(text.strip().replace(",", ".", 1)) is not None and "," in text):
        return 'numbers with a decimal comma, or text. Give [file] decimal = ",".'
    if any(counted(column, _dated(form)) for form in ("", *_FORMATS)):
        return "dates. Declare date = [first, last]."
    return "text that is no number. List marks of a missing value under missing, or declare categories or hashed."


def _dated(form: str) -> Callable[[str], bool]:
    return lambda text: not isnan(day_of(text, form))


def _also(read: Callable[[str], bool], already: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: read(text) and not already(text)


def _unknown(item: Feature | Target, check: ColumnCheck, column: Any, n_rows: int) -> Iterator[Finding]:
    """Values that are no declared category, and whether folding would help."""
    is_target = isinstance(item, Target)
    if not isinstance(item, Categorical | Target):
        return
    values = item.categories
    words = "labels are no declared class" if is_target else "values are no declared category"
    unknown = f"{share(check.unknown, n_rows)} of the {words}"
    if declared_kind(values) == TEXT and not item.fold and kind_of(column) == TEXT:
        still = (as_codes("", column, values, fold=True) == UNKNOWN) & ~blank_cells(column)
        helped = check.unknown - int(still.sum())
        if helped > 0:
            way = f". fold = true would match {share(helped, n_rows)}: only case or blanks differ."
            yield Finding(column=item.name, text=f"{unknown}{way}", wrong=True)
            return
    many = check.unknown > MANY * n_rows
    way = ": are they spelled as in the file?" if many else " and count as none."
    if is_target:
        way = ": are they spelled as in the file? Or leave such rows out, or give rest = true."
    yield Finding(column=item.name, text=f"{unknown}{way}", wrong=is_target or many)


def _unused(item: Feature, codes: NDArray[np.int64]) -> Iterator[Finding]:
    assert isinstance(item, Categorical)
    k = len(item.categories)
    unused = k - len(np.unique(codes[codes >= 0]))
    if 0 < unused < k:
        yield Finding(column=item.name, text=f"{unused} of {k} categories never occur.", wrong=False)


def table_findings(schema: Schema, codes: NDArray[np.int64] | None, n_rows: int) -> Iterator[Finding]:
    """What is worth knowing of the whole table."""
    if n_rows == 0:
        yield Finding(column="", text="the table holds no rows.", wrong=True)
        return
    if codes is None or not schema.classes:
        return
    counts = [int((codes == place).sum()) for place in range(len(schema.classes))]
    name = schema.target.name
    if min(counts) == 0:
        yield Finding(column=name, text="a declared class never occurs.", wrong=True)
    elif min(counts) < RARE * n_rows:
        text = f"the rarest class has {share(min(counts), n_rows)} of the rows: accuracy will say little, AUC more."
        yield Finding(column=name, text=text, wrong=False)


def check_persons(name: str, table: Any) -> PersonCheck:
    """Counts about the column of ids; ``table`` is None where it has no such column."""
    if table is None:
        return PersonCheck(name=name, absent=True)
    try:
        found = person_column(table, name)
    except InvalidInput:
        return PersonCheck(name=name, unread=True)
    counts = np.bincount(found.person, minlength=len(found.names))
    given = np.array([name is not None for name in found.names], dtype=bool)
    spellings = {folded(name) for name in found.names if name is not None}
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
        yield finding(
            f"{share(check.missing, n_rows)} of the rows have no id of a person, which fit refuses. Leave them out, "
            "or give each an id of its own."
        )
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
