"""Coded rows as they came in, and the one pass that bounds them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.codes import CodedTable
from dperm.engine.base import Engine, Floats, Integers
from dperm.engine.code_entries import CodeEntries, CodeFields, rounding_of_squares
from dperm.engine.held import HeldRows
from dperm.engine.reference import ReferenceEngine
from dperm.engine.stored import Stored
from dperm.errors import InvalidInput
from dperm.row_map import RowMap

_ROWS_AT_ONCE = 4096
_LIMIT = 2.0**100  # bounds on rows stay within it, so that factors in float32 and squares have room


@dataclass(frozen=True, repr=False, kw_only=True)
class StoredCoded(Stored):
    r"""Opened coded rows.

    The row is ``inner`` times the entries of its codes and numbers (``entries``) less ``outer`` times ``moved``, in
    exact arithmetic, and the intercept. An empty row has factors of zero, and no intercept.
    """

    table: CodedTable
    fields: CodeFields
    entries: CodeEntries
    moved: Floats
    intercept: float
    inner: NDArray[np.floating[Any]]
    outer: NDArray[np.float32]
    spread: float
    """The most by which parts of a row may exceed the bound on a whole row, so that they cancel."""

    @property
    def n_columns(self) -> int:
        return self.table.shape[1] + (self.intercept > 0)

    def densely(self, first: int, last: int) -> Floats:
        return self.block(first, last, np.dtype(np.float64))

    def block(self, first: int, last: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Some of the rows as an array."""
        from dperm.engine._kernels_coded import densify

        out = np.empty((last - first, self.n_columns), dtype)
        codes, floats = read_only(self.table)
        how = (self.inner, self.outer, self.moved, self.intercept)
        densify(self.fields, self.entries, codes, floats, *how, first, last, out)
        return out

    def _taken(self, index: Integers) -> dict[str, Any]:
        return {"table": self.table.take(index), "inner": self.inner[index], "outer": self.outer[index]}


