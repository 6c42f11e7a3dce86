"""The engine for sparse rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import FLOAT64, Arithmetic
from dperm.engine.base.blocked import BlockedEngine, compiled_kind, one_clip, parameters
from dperm.engine.base.engine import Wanted
from dperm.engine.base.formulas import Formulas
from dperm.engine.base.intrinsics import LANES
from dperm.engine.base.rows import Stored
from dperm.engine.base.vertices import VertexPass
from dperm.engine.sparse import kernels
from dperm.errors import Unsupported
from dperm.losses import Loss
from dperm.processors import Part, split
from dperm.typing import Array, Floats, Integers

WIDEST_MATRIX = 4096  # columns for which a matrix of all pairs is computed
FARTHEST = 8.0  # reach of a centre up to which sums are cut so finely that they are as precise as without one
_ENTRIES = 64  # of a row, where its public number is asked for: how many there are is not public
_SLOWEST_DECAY = 1 / 16
_WORK = 2**22  # entries that keep a thread busy for some milliseconds


@dataclass(frozen=True, repr=False, kw_only=True)
class StoredSparse(Stored):
    """Row i is its entries in CSR minus ``far[i] * centre``, and ``constant[i]`` in a last column.

    ``data``, ``index``, ``edges``  the entries (float32 or float64), their columns, and where each row begins;
    ``far``                         at most 1, empty where there is no centre;
    ``constant``                    empty without ``has_constant``, that is without an intercept;
    ``centre``                      public, empty where there is none;
    ``reach``                       bound on (norm of the entries + norm of the centre) / ``x_norm``, a public number.
    """

    data: NDArray[np.floating[Any]]
    index: NDArray[np.int32]
    edges: Integers
    far: Floats
    constant: Floats
    centre: Floats
    n_features: int
    has_constant: bool
    reach: float

    @property
    def n_columns(self) -> int:
        return self.n_features + self.has_constant

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """What the kernels read of the rows."""
        return self.data, self.index, self.edges, self.far, self.constant

    def densely(self, first: int, last: int) -> Floats:
        out = np.zeros((last - first, self.n_columns))
        kernels.densify(self.columns, self.centre, first, last, out)
        return out

    def squared(self) -> StoredSparse:
        """Rows that hold the squares of everything that these hold."""
        wide = self.data.astype(np.float64)
        return replace(self, data=wide * wide, far=self.far**2, constant=self.constant**2)

    def _taken(self, index: Integers) -> dict[str, Any]:
        counts = np.diff(self.edges)[index]
        edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        entries = np.repeat(self.edges[index] - edges[:-1], counts) + np.arange(edges[-1])
        return {
            "data": self.data[entries],
            "index": self.index[entries],
            "edges": edges,
            "far": self.far[index] if self.centre.size else self.far,
            "constant": self.constant[index] if self.has_constant else self.constant,
        }


class ChunkedSum:
    """Sums over rows for several models: at most ``chunk`` rows are added up before the rest is added to the whole."""

    def __init__(self, shape: tuple[int, int], chunk: int) -> None:
        self._whole, self._some = np.zeros(shape), np.zeros(shape)
        self._chunk, self._rows = chunk, 0

    def add(self, rows: StoredSparse, part: Part, factors: Array) -> None:
        """Add the rows of a part, each times its factors."""
        first, last = part
        while first < last:
            stop = min(last, first + self._chunk - self._rows)
            own = factors[first - part[0] : stop - part[0]]
            kernels.add_back(rows.columns, own, first, stop, self._some)
            self._rows += stop - first
            first = stop
            if self._rows == self._chunk:
                self.settled()

    def settled(self) -> Floats:
        """All that was added up."""
        if self._rows:
            kernels.settle(self._some, self._whole)
            self._rows = 0
        return self._whole

    def __iadd__(self, other: ChunkedSum) -> ChunkedSum:
        self._whole = self.settled()
        self._whole += other.settled()
        return self


class SparseEngine(BlockedEngine):
    r"""One model: weight and sum of a column side by side, one read of the rows. Several: eight at a time.

    All arithmetic is float64. A centre is never subtracted from an entry: a margin is
    :math:`\langle e_i, w \rangle - f_i \langle d, w \rangle` with the entries e, the public d = c / s and f, and a
    gradient is folded back in the same way.

    Guarantee
    ---------
    - Rows are summed in chunks, and chunks are added in their order. Where a chunk ends follows from the numbers of
      rows and columns and from the centre, all public. What is computed for a row depends on that row, on its position
      and on public weights only, so chunks without a changed row are the same bit for bit.
    - With L = n / 64 + 2048, a sum takes at most 2 L / r additions in a row, where r = ``reach`` bounds
      (||e|| + ||d||) / ``x_norm``. Its error is then at most 2 L u sum_i |slope_i| ``x_norm``, u = 2^-53, for r up to
      8. Beyond that a larger ``sum`` is stated.
    - A margin takes at most p / 4 + 6 roundings of the entries and p / 64 + 68 of the centre, or p + 4 of either if
      that is less. Where these, times the norms, are above 2 p ``x_norm`` a larger ``margin`` is stated.
    - An empty row adds exactly zero.
    """

    widest_hessian = 256
    _rows: StoredSparse

    def arithmetic(self, n_models: int) -> Arithmetic:
        return arithmetic_at(self._rows.reach, self.n_columns, self.n_rows)

    def _load(self, first: int, last: int, dtype: np.dtype[Any]) -> Part:
        return first, last

    def _margins_into(self, block: Part, weights: Array, out: Array) -> None:
        kernels.margins_of_models(self._rows.columns, weights, *block, out)

    def _add_back(self, block: Part, slopes: Array, total: ChunkedSum) -> None:
        total.add(self._rows, block, slopes)

    def _laid_out(self, weights: Array) -> Array:
        n_features = self._rows.n_features
        laid_out = np.empty((n_features + 2, weights.shape[1]))
        laid_out[: len(weights)] = weights
        laid_out[len(weights) : -1] = 0.0
        laid_out[-1] = self._offset(weights[:n_features])
        return laid_out

    def _offset(self, features: Array) -> Floats:
        """What a centre adds to the margin of a row with ``far`` = 1."""
        centre = self._rows.centre
        offset = np.zeros(features.shape[1])
        if centre.size:
            kernels.products(centre, np.ascontiguousarray(features), offset)
        return -offset

    def _blank(self, weights: Array) -> ChunkedSum:
        return ChunkedSum((self._rows.n_features + 2, weights.shape[1]), self._chunk(1))

    def _folded(self, total: ChunkedSum | Floats) -> Floats:
        sums = total.settled() if isinstance(total, ChunkedSum) else total
        centre, n_features = self._rows.centre, self._rows.n_features
        if centre.size:
            sums[:n_features] -= centre[:, None] * sums[-1]
        return sums[: self.n_columns]

    def _spare(self, columns: int) -> int:
        return -columns % LANES

    def _parts(self, first: int, last: int, width: int) -> list[Part]:
        return self._fused_parts(first, last)

    def _chunk(self, power: int) -> int:
        """Rows whose sum is one chain of additions: power 1 for sums of rows, 2 for those of squares."""
        additions, reach = _additions(self.n_rows), min(self._rows.reach, FARTHEST)
        return int(1.9 * additions) if reach <= 1 else max(64, int(additions / reach**power))

    def _one_model(
        self, loss: Loss, W: Floats, first: int, last: int, wanted: Wanted
    ) -> tuple[Floats, Floats] | None:
        kind = compiled_kind(loss)
        if kind is None:
            return None
        rows, n_features = self._rows, self._rows.n_features
        bound = one_clip(wanted, 1, W.dtype)
        w, offsets = np.ascontiguousarray(W[:n_features, 0]), np.zeros(2)
        offsets[: W.shape[0] - n_features] = W[n_features:, 0]
        offsets[1] = self._offset(W[:n_features])[0]
        settings = (self._chunk(1), kind, parameters(loss), bound, (wanted.value, wanted.gradient))

        def pass_over(part: Part) -> tuple[Floats, Floats]:
            total, sums = np.zeros(n_features), np.zeros(3)
            kernels.one_model(rows.columns, self._labels, w, offsets, *part, *settings, total, sums)
            return total, sums

        total, sums = self._sum_of_parts(pass_over, self._fused_parts(first, last))
        gradient = self._folded(np.concatenate([total, sums[1:]])[:, None])
        return sums[:1], np.ascontiguousarray(gradient)

    def _fused_parts(self, first: int, last: int) -> list[Part]:
        """For threads. Each adds up a vector of its own, so the rows of one should hold many more entries than that."""
        n = last - first
        most = min(n * _ENTRIES / _WORK, n * _ENTRIES / (4 * self.n_columns), 16)
        return split(first, last, most)

    @property
    def _labels(self) -> tuple[NDArray[Any], ...]:
        rows = self._rows
        return rows.y, rows.inverse_norm, rows.known_mask

    def _one_model_epoch(
        self, w: Floats, schedule: list[Any], kind: Formulas, loss: Loss, keep_sum: bool, total: Floats
    ) -> bool:
        """Where batches are small for the number of columns, by public numbers, a step moves only what it touches.

        Each step then rounds a weight and its sum as a plain one does, up to a factor 1 / SMALLEST_SCALE.
        """
        _, decay, rate = schedule
        small = self.n_rows / len(rate) * _ENTRIES < self.n_columns
        if self._rows.centre.size or not small or decay.min() < _SLOWEST_DECAY:
            return False
        settings = (kind, parameters(loss), keep_sum, total)
        kernels.one_model_epoch(self._rows.columns, self._labels, w, *schedule, *settings)
        return True

    def vertex_pass(self, loss: Loss, model: int, grid_exponent: int, block: int) -> VertexPass:
        rows = self._rows
        if rows.centre.size:
            raise Unsupported("old slopes are not kept for sparse rows with a centre.")
        self._used.add(FLOAT64)
        entries = (rows.data, rows.index, rows.edges, rows.constant)
        return VertexPass(rows, entries, loss, model, grid_exponent, block)

    def _power_sums(self, power: int) -> Floats:
        rows = self._rows
        mask = np.ones((self.n_rows, 1)) if rows.mask is None else rows.mask.astype(np.float64)
        if power == 1:
            return self._folded(self._weighted(rows, mask, 1))
        total = self._weighted(rows.squared(), mask, 2)
        centre, n_features = rows.centre[:, None], rows.n_features
        if centre.size:
            cross = self._weighted(rows, mask * rows.far[:, None], 2)[:n_features]
            total[:n_features] += centre * (centre * total[-1] - 2 * cross)
        return total[: self.n_columns]

    def _weighted(self, rows: StoredSparse, factors: Floats, power: int) -> Floats:
        """Sum of the rows times each column of factors, as ``_add_back`` lays it out."""

        def pass_over(part: Part) -> tuple[ChunkedSum]:
            total = ChunkedSum((rows.n_features + 2, factors.shape[1]), self._chunk(power))
            total.add(rows, part, factors[part[0] : part[1]])
            return (total,)

        (whole,) = self._sum_of_parts(pass_over, self._fused_parts(0, self.n_rows))
        settled: Floats = whole.settled()
        return settled

    def _grams(self, n_models: int, seen: Callable[[Floats, int, int], Iterator[Floats]]) -> Floats:
        if self.n_columns > WIDEST_MATRIX:
            raise Unsupported(
                f"a matrix of all pairs of {self.n_columns} columns is not computed for sparse rows, only up to "
                f"{WIDEST_MATRIX}. Use a mechanism that needs gradients alone, or PublicHasher before the model."
            )
        return super()._grams(n_models, seen)


def arithmetic_at(reach: float, n_columns: int, n_rows: int) -> Arithmetic:
    """How precise passes are with a centre so far away, by public numbers alone."""
    if reach <= 1:
        return FLOAT64
    of_entries, of_centre = (min(n_columns + 4, n_columns / part + most) for part, most in ((4, 6), (64, 68)))
    centre = (reach - 1) / 2
    margin = (of_entries * (1 + centre) + of_centre * centre) / (2 * n_columns)
    far = reach > FARTHEST
    return FLOAT64.worsened(margin, reach * _additions(n_rows) / min(max(n_rows, 1), 1024) if far else 1.0)


def _additions(n_rows: int) -> float:
    """L: half the additions in a row that sums over so many rows may take."""
    return n_rows / 64 + min(n_rows, 1024) + 1024
