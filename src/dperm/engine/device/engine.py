"""Passes over rows on a device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import FLOAT32, FLOAT64, Arithmetic
from dperm.engine.base.blocked import safe_clip
from dperm.engine.base.draws import Batches
from dperm.engine.base.engine import Schedule, StoredEngine, Wanted
from dperm.engine.device.fused import FusedEpochs, FusedPass, SlopeKernels, add_blocks
from dperm.engine.device.tensors import StoredTorch, load_torch, plain_products
from dperm.losses import Loss, Weighted
from dperm.losses.base import TARGET
from dperm.typing import Floats, Integers

_NUMBERS_AT_ONCE = 2**24  # margins: enough to keep a large GPU busy
_ROWS = {4: 256, 8: 1024}  # in a block, by the bytes of a number


def rows_of_block(dtype: Any) -> int:
    return _ROWS[dtype.itemsize]


def cuts(first: int, last: int, width: int, dtype: Any) -> Iterator[tuple[int, int]]:
    """Ranges of rows of whole blocks, but for the last, with ``width`` numbers for each row."""
    block = rows_of_block(dtype)
    step = max(1, _NUMBERS_AT_ONCE // (block * width)) * block
    for start in range(first, last, step):
        yield start, min(start + step, last)


def block_products(X: Any, slopes: Any) -> Iterator[Any]:
    """X^T slopes for each block, many blocks to a tensor of shape (blocks, columns of X, columns of slopes)."""
    block = rows_of_block(X.dtype)
    whole = len(X) // block * block
    for rows, size in ((slice(0, whole), block), (slice(whole, None), len(X) - whole)):
        if len(X[rows]):
            left, right = (part[rows].reshape(-1, size, part.shape[1]) for part in (X, slopes))
            yield load_torch().bmm(left.transpose(1, 2), right)


def add_products(total: Any, X: Any, slopes: Any) -> None:
    """Add X^T slopes to the float64 ``total``."""
    for products in block_products(X, slopes):
        if not add_blocks(total, products):
            total += products.sum(dim=0, dtype=total.dtype)


def gram(total: Any, X: Any) -> None:
    """Add X^T X to the float64 ``total``."""
    add_products(total, X, X)


class OnHost:
    """The formulas of any loss, by a way over the host."""

    def __init__(self, loss: Loss) -> None:
        self.value, self.slope, self.curvature = (
            partial(self._there, formula) for formula in (loss.value, loss.slope, loss.curvature)
        )
        self._weighted = isinstance(loss, Weighted)

    def _there(self, formula: Any, margin: Any, y: Any) -> Any:
        labels = y.cpu().double().numpy().view(TARGET)[..., 0] if self._weighted else y.cpu().numpy()
        found = np.ascontiguousarray(formula(margin.cpu().numpy(), labels))
        return load_torch().from_numpy(found).to(device=margin.device, dtype=margin.dtype)


def tensor_formulas(loss: Loss) -> Any:
    """Value, slope and curvature on tensors: the loss's own where they take tensors, otherwise by way of the host."""
    # Of this very class: a subclass may change a formula.
    return loss if vars(type(loss.unweighted)).get("takes_tensors", False) else OnHost(loss)