class CodedRows(HeldRows):
    """Rows of a ``CodedTable``.

    Parameters
    ----------
    X : CodedTable
        It may hold fewer rows than ``n_rows``.
    y, row_map, n_rows, mask
        As for all ``HeldRows``.
    """

    name: ClassVar[str] = "coded"

    def __init__(self, X: CodedTable, y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None) -> None:
        self._X = X
        super().__init__(X.shape, y, row_map=row_map, n_rows=n_rows, mask=mask)

    @classmethod
    def accepts(cls, X: Any) -> bool:
        return isinstance(X, CodedTable)

    @classmethod
    def margins_of(cls, X: Any, row_map: RowMap, coefficients: Floats, constant: Floats | float) -> Floats:
        blocks = [X[first : first + _ROWS_AT_ONCE] for first in range(0, len(X), _ROWS_AT_ONCE)] or [X]
        return np.concatenate([row_map.margins(block.toarray(), coefficients, constant) for block in blocks])

    def _opened(  # type: ignore[override]  # its own options by name
        self,
        position: Integers,
        common: dict[str, Any],
        precise: bool,
        threads: int,
        *,
        engine: str = "coded",
    ) -> Engine:
        """Bound the rows by a factor each. The codes are copied only where an order, or empty rows, ask for it.

        Parameters
        ----------
        precise : bool
            Asks for float64 arithmetic in passes for several models.
        engine : "coded" or "reference"
        """
        rows = self._bounded(self._placed(position), position, common)
        if engine == "reference":
            return ReferenceEngine(rows, self._used)
        if engine == "coded":
            from dperm.engine.coded_engine import CodedEngine

            return CodedEngine(rows, self._used, precise=precise, threads=threads)
        raise InvalidInput(f"engine must be 'coded' or 'reference'; got {engine!r}.")

    def _placed(self, position: Integers) -> CodedTable:
        """The rows in their order; those that are not there are copies of others, until their factors are zero."""
        if len(self._X) == self._n_rows and (position == np.arange(self._n_rows)).all():
            return self._X
        if len(self._X) == 0:
            layout = self._X.layout
            codes = np.zeros((self._n_rows, len(layout.groups)), layout.code_type)
            return CodedTable.from_rows(layout, codes, np.ones((self._n_rows, layout.n_floats), np.float32))
        source = np.empty(self._n_rows, np.int64)
        source[position] = np.arange(self._n_rows) % len(self._X)
        return self._X.take(source)

    def _bounded(self, table: CodedTable, position: Integers, common: dict[str, Any]) -> StoredCoded:
        r"""One pass: refuse codes and numbers that the layout does not know, and find the factors that bound each row.

        Why the bound holds. A row is (g v - f m), v the entries of its codes and m what the map subtracts, both divided
        by the scale. Where no row as it came can be longer than ``x_norm``, the centre is part of the entries and m is
        empty: then q = ||v||^2 is a sum of one number for each code, and of squares. Otherwise g = a f with
        a = min(1, x_norm / ||x||), and q = ||a v - m||^2 = a^2 ||v||^2 - 2 a <v, m> + ||m||^2. In both cases the
        error of the computed q is below the slack, so f is 1 only if q <= x_norm^2, and is otherwise below
        x_norm / sqrt(q) by 2^-22, which is more than its rounding to float32 and that of g.
        """
        from dperm.engine import _kernels_coded as kernels

        layout, x_norm, intercept = table.layout, self._map.x_norm, self._map.intercept
        for bound in (x_norm, intercept or 1.0):
            if not 1 / _LIMIT <= bound <= _LIMIT:
                raise InvalidInput("x_norm and intercept of coded rows must lie between 2^-100 and 2^100.")
        fields, (codes, floats) = CodeFields.of(layout), read_only(table)
        if kernels.out_of_range(fields, codes, floats, len(table)):
            raise InvalidInput("the codes are not those of their layout; encode the table anew.")
        centre, spread = self._moves()
        whole = layout.longest == math.inf and layout.reach <= x_norm
        as_one = whole or not self._map.moves
        entries = CodeEntries.of(layout, centre if as_one else np.empty(0), spread)
        moved = np.empty(0) if as_one else centre / spread
        longest = entries.longest(fields) + float(np.linalg.norm(moved))
        slack = rounding_of_squares(layout.n_columns, longest)
        squares = _squares(fields, entries, table)
        own: Floats | None = None
        if not as_one:
            own = self._shortened(fields, table)
            weights = np.zeros(fields.table_size)
            base = kernels.fill_table(fields, entries, moved, weights)
            along = np.empty(len(table))
            kernels.products(fields, entries, codes, floats, weights, base, moved, along)
            squares = np.maximum(own * own * squares - 2 * own * along + moved @ moved, 0.0)
        outer, inverse_norm = np.empty(len(table), np.float32), np.empty(len(table))
        limit = min(x_norm, layout.longest) if not self._map.moves else x_norm
        floor = layout.n_columns * 2.0**-120
        kernels.bound_factors(squares, slack, limit, intercept, floor, outer, inverse_norm)
        empty = position[len(self._X) :]
        outer[empty], inverse_norm[empty] = 0.0, 1 / floor
        return StoredCoded(
            table=table,
            fields=fields,
            entries=entries,
            moved=moved,
            intercept=intercept,
            inner=outer if own is None else own * outer,
            outer=outer,
            inverse_norm=inverse_norm,
            spread=longest / x_norm,
            **common,
        )

    def _shortened(self, fields: CodeFields, table: CodedTable) -> Floats:
        """What the first bound multiplies each row by."""
        limit = min(table.layout.longest, self._map.x_norm)
        entries = CodeEntries.of(table.layout, np.empty(0), np.empty(0))
        return np.asarray(limit / np.sqrt(np.maximum(_squares(fields, entries, table), limit * limit)))


def _squares(fields: CodeFields, entries: CodeEntries, table: CodedTable) -> Floats:
    """Squared norm of every row before its factors."""
    from dperm.engine import _kernels_coded as kernels

    weights, crossed = np.zeros((2, fields.table_size))
    kernels.fill_squares(fields, entries, weights, crossed)
    out = np.empty(len(table))
    kernels.squares(fields, entries, *read_only(table), weights, crossed, out)
    return out


def read_only(table: CodedTable) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Codes and floats as plain arrays: one compiled signature for memory, and for maps that nobody may write to."""
    arrays = np.asarray(table.codes)[:], np.asarray(table.floats)[:]
    for array in arrays:
        array.flags.writeable = False
    return arrays
