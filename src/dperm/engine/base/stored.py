"""Opened rows in one process, in whatever form, and the plainest engine over them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import InitVar, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.arithmetic import FLOAT64, Arithmetic
from dperm.engine.base.draws import Batches, Sample
from dperm.engine.base.engine import Engine, Evaluation, Wanted
from dperm.errors import InvalidInput
from dperm.losses import Loss
from dperm.losses.base import targets_alone
from dperm.typing import Floats, Integers

_ROWS_AT_ONCE = 1024  # at most, by the arithmetic that engines state


@dataclass(frozen=True, repr=False, kw_only=True)
class Stored(ABC):
    """Opened rows: mapped, in their final order, intercept column included. A subclass says in what form.

    ``y``             encoded labels;
    ``inverse_norm``  a lower bound on 1 / norm of each stored row, finite for zero rows too;
    ``mask``          1 where a row trains a model, ``(n_rows, K)``, or None: every row trains every model;
    ``radius``        the declared bound on the norm of a whole row;
    ``clip_share``    what part of a clip is meant for each row, where several belong to one person. ``inverse_norm``,
                      which clips are multiplied by, is so many times smaller.
    """

    y: Floats
    inverse_norm: Floats
    mask: NDArray[np.uint8] | None
    radius: float
    clip_share: InitVar[Floats | None] = None

    def __post_init__(self, clip_share: Floats | None) -> None:
        if clip_share is not None:
            object.__setattr__(self, "inverse_norm", self.inverse_norm * clip_share)

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """With that of the intercept."""

    @cached_property
    def own_rows(self) -> list[Integers]:
        """The positions of each model's rows, for whoever draws many samples; models with the same rows share them."""
        assert self.mask is not None
        found: dict[bytes, Integers] = {}
        keys = [self.mask[:, k].tobytes() for k in range(self.mask.shape[1])]
        for k, key in enumerate(keys):
            if key not in found:
                found[key] = np.flatnonzero(self.mask[:, k])
        return [found[key] for key in keys]

    @abstractmethod
    def densely(self, first: int, last: int) -> Floats:
        """Some of the rows as a float64 array."""

    def take(self, index: Integers, mask: NDArray[np.uint8] | None) -> Self:
        """A copy of these rows alone, with another mask."""
        return replace(
            self, y=self.y[index], inverse_norm=self.inverse_norm[index], mask=mask, **self._taken(index)
        )

    @abstractmethod
    def _taken(self, index: Integers) -> dict[str, Any]:
        """The fields that a subclass adds, of these rows alone."""


@dataclass(frozen=True, repr=False, kw_only=True)
class StoredDense(Stored):
    """``X`` is C-ordered ``(n_rows, n_columns)``, float32 or float64."""

    X: NDArray[np.floating[Any]]

    @property
    def n_columns(self) -> int:
        return int(self.X.shape[1])

    def densely(self, first: int, last: int) -> Floats:
        return self.X[first:last].astype(np.float64, copy=False)

    def _taken(self, index: Integers) -> dict[str, Any]:
        return {"X": self.X[index]}


@dataclass(frozen=True, eq=False)
class Ranges(Batches):
    """Batch j of model k is its rows at positions ``edges[j, k] <= i < edges[j + 1, k]``."""

    edges: Integers
    counts: Integers

    @property
    def sizes(self) -> Integers:
        return self.counts

    def counted_as(self, sizes: Integers) -> Ranges:
        return Ranges(self.edges, sizes)

    def only(self, batch: int) -> Ranges:
        return Ranges(self.edges[batch : batch + 2], self.counts[batch : batch + 1])


def check_sizes(counts: NDArray[Any], own_counts: Integers) -> None:
    """Refuse sizes of batches that do not take every row of each model exactly once."""
    if counts.ndim != 2 or counts.dtype.kind not in "iu" or counts.size == 0 or counts.min() < 1:
        raise InvalidInput("batch sizes must be whole numbers of at least 1, of shape (batches, models).")
    totals = counts.sum(axis=0)
    if (totals != own_counts).any():
        k = int(np.flatnonzero(totals != own_counts)[0])
        raise InvalidInput(
            f"batch sizes must sum to the number of rows of each model; model {k} has {own_counts[k]} rows "
            f"and its batches hold {totals[k]}."
        )


