"""Dense rows that are read where they lie, a memory map above all: mapped on the way through a pass, never copied."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.engine.base.rows import InMemoryRows, OpenRequest
from dperm.engine.dense.rows import Table
from dperm.engine.registry import register_engine
from dperm.errors import InvalidInput
from dperm.processors import in_order, split
from dperm.row_map import RowMap
from dperm.typing import Floats, Integers

if TYPE_CHECKING:
    from dperm.engine.base.engine import Engine
    from dperm.engine.dense.mapped_engine import StoredMapped

_LIMIT = 2.0**100  # of x_norm and the intercept, either way
_FARTHEST = 256.0  # of x_norm: the longest centre, in units of the scale
_COPIED_AT_MOST = 2**26  # numbers
_AT_ONCE = 2**20  # numbers, at least, in the part of a thread
_PREDICTED_AT_ONCE = 4096


@register_engine
class MappedRows(InMemoryRows):
    """Rows in a two-dimensional NumPy memory map. Opening them keeps four numbers a row and copies none of X.

    Parameters
    ----------
    X : numpy.memmap of shape (rows, features)
        Of whole numbers, float32 or float64, none of them above 2^128 in size.
    y, row_map, n_rows, mask
        As for all ``InMemoryRows``.
    """

    name: ClassVar[str] = "mapped"
    opens = ("numpy.memmap",)

    def __init__(self, X: Any, y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None) -> None:
        self._X = np.asarray(X)[:]
        self._X.flags.writeable = False  # one compiled signature for writable and read-only maps
        super().__init__(self._X.shape, y, row_map=row_map, n_rows=n_rows, mask=mask)

    @classmethod
    def accepts(cls, X: Any) -> bool:
        known = isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "iuf" and X.dtype.isnative
        return known and X.dtype != np.float16 and min(X.shape) > 0

    @classmethod
    def margins_of(cls, X: Any, row_map: RowMap, coefficients: Floats, constant: Floats | float) -> Floats:
        blocks = range(0, len(X), _PREDICTED_AT_ONCE)
        margins = [
            row_map.margins(np.asarray(X[first : first + _PREDICTED_AT_ONCE]), coefficients, constant)
            for first in blocks
        ]
        if not all(np.isfinite(part).all() for part in margins):
            raise InvalidInput("Input X contains NaN or infinity.")
        return np.concatenate(margins)

    def _stored(self, request: OpenRequest) -> StoredMapped:
        """One pass finds the factors of every row."""
        from dperm.engine.dense.mapped_engine import StoredMapped

        self._check_bounds()
        position, (centre, spread) = request.position, self._moves()
        rounding = 0.0 if request.precise else 2.0**-24
        length, lift, inverse_norm = self._factors(position, centre, spread, rounding, request.threads)
        return StoredMapped(
            X=self._X,
            length=length,
            lift=lift,
            index=self._index(position),
            centre=centre,
            spread=spread,
            constant=self._map.intercept,
            inverse_norm=inverse_norm,
            **request.common,
        )

    def _engine(self, request: OpenRequest) -> Engine:
        """Where few columns have a far centre, and all numbers fit easily by their public number, rows are copied.

        Their margins are then precise enough.
        """
        columns = self._shape[1] + (self._map.intercept > 0)
        far = self._map.moves and 3 + farthest(self._map) > columns
        if far and self._n_rows * columns <= _COPIED_AT_MOST:
            table = Table(self._X, self._y, row_map=self._map, n_rows=self._n_rows, mask=self._mask)
            return table.noting(self._used)._engine(request)
        from dperm.engine.dense.mapped_engine import MappedEngine

        rows = self._stored(request)
        return MappedEngine(rows, self._used, precise=request.precise, threads=request.threads)

    def _check_bounds(self) -> None:
        """Refuse bounds and moves for which the slack of ``_factors`` would not do; all of them are public."""
        for name, size in (("x_norm", self._map.x_norm), ("intercept", self._map.intercept or 1.0)):
            if not 1 / _LIMIT <= size <= _LIMIT:
                raise InvalidInput(
                    f"{name} must lie between {1 / _LIMIT:.3g} and {_LIMIT:.3g} for rows in a memory map; got {size!r}."
                )
        scale = self._map.scale
        if scale is not None and not 1 / _LIMIT <= scale.min() <= scale.max() <= _LIMIT:
            raise InvalidInput("the scale of the row map is too small or too large for rows in a memory map.")
        if farthest(self._map) > _FARTHEST:
            raise InvalidInput(
                "the centre of the row map is so far from 0, in units of its scale, that rows in a memory map cannot "
                "be moved by it exactly enough. Give rows of which 0 is nearer to the middle."
            )

    def _factors(
        self, position: Integers, centre: Floats, spread: Floats, rounding: float, threads: int
    ) -> tuple[Floats, Floats | None, Floats]:
        r"""a, f and a lower bound on 1 / norm for every position.

        Why z = a (x - f c) / s keeps the bound. Let v be the moved row as computed in float64, S the computed sum of
        its p squares, u = 2^-53, r = ``rounding`` and C = ||c / s|| / x_norm <= 256. Each number of v takes three
        roundings, so v is within 4 u (||v|| + 2 C x_norm) of the exact moved row, and S >= (1 - gamma_p) ||v||^2.

        - A row keeps its length only if S slack <= x_norm^2 as computed,
          slack = 1 + 4 r + 4 (p + 8) u + 16 (1 + 2 C) u.
        - Any other is multiplied by x_norm / sqrt(S) shrink, shrink = 1 - 2 r - (p + 16) u - 8 (1 + 2 C) u. Then a is
          the product of two factors and f the inverse of the first, which moves z by 2 u (1 + 2 C) x_norm.

        Both leave ||z|| (1 + r) <= x_norm: with r = 2^-24 a row rounded to float32 keeps the bound.
        Precise rows are not rounded.
        """
        from dperm.engine.dense.mapped_engine import LARGEST
        from dperm.engine.dense.mapped_kernels import row_factors

        p, moved = self._shape[1], 1 + 2 * farthest(self._map)
        slack = 1 + 4 * rounding + (4 * (p + 8) + 16 * moved) * UNIT_ROUNDOFF
        shrink = 1 - 2 * rounding - (p + 16 + 8 * moved) * UNIT_ROUNDOFF
        # No norm is taken as smaller than this, so that neither underflow nor cancellation can spoil the clip.
        floor = p * 2.0**-200 + 8 * moved * UNIT_ROUNDOFF * self._map.x_norm * (centre.size > 0)
        bounds = (self._map.x_norm, self._map.intercept, slack, shrink, floor)
        length, inverse_norm = np.zeros(self._n_rows), np.full(self._n_rows, 1 / floor)
        lift = np.zeros(self._n_rows) if centre.any() else None
        found = (length, lift, inverse_norm)

        def look(part: tuple[int, int]) -> int:
            return int(row_factors(self._X, *part, position, centre, spread, bounds, LARGEST, *found))

        n = self._shape[0]
        if sum(in_order(look, split(0, n, n * p / _AT_ONCE), threads)):
            raise InvalidInput(
                "X holds NaN, infinity or numbers above 2^128 in size. Fill, drop or clip them first, by a rule that "
                "does not depend on the other rows."
            )
        return found

    def _index(self, position: Integers) -> Integers | None:
        rows = self._shape[0]
        if rows == self._n_rows and (position == np.arange(rows)).all():
            return None
        index = np.zeros(self._n_rows, np.int64)  # an empty position reads row 0 and multiplies it by 0
        index[position[:rows]] = np.arange(rows)
        return index


def farthest(row_map: RowMap) -> float:
    """||c / s|| in x_norm, from public numbers."""
    if row_map.centre is None:
        return 0.0
    scaled = row_map.centre if row_map.scale is None else row_map.centre / row_map.scale
    return math.sqrt(float(scaled @ scaled)) / row_map.x_norm * (1 + 2.0**-40)
