"""The engine for coded rows in memory or in a memory map."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dperm.arithmetic import FLOAT32, FLOAT64, Arithmetic
from dperm.engine import _kernels_coded as kernels
from dperm.engine._stages import Block, compiled_kind, no_mask, parameters, safe_clip
from dperm.engine._threads import Part, in_order, split
from dperm.engine.base import Floats
from dperm.engine.blocked import BlockedEngine
from dperm.engine.coded import StoredCoded, read_only
from dperm.losses import Loss

_CANCELLED = 1024.0
"""Parts of a row may be this much longer than its bound before they cancel; ``FLOAT64.margin`` allows for it."""


class CodedEngine(BlockedEngine):
    """One model: sums per code, from a table of what each code adds to a margin. Several: blocks of rows as floats.

    Guarantee
    ---------
    One model computes in float64, and so do several if they were asked to be ``precise``; others compute in float32
    blocks that are added up in float64. Rows are cut into parts by their number alone. What is computed for a row
    depends on that row, its place and the weights, and what a part adds on its own rows: two tables that differ in one
    row have the same sums, bit for bit, in every part but one.

    In a part each of four interleaved sums per code has at most n / 64 + 1024 terms.
    """

    _rows: StoredCoded

    def arithmetic(self, n_models: int) -> Arithmetic:
        stated = FLOAT64 if self._dtype(n_models) == np.float64 else FLOAT32
        spread = self._rows.spread / _CANCELLED
        return stated if spread <= 1 else replace(stated, margin=stated.margin * spread)

    def _dtype(self, n_models: int) -> np.dtype[Any]:
        return np.dtype(np.float64 if n_models == 1 or self._precise else np.float32)

    def _load(self, first: int, last: int, dtype: np.dtype[Any]) -> Block:
        return self._rows.block(first, last, dtype)

    def _margins_into(self, block: Block, weights: Block, out: Block) -> None:
        np.matmul(block, weights, out=out)

    def _add_back(self, block: Block, slopes: Block, total: Floats) -> None:
        total += block.T @ slopes

    def _one_model(
        self,
        loss: Loss,
        W: Floats,
        first: int,
        last: int,
        clip: Floats | None,
        want_value: bool,
        want_gradient: bool,
    ) -> tuple[Floats, Floats] | None:
        kind = compiled_kind(loss)
        if kind is None:
            return None
        bound = np.inf if clip is None else float(safe_clip(clip, 1, W.dtype)[0])
        settings = (kind, parameters(loss), bound, want_value, want_gradient)
        rows, weights = self._columns(), self._weights(W[:, 0])
        mask = no_mask(1) if self._rows.mask is None else self._rows.mask
        fixed = (self._rows.fields, self._rows.entries, rows, mask, weights)

        def pass_over(part: Part) -> tuple[float, _Sums]:
            sums = _Sums(self._rows)
            return kernels.one_model(*fixed, *part, *settings, *sums), sums

        value, gradient = 0.0, np.zeros(self.n_columns)
        for part_value, sums in in_order(pass_over, _parts(first, last), self._threads):
            value += part_value
            if want_gradient:
                self._fold(sums, gradient)
        return np.array([value]), gradient[:, None]

    def _power_sums(self, power: int) -> Floats:
        if power == 2:
            return super()._power_sums(power)
        mask = no_mask(1) if self._rows.mask is None else self._rows.mask
        total = np.zeros((self.n_columns, mask.shape[1]))
        for k in range(mask.shape[1]):

            def pass_over(part: Part, k: int = k) -> _Sums:
                sums = _Sums(self._rows)
                kernels.count_rows(self._rows.fields, self._columns(), mask, k, *part, *sums)
                return sums

            for sums in in_order(pass_over, _parts(0, self.n_rows), self._threads):
                self._fold(sums, total[:, k])
        return total

    def _columns(self) -> tuple[Any, ...]:
        """What the kernels for one model read of the rows."""
        rows = self._rows
        return *read_only(rows.table), rows.y, rows.inverse_norm, rows.inner, rows.outer

    def _weights(self, w: Floats) -> tuple[Any, ...]:
        """What they read of the weights."""
        rows = self._rows
        features, table = np.ascontiguousarray(w[: rows.table.shape[1]]), np.zeros(rows.fields.table_size)
        base = kernels.fill_table(rows.fields, rows.entries, features, table)
        shift = -float(rows.moved @ features) if rows.moved.size else 0.0
        return table, base, features, shift, rows.intercept * float(w[-1]) if rows.intercept else 0.0

    def _fold(self, sums: _Sums, gradient: Floats) -> None:
        """Add the sums of one part, column by column."""
        rows = self._rows
        features = np.zeros(rows.table.shape[1])
        joint = sums.tables.sum(axis=0)
        kernels.fold_table(rows.fields, rows.entries, joint, sums.numbers, sums.totals[0], features)
        if rows.moved.size:
            features -= rows.moved * sums.totals[1]
        gradient[: len(features)] += features
        if rows.intercept:
            gradient[-1] += rows.intercept * sums.totals[2]


class _Sums(tuple[Floats, Floats, Floats]):
    """What one part of the rows adds up to: per code, per number, and in all."""

    def __new__(cls, rows: StoredCoded) -> _Sums:
        fields = rows.fields
        tables = np.zeros((kernels.COPIES, fields.table_size))
        return super().__new__(cls, (tables, np.zeros(len(fields.number)), np.zeros(3)))

    @property
    def tables(self) -> Floats:
        return self[0]

    @property
    def numbers(self) -> Floats:
        return self[1]

    @property
    def totals(self) -> Floats:
        return self[2]


def _parts(first: int, last: int) -> list[Part]:
    """Ranges of at most n / 16 + 4096 rows, a quarter of which go into each of four sums."""
    n = last - first
    most = kernels.COPIES * (n / 64 + 1024)
    return split(first, last, 1 if n <= most else n / most + 2)
