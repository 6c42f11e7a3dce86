"""Rows with their declared bounds, of which nothing has been read, and opened rows: what every kind shares."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import InitVar, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dperm.arithmetic import UNIT_ROUNDOFF, Arithmetic
from dperm.engine.base.draws import Members, Order
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Loss, Weighted
from dperm.losses.base import has_weights, targets_alone, weights_alone
from dperm.problem import Problem
from dperm.processors import available_processors
from dperm.row_map import RowMap
from dperm.typing import Floats, Integers

if TYPE_CHECKING:
    from dperm.engine.base.engine import Engine


EVERY_TYPE = ("builtins.object",)


class Rows(ABC):
    """Private rows and their declared bounds. Nothing is read before ``open``."""

    name: ClassVar[str]
    """By which an engine is registered and asked for."""

    opens: ClassVar[tuple[str, ...]] = EVERY_TYPE
    """The types that ``accepts`` is asked about, each by package and class, or by a protocol: "scipy.sparray"."""

    members: Members | None = None
    """Which rows belong to which person, where one may have several."""

    @classmethod
    @abstractmethod
    def accepts(cls, X: Any) -> bool:
        """Whether these rows are of the kind that this engine opens; only the type of X is looked at."""

    @classmethod
    def of(cls, X: Any, y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None) -> Self:
        """Rows as they came, with encoded targets: -1/+1, real numbers, or 0..C-1.

        There may be fewer than ``n_rows`` rows: the missing ones are empty, all zero with the intercept column too, so
        that their gradient is zero. ``mask``, 0/1 of shape (n_rows, K), says which rows each of K models trains on.
        """
        return cls(X, y, row_map=row_map, n_rows=n_rows, mask=mask)  # type: ignore[call-arg]

    @classmethod
    def shape_of(cls, X: Any) -> tuple[int, int]:
        """Rows and features of what this engine accepts, without a look at a value."""
        if not hasattr(X, "shape"):
            return len(X), len(X[0]) if len(X) else 0
        return int(X.shape[0]), int(X.shape[1])

    @classmethod
    def margins_of(cls, X: Any, row_map: RowMap, coefficients: Floats, constant: Floats | float) -> Floats:
        """Margins of rows as they came, for prediction: as ``RowMap.margins`` of the same rows in an array."""
        raise Unsupported(f"a model cannot predict for {cls.name} rows; give them as an array.")

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The public number of rows, or capacity."""

    def of_persons(self, members: Members) -> Self:
        """The same rows, which belong to persons."""
        raise Unsupported(f"{self.name} rows cannot be told apart by persons; give them as an array.")

    @abstractmethod
    def noting(self, used: set[Arithmetic]) -> Self:
        """The same rows; the arithmetic of every pass over them from now on is added to ``used``."""

    @abstractmethod
    def check_matches(self, problem: Problem, model: int) -> None:
        """Refuse a plan for other bounds or another number of rows than these."""

    @abstractmethod
    def check_labels(self, loss: Loss) -> None:
        """Refuse labels that the loss does not know: its constants hold for its own labels only."""

    @abstractmethod
    def select(self, models: Sequence[int]) -> Self:
        """The same rows, for some of the mask's models only."""

    @abstractmethod
    def mapped(self, row_map: RowMap) -> Self:
        """The same rows, seen through another map from now on. Nothing is copied; ``open`` applies it."""

    def mapped_per_model(self, maps: Sequence[RowMap]) -> Rows | None:
        """The same rows, seen by model k through ``maps[k]``; None where that cannot be done in common passes."""
        return None

    @abstractmethod
    def open(self, order: Order | None = None, *, precise: bool = False) -> Engine:
        """The rows, mapped and in the given order, ready for passes.

        Parameters
        ----------
        order : Order, optional
            A secret order of the rows; without one they keep their own.
        precise : bool
            Ask for passes in float64. Otherwise they may be coarser and faster, for sums at public weights.

        Guarantee
        ---------
        The norm of every mapped row of features, in exact arithmetic on the stored numbers, is at most ``x_norm``.
        What is stored of a row depends on that row and on public numbers only.
        """


