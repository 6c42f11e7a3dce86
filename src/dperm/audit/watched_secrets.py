"""Secret orders and batches of a gate that is watched: they tell when rows are drawn, and go with those rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.privacy.secrets import FixedSizeBatch, PoissonBatch, SecretOrder
from dperm.privacy.shards import LocalSample, SplitOrder, cut_sample, whole_sample

if TYPE_CHECKING:
    from dperm.audit.watch import Watch

Names = NDArray[np.int64]


class WatchedSecret:
    """What an order or batch of the gate gives, by the names that rows have in the table at hand."""

    def __init__(self, watch: Watch, ask: Callable[[int], Names], is_order: bool) -> None:
        self._watch, self.ask, self._is_order = watch, ask, is_order
        self._first: Names | None = None
        self._n_rows = 0

    def rows(self, n_rows: int, some: bool = True) -> Names:
        """``some`` tells that rows may be left out, so that a draw of them hides something."""
        asked = self._watch.asked()
        with self._watch.drawing():
            rows = self._watch.named(np.asarray(self.ask(n_rows)))
        if self._first is None:
            self._first, self._n_rows = rows, n_rows
            if some and (self._watch.asked() > asked or not self._watch.counts_draws):
                self._watch.rows_drawn(rows if self._is_order else None)
        return rows if self._is_order else np.sort(rows)

    def changes(self) -> bool:
        """Whether it is another one when it is asked for again."""
        if self._first is None:
            return False
        with self._watch.drawing():
            again = self._watch.named(np.asarray(self.ask(self._n_rows)))
        return not np.array_equal(again, self._first)


class WatchedOrder(SecretOrder):
    def __init__(self, watch: Watch, order: SecretOrder) -> None:
        super().__init__(watch.source)
        self._order = order
        self.secret = WatchedSecret(watch, order.permutation, is_order=True)

    def permutation(self, n_rows: int) -> Names:
        return self.secret.rows(n_rows)

    def split(self, counts: Sequence[int]) -> SplitOrder:
        """The order that the gate draws for shards, cut anew by the names of its rows."""
        self.secret.ask = lambda _: self._order.split(counts).permutation()
        return SplitOrder.cut(self.permutation(sum(counts)), counts)


class WatchedPoisson(PoissonBatch):
    def __init__(self, watch: Watch, batch: PoissonBatch) -> None:
        super().__init__(watch.source, batch.rate)
        self._batch = batch
        self.secret = WatchedSecret(watch, batch.positions, is_order=False)

    def positions(self, n_rows: int) -> Names:
        return self.secret.rows(n_rows, some=self.rate < 1)

    def split(self, counts: Sequence[int]) -> list[LocalSample]:
        """The batch that the gate draws for shards, cut anew by the names of its rows."""
        self.secret.ask = lambda _: whole_sample(self._batch.split(counts), counts)
        return cut_sample(self.positions(sum(counts)), counts)

    def part(self, shard: int) -> LocalSample:
        raise InvalidInput("a batch that is watched is drawn for all shards at once: call split.")


class WatchedFixedSize(FixedSizeBatch):
    def __init__(self, watch: Watch, batch: FixedSizeBatch) -> None:
        super().__init__(watch.source, batch.size)
        self.secret = WatchedSecret(watch, batch.positions, is_order=False)

    def positions(self, n_rows: int) -> Names:
        return self.secret.rows(n_rows, some=self.size < n_rows)
