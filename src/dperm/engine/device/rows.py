"""Rows in a tensor on a GPU (or any device that torch knows), and the one pass that makes them safe to compute with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dperm.engine.base.rows import InMemoryRows, OpenRequest, storage_of, storing_bounds
from dperm.engine.device.tensors import StoredTorch, as_tensor, is_tensor, load_torch, on_host, plain_products
from dperm.errors import InvalidInput
from dperm.row_map import RowMap
from dperm.typing import Floats, Integers

if TYPE_CHECKING:
    from dperm.engine.base.engine import Engine

_NUMBERS_AT_ONCE = 2**24
_ALIGNED = 4  # float32 numbers in 16 bytes, the widest load of a GPU
_SMALL = 2.0**-600  # times any number it has a square


class TorchRows(InMemoryRows):
    """Rows in a torch tensor of any real dtype, or in any array with DLPack on a device; labels may be either too.

    They are mapped, bounded and stored on the device where they are, in a copy: in float32, or in float64 where
    rows are to be ``precise`` and few.

    Parameters
    ----------
    X : tensor of shape (rows, features)
        It may hold fewer rows than ``n_rows``.
    y, row_map, n_rows, mask
        As for all ``InMemoryRows``.
    """

    name: ClassVar[str] = "torch"
    opens = ("torch.Tensor", "__dlpack__")

    def __init__(self, X: Any, y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None) -> None:
        self._X = as_tensor(X)
        if self._X.ndim != 2 or self._X.shape[1] < 1:
            raise InvalidInput(f"X must be a 2-D tensor; got one of {self._X.ndim} dimensions.")
        if self._X.device.type == "mps":
            raise InvalidInput(
                "this device does not compute in float64; bring X to the host with X.cpu().numpy()."
            )
        shape = int(self._X.shape[0]), int(self._X.shape[1])
        super().__init__(shape, on_host(y), row_map=row_map, n_rows=n_rows, mask=on_host(mask))

    @classmethod
    def accepts(cls, X: Any) -> bool:
        return is_tensor(X)

    @classmethod
    def margins_of(cls, X: Any, row_map: RowMap, coefficients: Floats, constant: Floats | float) -> Floats:
        """As for all ``Rows``: computed in float64 on the device, returned as a NumPy array."""
        torch, rows = load_torch(), as_tensor(X)
        factors = torch.from_numpy(np.ascontiguousarray(coefficients, np.float64)).to(rows.device)
        parts = [np.empty((0, *np.shape(coefficients)[1:]))]
        with plain_products(rows.device):
            for _, block in _blocks(rows):
                if not bool(torch.isfinite(block).all()):
                    raise InvalidInput("X holds NaN or infinite values.")
                parts.append(_margins(torch, block, row_map, factors).cpu().numpy())
        return np.asarray(np.concatenate(parts) + constant)

    def _stored(self, request: OpenRequest) -> StoredTorch:
        dtype = storage_of(self._map, self._n_rows * self._shape[1], request.precise)
        with plain_products(self._X.device):
            X, inverse_norm = self._bounded(dtype, request.position)
        columns = self._shape[1] + (self._map.intercept > 0)
        return StoredTorch(X=X, columns=columns, inverse_norm=inverse_norm, **request.common)

    def _engine(self, request: OpenRequest) -> Engine:
        """The device knows its own threads."""
        from dperm.engine.device.engine import TorchEngine

        return TorchEngine(self._stored(request), self._used, precise=request.precise)

    def _bounded(self, dtype: np.dtype[Any], position: Integers) -> tuple[Any, Floats]:
        """One pass: convert, map, bound, append the intercept, reject what is not finite.

        The slack and the reasons why the bound holds are those of ``Table._bounded``: a device rounds products, sums,
        quotients and roots in float64 as a CPU does.
        """
        torch, device = load_torch(), self._X.device
        rows, features = self._shape
        x_norm, intercept, slack, shrink, floor = storing_bounds(self._map, features, dtype)
        stride = -(-(features + (intercept > 0)) // _ALIGNED) * _ALIGNED
        stored_as = torch.float32 if dtype == np.float32 else torch.float64
        X = torch.zeros((self._n_rows, stride), dtype=stored_as, device=device)
        inverse = torch.full((self._n_rows,), 1 / floor, dtype=torch.float64, device=device)
        places = torch.from_numpy(position[:rows]).to(device)
        centre, spread = (torch.from_numpy(part).to(device) for part in self._moves())
        bad = torch.zeros((), dtype=torch.int64, device=device)
        for first, block in _blocks(self._X):
            here = places[first : first + len(block)]
            scale, squares = _squares(torch, block)
            bad += (~(squares < np.inf)).sum()
            if len(centre):
                long = (scale != 1) | (squares > x_norm * x_norm)
                factor = torch.where(long, x_norm / squares.sqrt(), 1.0)
                block = (block * scale[:, None] * factor[:, None] - centre) / spread
                scale, squares = _squares(torch, block)
            long = (scale != 1) | (squares * slack > x_norm * x_norm)
            factor = torch.where(long, x_norm / squares.sqrt() * shrink, 1.0)
            norm = torch.where(long, x_norm, (squares * slack).sqrt())
            stored = (block * scale[:, None] * factor[:, None]).to(stored_as)
            X[:, :features].index_copy_(0, here, stored)
            if intercept:
                X[here, features] = intercept
            longest = (norm * norm + intercept * intercept).sqrt() * (1 + 2.0**-49) + floor
            inverse[here] = (1 - 2.0**-49) / longest
        if int(bad):
            raise InvalidInput(
                "X holds NaN or infinite values. Fill or drop them first, by a rule that does not depend on the "
                "other rows."
            )
        return X, np.asarray(inverse.cpu().numpy())


def _blocks(X: Any) -> Iterator[tuple[int, Any]]:
    """The rows in float64, some at a time."""
    step = max(1, _NUMBERS_AT_ONCE // max(1, int(X.shape[1])))
    for first in range(0, len(X), step):
        yield first, X[first : first + step].double()


def _squares(torch: Any, block: Any) -> tuple[Any, Any]:
    """A power of two for each row, 1 unless its squares overflow, and the sum of the squares of the row times it."""
    squares = (block * block).sum(dim=1)
    over = ~(squares < np.inf)
    if bool(over.any()):
        small = block[over] * _SMALL
        squares[over] = (small * small).sum(dim=1)
    return torch.ones_like(squares).masked_fill_(over, _SMALL), squares


def _margins(torch: Any, block: Any, row_map: RowMap, factors: Any) -> Any:
    """``RowMap.margins`` of some rows, without the constant."""
    if row_map.linear:
        return block @ factors
    rows = block * _shrinkage(torch, block, row_map.x_norm)[:, None]
    if not row_map.moves:
        return rows @ factors
    n = int(block.shape[1])
    centre, scale = (
        torch.from_numpy(np.full(n, default) if part is None else np.array(part)).to(block.device)
        for part, default in ((row_map.centre, 0.0), (row_map.scale, 1.0))
    )
    moved = rows - centre
    shrunk = (moved @ factors).T * _shrinkage(torch, moved / scale, row_map.x_norm)
    return shrunk.T + centre @ factors


def _shrinkage(torch: Any, rows: Any, x_norm: float) -> Any:
    scale, squares = _squares(torch, rows)
    norms = squares.sqrt()
    return torch.where(scale == 1, x_norm / norms.clamp(min=x_norm), x_norm * scale / norms)
