"""Categorical rows as they came in, before they are opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dperm.codes import CodedTable
from dperm.engine.base.rows import InMemoryRows, OpenRequest, Rows
from dperm.engine.dense.rows import Table
from dperm.row_map import RowMap
from dperm.typing import Floats, Integers

if TYPE_CHECKING:
    from dperm.engine.base.engine import Engine
    from dperm.engine.categorical.stored import StoredCategorical

_DENSE_AT_MOST = 2**26  # numbers


class CategoricalRows(InMemoryRows):
    """Rows of a ``CodedTable``.

    Parameters
    ----------
    X : CodedTable
        It may hold fewer rows than ``n_rows``.
    y, row_map, n_rows, mask
        As for all ``InMemoryRows``.
    """

    name: ClassVar[str] = "categorical"
    opens = ("dperm.CodedTable",)

    def __init__(self, X: CodedTable, y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None) -> None:
        self._X = X
        super().__init__(X.shape, y, row_map=row_map, n_rows=n_rows, mask=mask)

    @classmethod
    def accepts(cls, X: Any) -> bool:
        return isinstance(X, CodedTable)

    @classmethod
    def margins_of(cls, X: Any, row_map: RowMap, coefficients: Floats, constant: Floats | float) -> Floats:
        shape = (len(X), *coefficients.shape[1:])
        if len(X) == 0:
            return np.zeros(shape)
        flat, bound = coefficients.reshape(len(coefficients), -1), RowMap(x_norm=X.layout.reach)
        added: Any = constant
        if not row_map.linear:
            bound = replace(row_map, intercept=0.0, released=())
            flat = bound.weights(flat, 0.0)
            added = constant if row_map.centre is None else row_map.centre @ coefficients + constant
        engine = cls(X, np.ones(len(X)), row_map=bound, n_rows=len(X)).open(precise=True)
        return np.asarray(engine.margins(flat).reshape(shape) + added)

    def mapped_per_model(self, maps: Sequence[RowMap]) -> Rows | None:
        """As floats, where those fit easily by their public number: then all models share the passes."""
        if self._n_rows * self._shape[1] > _DENSE_AT_MOST:
            return None
        return self._as_table().mapped_per_model(maps)

    def _as_table(self) -> Table:
        table = Table(self._X.toarray(), self._y, row_map=self._map, n_rows=self._n_rows, mask=self._mask)
        return table.noting(self._used)

    def _stored(self, request: OpenRequest) -> StoredCategorical:
        """Bound the rows by a factor each. The codes are copied only where an order, or empty rows, ask for it."""
        from dperm.engine.categorical.stored import bounded

        empty = request.position[len(self._X) :]
        return bounded(self._placed(request.position), self._map, self._moves(), empty, request.common)

    def _engine(self, request: OpenRequest) -> Engine:
        """Where the public map would make parts of rows so large that they cancel, the rows are opened as floats."""
        from dperm.engine.categorical.engine import CategoricalEngine

        rows = self._stored(request)
        if not rows.precision.suffices(rows.n_columns):
            return self._as_table()._engine(request)
        return CategoricalEngine(rows, self._used, precise=request.precise, threads=request.threads)

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
