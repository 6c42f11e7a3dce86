"""Compare a schema with a table, before anything is spent. NOT PRIVATE: what it tells comes from the rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.schema.columns import (
    MISSING,
    NUMBERS,
    TEXT,
    TRUTH_VALUES,
    UNKNOWN,
    arrow_columns,
    as_codes,
    blank_cells,
    check_columns,
    declared_kind,
    distinct,
    kind_of,
    tolerant_numbers,
    tolerant_truth,
)
from dperm.schema.dates import Date
from dperm.schema.encoding import encode
from dperm.schema.features import Categorical, Hashed, Numeric, Target
from dperm.schema.findings import (
    ColumnCheck,
    Finding,
    SchemaCheck,
    check_persons,
    column_findings,
    person_findings,
    table_findings,
)
from dperm.schema.schema import Feature, Schema

_ROWS_AT_ONCE = 65_536
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
    return SchemaCheck(
        n_rows=n_rows,
        columns=tuple(found.check for found in compared),
        classes={}
        if target.codes is None
        else {str(label): int((target.codes == place).sum()) for place, label in enumerate(labels)},
        undeclared=tuple(name for name in known if name not in schema.column_names),
        shortened=int((lengths > schema.norm_share).sum()),
        typical_length=float(np.median(lengths)) if n_rows else 0.0,
        findings=(*_findings(schema, compared, n_rows, known), *of_persons),
        persons=persons,
    )


def _names(table: Any) -> list[str]:
    import pyarrow as pa

    table = check_columns(table, [])
    if isinstance(table, pa.Table | pa.RecordBatch):
        return list(table.schema.names)
    return [str(name) for name in (table if isinstance(table, Mapping) else table.columns)]


def _findings(
    schema: Schema, compared: Sequence[Compared], n_rows: int, names: Sequence[str]
) -> Iterator[Finding]:
    for item, found in zip((*schema.features, schema.target), compared, strict=True):
        yield from column_findings(item, found.check, found.column, found.codes, n_rows, names)
    yield from table_findings(schema, compared[-1].codes, n_rows)


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
        values, unread = tolerant_numbers(column, () if isinstance(item, Target) else item.missing)
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
    values = item.classes if isinstance(item, Target) else item.categories
    marks = () if isinstance(item, Target) else item.missing
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
