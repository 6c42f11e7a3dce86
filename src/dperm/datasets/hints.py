"""What counts about a column suggest. No hint quotes a value."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.calendar import day_of
from dperm.datasets.columns import DATES, NUMBERS, TEXT, UNKNOWN, as_codes, declared_kind, kind_of
from dperm.datasets.dates import Date
from dperm.datasets.expansion import Feature
from dperm.datasets.features import Categorical
from dperm.datasets.findings import ColumnCheck, Finding, share
from dperm.datasets.hashed import Hashed
from dperm.datasets.numeric import Numeric
from dperm.datasets.schema import Schema
from dperm.datasets.target import Target
from dperm.datasets.tolerant import blank_cells, counted, number_of

MANY = 0.05
HALF = 0.5
MOST = 0.9
RARE = 0.05
_FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y")

Codes = NDArray[np.int64] | None


def column_findings(
    item: Feature | Target, check: ColumnCheck, column: Any, codes: Codes, n_rows: int, names: Sequence[str]
) -> Iterator[Finding]:
    """What looks wrong about one column, and what is worth knowing."""
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
    values = item.classes if isinstance(item, Target) else item.categories
    words = "labels are no declared class" if is_target else "values are no declared category"
    told = f"{share(check.unknown, n_rows)} of the {words}"
    if declared_kind(values) == TEXT and not item.fold and kind_of(column) == TEXT:
        still = (as_codes("", column, values, fold=True) == UNKNOWN) & ~blank_cells(column)
        helped = check.unknown - int(still.sum())
        if helped > 0:
            way = f". fold = true would match {share(helped, n_rows)}: only case or blanks differ."
            yield Finding(column=item.name, text=f"{told}{way}", wrong=True)
            return
    many = check.unknown > MANY * n_rows
    way = ": are they spelled as in the file?" if many else " and count as none."
    if is_target:
        way = ": are they spelled as in the file? Or leave such rows out, or give rest = true."
    yield Finding(column=item.name, text=f"{told}{way}", wrong=is_target or many)


def _unused(item: Feature, codes: NDArray[np.int64]) -> Iterator[Finding]:
    assert isinstance(item, Categorical)
    k = len(item.categories)
    unused = k - len(np.unique(codes[codes >= 0]))
    if 0 < unused < k:
        yield Finding(column=item.name, text=f"{unused} of {k} categories never occur.", wrong=False)


def table_findings(schema: Schema, codes: Codes, n_rows: int) -> Iterator[Finding]:
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
