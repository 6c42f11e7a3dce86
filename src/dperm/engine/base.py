"""What an engine offers: a handful of passes over private rows, for K models at once."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Loss

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Rows:
    """Opened rows: bounded, in their final order, intercept column included.

    ``X``             C-ordered ``(n_rows, n_columns)``, float32 or float64;
    ``y``             encoded labels;
    ``inverse_norm``  a lower bound on 1 / norm of each stored row, finite for zero rows too;
    ``mask``          1 where a row trains a model, ``(n_rows, K)``, or None: every row trains every model;
    ``radius``        the declared bound on the norm of a whole row.
    """

    X: NDArray[np.floating[Any]]
    y: Floats
    inverse_norm: Floats
    mask: NDArray[np.uint8] | None
    radius: float


class Evaluation(NamedTuple):
    """Per model: the loss summed over its training rows, and correct predictions inside and outside them.

    A binary or real label is predicted correctly when ``margin > 0`` agrees with ``y > 0``; a class
    when its margin is the first of the largest. Counts include the empty rows of a table below capacity.
    """

    training_loss: Floats
    training_correct: Integers
    training_rows: Integers
    held_out_correct: Integers
    held_out_rows: Integers


class Engine(ABC):
    r"""Passes over private rows. Everything returned is private until it passes the release gate.

    Weights are float64 ``(n_columns, K)``, or ``(n_columns, K, C)`` for a loss with C > 1 outputs. Model
    k owns the rows whose mask is 1 in column k; without a mask it owns them all. Every result is a
    float64 host array, and depends neither on timing nor on the number of threads.

    Guarantee
    ---------
    With u = 2^-53 and gamma_k = k u / (1 - k u), a pass in float64 arithmetic is this precise. It is always
    float64 for one model, whatever the storage, and for several models over float64 rows:

    - a computed margin is within gamma_p ||x|| ||w|| of <x, w>, where p = ``n_columns``;
    - the slope is within 1e-14 max(``loss.lipschitz``, ``loss.smoothness`` / 5) of exact *at the computed
      margin* and the value within 1e-14 (1 + |value|); it is never above ``loss.lipschitz``
      by more than that;
    - a sum over n rows is within gamma_n sum_i |slope_i| ||x_i|| of the exact sum of the computed slopes
      times the rows;
    - with ``clip`` each row's computed slope satisfies |slope| ||x|| <= clip exactly, for the real norm.

    In float32 arithmetic (K > 1 over float32 rows) blocks of at most 1,024 rows are multiplied in float32
    and added up in float64, slopes are within 1e-6 ``loss.lipschitz``, and the clip still holds row by row.
    A worst-case bound on float32 rounding exceeds the sensitivity of a mean over many rows, so a
    guarantee rests on float64 arithmetic.

    A row of zeros adds exactly zero to every gradient and curvature. Weights that are not finite, or so
    large that a margin might overflow, are refused.

    Assumes
    -------
    BLAS multiplies matrices in the conventional way, as all common ones do, not by Strassen's method. A loss
    without compiled formulas is as precise as its own NumPy ones.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @property
    def n_rows(self) -> int:
        return int(self._rows.X.shape[0])

    @property
    def n_columns(self) -> int:
        return int(self._rows.X.shape[1])

    @abstractmethod
    def arithmetic(self, n_models: int) -> np.dtype[Any]:
        """The precision in which a pass for ``n_models`` models multiplies and sums a block of rows."""

    def select(self, models: Sequence[int]) -> Self:
        """The same rows, for some of the mask's models only."""
        if self._rows.mask is None:
            return self
        part = copy(self)
        part._rows = replace(self._rows, mask=np.ascontiguousarray(self._rows.mask[:, models]))
        return part

    def sample(self, positions: Sequence[ArrayLike]) -> Self:
        """The rows at ``positions[k]`` among model k's own rows, for every model k; they may be none.

        Rows are copied only when that makes passes shorter.
        """
        members = np.zeros((self.n_rows, len(positions)), np.uint8)
        counts = self._own_counts(len(positions))
        for k, chosen in enumerate(positions):
            index = np.asarray(chosen, np.int64)
            if index.size and not (index.min() >= 0 and index.max() < counts[k]):
                raise InvalidInput(f"positions of model {k} must lie between 0 and {counts[k] - 1}.")
            own = index if self._rows.mask is None else np.flatnonzero(self._rows.mask[:, k])[index]
            members[own, k] = 1
        part = copy(self)
        used = np.flatnonzero(members.any(axis=1))
        if 2 * len(used) > self.n_rows:
            part._rows = replace(self._rows, mask=members)
            return part
        rows = self._rows
        mask = None if len(positions) == 1 else members[used]
        part._rows = Rows(rows.X[used], rows.y[used], rows.inverse_norm[used], mask, rows.radius)
        return part

    def edges(self, batch_sizes: ArrayLike) -> Integers:
        """Row positions that cut each model's own rows into batches of exactly these sizes.

        ``batch_sizes`` is ``(m, K)``. Batch j of model k is its rows at positions
        ``edges[j, k] <= i < edges[j + 1, k]``.
        """
        sizes = np.asarray(batch_sizes)
        if sizes.ndim != 2 or sizes.dtype.kind not in "iu" or sizes.size == 0 or sizes.min() < 1:
            raise InvalidInput("batch_sizes must be whole numbers of at least 1, of shape (batches, models).")
        totals, counts = sizes.sum(axis=0), self._own_counts(sizes.shape[1])
        if (totals != counts).any():
            k = int(np.flatnonzero(totals != counts)[0])
            raise InvalidInput(
                f"batch_sizes must sum to the number of rows of each model; model {k} has {counts[k]} rows "
                f"and its batches hold {totals[k]}."
            )
        cuts = np.zeros((sizes.shape[0] + 1, sizes.shape[1]), np.int64)
        np.cumsum(sizes, axis=0, out=cuts[1:])
        if self._rows.mask is not None:
            for k in range(sizes.shape[1]):
                own = np.flatnonzero(self._rows.mask[:, k])
                cuts[1:-1, k] = own[cuts[1:-1, k]]
            cuts[0], cuts[-1] = 0, self.n_rows
        return cuts

    def gradient_sum(
        self,
        loss: Loss,
        W: Floats,
        start: ArrayLike | None = None,
        stop: ArrayLike | None = None,
        clip: ArrayLike | None = None,
    ) -> Floats:
        """Sum of slope * x over each model's own rows at positions ``start[k] <= i < stop[k]``.

        ``clip``, one per model, bounds the norm of every row's gradient before it is added.
        """
        n_models = self._check_weights(loss, W)
        first, last = self._check_range(n_models, start, stop)
        return self._sums(loss, W, first, last, self._check_clip(n_models, clip), False, True)[1]

    def value_sum(self, loss: Loss, W: Floats) -> Floats:
        """Sum of the loss over each model's own rows, ``(K,)``."""
        n_models = self._check_weights(loss, W)
        first, last = self._check_range(n_models, None, None)
        return self._sums(loss, W, first, last, None, True, False)[0]

    def value_and_gradient_sum(self, loss: Loss, W: Floats) -> tuple[Floats, Floats]:
        """Both sums in one pass."""
        n_models = self._check_weights(loss, W)
        first, last = self._check_range(n_models, None, None)
        return self._sums(loss, W, first, last, None, True, True)

    def curvature_sum(self, loss: Loss, W: Floats) -> Floats:
        """Hessian of the summed loss, ``(K, n_columns, n_columns)``: curvature * x x^T over own rows."""
        if loss.outputs != 1:
            raise Unsupported(
                f"curvature_sum needs a loss with one output; {loss.name} has {loss.outputs}. "
                "Use a solver that only takes gradients."
            )
        self._check_weights(loss, W)
        return self._curvatures(loss, W)

    @abstractmethod
    def margins(self, W: Floats) -> Floats:
        """<x_i, w_k> for every row, in float64: ``(n_rows, K)`` or ``(n_rows, K, C)``."""

    def row_sum(self) -> Floats:
        """Sum of each model's own rows, in float64: ``(n_columns, K)``, or one column without a mask."""
        mask = np.ones((self.n_rows, 1), np.uint8) if self._rows.mask is None else self._rows.mask
        total = np.zeros((self.n_columns, mask.shape[1]))
        for first in range(0, self.n_rows, 4096):
            block = slice(first, first + 4096)
            total += self._rows.X[block].T.astype(np.float64) @ mask[block].astype(np.float64)
        return total

    def row_moments(self) -> Floats:
        """Sum of x x^T over each model's own rows: ``(K, n_columns, n_columns)``, one matrix without a mask.

        In float64 whatever the storage; within gamma_n sum_i ||x_i||^2 of exact in Frobenius norm.
        """
        return self._moments(1 if self._rows.mask is None else self._rows.mask.shape[1])

    def evaluate(self, loss: Loss, W: Floats) -> Evaluation:
        """Training loss, and correct predictions inside and outside each model's own rows, in one pass.

        Not private: for experiments on public data.
        """
        n_models = self._check_weights(loss, W)
        losses, inside, outside = self._scores(loss, W)
        counts = self._own_counts(n_models)
        return Evaluation(losses, inside, counts, outside, self.n_rows - counts)

    def count_correct(self, loss: Loss, W: Floats, rows: str = "held-out") -> tuple[Integers, Integers]:
        """Correct predictions and number of rows, per model, over ``training``, ``held-out`` or ``all`` rows.

        Not private: for experiments on public data.
        """
        if rows not in ("training", "held-out", "all"):
            raise InvalidInput(f"rows must be 'training', 'held-out' or 'all'; got {rows!r}.")
        found = self.evaluate(loss, W)
        if rows == "training":
            return found.training_correct, found.training_rows
        if rows == "held-out":
            return found.held_out_correct, found.held_out_rows
        return found.training_correct + found.held_out_correct, found.training_rows + found.held_out_rows

    def descend(
        self,
        loss: Loss,
        W: Floats,
        edges: Integers,
        sizes: ArrayLike,
        steps: ArrayLike,
        l2: ArrayLike,
        iterate_sum: Floats | None = None,
    ) -> None:
        """One epoch of mini-batch gradient descent on W, in place.

        For each batch j in turn, model k moves to ``(1 - steps[j, k] l2[k]) w - steps[j, k] / sizes[j, k]
        g`` with g its gradient sum over batch j. Each new iterate is added to ``iterate_sum`` if given.
        """
        decay, rate = self._check_schedule(loss, W, edges, sizes, steps, l2, iterate_sum)
        columns = (slice(None),) + (None,) * (W.ndim - 2)
        for j in range(len(edges) - 1):
            gradient = self.gradient_sum(loss, W, edges[j], edges[j + 1])
            W *= decay[j][columns]
            W -= rate[j][columns] * gradient
            if iterate_sum is not None:
                iterate_sum += W
        self._check_size(W)

    @abstractmethod
    def _sums(
        self,
        loss: Loss,
        W: Floats,
        start: Integers,
        stop: Integers,
        clip: Floats | None,
        want_value: bool,
        want_gradient: bool,
    ) -> tuple[Floats, Floats]:
        """Values ``(K,)`` and gradients shaped as W; what is not wanted is returned as zeros."""

    @abstractmethod
    def _curvatures(self, loss: Loss, W: Floats) -> Floats: ...

    @abstractmethod
    def _moments(self, n_models: int) -> Floats: ...

    @abstractmethod
    def _scores(self, loss: Loss, W: Floats) -> tuple[Floats, Integers, Integers]:
        """Training loss, correct training rows, correct held-out rows."""

    def _own_counts(self, n_models: int) -> Integers:
        mask = self._rows.mask
        if mask is None:
            return np.full(n_models, self.n_rows, np.int64)
        if mask.shape[1] != n_models:
            raise InvalidInput(f"the mask is for {mask.shape[1]} models; got {n_models}.")
        return np.asarray(mask.sum(axis=0, dtype=np.int64))

    def _check_weights(self, loss: Loss, W: Floats) -> int:
        ndim = 2 if loss.outputs == 1 else 3
        shape = (self.n_columns, W.shape[1] if W.ndim > 1 else 0) + (loss.outputs,) * (ndim - 2)
        if W.dtype != np.float64 or W.shape != shape or shape[1] < 1:
            wanted = f"({self.n_columns}, models" + (f", {loss.outputs})" if ndim == 3 else ")")
            raise InvalidInput(f"W must be float64 of shape {wanted}; got {W.dtype} of shape {W.shape}.")
        mask = self._rows.mask
        if mask is not None and mask.shape[1] != shape[1]:
            raise InvalidInput(f"the mask is for {mask.shape[1]} models; W has {shape[1]}.")
        self._check_size(W)
        return int(shape[1])

    def _check_size(self, W: Floats) -> None:
        """Refuse weights for which a margin might overflow; NaN fails the comparison too."""
        largest = np.finfo(self.arithmetic(W.shape[1])).max / (
            16.0 * self.n_columns * max(1.0, self._rows.radius)
        )
        if not np.abs(W).max() <= largest:
            raise InvalidInput(
                "the weights are not finite, or so large that margins might overflow. "
                "Use a smaller step size or more regularisation."
            )

    def _check_range(
        self, n_models: int, start: ArrayLike | None, stop: ArrayLike | None
    ) -> tuple[Integers, Integers]:
        first = np.zeros(n_models, np.int64) if start is None else np.asarray(start, np.int64)
        last = np.full(n_models, self.n_rows, np.int64) if stop is None else np.asarray(stop, np.int64)
        if first.shape != (n_models,) or last.shape != (n_models,):
            raise InvalidInput(f"start and stop must hold one position per model, {n_models} in all.")
        if first.min() < 0 or (first > last).any() or last.max() > self.n_rows:
            raise InvalidInput(f"start and stop must satisfy 0 <= start <= stop <= {self.n_rows}.")
        return first, last

    def _check_clip(self, n_models: int, clip: ArrayLike | None) -> Floats | None:
        if clip is None:
            return None
        bounds = np.asarray(clip, np.float64)
        if bounds.shape != (n_models,) or not (np.isfinite(bounds).all() and bounds.min() > 0):
            raise InvalidInput(f"clip must hold one positive number per model, {n_models} in all.")
        return bounds

    def _check_schedule(
        self,
        loss: Loss,
        W: Floats,
        edges: Integers,
        sizes: ArrayLike,
        steps: ArrayLike,
        l2: ArrayLike,
        iterate_sum: Floats | None,
    ) -> tuple[Floats, Floats]:
        """What one step multiplies the weights and the gradient sum by, each ``(m, K)``."""
        n_models = self._check_weights(loss, W)
        step, size = np.asarray(steps, np.float64), np.asarray(sizes, np.float64)
        shape = (len(edges) - 1, n_models)
        if shape[0] < 1 or step.shape != shape or size.shape != shape or edges.shape[1:] != (n_models,):
            raise InvalidInput(
                f"edges, sizes and steps must describe {shape[0]} batches for {n_models} models."
            )
        if not size.min() >= 1:
            raise InvalidInput("sizes must be at least 1.")
        if iterate_sum is not None and iterate_sum.shape != W.shape:
            raise InvalidInput(f"iterate_sum must have the shape of W, {W.shape}; got {iterate_sum.shape}.")
        return 1.0 - step * np.broadcast_to(np.asarray(l2, np.float64), (n_models,)), step / size
