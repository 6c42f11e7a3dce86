"""The engine for categorical rows in memory or in a memory map."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from dperm.arithmetic import FLOAT64, Arithmetic
from dperm.engine.base.blocked import BlockedEngine, compiled_kind, one_clip, parameters
from dperm.engine.base.engine import Wanted
from dperm.engine.base.intrinsics import LANES
from dperm.engine.categorical import kernels, row_kernels
from dperm.engine.categorical.stored import StoredCategorical, read_only
from dperm.engine.sparse.kernels import add_back, margins_of_models
from dperm.losses import Loss
from dperm.processors import Part, in_order, split
from dperm.typing import Array, Floats, Integers

_FEWEST_TOGETHER = 16  # models for which a pass for all of them is shorter than one for each


class CategoricalEngine(BlockedEngine):
    """One model: sums per code, from a table of what each code adds to a margin. Several: eight models at a time.

    All arithmetic is float64.

    Guarantee
    ---------
    Rows are cut into parts by public numbers alone, and parts are added in their order. What is computed for a row
    depends on that row, its place and the weights, so two tables that differ in one row have the same sums, bit for
    bit, in every part but one. An empty row adds exactly zero.
    """

    _rows: StoredCategorical

    def arithmetic(self, n_models: int) -> Arithmetic:
        return FLOAT64

    def _load(self, first: int, last: int, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """As sparse rows over the table of a model, with both factors beside them."""
        rows, n = self._rows, last - first
        width = rows.fields.row_entries
        index, data = np.empty((n, width), np.int32), np.empty((n, width))
        row_kernels.as_entries(*self._held()[:3], first, last, index, data)
        outer = rows.outer[first:last]
        far = outer if rows.moved.size else np.empty(0)
        constant = (outer > 0).astype(np.float64) if rows.intercept else np.empty(0)
        return data.reshape(-1), index.reshape(-1), np.arange(n + 1) * width, far, constant

    def _margins_into(self, block: tuple[Any, ...], weights: Array, out: Array) -> None:
        margins_of_models(block, weights, 0, len(out), out)

    def _add_back(self, block: tuple[Any, ...], slopes: Array, total: Floats) -> None:
        add_back(block, slopes, 0, len(slopes), total)

    def _laid_out(self, weights: Array) -> Array:
        """The table of each model, and below it the weights of numbers, of the intercept and of the second factor."""
        stacked = []
        for w in weights.T:
            table, features, shift, intercept = self._weights(w)
            stacked.append(np.concatenate([table, features[self._rows.fields.number], [intercept, shift]]))
        return np.stack(stacked, axis=1)

    def _blank(self, weights: Array) -> Floats:
        fields = self._rows.fields
        return np.zeros((fields.table_size + len(fields.number) + 2, weights.shape[1]))

    def _folded(self, total: Floats) -> Floats:
        fields = self._rows.fields
        gradient = np.zeros((self.n_columns, total.shape[1]))
        cuts = [fields.table_size, fields.table_size + len(fields.number)]
        for k in range(total.shape[1]):
            codes, numbers, totals = np.split(np.ascontiguousarray(total[:, k]), cuts)
            gradient[:, k] = self._one_folded(codes, numbers, totals[::-1])
        return gradient

    def _spare(self, columns: int) -> int:
        return -columns % LANES

    def _parts(self, first: int, last: int, width: int) -> list[Part]:
        return self._ranges(first, last, 1)

    def _ranges(self, first: int, last: int, copies: int) -> list[Part]:
        """As many parts of equal size as the precision of sums asks for."""
        n = last - first
        count = max(1, -(-n // self._rows.precision.part(n, copies)))
        cuts = [first + n * i // count for i in range(count + 1)]
        return list(pairwise(cuts))

    def _range_sums(
        self, loss: Loss, W: Floats, start: Integers, stop: Integers, wanted: Wanted
    ) -> tuple[Floats, Floats]:
        if W.shape[1] >= _FEWEST_TOGETHER or compiled_kind(loss) is None:
            return super()._range_sums(loss, W, start, stop, wanted)
        values, gradients = np.empty(W.shape[1]), np.empty(W.shape)
        for k in range(W.shape[1]):
            own = wanted if wanted.clip is None else wanted._replace(clip=wanted.clip[k : k + 1])
            part = int(start[k]), int(stop[k])
            values[k], gradients[:, k] = self._alone(loss, W[:, k], k, part, own)
        return values, gradients

    def _alone(self, loss: Loss, w: Floats, model: int, rows: Part, wanted: Wanted) -> tuple[float, Floats]:
        """The value and the gradient of one model over a range of rows."""
        kind = compiled_kind(loss)
        bound = one_clip(wanted, 1, w.dtype)
        held = (*self._held(), model)
        settings = (self._weights(w), kind, parameters(loss), bound, (wanted.value, wanted.gradient))
        return self._summed(
            lambda edges, part, sums: kernels.one_model(held, edges, *part, *settings, sums), rows
        )

    def _summed(self, add: Callable[[Integers, Part, Floats], None], rows: Part) -> tuple[float, Floats]:
        """What ``add`` makes of all parts of a range of rows: the value, and the sums column by column."""
        fields, parts = self._rows.fields, self._ranges(*rows, kernels.COPIES)
        edges = np.array([rows[0], *(last for _, last in parts)])
        sums = np.zeros((len(parts), fields.table_size + len(fields.number) + 3))
        if len(parts) == 1:
            add(edges, (0, 1), sums)
        else:
            shares = split(0, len(parts), min(len(parts), 2 * self._threads) if self._threads > 1 else 1)
            for _ in in_order(lambda part: add(edges, part, sums), shares, self._threads):
                pass
        total = sums[0] if len(parts) == 1 else np.add.reduce(sums, axis=0)
        codes, numbers, totals = total[: fields.table_size], total[fields.table_size : -3], total[-3:]
        return float(totals[2]), self._one_folded(codes, numbers, totals)

    def _margins(self, W: Floats) -> Floats:
        flat = W.reshape(len(W), -1)
        out = np.empty((flat.shape[1], self.n_rows))
        for k in range(flat.shape[1]):
            kernels.margins(*self._held()[:3], self._weights(flat[:, k]), 0, self.n_rows, out[k])
        return np.ascontiguousarray(out.T).reshape(self.n_rows, *W.shape[1:])

    def _power_sums(self, power: int) -> Floats:
        if power == 2:
            return super()._power_sums(power)
        held = self._held()
        sums_of = [
            self._summed(
                lambda edges, part, sums, k=k: kernels.count_rows((*held, k), edges, *part, sums),  # type: ignore[misc]
                (0, self.n_rows),
            )[1]
            for k in range(self._rows.known_mask.shape[1])
        ]
        return np.stack(sums_of, axis=1)

    def _held(self) -> tuple[Any, ...]:
        """What the kernels read of the rows."""
        rows = self._rows
        columns = (*read_only(rows.table), rows.y, rows.inverse_norm, rows.inner, rows.outer)
        return rows.fields, rows.entries, columns, rows.known_mask

    def _weights(self, w: Array) -> tuple[Floats, Floats, float, float]:
        """What they read of the weights: a table, the features, and what factor and intercept multiply."""
        rows = self._rows
        features = np.ascontiguousarray(w[: rows.table.shape[1]], np.float64)
        table = np.zeros(rows.fields.table_size)
        kernels.fill_table(rows.fields, rows.entries, features, table)
        shift = -float(rows.moved @ features) if rows.moved.size else 0.0
        return table, features, shift, rows.intercept * float(w[-1]) if rows.intercept else 0.0

    def _one_folded(self, codes: Floats, numbers: Floats, totals: Floats) -> Floats:
        """The sums of one model, column by column."""
        rows = self._rows
        gradient = np.zeros(self.n_columns)
        kernels.fold_table(rows.fields, rows.entries, codes, numbers, gradient)
        if rows.moved.size:
            gradient[: len(rows.moved)] -= rows.moved * totals[0]
        if rows.intercept:
            gradient[-1] += rows.intercept * totals[1]
        return gradient
