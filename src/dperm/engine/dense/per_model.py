"""Dense rows that every model sees through a map of its own, all of them in the same passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import FLOAT64, UNIT_ROUNDOFF, Arithmetic
from dperm.engine.base.blocked import FEWEST_ROWS, MOST_ROWS, BlockedEngine, Span, Stage, safe_clip
from dperm.engine.base.engine import Engine
from dperm.engine.base.rows import StoredDense
from dperm.engine.dense.engine import DenseEngine
from dperm.engine.dense.kernels import add_seen, bend, clip_per_model, fold
from dperm.errors import InvalidInput
from dperm.losses import Loss
from dperm.processors import Part, one_blas_thread
from dperm.row_map import RowMap
from dperm.typing import Array, Floats, Integers

_FARTHEST = 2.0**9  # of x_norm: centres further from their mean would cost too much precision
_LARGEST = 2.0**50  # of x_norm, and of a moved row over it; and the inverse: float32 holds every norm
_SHORTER = 1 - 2.0**-40  # of the bound, so that no rounding of a mapped row gets beyond it
_AT_ONCE = 2**14  # rows that one model's verbs copy at a time


@dataclass(frozen=True, repr=False, kw_only=True)
class StoredPerModel(StoredDense):
    r"""Rows x about a common centre; model k sees :math:`z = f_k (x - d_k)/q_k` and then the intercept column.

    ``shift``, ``spread``  d and q, ``(features, K)``;
    ``norms``              at least the norm of (x - d_k)/q_k, ``(n_rows, K)``; infinite for an empty row;
    ``bound``              f is ``bound`` over the larger of norm and ``bound``, in float64.
    """

    shift: Floats
    spread: Floats
    norms: NDArray[np.floating[Any]]
    bound: float

    def _taken(self, index: Integers) -> dict[str, Any]:
        return {**super()._taken(index), "norms": self.norms[index]}

    def of(self, models: Sequence[int]) -> StoredPerModel:
        return replace(
            self,
            shift=np.ascontiguousarray(self.shift[:, models]),
            spread=np.ascontiguousarray(self.spread[:, models]),
            norms=np.ascontiguousarray(self.norms[:, models]),
            mask=None if self.mask is None else np.ascontiguousarray(self.mask[:, models]),
        )

    def column(self, first: int, last: int) -> Floats:
        """The intercept column, zero where there is none."""
        if self.n_columns == len(self.shift):
            return np.zeros(last - first)
        return self.X[first:last, -1].astype(np.float64)

    def seen_by(self, model: int, first: int, last: int) -> StoredDense:
        """Some of the rows as one model sees them."""
        here = slice(first, last)
        X = self.X[here].astype(np.float64)
        features, norms = X[:, : len(self.shift)], self.norms[here, model].astype(np.float64)
        features -= self.shift[:, model]
        features *= (self.bound / np.maximum(norms, self.bound))[:, None] / self.spread[:, model]
        mask = None if self.mask is None else np.ascontiguousarray(self.mask[here, [model]])
        return StoredDense(
            X=X, y=self.y[here], inverse_norm=self.inverse_norm[here], mask=mask, radius=self.radius
        )


class PerModelEngine(BlockedEngine):
    r"""Passes for several models, each through its own map, that read the rows once and copy none of them.

    The margin of model k is f_k (<x, w/q> - <d, w/q>) + b w_0, and a gradient sum is (X^T s - d sum(s))/q with
    s = f_k * slope, in float64. What a map costs is two numbers for each row and model in a pass, and one that is kept.

    Guarantee
    ---------
    z = f (x - d)/q, in exact arithmetic on the stored numbers, has a norm of at most ``x_norm``.
    A margin is within (p + 8) u (||x/q|| + ||d/q||) f ||w|| of <z, w>, and f ||x/q|| <= x_norm + ||d/q||. A sum over
    blocks of B rows is within (B + n/B + 8) u times the sum of |slope| (x_norm + 2 ||d/q||). Both are what FLOAT64
    states for rows of norm x_norm, because such maps are refused for which they would not be.
    """

    _rows: StoredPerModel

    def arithmetic(self, n_models: int) -> Arithmetic:
        return FLOAT64

    def select(self, models: Sequence[int]) -> Self:
        part = copy(self)
        part._rows = self._rows.of(models)
        return part

    def _begin(self, loss: Loss, W: Floats) -> int:
        n_models = super()._begin(loss, W)
        self._check_maps(n_models)
        return n_models

    def _own_counts(self, n_models: int) -> Integers:
        self._check_maps(n_models)
        return super()._own_counts(n_models)

    def _check_maps(self, n_models: int) -> None:
        if n_models != self._rows.norms.shape[1]:
            raise InvalidInput(f"there are maps for {self._rows.norms.shape[1]} models; got {n_models}.")

    def _stage(
        self, loss: Loss, W: Floats, span: Span, clip: Floats | None, dtype: np.dtype[Any]
    ) -> tuple[Stage, Array]:
        stage, weights = super()._stage(loss, W, span, None, dtype)
        if clip is not None:
            stage = ClippedStage(stage, self._rows, safe_clip(clip, loss.outputs, dtype))
        return stage, np.ascontiguousarray(weights[:, : W[0].size])

    def _load(self, first: int, last: int, dtype: np.dtype[Any]) -> tuple[int, Array, Floats]:
        rows = self._rows
        return first, rows.X[first:last, : len(rows.shift)].astype(dtype), rows.column(first, last)

    def _margins_into(self, block: tuple[int, Array, Floats], weights: Array, out: Array) -> None:
        first, X, column = block
        shift, spread = self._moves(weights.shape[1])
        divided = weights[: len(shift)] / spread
        lift = weights[-1] if len(weights) > len(shift) else np.zeros(weights.shape[1])
        constant = np.einsum("jk,jk->k", shift, divided)
        np.matmul(X, divided, out=out)
        bend(out, self._rows.norms, first, self._rows.bound, constant, column, np.ascontiguousarray(lift))

    def _add_back(self, block: tuple[int, Array, Floats], slopes: Array, total: Floats) -> None:
        first, X, column = block
        shift, spread = self._moves(slopes.shape[1])
        moved, lifted = np.zeros((2, slopes.shape[1]))
        fold(slopes, self._rows.norms, first, self._rows.bound, column, moved, lifted)
        total[: len(shift)] += (X.T @ slopes - shift * moved) / spread
        if len(total) > len(shift):
            total[-1] += lifted

    def _moves(self, width: int) -> tuple[Floats, Floats]:
        """What is subtracted and divided by for every column of a batch of margins."""
        rows = self._rows
        outputs = width // rows.norms.shape[1]
        if outputs == 1:
            return rows.shift, rows.spread
        return np.repeat(rows.shift, outputs, axis=1), np.repeat(rows.spread, outputs, axis=1)

    def _curvatures(self, loss: Loss, W: Floats) -> Floats:
        def hessian(k: int) -> Floats:
            return self._of_one(k, lambda alone: alone.curvature_sum(loss, W[:, [k]])[0])

        return np.stack([hessian(k) for k in range(W.shape[1])])

    def _masked_moments(self, n_models: int) -> Floats:
        return np.stack([self._of_one(k, lambda alone: alone.row_moments()[0]) for k in range(n_models)])

    def _moments(self) -> Floats:
        return self._masked_moments(self._rows.norms.shape[1])

    def _power_sums(self, power: int) -> Floats:
        rows, n_models = self._rows, self._rows.norms.shape[1]

        def pass_over(part: Part) -> tuple[Floats]:
            total = np.zeros((n_models, self.n_columns))
            for cut in self._cuts(part, 1, self._dtype(1)):
                for k in range(n_models):
                    shift, spread = (np.ascontiguousarray(of[:, k]) for of in (rows.shift, rows.spread))
                    how = (shift, spread, rows.bound, k, power == 2)
                    own = np.zeros(self.n_columns)
                    add_seen(rows.X, rows.known_mask, rows.norms, *how, *cut, own)
                    total[k] += own
            return (total,)

        (sums,) = self._add_up(pass_over, 0, self.n_rows, n_models)
        return np.ascontiguousarray(sums.T)

    def _of_one(self, model: int, sums: Callable[[Engine], Floats]) -> Floats:
        """Sums over the rows as one model sees them, a part of the rows after the other."""
        parts = []
        for first in range(0, self.n_rows, _AT_ONCE):
            seen = self._rows.seen_by(model, first, min(first + _AT_ONCE, self.n_rows))
            parts.append(sums(DenseEngine(seen, None, precise=True, threads=self._threads)))
        return np.asarray(sum(parts))


class ClippedStage(Stage):
    """A stage whose slopes are clipped by the norm of each row as each model sees it."""

    def __init__(self, stage: Stage, rows: StoredPerModel, clip: NDArray[Any]) -> None:
        self._stage, self._seen, self._bounds = stage, rows, clip

    def slopes(self, Z: Array, first: int) -> None:
        self._stage.slopes(Z, first)
        rows = self._seen
        clip_per_model(Z, rows.norms, first, rows.bound, rows.column(first, first + len(Z)), self._bounds)

    def add_values(self, Z: Array, first: int, total: Floats) -> None:
        self._stage.add_values(Z, first, total)

    def add_correct(self, Z: Array, first: int, inside: Integers, outside: Integers) -> None:
        self._stage.add_correct(Z, first, inside, outside)


def common_map(maps: Sequence[RowMap], n_rows: int) -> RowMap | None:
    """Centre all rows by the mean of the centres and divide by one number, so that no bound cuts a second time.

    None where passes for all models at once would not be precise enough, by public numbers alone.
    """
    first = maps[0]
    if any((one.x_norm, one.intercept) != (first.x_norm, first.intercept) for one in maps):
        return None
    if not all(one.moves for one in maps):
        return None
    given = next(values for values in (first.centre, first.scale) if values is not None)
    centre = np.mean([np.zeros(len(given)) if one.centre is None else one.centre for one in maps], axis=0)
    longest = (first.x_norm + float(np.linalg.norm(centre))) / first.x_norm * (1 + 1e-6)
    common = RowMap(
        x_norm=first.x_norm,
        intercept=first.intercept,
        centre=centre,
        scale=np.full(len(given), longest),
    )
    return common if _precise_enough(maps, common, n_rows) else None


def per_model_engine(
    rows: StoredDense,
    empty: Integers,
    maps: Sequence[RowMap],
    common: RowMap,
    used: set[Arithmetic],
    threads: int,
) -> PerModelEngine:
    """Rows that were stored through the common map, each model to see them through its own; ``empty`` are no rows."""
    shift, spread = moves(maps, common)
    norms = _norms(rows.X[:, : len(shift)], shift, spread, common.x_norm * 2.0**-60)
    norms[empty] = np.inf
    stored = StoredPerModel(
        **{field.name: getattr(rows, field.name) for field in fields(rows)},
        shift=shift,
        spread=spread,
        norms=norms,
        bound=common.x_norm * _SHORTER,
    )
    return PerModelEngine(stored, used, precise=True, threads=threads)


def moves(maps: Sequence[RowMap], common: RowMap) -> tuple[Floats, Floats]:
    """What model k subtracts from a row that went through the common map, and then divides by."""
    assert common.centre is not None
    assert common.scale is not None
    features = len(common.centre)
    centres = [np.zeros(features) if one.centre is None else one.centre for one in maps]
    scales = [np.ones(features) if one.scale is None else one.scale for one in maps]
    shift = (np.stack(centres, axis=1) - common.centre[:, None]) / common.scale[:, None]
    return np.ascontiguousarray(shift), np.ascontiguousarray(np.stack(scales, axis=1) / common.scale[:, None])


def _precise_enough(maps: Sequence[RowMap], common: RowMap, n_rows: int) -> bool:
    """Whether margins and sums are as precise as FLOAT64 states, by public numbers alone."""
    shift, spread = moves(maps, common)
    apart = float(np.sqrt(np.sum((shift / spread) ** 2, axis=0)).max()) / common.x_norm
    p, factor = len(shift) + (common.intercept > 0), 1 + 2 * apart
    margin = (p + 8) * UNIT_ROUNDOFF * factor <= 2 * p * FLOAT64.margin
    chain = min(n_rows, MOST_ROWS) + n_rows / FEWEST_ROWS + 8
    summed = chain * factor <= 2 * min(n_rows, 2 * MOST_ROWS + n_rows / 64)
    farthest = (1 + float(np.abs(shift).max()) / common.x_norm) / float(spread.min())
    ordinary = farthest <= _LARGEST and 1 / _LARGEST <= common.x_norm <= _LARGEST
    return margin and summed and ordinary and apart <= _FARTHEST


def _norms(
    X: NDArray[np.floating[Any]], shift: Floats, spread: Floats, least: float
) -> NDArray[np.floating[Any]]:
    r"""Upper bounds on the norms of (x - d)/q, in the precision of the rows; none is below ``least``.

    ||(x - d)/q||^2 = a - 2b + c with a = <x^2, q^-2>, b = <x, d q^-2> and c = ||d/q||^2. Computed, a and c are within
    gamma_{p+4} of exact, relatively, b within gamma_{p+4} sqrt(a c) <= gamma_{p+4} (a + c)/2, and two additions cost
    at most 4 u (a + c): together less than 8 (p + 8) u (a + c), which is added.
    """
    inverse = 1 / (spread * spread)
    across, own = shift * inverse, np.einsum("jk,jk->k", shift * inverse, shift)
    slack = 8 * (len(shift) + 8) * UNIT_ROUNDOFF
    norms = np.empty((len(X), shift.shape[1]), X.dtype)
    upwards = 1 + 2 * float(np.finfo(X.dtype).eps)
    with one_blas_thread:
        for first in range(0, len(X), MOST_ROWS):
            rows = X[first : first + MOST_ROWS].astype(np.float64)
            squares = (rows * rows) @ inverse + own
            squares *= 1 + slack
            squares -= 2 * (rows @ across)
            np.maximum(squares, least * least, out=squares)
            norms[first : first + MOST_ROWS] = np.sqrt(squares) * upwards
    return norms
