"""What opened rows offer a mechanism: a handful of passes for K models at once, and how precise they are.

An ``Engine`` is what opening ``Rows`` gives: passes that return sums of the size of the weights. A mechanism names what
it needs of them and never a number type, an array or a place in memory.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from dperm.arithmetic import Arithmetic
from dperm.engine.base.draws import Batches, Ranges, Sample, check_sizes, cuts_of
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Loss
from dperm.typing import Floats, Integers

if TYPE_CHECKING:
    from dperm.engine.base.rows import Stored
    from dperm.engine.base.vertices import VertexPass

_ROWS_AT_ONCE = 1024  # at most, by the arithmetic that engines state
_COLUMNS_AT_ONCE = 256


class CoordinatePass(ABC):
    """Weights ``(n_columns, K)`` that the caller moves, coordinate by coordinate, and derivatives at them.

    What is kept of the rows between two steps stays inside.

    Guarantee
    ---------
    A derivative is as precise as that coordinate of ``Engine.gradient_sum`` would be at the longest weights that the
    pass has seen.
    """

    def __init__(self, weights: Floats) -> None:
        self.weights = weights.copy()

    @abstractmethod
    def derivative(self, j: int) -> Floats:
        """Sum of slope * x_j over each model's own rows, ``(K,)``. Private, as all sums over rows."""

    def move(self, j: int, change: Floats) -> None:
        """Add ``change``, one number per model, to coordinate j of the weights."""
        self.weights[j] += change


class WholeGradientPass(CoordinatePass):
    """On any engine: a whole gradient for each derivative."""

    def __init__(self, engine: Engine, loss: Loss, weights: Floats) -> None:
        super().__init__(weights)
        self._engine, self._loss = engine, loss

    def derivative(self, j: int) -> Floats:
        return np.asarray(self._engine.gradient_sum(self._loss, self.weights)[j])


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


Schedule = tuple[Floats, Floats]
"""What each step multiplies the weights and the gradient sum by, each ``(m, K)``."""


class Wanted(NamedTuple):
    """What is asked of a pass: sums of losses, of gradients, and the clip of each model's gradients, if any."""

    value: bool
    gradient: bool
    clip: Floats | None = None