class StoredEngine(Engine):
    """What the engines over rows in memory share: masks, samples, batches as ranges of positions."""

    def __init__(self, rows: Stored, used: set[Arithmetic] | None = None) -> None:
        super().__init__(rows.radius, used)
        self._rows = rows

    @property
    def n_rows(self) -> int:
        return self._rows.n_rows

    @property
    def n_columns(self) -> int:
        return self._rows.n_columns

    def select(self, models: Sequence[int]) -> Self:
        if self._rows.mask is None:
            return self
        part = copy(self)
        part._rows = replace(self._rows, mask=np.ascontiguousarray(self._rows.mask[:, models]))
        return part

    def sample(self, draws: Sequence[Sample]) -> Self:
        """Rows are copied only when that makes passes shorter."""
        members = np.zeros((self.n_rows, len(draws)), np.uint8)
        counts = self._own_counts(len(draws))
        for k, draw in enumerate(draws):
            index = draw.positions(int(counts[k]))
            if index.size and not (index.min() >= 0 and index.max() < counts[k]):
                raise InvalidInput(f"positions of model {k} must lie between 0 and {counts[k] - 1}.")
            own = index if self._rows.mask is None else self._rows.own_rows[k][index]
            members[own, k] = 1
        part = copy(self)
        used = np.flatnonzero(members[:, 0] if len(draws) == 1 else members.any(axis=1))
        if 2 * len(used) > self.n_rows:
            part._rows = replace(self._rows, mask=members)
            return part
        part._rows = self._rows.take(used, None if len(draws) == 1 else members[used])
        return part

    def batches(self, sizes: ArrayLike) -> Ranges:
        counts = np.asarray(sizes)
        check_sizes(counts, self._own_counts(counts.shape[1] if counts.ndim == 2 else 0))
        cuts = np.zeros((counts.shape[0] + 1, counts.shape[1]), np.int64)
        np.cumsum(counts, axis=0, out=cuts[1:])
        if self._rows.mask is not None:
            for k in range(counts.shape[1]):
                own = np.flatnonzero(self._rows.mask[:, k])
                cuts[1:-1, k] = own[cuts[1:-1, k]]
            cuts[0], cuts[-1] = 0, self.n_rows
        return Ranges(cuts, counts.astype(np.int64, copy=False))

    def _begin(self, loss: Loss, W: Floats) -> int:
        mask = self._rows.mask
        if mask is not None and W.ndim > 1 and mask.shape[1] != W.shape[1]:
            raise InvalidInput(f"the mask is for {mask.shape[1]} models; W has {W.shape[1]}.")
        return super()._begin(loss, W)

    def _sums(self, loss: Loss, W: Floats, batch: Batches | None, wanted: Wanted) -> tuple[Floats, Floats]:
        start, stop = self._range(W.shape[1], batch)
        return self._range_sums(loss, W, start, stop, wanted)

    @abstractmethod
    def _range_sums(
        self, loss: Loss, W: Floats, start: Integers, stop: Integers, wanted: Wanted
    ) -> tuple[Floats, Floats]:
        """The sums over each model's own rows at positions ``start[k] <= i < stop[k]``."""

    def _range(self, n_models: int, batch: Batches | None) -> tuple[Integers, Integers]:
        if batch is None:
            return np.zeros(n_models, np.int64), np.full(n_models, self.n_rows, np.int64)
        if len(batch) != 1:
            raise InvalidInput("batch must be a single batch.")
        first, last = self._edges(n_models, batch)
        return first, last

    def _edges(self, n_models: int, batches: Batches) -> Integers:
        """Where batches of these rows begin and end, ``(m + 1, K)``."""
        if not isinstance(batches, Ranges) or batches.edges.shape != (len(batches) + 1, n_models):
            raise InvalidInput(f"batch must be a batch of these rows, for {n_models} models.")
        edges = batches.edges
        if edges.min() < 0 or (edges[1:] < edges[:-1]).any() or edges.max() > self.n_rows:
            raise InvalidInput("the batch is not one of these rows.")
        return edges

    def _row_sums(self) -> Floats:
        return self._power_sums(1)

    def _square_sums(self) -> Floats:
        return self._power_sums(2)

    def _power_sums(self, power: int) -> Floats:
        mask = np.ones((self.n_rows, 1), np.uint8) if self._rows.mask is None else self._rows.mask
        total = np.zeros((self.n_columns, mask.shape[1]))
        for first in range(0, self.n_rows, _ROWS_AT_ONCE):
            block = slice(first, first + _ROWS_AT_ONCE)
            rows = self._rows.densely(block.start, min(block.stop, self.n_rows)).T
            total += (rows if power == 1 else rows * rows) @ mask[block].astype(np.float64)
        return total

    def _moments(self) -> Floats:
        return self._masked_moments(1 if self._rows.mask is None else self._rows.mask.shape[1])

    @abstractmethod
    def _masked_moments(self, n_models: int) -> Floats: ...

    def _scores(self, loss: Loss, W: Floats) -> Evaluation:
        losses, inside, outside = self._counted(loss, W)
        counts = self._own_counts(W.shape[1])
        return Evaluation(losses, inside, counts, outside, self.n_rows - counts)

    @abstractmethod
    def _counted(self, loss: Loss, W: Floats) -> tuple[Floats, Integers, Integers]:
        """Training loss, correct training rows, correct held-out rows."""

    def _own_counts(self, n_models: int) -> Integers:
        mask = self._rows.mask
        if mask is None:
            return np.full(n_models, self.n_rows, np.int64)
        if mask.shape[1] != n_models:
            raise InvalidInput(f"the mask is for {mask.shape[1]} models; got {n_models}.")
        return np.asarray(mask.sum(axis=0, dtype=np.int64))


