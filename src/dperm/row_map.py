"""The one public object between a row as declared and the row that a model sees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.errors import InvalidInput

Floats = NDArray[np.float64]

_ROWS_AT_ONCE = 1024  # so that a block and its copies stay in the cache
_SMALL = 2.0**-600  # times any number it has a square


@dataclass(frozen=True, eq=False, kw_only=True)
class RowMap:
    r"""Bound a row, move and scale it, bound it again and append the intercept column.

    With :math:`[v]` for v scaled down to a norm of at most ``x_norm``, a row x becomes
    :math:`z = ([\,([x] - c)/s\,], b)`. Without centre and scale that is :math:`([x], b)`.

    Parameters
    ----------
    x_norm : float
        Public bound on the Euclidean norm of a row of features.
    intercept : float
        The constant last column b; 0 for none.
    centre, scale : arrays of shape (n_features,), optional
        What is subtracted from a row and what it is divided by, column by column. Either was released, or is public.
    linear : bool
        Whether prediction takes rows as they came, without any bound: margins are then X @ coefficients + constant.
        Training bounds rows in any case.
    released : arrays, optional
        The releases that centre and scale were computed from, so that anyone can compute them again.

    Guarantee
    ---------
    The image of a row depends on that row and on public numbers alone, and its features have a norm of at most
    ``x_norm``, up to rounding; an engine sees to it that what it stores keeps the bound exactly.
    """

    x_norm: float
    intercept: float = 0.0
    centre: Floats | None = None
    scale: Floats | None = None
    linear: bool = False
    released: tuple[Floats, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.linear, bool):
            raise InvalidInput("linear must be True or False.")
        for name in ("centre", "scale"):
            given = getattr(self, name)
            if given is None:
                continue
            values = _kept(given)
            if values.ndim != 1 or not np.isfinite(values).all():
                raise InvalidInput(f"{name} must hold one finite number for each feature.")
            if name == "scale" and not (values > 0).all():
                raise InvalidInput("scale must hold one positive number for each feature.")
            object.__setattr__(self, name, values)
        object.__setattr__(self, "released", tuple(map(_kept, self.released)))
        lengths = {len(values) for values in (self.centre, self.scale) if values is not None}
        if len(lengths) > 1:
            raise InvalidInput("centre and scale must have one number for each feature, as many of both.")
        if self.moves and not self._farthest() < math.inf:
            raise InvalidInput("scale is so small, or centre so large, that rows would overflow.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowMap) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.x_norm, self.intercept))

    def _farthest(self) -> float:
        """Bound on any entry of a moved row."""
        moved = self.x_norm + (0.0 if self.centre is None else float(np.abs(self.centre).max(initial=0.0)))
        with np.errstate(over="ignore"):
            return float(np.divide(moved, 1.0 if self.scale is None else self.scale.min(initial=1.0)))

    @property
    def moves(self) -> bool:
        """Whether rows are moved or scaled, and not only bounded."""
        return self.centre is not None or self.scale is not None

    def features(self, X: NDArray[Any]) -> Floats:
        """The features that the model sees, in float64, without the intercept column.

        Where that changes nothing, they are the very rows that came.
        """
        if not self.moves:
            return bounded(X, self.x_norm)
        # In place: new blocks would cost more than the arithmetic.
        rows: Floats = np.multiply(X, shrinkage(X, self.x_norm)[:, None], dtype=np.float64)
        if self.centre is not None:
            rows -= self.centre
        if self.scale is not None:
            rows /= self.scale
        rows *= shrinkage(rows, self.x_norm)[:, None]
        return rows

    def coefficients(self, weights: Floats) -> tuple[Floats, Floats]:
        """Weights of a model on mapped rows, said in the units of the features as they came.

        ``weights`` has one row per feature and, with an intercept, one more. Returns coefficients v and the constant
        a such that the margin of a row that neither bound cuts is <x, v> + a.
        """
        features = weights[:-1] if self.intercept else weights
        constant = self.intercept * weights[-1] if self.intercept else np.zeros(weights.shape[1:])
        if self.scale is not None:
            features = (features.T / self.scale).T
        if self.centre is not None:
            constant = constant - self.centre @ features
        return np.array(features), np.asarray(constant)

    def weights(self, coefficients: Floats, constant: Floats | float) -> Floats:
        """The inverse of ``coefficients``: weights on mapped rows."""
        features = coefficients if self.scale is None else (coefficients.T * self.scale).T
        if not self.intercept:
            return np.array(features)
        moved = 0.0 if self.centre is None else self.centre @ coefficients
        return np.concatenate([features, np.asarray((constant + moved) / self.intercept)[None]])

    def margins(self, X: NDArray[Any], coefficients: Floats, constant: Floats | float) -> Floats:
        """Margins of rows as they came, each mapped as in training; the linear function where no bound cuts a row.

        With ``linear`` they are that function for every row.
        """
        if self.linear:
            return np.asarray(X @ coefficients + constant)
        blocks = [X[first : first + _ROWS_AT_ONCE] for first in range(0, len(X), _ROWS_AT_ONCE)] or [X]
        return np.concatenate([self._margins(block, coefficients, constant) for block in blocks])

    def _margins(self, X: NDArray[Any], coefficients: Floats, constant: Floats | float) -> Floats:
        rows = bounded(X, self.x_norm)
        if not self.moves:
            return np.asarray(rows @ coefficients + constant)
        moved = rows if self.centre is None else rows - self.centre
        factor = shrinkage(moved if self.scale is None else moved / self.scale, self.x_norm)
        centre = 0.0 if self.centre is None else self.centre @ coefficients
        return np.asarray((factor * (moved @ coefficients).T).T + centre + constant)

    def to_dict(self) -> dict[str, Any]:
        def listed(values: Floats | None) -> list[float] | None:
            return None if values is None else values.tolist()

        return {
            "x_norm": self.x_norm,
            "intercept": self.intercept,
            "centre": listed(self.centre),
            "scale": listed(self.scale),
            "linear": self.linear,
            "released": [values.tolist() for values in self.released],
        }

    @classmethod
    def from_dict(cls, stated: Mapping[str, Any]) -> Self:
        """The map that was written down."""
        return cls(**{field.name: stated[field.name] for field in fields(cls)})


def _kept(values: ArrayLike) -> Floats:
    """A copy that nobody changes."""
    copied = np.array(values, np.float64)
    copied.flags.writeable = False
    return copied


def shrinkage(rows: NDArray[Any], x_norm: float) -> Floats:
    """What each row is multiplied by so that its norm is at most ``x_norm``: 1 for shorter rows."""
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float64, copy=False)
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    factor = np.asarray(x_norm / np.maximum(norms, x_norm))
    long = np.flatnonzero(~(norms < math.inf))
    if len(long):  # squares that overflow; the norm itself may, too
        factor[long] = x_norm * _SMALL / np.linalg.norm(rows[long] * _SMALL, axis=1)
    return factor


def bounded(rows: NDArray[Any], x_norm: float) -> Floats:
    """Float64 rows, those longer than ``x_norm`` scaled down to it."""
    factor = shrinkage(rows, x_norm)
    if (factor == 1).all():
        return rows.astype(np.float64, copy=False)
    return np.asarray(np.multiply(rows, factor[:, None], dtype=np.float64))
