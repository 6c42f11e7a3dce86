"""Passes over rows on a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dperm.arithmetic import FLOAT32, FLOAT64, Arithmetic
from dperm.engine._stages import safe_clip
from dperm.engine._torch_formulas import tensor_formulas
from dperm.engine.base import Floats, Integers
from dperm.engine.drawn import Batches
from dperm.engine.stored import StoredEngine
from dperm.engine.tensors import load_torch, plain_products
from dperm.engine.torch_blocks import add_products, cuts, gram
from dperm.engine.torch_fused import FusedEpochs, FusedPass
from dperm.engine.torch_stage import TorchStage
from dperm.engine.torch_stored import StoredTorch
from dperm.losses import Loss


class TorchEngine(StoredEngine):
    """One model on a GPU: a single compiled read of X. Otherwise matrix products over blocks of rows.

    ``precise`` passes compute in float64, whatever rows are stored as, others in float32. Curvatures, moments, sums of
    rows and margins are in float64 in any case.

    Guarantee
    ---------
    Rows are summed in blocks of at most 256 rows in float32, or 1,024 in float64, and blocks are added up in float64.
    Which rows make up a block, and in which order blocks are added, follows from the number of rows, of columns and
    of models alone; nothing is added atomically. So two tables that differ in one row differ, at the same weights,
    in the sum of one block: all others come out the same to the last bit.

    Assumes
    -------
    torch's matrix products are conventional, in the precision that it was asked for, and compute what they compute
    of a row, or of a block, from that row or block alone.
    """

    _rows: StoredTorch

    def __init__(self, rows: StoredTorch, used: set[Arithmetic] | None, *, precise: bool = False) -> None:
        super().__init__(rows, used)
        self._precise = precise

    def arithmetic(self, n_models: int) -> Arithmetic:
        return FLOAT64 if self._precise else FLOAT32

    @property
    def _dtype(self) -> Any:
        torch = load_torch()
        return torch.float64 if self._precise else torch.float32

    def _largest_number(self, n_models: int) -> float:
        return float(np.finfo(np.float64 if self._precise else np.float32).max)

    def descend(
        self,
        loss: Loss,
        W: Floats,
        batches: Batches,
        steps: ArrayLike,
        l2: ArrayLike,
        iterate_sum: Floats | None = None,
    ) -> None:
        """The weights stay on the device from batch to batch."""
        decay, rate = self._check_schedule(loss, W, batches, steps, l2, iterate_sum)
        edges = self._edges(W.shape[1], batches)
        if self._alone(loss, W):
            fused = FusedPass.of(self._rows, loss, None, self._precise)
            FusedEpochs.of(self._rows, fused, edges, iterate_sum is not None).run(W, iterate_sum, decay, rate)
        else:
            with plain_products(self._rows.device):
                self._walk(loss, W, edges, decay, rate, iterate_sum)
        self._check_size(W)

    def _walk(
        self, loss: Loss, W: Floats, edges: Integers, decay: Floats, rate: Floats, iterate_sum: Floats | None
    ) -> None:
        w = self._flat(W)
        total = None if iterate_sum is None else self._flat(iterate_sum)
        each = loss.outputs
        shrink, pace = (self._rows.placed(np.repeat(part, each, axis=1)) for part in (decay, rate))
        for j in range(len(edges) - 1):
            stage = TorchStage(self._rows, loss, edges[j], edges[j + 1], None, self._dtype)
            gradient = self._block_sums(stage, w, False, True)[1]
            w = w * shrink[j] - pace[j] * gradient
            if total is not None:
                total += w
        W[...] = w[: self.n_columns].cpu().numpy().reshape(W.shape)
        if iterate_sum is not None and total is not None:
            iterate_sum[...] = total[: self.n_columns].cpu().numpy().reshape(W.shape)

    def _range_sums(
        self,
        loss: Loss,
        W: Floats,
        start: Integers,
        stop: Integers,
        clip: Floats | None,
        want_value: bool,
        want_gradient: bool,
    ) -> tuple[Floats, Floats]:
        safe = (
            None if clip is None else safe_clip(clip, loss.outputs, np.dtype("f8" if self._precise else "f4"))
        )
        if self._alone(loss, W):
            fused = FusedPass.of(self._rows, loss, None if safe is None else float(safe[0]), self._precise)
            value, gradient = fused.sums(W[:, 0], int(start[0]), int(stop[0]), want_value, want_gradient)
            return value, gradient[:, None]
        with plain_products(self._rows.device):
            stage = TorchStage(self._rows, loss, start, stop, safe, self._dtype)
            totals = self._block_sums(stage, self._flat(W), want_value, want_gradient)
            value, gradient = (total.cpu().numpy() for total in totals)
        return value, np.ascontiguousarray(gradient[: self.n_columns]).reshape(W.shape)

    def _alone(self, loss: Loss, W: Floats) -> bool:
        return bool(W.shape[1] == 1 and FusedPass.fits(self._rows, loss))

    def _flat(self, W: Floats) -> Any:
        """Weights on the device, all outputs side by side, with zeros for the columns that only align."""
        flat = W.reshape(len(W), -1)
        spare = int(self._rows.X.shape[1]) - len(flat)
        return self._rows.placed(np.pad(flat, ((0, spare), (0, 0))))

    def _block_sums(
        self, stage: TorchStage, weights: Any, want_value: bool, want_gradient: bool
    ) -> tuple[Any, Any]:
        """Values and gradients of all models, in float64 on the device."""
        value, gradient = weights.new_zeros(stage.models), weights.new_zeros(weights.shape)
        at_one_go = None if want_value else stage.slope_blocks(weights.to(stage.dtype))
        for X, slopes in at_one_go or ():
            add_products(gradient, X, slopes)
        if at_one_go is not None:
            return value, gradient
        for first, X, Z in self._margin_blocks(stage.span, weights.to(stage.dtype)):
            if want_value:
                value += stage.values(Z, first)
            if want_gradient:
                add_products(gradient, X, stage.slopes(Z, first))
        return value, gradient

    def _margin_blocks(self, span: tuple[int, int], weights: Any) -> Iterator[tuple[int, Any, Any]]:
        for first, last in cuts(*span, max(*weights.shape), weights.dtype):
            X = self._rows.X[first:last].to(weights.dtype)
            yield first, X, X @ weights

    def _double_blocks(self, width: int) -> Iterator[tuple[int, int, Any]]:
        torch = load_torch()
        for first, last in cuts(0, self.n_rows, max(width, self.n_columns), torch.float64):
            yield first, last, self._rows.X[first:last].double()

    def _margins(self, W: Floats) -> Floats:
        with plain_products(self._rows.device):
            weights = self._flat(W)
            parts = [np.empty((0, weights.shape[1]))]
            parts += [(X @ weights).cpu().numpy() for _, _, X in self._double_blocks(weights.shape[1])]
        return np.asarray(np.concatenate(parts).reshape(self.n_rows, *W.shape[1:]))

    def _curvatures(self, loss: Loss, W: Floats) -> Floats:
        formulas, members = tensor_formulas(loss), self._rows.members
        y = self._rows.labels(load_torch().float64)
        with plain_products(self._rows.device):
            weights = self._flat(W)
            total = weights.new_zeros((W.shape[1], len(weights), len(weights)))
            for first, last, X in self._double_blocks(W.shape[1]):
                root = formulas.curvature(X @ weights, y[first:last, None]).sqrt()
                if members is not None:
                    root = root * members[first:last]
                for k in range(W.shape[1]):
                    gram(total[k], X * root[:, k : k + 1])
            return self._square(total)

    def _masked_moments(self, n_models: int) -> Floats:
        members = self._rows.members
        with plain_products(self._rows.device):
            width = int(self._rows.X.shape[1])
            total = self._rows.X.new_zeros((n_models, width, width), dtype=load_torch().float64)
            for first, last, X in self._double_blocks(width):
                for k in range(n_models):
                    gram(total[k], X if members is None else X * members[first:last, k : k + 1])
            return self._square(total)

    def _square(self, total: Any) -> Floats:
        """The sums between real columns, the same on both sides of the diagonal."""
        found = np.asarray(total[:, : self.n_columns, : self.n_columns].cpu().numpy())
        return np.asarray(np.triu(found) + np.triu(found, 1).transpose(0, 2, 1))

    def _power_sums(self, power: int) -> Floats:
        members = self._rows.members
        with plain_products(self._rows.device):
            shape = (int(self._rows.X.shape[1]), 1 if members is None else int(members.shape[1]))
            total = self._rows.X.new_zeros(shape, dtype=load_torch().float64)
            for first, last, X in self._double_blocks(shape[1]):
                own = X.new_ones((len(X), 1)) if members is None else members[first:last].double()
                add_products(total, X if power == 1 else X * X, own)
            return np.asarray(total[: self.n_columns].cpu().numpy())

    def _counted(self, loss: Loss, W: Floats) -> tuple[Floats, Integers, Integers]:
        with plain_products(self._rows.device):
            start, stop = self._range(W.shape[1], None)
            stage = TorchStage(self._rows, loss, start, stop, None, self._dtype)
            weights = self._flat(W).to(stage.dtype)
            value = weights.new_zeros(stage.models, dtype=load_torch().float64)
            inside, outside = (value.long() for _ in range(2))
            for first, _, Z in self._margin_blocks(stage.span, weights):
                value += stage.values(Z, first)
                for total, found in zip((inside, outside), stage.correct(Z, first), strict=True):
                    total += found
            return value.cpu().numpy(), inside.cpu().numpy(), outside.cpu().numpy()
