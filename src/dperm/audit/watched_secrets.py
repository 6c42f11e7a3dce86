"""Secret orders and batches that tell a watching gate when they are drawn, and go with the rows that they were for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.privacy.secrets import FixedSizeBatch, PoissonBatch, SecretOrder

if TYPE_CHECKING:
    from dperm.audit.watch import Watch

Names = NDArray[np.int64]


class WatchedSecret:
    """What an order or batch was when it was first asked for."""

    first: Names | None = None
    n_rows: int = 0

    def ask(self, n_rows: int) -> Names:
        raise NotImplementedError

    def changes(self) -> bool:
        return self.first is not None and not np.array_equal(self.ask(self.n_rows), self.first)

    def _keep(self, rows: Names, n_rows: int) -> Names:
        if self.first is None:
            self.first, self.n_rows = rows, n_rows
        return rows


class WatchedOrder(WatchedSecret, SecretOrder):
    def __init__(self, watch: Watch) -> None:
        super().__init__(watch.source)
        self._watch = watch

    def ask(self, n_rows: int) -> Names:
        return self.permutation(n_rows)

    def _draw(self, n_rows: int) -> Names:
        with self._watch.drawing():
            rows = self._watch.named(super()._draw(n_rows))
        self._watch.rows_drawn(order=rows)
        return self._keep(rows, n_rows)


class WatchedPoisson(WatchedSecret, PoissonBatch):
    def __init__(self, watch: Watch, rate: float) -> None:
        super().__init__(watch.source, rate)
        self._watch = watch

    def ask(self, n_rows: int) -> Names:
        return self.positions(n_rows)

    def _draw(self, n_rows: int) -> Names:
        with self._watch.drawing():
            rows = np.sort(self._watch.named(super()._draw(n_rows)))
        if self.rate < 1:
            self._watch.rows_drawn()
        return self._keep(rows, n_rows)


class WatchedFixedSize(WatchedSecret, FixedSizeBatch):
    def __init__(self, watch: Watch, size: int) -> None:
        super().__init__(watch.source, size)
        self._watch = watch

    def ask(self, n_rows: int) -> Names:
        return self.positions(n_rows)

    def _draw(self, n_rows: int) -> Names:
        with self._watch.drawing():
            rows = self._watch.named(super()._draw(n_rows))
        if self.size < n_rows:
            self._watch.rows_drawn()
        return self._keep(rows, n_rows)
