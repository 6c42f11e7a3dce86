"""Rows with their mask and declared bounds, wherever the rows are: what can be said before any is read."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from dperm.arithmetic import Arithmetic
from dperm.engine.base import Integers, Rows
from dperm.engine.members import Members
from dperm.errors import InvalidInput
from dperm.problem import Problem
from dperm.row_map import RowMap


class DeclaredRows(Rows):
    """The number of rows, the map, the mask, and the set that collects the arithmetic of passes.

    Parameters
    ----------
    shape : (int, int)
        Rows that there are, and features. The rows up to ``n_rows`` are empty: all zero (the intercept column too)
        with label +1, so their gradient is zero.
    row_map : RowMap
        Longer rows than its public bound are scaled down.
    n_rows : int
        Public number of rows, or capacity.
    mask : bool or 0/1 array of shape (n_rows, K), optional
        Which rows each of K models trains on.
    """

    def __init__(self, shape: tuple[int, int], *, row_map: RowMap, n_rows: int, mask: Any = None) -> None:
        self._shape = shape
        self._declared = self._map = row_map
        self._n_rows = int(n_rows)
        self._mask = None if mask is None else np.asarray(mask)
        self._used: set[Arithmetic] = set()
        self._check_declared()
        self._rows_of_model = self._counted()

    @property
    def n_rows(self) -> int:
        return self._n_rows

    def noting(self, used: set[Arithmetic]) -> Self:
        part = copy(self)
        part._used = used
        return part

    def of_persons(self, members: Members) -> Self:
        if self._mask is not None or members.n_rows != self._n_rows:
            raise InvalidInput("rows of persons train one model, and every row belongs to a person.")
        part = copy(self)
        part.members = members
        return part

    def check_matches(self, problem: Problem, model: int) -> None:
        rows = self._n_rows if self._rows_of_model is None else int(self._rows_of_model[model])
        if self.members is not None:
            rows = self.members.n_persons
        if problem.many_rows != (self.members is not None):
            raise InvalidInput(
                "the plan and the rows do not agree on whether a person may have several rows."
            )
        declared = (problem.x_norm, problem.intercept, problem.n_features, problem.n_rows)
        mine = (self._declared.x_norm, self._declared.intercept, self._shape[1], rows)
        if declared != mine:
            raise InvalidInput(
                "the table's bounds, features or rows are not those of the plan; make both from the same Problem."
            )

    def select(self, models: Sequence[int]) -> Self:
        if self._mask is None:
            return self
        part = copy(self)
        part._mask = self._mask[:, models]
        part._rows_of_model = part._counted()
        return part

    def mapped(self, row_map: RowMap) -> Self:
        part = copy(self)
        part._map = row_map
        return part

    def _counted(self) -> Integers | None:
        return None if self._mask is None else np.asarray(self._mask.sum(axis=0, dtype=np.int64))

    def _check_declared(self) -> None:
        if self._n_rows < 1 or self._shape[0] > self._n_rows:
            raise InvalidInput(
                f"X has more rows than the declared n_rows = {self._n_rows}. Declare a larger n_rows, "
                "chosen without looking at the data."
            )
        if self._mask is not None:
            shape_ok = self._mask.ndim == 2 and len(self._mask) == self._n_rows and self._mask.shape[1] > 0
            if (
                not shape_ok
                or self._mask.dtype.kind not in "biu"
                or ((self._mask != 0) & (self._mask != 1)).any()
            ):
                raise InvalidInput(f"mask must hold 0 and 1 in shape ({self._n_rows}, models).")