class BoundedRows(Rows):
    """The number of rows, the map, the mask, and the set that collects the arithmetic of passes.

    Parameters
    ----------
    shape : (int, int)
        Rows that there are, and features.
    row_map, n_rows, mask
        As for ``Rows.of``. Longer rows than the public bound of the map are scaled down.
    """

    def __init__(self, shape: tuple[int, int], *, row_map: RowMap, n_rows: int, mask: Any = None) -> None:
        self._shape = shape
        self._declared = self._map = row_map
        self._n_rows = int(n_rows)
        self._mask = None if mask is None else np.asarray(mask)
        self._used: set[Arithmetic] = set()
        self._check_declared()

    @property
    def n_rows(self) -> int:
        return self._n_rows

    def noting(self, used: set[Arithmetic]) -> Self:
        part = copy(self)
        part._used = used
        return part

    def of_persons(self, members: Members) -> Self:
        if self._mask is not None or members.n_rows != self._n_rows:
            raise InvalidInput("rows of persons train one model, and every row belongs to a person.")
        part = copy(self)
        part.members = members
        return part

    def check_matches(self, problem: Problem, model: int) -> None:
        rows = self._n_rows if self._mask is None else int(self._mask[:, model].sum(dtype=np.int64))
        if self.members is not None:
            rows = self.members.n_persons
        if problem.many_rows != (self.members is not None):
            raise InvalidInput(
                "the plan and the rows do not agree on whether a person may have several rows."
            )
        declared = (problem.x_norm, problem.intercept, problem.n_features, problem.n_rows)
        mine = (self._declared.x_norm, self._declared.intercept, self._shape[1], rows)
        if declared != mine:
            raise InvalidInput(
                "the table's bounds, features or rows are not those of the plan; make both from the same Problem."
            )

    def select(self, models: Sequence[int]) -> Self:
        if self._mask is None:
            return self
        part = copy(self)
        part._mask = self._mask[:, models]
        return part

    def mapped(self, row_map: RowMap) -> Self:
        part = copy(self)
        part._map = row_map
        return part

    def _check_declared(self) -> None:
        if self._n_rows < 1 or self._shape[0] > self._n_rows:
            raise InvalidInput(
                f"X has more rows than the declared n_rows = {self._n_rows}. Declare a larger n_rows, "
                "chosen without looking at the data."
            )
        if self._mask is not None:
            shape_ok = self._mask.ndim == 2 and len(self._mask) == self._n_rows and self._mask.shape[1] > 0
            if (
                not shape_ok
                or self._mask.dtype.kind not in "biu"
                or ((self._mask != 0) & (self._mask != 1)).any()
            ):
                raise InvalidInput(f"mask must hold 0 and 1 in shape ({self._n_rows}, models).")


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
    def known_mask(self) -> NDArray[np.uint8]:
        """As kernels take it: the mask, without rows where there is none."""
        return np.empty((0, 1), np.uint8) if self.mask is None else self.mask

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


class OpenRequest(NamedTuple):
    """Row i goes to ``position[i]``; ``common`` holds the fields of ``Stored`` that no kind of rows changes."""

    position: Integers
    common: dict[str, Any]
    precise: bool
    threads: int
    storage: DTypeLike | None


_DOWN = 1 - 2.0**-50  # a clip that is multiplied by a share must not be rounded up