class ReferenceEngine(StoredEngine):
    """The plainest reading of every verb. All other engines are tested against it."""

    @property
    def _X(self) -> Floats:
        return self._rows.densely(0, self.n_rows)

    def arithmetic(self, n_models: int) -> Arithmetic:
        return FLOAT64

    def _margins(self, W: Floats) -> Floats:
        return np.stack([self._X @ W[:, k] for k in range(W.shape[1])], axis=1)

    def _own(self, k: int) -> Integers:
        mask = self._rows.mask
        return np.arange(self.n_rows) if mask is None else np.flatnonzero(mask[:, k])

    def _range_sums(
        self, loss: Loss, W: Floats, start: Integers, stop: Integers, wanted: Wanted
    ) -> tuple[Floats, Floats]:
        values, gradients = np.zeros(W.shape[1]), np.zeros_like(W)
        for k in range(W.shape[1]):
            own = self._own(k)
            own = own[(own >= start[k]) & (own < stop[k])]
            X, y = self._X[own], self._rows.y[own]
            margin = X @ W[:, k]
            if wanted.value:
                values[k] = loss.value(margin, y).sum()  # NumPy adds in pairs
            if wanted.gradient:
                slope = loss.slope(margin, y)
                if wanted.clip is not None:
                    size = np.abs(slope) if loss.outputs == 1 else np.linalg.norm(slope, axis=-1)
                    allowed = wanted.clip[k] * self._rows.inverse_norm[own]
                    slope = (slope.T * (allowed / np.maximum(size, allowed))).T
                for first in range(0, len(X), FLOAT64.block):
                    block = slice(first, first + FLOAT64.block)
                    gradients[:, k] += X[block].T @ slope[block]
        return values, gradients

    def _curvatures(self, loss: Loss, W: Floats) -> Floats:
        hessians = np.zeros((W.shape[1], self.n_columns, self.n_columns))
        for k in range(W.shape[1]):
            X, y = self._X[self._own(k)], self._rows.y[self._own(k)]
            for x, curvature in zip(X, loss.curvature(X @ W[:, k], y), strict=True):
                hessians[k] += curvature * np.outer(x, x)
        return hessians

    def _masked_moments(self, n_models: int) -> Floats:
        moments = np.zeros((n_models, self.n_columns, self.n_columns))
        for k in range(n_models):
            own = self._X[self._own(k)]
            for first in range(0, len(own), FLOAT64.block):
                block = np.zeros_like(moments[k])
                for x in own[first : first + FLOAT64.block]:
                    block += np.outer(x, x)
                moments[k] += block
        return moments

    def _counted(self, loss: Loss, W: Floats) -> tuple[Floats, Integers, Integers]:
        losses = np.zeros(W.shape[1])
        inside, outside = np.zeros(W.shape[1], np.int64), np.zeros(W.shape[1], np.int64)
        for k in range(W.shape[1]):
            margin, y = self._X @ W[:, k], self._rows.y
            targets = targets_alone(y)
            correct = margin.argmax(axis=-1) == targets if loss.outputs > 1 else (margin > 0) == (targets > 0)
            trains = np.isin(np.arange(self.n_rows), self._own(k))
            losses[k] = loss.value(margin[trains], y[trains]).sum()
            inside[k], outside[k] = correct[trains].sum(), correct[~trains].sum()
        return losses, inside, outside
