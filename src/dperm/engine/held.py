"""Rows that one process holds, with their labels, mask and declared bounds, before they are opened."""

from __future__ import annotations

import math
from abc import abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dperm.engine.base import Engine, Floats, Integers
from dperm.engine.declared import DeclaredRows
from dperm.engine.drawn import Order
from dperm.engine.members import Members
from dperm.errors import InvalidInput
from dperm.losses import Loss, Weighted
from dperm.losses.weighted import has_weights, targets_alone, weights_alone
from dperm.processors import available_processors
from dperm.row_map import RowMap

_DOWN = 1 - 2.0**-50  # a clip that is multiplied by a share must not be rounded up


class HeldRows(DeclaredRows):
    """What all rows in one process share; a subclass says in what form the features are and how they are opened.

    Parameters
    ----------
    shape, row_map, n_rows, mask
        As for all ``DeclaredRows``.
    y : array of shape (rows,)
        Encoded labels: -1/+1, real numbers, or 0..C-1; or pairs of one and a weight (``losses.weighted.TARGET``).
    """

    def __init__(
        self, shape: tuple[int, int], y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None
    ) -> None:
        self._y = np.asarray(y)
        self._clip_bound: float | None = None
        check_targets(self._y, shape[0])
        super().__init__(shape, row_map=row_map, n_rows=n_rows, mask=mask)

    @classmethod
    def of(cls, X: Any, y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None) -> Self:
        return cls(X, y, row_map=row_map, n_rows=n_rows, mask=mask)

    def check_labels(self, loss: Loss) -> None:
        check_labels(self._y, loss)

    def of_persons(self, members: Members) -> Self:
        return super().of_persons(members).sharing_clips(members.bound)

    def sharing_clips(self, bound: float | None) -> Self:
        """The same rows, of persons: a row of weight ``bound`` has all of a clip, others their share of it.

        With None every row has all of a clip, as single rows have.
        """
        part = copy(self)
        part._clip_bound = bound
        return part

    def open(
        self,
        order: Order | None = None,
        *,
        precise: bool = False,
        threads: int | None = None,
        **how: Any,
    ) -> Engine:
        """The rows, mapped and in the given order, in an engine.

        Parameters
        ----------
        order, precise
            As for all ``Rows``.
        threads : int, optional
            By default one per available processor. Results do not depend on it.
        **how
            What the kind of rows offers besides.
        """
        if threads is not None and threads < 1:
            raise InvalidInput(f"threads must be at least 1; got {threads}.")
        position = self._positions(order)
        y = self._labels()
        placed = np.ones(self._n_rows, y.dtype)
        placed[position[: len(y)]] = y
        mask = None
        if self._mask is not None:
            mask = np.empty(self._mask.shape, np.uint8)
            mask[position] = self._mask
        radius = math.nextafter(math.hypot(self._map.x_norm, self._map.intercept), math.inf)
        common: dict[str, Any] = {"y": placed, "mask": mask, "radius": radius}
        if self._clip_bound is not None:
            common["clip_share"] = weights_alone(placed) / self._clip_bound * _DOWN
        return self._opened(position, common, precise, threads or available_processors(), **how)

    @abstractmethod
    def _opened(
        self, position: Integers, common: dict[str, Any], precise: bool, threads: int, **how: Any
    ) -> Engine:
        """The engine. Row i goes to ``position[i]``; ``common`` holds ``y``, ``mask`` and ``radius`` of ``Stored``."""

    def _positions(self, order: Order | None) -> Integers:
        """Where each row goes: the inverse of the order."""
        everyone = np.arange(self._n_rows, dtype=np.int64)
        if order is None:
            return everyone
        drawn = np.asarray(order.permutation(self._n_rows))
        position = np.full(self._n_rows, -1, np.int64)
        if drawn.shape == (self._n_rows,) and drawn.dtype.kind in "iu" and drawn.min() >= 0:
            position[drawn[drawn < self._n_rows]] = everyone[drawn < self._n_rows]
        if position.min() < 0:
            raise InvalidInput(f"order must be a permutation of range({self._n_rows}).")
        return position

    def _labels(self) -> Floats:
        y = self._y if has_weights(self._y) else self._y.astype(np.float64, copy=False)
        if not np.isfinite(targets_alone(y)).all():
            raise InvalidInput("y holds NaN or infinite values. Drop those rows or repair the labels first.")
        return y

    def _moves(self) -> tuple[Floats, Floats]:
        """What the map subtracts and divides by, empty where it only bounds."""
        if not self._map.moves:
            return np.empty(0), np.empty(0)
        n_features = self._shape[1]
        centre = np.zeros(n_features) if self._map.centre is None else np.array(self._map.centre)
        spread = np.ones(n_features) if self._map.scale is None else np.array(self._map.scale)
        if not len(centre) == len(spread) == n_features:
            raise InvalidInput(f"the row map must have one number for each of the {n_features} features.")
        return centre, spread


def check_targets(y: NDArray[Any], n_rows: int) -> None:
    """Refuse what is not one number, or one pair of target and weight, for each row."""
    if y.shape != (n_rows,) or not (has_weights(y) or y.dtype.kind in "biuf"):
        raise InvalidInput("y must hold one number per row of X.")


def check_labels(y: NDArray[Any], loss: Loss) -> None:
    """Refuse labels that the loss does not know, and weights beyond its bound."""
    if has_weights(y) != isinstance(loss, Weighted):
        raise InvalidInput("targets have weights exactly where the loss is for weighted rows.")
    if isinstance(loss, Weighted):
        if not ((y["weight"] >= 0) & (y["weight"] <= loss.bound)).all():
            raise InvalidInput("weights must lie between 0 and the bound that the loss declares.")
        y, loss = y["target"], loss.base
    if loss.labels == "binary":
        known = np.abs(y) == 1
    elif loss.labels == "classes":
        known = (y >= 0) & (y < loss.outputs) & (y == np.floor(y))
    else:
        known = np.isfinite(y)
    if not known.all():
        raise InvalidInput(f"y holds labels that the {loss.name} loss does not know; encode them first.")