class Engine(ABC):
    r"""Passes over private rows. Everything returned is private until it passes the release gate.

    Weights are float64 ``(n_columns, K)``, or ``(n_columns, K, C)`` for a loss with C > 1 outputs. Model
    k owns the rows whose mask is 1 in column k; without a mask it owns them all. Every result is a
    float64 host array, and depends neither on timing nor on the number of threads.

    Guarantee
    ---------
    A pass is as precise as the ``Arithmetic`` that the engine states for it, no slope is above ``loss.lipschitz`` by
    more than the error of a slope, and with ``clip`` each row's computed slope satisfies |slope| ||x|| <= clip
    exactly, for the real norm; where rows belong to persons (``Rows.members``), |slope| ||x|| is at most the clip times
    the row's share in its person. Whatever arithmetic a pass used is noted where ``Rows.noting`` asked for it, so a
    guarantee that was planned for a finer one is not certified.

    Rows are added up in blocks of at most ``Arithmetic.block`` rows, and blocks in float64 in a fixed order. What is
    computed for a row depends on that row, on its place and on the weights alone, and how rows are cut into blocks on
    public numbers. So tables that differ in one row are rounded alike in every block but one: plans for coarser
    arithmetic than float64 rest on it (docs/proofs/arithmetic.md). A row that is left out of a sample may move others.

    A row of zeros adds exactly zero to every gradient and curvature. Weights that are not finite, or so
    large that a margin might overflow, are refused.

    Assumes
    -------
    A loss without compiled formulas is as precise as its own NumPy ones.
    """

    widest_hessian: ClassVar[float] = math.inf
    """Columns up to which a Hessian costs no more than the gradients that it saves; a hint for solvers."""

    def __init__(self, radius: float, used: set[Arithmetic] | None = None) -> None:
        """``radius`` bounds the norm of a whole row; ``used`` collects the arithmetic of every pass."""
        self._radius = radius
        self._used = set() if used is None else used

    @property
    @abstractmethod
    def n_rows(self) -> int: ...

    @property
    @abstractmethod
    def n_columns(self) -> int: ...

    @abstractmethod
    def arithmetic(self, n_models: int) -> Arithmetic:
        """How precise a pass for ``n_models`` models is; moments and sums of rows are as precise as one model's."""

    @abstractmethod
    def select(self, models: Sequence[int]) -> Self:
        """The same rows, for some of the models only."""

    @abstractmethod
    def sample(self, draws: Sequence[Sample]) -> Self:
        """The rows that ``draws[k]`` picks among model k's own rows, for every model k; they may be none."""

    @abstractmethod
    def batches(self, sizes: ArrayLike) -> Batches:
        """Each model's own rows, in their order, cut into batches of exactly these sizes, ``(m, K)``."""

    def gradient_sum(
        self, loss: Loss, W: Floats, *, clip: ArrayLike | None = None, batch: Batches | None = None
    ) -> Floats:
        """Sum of slope * x over each model's own rows, or over those of a single ``batch``.

        ``clip``, one per model, bounds the norm of every row's gradient before it is added.
        """
        n_models = self._begin(loss, W)
        return self._sums(loss, W, batch, Wanted(False, True, self._check_clip(n_models, clip)))[1]

    def value_sum(self, loss: Loss, W: Floats) -> Floats:
        """Sum of the loss over each model's own rows, ``(K,)``."""
        self._begin(loss, W)
        return self._sums(loss, W, None, Wanted(True, False))[0]

    def value_and_gradient_sum(self, loss: Loss, W: Floats) -> tuple[Floats, Floats]:
        """Both sums in one pass."""
        self._begin(loss, W)
        return self._sums(loss, W, None, Wanted(True, True))

    def values_between(self, loss: Loss, begin: Floats, end: Floats, shares: Floats) -> Floats:
        """Sum of the loss over each model's own rows at points of a segment, ``(len(shares), K)``.

        The points are ``begin + shares[s] (end - begin)``, with shares from 0 to 1. A margin is as precise as that of
        the longer of the two ends.
        """
        total = np.empty((len(shares), begin.shape[1]))
        at_once = max(1, _COLUMNS_AT_ONCE // len(shares))
        for first in range(0, begin.shape[1], at_once):
            models = range(begin.shape[1])[first : first + at_once]
            one, other = begin[:, models, None], end[:, models, None]
            # Every point is a model of its own, with the rows of its model.
            points = np.ascontiguousarray((one + (other - one) * shares).reshape(len(begin), -1))
            many = self.select(np.repeat(models, len(shares)).tolist())
            total[:, models] = many.value_sum(loss, points).reshape(len(models), -1).T
        return total

    def coordinate_pass(self, loss: Loss, W: Floats) -> CoordinatePass:
        """Derivatives from W on, for a loss with one output, while one coordinate of the weights moves at a time."""
        if loss.outputs != 1:
            raise Unsupported(
                f"a coordinate pass needs a loss with one output; {loss.name} has {loss.outputs}."
            )
        return WholeGradientPass(self, loss, W)

    def vertex_pass(self, loss: Loss, model: int, grid_exponent: int, block: int) -> VertexPass:
        """A gradient of old slopes that is kept from zero weights on, for rows whose entries are in memory."""
        raise Unsupported(
            "rows of this kind keep no old slopes; set lazy to False, or give dense or sparse rows."
        )

    def curvature_sum(self, loss: Loss, W: Floats) -> Floats:
        """Hessian of the summed loss, ``(K, n_columns, n_columns)``: curvature * x x^T over own rows."""
        if loss.outputs != 1:
            raise Unsupported(
                f"curvature_sum needs a loss with one output; {loss.name} has {loss.outputs}. "
                "Use a solver that only takes gradients."
            )
        self._begin(loss, W)
        return self._curvatures(loss, W)

    def row_sum(self) -> Floats:
        """Sum of each model's own rows: ``(n_columns, K)``, or one column without a mask."""
        self._note(1)
        return self._power_sums(1)

    def row_moments(self) -> Floats:
        """Sum of x x^T over each model's own rows: ``(K, n_columns, n_columns)``, one matrix without a mask.

        Within ``sum_error(n)`` sum_i ||x_i||^2 of exact in Frobenius norm, by the arithmetic of one model.
        """
        self._note(1)
        return self._moments()

    def square_sum(self) -> Floats:
        """Sum of the squares in each column over each model's own rows, as ``row_sum``.

        As precise as ``row_moments``, whose diagonal it is, in the Euclidean norm.
        """
        self._note(1)
        return self._power_sums(2)

    def margins(self, W: Floats) -> Floats:
        """<x_i, w_k> for every row, as precise as those of one model: ``(n_rows, K)`` or ``(n_rows, K, C)``."""
        self._note(1)
        return self._margins(W)

    def evaluate(self, loss: Loss, W: Floats) -> Evaluation:
        """Training loss, and correct predictions inside and outside each model's own rows, in one pass.

        Not private: for experiments on public data.
        """
        self._begin(loss, W)
        return self._scores(loss, W)

    def descend(
        self,
        loss: Loss,
        W: Floats,
        batches: Batches,
        steps: ArrayLike,
        l2: ArrayLike,
        iterate_sum: Floats | None = None,
    ) -> None:
        """One epoch of mini-batch gradient descent on W, in place.

        For each batch j in turn, model k moves to ``(1 - steps[j, k] l2[k]) w - steps[j, k] / sizes[j, k]
        g`` with g its gradient sum over batch j. Each new iterate is added to ``iterate_sum`` if given.
        """
        n_models = self._begin(loss, W)
        step, size = np.asarray(steps, np.float64), np.asarray(batches.sizes, np.float64)
        shape = (len(batches), n_models)
        if step.shape != shape or size.shape != shape:
            raise InvalidInput(f"batches and steps must describe {shape[0]} batches for {n_models} models.")
        if iterate_sum is not None and iterate_sum.shape != W.shape:
            raise InvalidInput(f"iterate_sum must have the shape of W, {W.shape}; got {iterate_sum.shape}.")
        decay = 1.0 - step * np.broadcast_to(np.asarray(l2, np.float64), (n_models,))
        self._epoch(loss, W, batches, (decay, step / size), iterate_sum)
        self._check_size(W)

    def _epoch(
        self, loss: Loss, W: Floats, batches: Batches, schedule: Schedule, iterate_sum: Floats | None
    ) -> None:
        """The steps of ``descend``, once its arguments are checked."""
        decay, rate = schedule
        columns = (slice(None),) + (None,) * (W.ndim - 2)
        for j in range(len(batches)):
            gradient = self.gradient_sum(loss, W, batch=batches.only(j))
            W *= decay[j][columns]
            W -= rate[j][columns] * gradient
            if iterate_sum is not None:
                iterate_sum += W

    @abstractmethod
    def _sums(self, loss: Loss, W: Floats, batch: Batches | None, wanted: Wanted) -> tuple[Floats, Floats]:
        """Values ``(K,)`` and gradients shaped as W; what is not wanted is returned as zeros."""

    @abstractmethod
    def _margins(self, W: Floats) -> Floats: ...

    @abstractmethod
    def _curvatures(self, loss: Loss, W: Floats) -> Floats: ...

    @abstractmethod
    def _power_sums(self, power: int) -> Floats:
        """Sums of the rows, or of their squares."""

    @abstractmethod
    def _moments(self) -> Floats: ...

    @abstractmethod
    def _scores(self, loss: Loss, W: Floats) -> Evaluation: ...

    def _note(self, n_models: int) -> None:
        self._used.add(self.arithmetic(n_models))

    def _begin(self, loss: Loss, W: Floats) -> int:
        """Check the weights, note the arithmetic of the pass that follows, and return the number of models."""
        ndim = 2 if loss.outputs == 1 else 3
        shape = (self.n_columns, W.shape[1] if W.ndim > 1 else 0) + (loss.outputs,) * (ndim - 2)
        if W.dtype != np.float64 or W.shape != shape or shape[1] < 1:
            wanted = f"({self.n_columns}, models" + (f", {loss.outputs})" if ndim == 3 else ")")
            raise InvalidInput(f"W must be float64 of shape {wanted}; got {W.dtype} of shape {W.shape}.")
        self._check_size(W)
        self._note(shape[1])
        return int(shape[1])

    def _largest_number(self, n_models: int) -> float:
        """The largest number that a pass for so many models can hold."""
        return float(np.finfo(np.float64).max)

    def _check_size(self, W: Floats) -> None:
        """Refuse weights for which a margin might overflow; NaN fails the comparison too."""
        largest = self._largest_number(W.shape[1]) / (16.0 * self.n_columns * max(1.0, self._radius))
        if not np.abs(W).max() <= largest:
            raise InvalidInput(
                "the weights are not finite, or so large that margins might overflow. "
                "Use a smaller step size or more regularisation."
            )

    def _check_clip(self, n_models: int, clip: ArrayLike | None) -> Floats | None:
        if clip is None:
            return None
        bounds = np.asarray(clip, np.float64)
        if bounds.shape != (n_models,) or not (np.isfinite(bounds).all() and bounds.min() > 0):
            raise InvalidInput(f"clip must hold one positive number per model, {n_models} in all.")
        return bounds


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
        return Ranges(cuts_of(counts, self._rows.mask), counts.astype(np.int64, copy=False))

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