class InMemoryRows(BoundedRows):
    """What all rows in one process share; a subclass says in what form the features are and how they are opened.

    Parameters
    ----------
    shape, row_map, n_rows, mask
        As for all ``BoundedRows``.
    y : array of shape (rows,)
        Encoded labels: -1/+1, real numbers, or 0..C-1; or pairs of one and a weight (``losses.weighted.TARGET``).
    """

    chooses_storage: ClassVar[bool] = False

    def __init__(
        self, shape: tuple[int, int], y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None
    ) -> None:
        self._y = np.asarray(y)
        self._clip_bound: float | None = None
        check_targets(self._y, shape[0])
        super().__init__(shape, row_map=row_map, n_rows=n_rows, mask=mask)

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
        engine: str | None = None,
        storage: DTypeLike | None = None,
    ) -> Engine:
        """The rows, mapped and in the given order, in an engine.

        Parameters
        ----------
        order, precise
            As for all ``Rows``.
        threads : int, optional
            By default one per available processor. Results do not depend on it.
        engine : str, optional
            The name of the kind of rows, which is the default, or "reference".
        storage : float32 or float64, optional
            For dense and sparse rows. By default float32: rounding a row is a function of that row alone. Precise rows
            are stored as float64 where that costs little, below two million numbers, and where the public bounds are
            beyond float32.
        """
        if engine not in (None, self.name, "reference"):
            raise InvalidInput(f"engine must be {self.name!r} or 'reference'; got {engine!r}.")
        if storage is not None and not self.chooses_storage:
            raise InvalidInput(f"{self.name} rows have no choice of storage.")
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
        request = OpenRequest(position, common, precise, threads or available_processors(), storage)
        if engine != "reference":
            return self._engine(request)
        from dperm.engine.base.reference import ReferenceEngine

        return ReferenceEngine(self._stored(request), self._used)

    @abstractmethod
    def _stored(self, request: OpenRequest) -> Stored:
        """One pass: map and bound the rows, refuse what is not finite, and store them in their order."""

    @abstractmethod
    def _engine(self, request: OpenRequest) -> Engine:
        """The engine of this kind over the stored rows, or that of another kind where it is more precise."""

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


_SMALL = 2**21  # numbers that may as well be stored as float64
# Bounds must leave room for squares (float64) and for rounding to the storage type (float32).
_EXPONENT_LIMIT = {np.dtype(np.float32): 100, np.dtype(np.float64): 400}


def storage_of(row_map: RowMap, size: int, precise: bool, wished: DTypeLike | None = None) -> np.dtype[Any]:
    """Float32, or for precise rows float64 where so many numbers cost little or the bounds are beyond float32.

    What is wished for is taken in its place, and bounds that the type has no room for are refused.
    """
    x_norm, intercept = row_map.x_norm, row_map.intercept
    dtype = np.dtype(np.float32 if wished is None else wished)
    if dtype not in _EXPONENT_LIMIT:
        raise InvalidInput(f"storage must be float32 or float64; got {dtype}.")
    limit = 2.0 ** _EXPONENT_LIMIT[dtype]
    fits = all(1 / limit <= bound <= limit for bound in (x_norm, intercept or 1.0))
    if wished is None and precise and (size <= _SMALL or not fits):
        return storage_of(row_map, size, precise, np.float64)
    if not 1 / limit <= x_norm <= limit:
        raise InvalidInput(
            f"x_norm must lie between {1 / limit:.3g} and {limit:.3g} with {dtype} storage; got "
            f"{x_norm!r}. Rescale the features, or store them as float64."
        )
    if not fits:
        raise InvalidInput(
            f"intercept must be 0 or lie between {1 / limit:.3g} and {limit:.3g} with {dtype} storage; "
            f"got {intercept!r}."
        )
    return dtype


def floor_of(n_features: int, dtype: np.dtype[Any]) -> float:
    """No stored norm is taken as smaller than this, so that underflow cannot spoil the clip."""
    return float(n_features * 2.0 ** -(_EXPONENT_LIMIT[dtype] + 20))


def storing_bounds(row_map: RowMap, n_features: int, dtype: np.dtype[Any]) -> tuple[float, ...]:
    """``x_norm``, intercept, slack, shrink and floor of stored rows; ``Table._bounded`` says why they do."""
    rounding = 2.0**-24 if dtype == np.float32 else 0.0
    slack = 1 + 4 * rounding + 4 * (n_features + 8) * UNIT_ROUNDOFF
    shrink = 1 - 2 * rounding - (n_features + 16) * UNIT_ROUNDOFF
    return row_map.x_norm, round_down(row_map.intercept, dtype), slack, shrink, floor_of(n_features, dtype)


def round_down(value: float, dtype: np.dtype[Any]) -> float:
    """The largest number of ``dtype`` that is at most ``value``."""
    rounded = dtype.type(value)
    return float(np.nextafter(rounded, dtype.type(0)) if float(rounded) > value else rounded)
