"""Where the rows of a table in shards are: places in an order, masks and batches, all on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.engine.base import Integers
from dperm.engine.drawn import Batches, OrderOfShards
from dperm.engine.stored import Ranges
from dperm.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class ShardRanges(Batches):
    """Batch j of model k is, in each shard s, the rows at positions ``edges[j, s, k] <= i < edges[j + 1, s, k]``."""

    edges: Integers
    counts: Integers

    @property
    def sizes(self) -> Integers:
        return self.counts

    def only(self, batch: int) -> ShardRanges:
        return ShardRanges(self.edges[batch : batch + 2], self.counts[batch : batch + 1])

    def of_shard(self, shard: int) -> Ranges | None:
        """The part of a single batch in a shard, or None where that is empty for every model."""
        edges = self.edges[:, shard]
        return None if (edges[0] == edges[-1]).all() else Ranges(edges, np.diff(edges, axis=0))


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """Rows in shards of these sizes, with those that are empty; ``order`` and ``mask`` (all rows, K) where given."""

    counts: tuple[int, ...]
    order: OrderOfShards | None
    mask: NDArray[Any] | None

    @property
    def n_rows(self) -> int:
        return sum(self.counts)

    @property
    def live(self) -> list[int]:
        """The shards that have rows."""
        return [shard for shard, n in enumerate(self.counts) if n]

    def rows_of(self, shard: int) -> slice:
        """Where a shard's rows are among all, shard after shard."""
        first = sum(self.counts[:shard])
        return slice(first, first + self.counts[shard])

    def own_counts(self, models: Sequence[int]) -> Integers:
        """Rows of each model in each shard, ``(shards, models)``. Without a mask ``models`` only says how many."""
        if self.mask is None:
            return np.repeat(np.array(self.counts, np.int64)[:, None], len(models), axis=1)
        parts = [
            self.mask[self.rows_of(shard)].sum(axis=0, dtype=np.int64) for shard in range(len(self.counts))
        ]
        return np.array(parts)[:, models]

    def batches(self, sizes: Any, models: Sequence[int]) -> ShardRanges:
        """Each model's own rows in the order, cut into batches of exactly these sizes."""
        counts = np.asarray(sizes)
        places = np.zeros((len(counts) + 1, len(models)), np.int64)
        np.cumsum(counts, axis=0, out=places[1:])
        if self.mask is not None:
            ordered = self._mask_in_order()
            for k, model in enumerate(models):
                own = np.flatnonzero(ordered[:, model])
                places[1:-1, k] = own[places[1:-1, k]]
            places[0], places[-1] = 0, self.n_rows
        return ShardRanges(self._before(places), counts.astype(np.int64, copy=False))

    def in_places(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """What was computed for the rows of each shard that has some, in the order of all rows."""
        together = np.concatenate(parts)
        if self.order is None:
            return together
        # The r-th place of a shard holds its r-th row, as the shard was opened.
        placed = np.empty_like(together)
        placed[np.argsort(self.order.labels, kind="stable")] = together
        return placed

    def _mask_in_order(self) -> NDArray[Any]:
        assert self.mask is not None
        if self.order is None:
            return self.mask
        parts = []
        for shard in self.live:
            own = self.mask[self.rows_of(shard)]
            parts.append(own[self.order.local(shard).permutation(len(own))])
        return self.in_places(parts)

    def _before(self, places: Integers) -> Integers:
        """How many rows of each shard stand before these places of the order, ``(m, shards, models)``."""
        firsts = np.cumsum([0, *self.counts])[:-1]
        if self.order is None:
            beyond = places[:, None, :] - firsts[:, None]
            return np.asarray(np.clip(beyond, 0, np.array(self.counts)[:, None]))
        labels = self.order.labels
        cuts, where = np.unique(places, return_inverse=True)
        before = np.zeros((len(cuts), len(self.counts)), np.int64)
        for i, (first, last) in enumerate(zip([0, *cuts[:-1]], cuts, strict=True)):
            before[i] = np.bincount(labels[first:last], minlength=len(self.counts))
        np.cumsum(before, axis=0, out=before)
        return np.ascontiguousarray(before[where.reshape(places.shape)].transpose(0, 2, 1))


def check_order(order: OrderOfShards, counts: Sequence[int]) -> None:
    """Refuse an order that is not of shards of these sizes."""
    labels = np.asarray(order.labels)
    found = np.bincount(labels, minlength=len(counts)) if labels.dtype.kind == "u" else np.empty(0)
    if not np.array_equal(found, counts):
        raise InvalidInput("the order is not one of shards of these sizes.")