class TorchStage:
    """Of some models, each with its own range of rows; ``clip`` was lowered by ``safe_clip``."""

    def __init__(
        self,
        rows: StoredTorch,
        loss: Loss,
        start: Integers,
        stop: Integers,
        clip: NDArray[Any] | None,
        dtype: Any,
    ) -> None:
        self._rows, self._loss, self.dtype = rows, loss, dtype
        self.models = len(start)
        self.span = int(start.min()), int(stop.max())
        self._shared = int(start.max()), int(stop.min())
        self._formulas = tensor_formulas(loss)
        self._range = rows.placed(start), rows.placed(stop)
        self._clip = None if clip is None else rows.placed(clip)
        self._kernels = SlopeKernels(rows, loss, self._clip)

    def values(self, Z: Any, first: int) -> Any:
        """The sums of each model's own losses, in float64; the range is that of all rows."""
        value = self._formulas.value(self._by_output(Z), self._labels(Z, first)).double()
        own = self._own(Z, first)
        return (value if own is None else value * own).sum(dim=0)

    def slope_blocks(self, weights: Any) -> Iterator[tuple[Any, Any]] | None:
        """Blocks of rows with their slopes, margins and slopes at one go; None where there is no kernel for that."""
        X = self._rows.X
        if not self._kernels or X.dtype != self.dtype or X.dtype.itemsize != 4:
            return None
        padded = self._kernels.padded(weights)
        return (
            (
                X[first:last],
                self._kernels.of_rows(padded, weights.shape[1], first, last, self._ranges(first, last)),
            )
            for first, last in cuts(*self.span, max(*weights.shape), self.dtype)
        )

    def _ranges(self, first: int, last: int) -> tuple[Any, Any] | None:
        """Where each model's rows begin and end, unless all of these are in."""
        return self._range if first < self._shared[0] or last > self._shared[1] else None

    def slopes(self, Z: Any, first: int) -> Any:
        """Slopes, clipped, masked and zero outside each model's range; the margins are used up."""
        ranges = self._ranges(first, first + len(Z))
        if self._kernels:
            self._kernels.in_place(Z, first, ranges)
            return Z
        slope = self._formulas.slope(self._by_output(Z), self._labels(Z, first))
        weight = None
        if self._clip is not None:
            size = slope.abs() if self._loss.outputs == 1 else slope.square().sum(dim=-1).sqrt()
            allowed = self._clip * self._rows.inverse(self.dtype)[first : first + len(Z), None]
            allowed = allowed.clamp(max=float(np.finfo(f"f{self.dtype.itemsize}").max))
            weight = allowed / size.maximum(allowed)
        for factor in (self._own(Z, first), None if ranges is None else self._inside(Z, first)):
            if factor is not None:
                weight = factor.to(self.dtype) if weight is None else weight * factor
        if weight is not None:
            slope = slope * (weight if self._loss.outputs == 1 else weight[..., None])
        return slope.reshape(Z.shape)

    def correct(self, Z: Any, first: int) -> tuple[Any, Any]:
        """Correct predictions inside and outside each model's own rows."""
        margin, y = self._by_output(Z), self._labels(Z, first)
        y = y[..., 0] if y.ndim > 2 else y
        right = (margin > 0) == (y > 0) if self._loss.outputs == 1 else margin.argmax(dim=-1) == y
        own = self._own(Z, first)
        if own is None:
            inside = right.sum(dim=0)
            return inside, inside * 0
        return (right & (own == 1)).sum(dim=0), (right & (own == 0)).sum(dim=0)

    def _by_output(self, Z: Any) -> Any:
        return Z if self._loss.outputs == 1 else Z.reshape(len(Z), self.models, self._loss.outputs)

    def _labels(self, Z: Any, first: int) -> Any:
        return self._rows.labels(self.dtype)[first : first + len(Z), None]

    def _own(self, Z: Any, first: int) -> Any:
        members = self._rows.members
        return None if members is None else members[first : first + len(Z)]

    def _inside(self, Z: Any, first: int) -> Any:
        place = load_torch().arange(first, first + len(Z), device=Z.device)[:, None]
        return (place >= self._range[0]) & (place < self._range[1])


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

    def _epoch(
        self, loss: Loss, W: Floats, batches: Batches, schedule: Schedule, iterate_sum: Floats | None
    ) -> None:
        """The weights stay on the device from batch to batch."""
        edges = self._edges(W.shape[1], batches)
        if self._alone(loss, W):
            fused = FusedPass.of(self._rows, loss, None, self._precise)
            FusedEpochs.of(self._rows, fused, edges, iterate_sum is not None).run(W, iterate_sum, *schedule)
            return
        with plain_products(self._rows.device):
            self._block_epoch(loss, W, edges, schedule, iterate_sum)

    def _block_epoch(
        self, loss: Loss, W: Floats, edges: Integers, schedule: Schedule, iterate_sum: Floats | None
    ) -> None:
        w = self._flat(W)
        total = None if iterate_sum is None else self._flat(iterate_sum)
        each = loss.outputs
        shrink, pace = (self._rows.placed(np.repeat(part, each, axis=1)) for part in schedule)
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
        self, loss: Loss, W: Floats, start: Integers, stop: Integers, wanted: Wanted
    ) -> tuple[Floats, Floats]:
        dtype = np.dtype("f8" if self._precise else "f4")
        safe = None if wanted.clip is None else safe_clip(wanted.clip, loss.outputs, dtype)
        if self._alone(loss, W):
            fused = FusedPass.of(self._rows, loss, None if safe is None else float(safe[0]), self._precise)
            value, gradient = fused.sums(W[:, 0], int(start[0]), int(stop[0]), wanted.value, wanted.gradient)
            return value, gradient[:, None]
        with plain_products(self._rows.device):
            stage = TorchStage(self._rows, loss, start, stop, safe, self._dtype)
            totals = self._block_sums(stage, self._flat(W), wanted.value, wanted.gradient)
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
