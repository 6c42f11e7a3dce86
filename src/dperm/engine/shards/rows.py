"""Where the rows of a table in shards are: places in an order, masks and batches, all on the driver."""

from __future__ import annotations

import math
import uuid
import weakref
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.arithmetic import Arithmetic
from dperm.engine.base.draws import (
    Batches,
    DivisibleOrder,
    DivisibleSample,
    Order,
    OrderOfShards,
    Ranges,
    Sample,
    check_sizes,
    cuts_of,
)
from dperm.engine.base.engine import Engine, Evaluation, Wanted
from dperm.engine.base.rows import BoundedRows, check_labels, check_targets
from dperm.engine.registry import register_engine
from dperm.engine.shards.sources import Encoder, Executor, ShardSource
from dperm.engine.shards.tasks import (
    CACHE,
    LabelCheck,
    Labels,
    Opening,
    Pass,
    PersonDigests,
    Piece,
    Predicted,
    from_all,
    gathered,
)
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Loss
from dperm.person_ids import DIGEST
from dperm.row_map import RowMap
from dperm.typing import Floats, Integers


class ShardRanges(Batches):
    """Batch j of model k is, in each shard s, the rows at positions ``edges[j, s, k] <= i < edges[j + 1, s, k]``."""

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
        places = cuts_of(counts, None if self.mask is None else self._mask_in_order()[:, models])
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


@register_engine
class ShardedRows(BoundedRows):
    """The shards of a source.

    Parameters
    ----------
    X : ShardSource
    y : array of shape (rows,), or a callable
        Encoded labels of all rows, shard after shard; or what encodes a shard's own labels where they are.
    row_map, n_rows, mask
        As for all ``BoundedRows``. Empty rows make shards of their own, after those of the source.
    """

    name: ClassVar[str] = "sharded"
    opens = ("dperm.ShardSource",)

    def __init__(self, X: ShardSource, y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None) -> None:
        self._source, self._executor = X, X.executor()
        self._encode = y if callable(y) else None
        self._y = None if callable(y) else np.asarray(y)
        if self._y is not None:
            check_targets(self._y, len(X))
        if self._encode is not None and not X.has_labels:
            raise InvalidInput("these shards hold no labels; give y.")
        super().__init__(X.shape, row_map=row_map, n_rows=n_rows, mask=mask)
        self._counts = _with_empty(X.sizes, self._n_rows)
        if len(self._counts) > self._n_rows / 80 + 800:
            raise InvalidInput(
                f"{len(self._counts)} shards are too many for {self._n_rows} rows: the rounding of so long a sum was "
                "not planned for. Make shards of more rows."
            )

    @classmethod
    def accepts(cls, X: Any) -> bool:
        return isinstance(X, ShardSource)

    @classmethod
    def margins_of(cls, X: Any, row_map: RowMap, coefficients: Floats, constant: Floats | float) -> Floats:
        task = Predicted(source=X, row_map=row_map, coefficients=coefficients, constant=constant)
        return np.concatenate(list(from_all(task)))

    def check_labels(self, loss: Loss) -> None:
        if self._encode is None:
            check_labels(np.asarray(self._y), loss)
            return
        task = LabelCheck(source=self._source, encode=self._encode, loss=loss)
        for _ in from_all(task, self._executor):
            pass

    def open(self, order: Order | None = None, *, precise: bool = False) -> ShardedEngine:
        """An engine over the shards; none is loaded before a pass asks for it."""
        if order is not None and not isinstance(order, DivisibleOrder):
            raise Unsupported("this order cannot be drawn for rows that lie in shards.")
        divided = None if order is None else order.split(self._counts)
        if divided is not None:
            labels = np.asarray(divided.labels)
            whole = labels.dtype.kind == "u"
            found = np.bincount(labels, minlength=len(self._counts)) if whole else np.empty(0)
            if not np.array_equal(found, self._counts):
                raise InvalidInput("the order is not one of shards of these sizes.")
        layout = Layout(self._counts, divided, self._mask)
        opening = Opening(
            token=uuid.uuid4().hex,
            row_map=self._map,
            precise=precise or not self._source.keeps_places or self.members is not None,
            threads=self._executor.threads,
            encode=self._encode,
            pieces={shard: self._piece(layout, shard, divided) for shard in layout.live},
            clip_bound=None if self.members is None else self.members.bound,
        )
        radius = math.nextafter(math.hypot(self._map.x_norm, self._map.intercept), math.inf)
        n_columns = self._shape[1] + (self._map.intercept > 0)
        engine = ShardedEngine(
            Pass(source=self._source, opening=opening),
            layout,
            self._executor,
            n_columns=n_columns,
            radius=radius,
            used=self._used,
        )
        weakref.finalize(opening, CACHE.forget, opening.token)
        return engine

    def _piece(self, layout: Layout, shard: int, order: OrderOfShards | None) -> Piece:
        where = layout.rows_of(shard)
        return Piece(
            n_rows=layout.counts[shard],
            targets=None if self._y is None else self._y[where],
            mask=None if self._mask is None else np.ascontiguousarray(self._mask[where]),
            order=None if order is None else order.local(shard),
        )


class ShardedEngine(Engine):
    """Passes whose sums over the shards are added in float64, in the order of the shards.

    Guarantee
    ---------
    Every shard is counted exactly once, or nothing is returned. What a shard answers depends on its own rows and on
    public numbers, and what is answered again is the same. So a sum does not depend on who computed it or when: it has
    the same bits in one process, on a cluster, and after a lost worker.

    Where the source keeps places, what two tables share is rounded alike: how rows are cut depends on public numbers,
    and the shards of the rows that both have answer the same bits. Where it does not, or a person may have several
    rows, passes are precise.

    An answer is as precise as the engine of the shards says. Adding S shards takes S - 1 more additions than a chain
    may have by its contract; with S at most n / 80 + 800 that is inside the factor of two that the contract leaves.
    """

    def __init__(
        self,
        opened: Pass,
        layout: Layout,
        executor: Executor,
        *,
        n_columns: int,
        radius: float,
        used: set[Arithmetic],
    ) -> None:
        super().__init__(radius, used)
        self._pass, self._layout, self._executor, self._n_columns = opened, layout, executor, n_columns
        self._models: Sequence[int] | None = None if layout.mask is None else range(layout.mask.shape[1])
        self._sampled = False
        self._known: dict[int, Arithmetic] = {}

    @property
    def n_rows(self) -> int:
        """Of a sample too: how many it holds is known to the shards alone."""
        return self._layout.n_rows

    @property
    def n_columns(self) -> int:
        return self._n_columns

    def arithmetic(self, n_models: int) -> Arithmetic:
        """The least precise of the shards. The first question opens them."""
        if n_models not in self._known:
            found: list[Arithmetic] = list(self._stream("arithmetic", n_models))
            with_rows = [shard for shard in self._layout.live if shard < len(self._pass.source.sizes)]
            self._known[n_models] = coarsest(
                found[: len(with_rows)] or found
            )  # the others hold empty rows alone
        return self._known[n_models]

    def select(self, models: Sequence[int]) -> Self:
        if self._models is None:
            return self
        part = copy(self)
        part._models = [self._models[k] for k in models]
        part._pass = replace(self._pass, view=(*self._pass.view, tuple(int(k) for k in models)))
        return part

    def sample(self, draws: Sequence[Sample]) -> Self:
        """Positions among a model's own rows are counted shard after shard, in each as it was opened."""
        counts = self._own_counts(len(draws))
        chosen: dict[int, list[Sample]] = {shard: [] for shard in self._layout.live}
        for k, draw in enumerate(draws):
            if not isinstance(draw, DivisibleSample):
                raise Unsupported("this batch cannot be drawn for rows that lie in shards.")
            parts = draw.split(counts[:, k].tolist())
            for shard, samples in chosen.items():
                samples.append(parts[shard])
        part = copy(self)
        part._sampled, part._models = True, range(len(draws))
        part._pass = replace(self._pass, view=(*self._pass.view, chosen))
        return part

    def batches(self, sizes: ArrayLike) -> ShardRanges:
        counts = np.asarray(sizes)
        models = counts.shape[1] if counts.ndim == 2 else 0
        check_sizes(counts, self._own_counts(models).sum(axis=0))
        return self._layout.batches(counts, range(models) if self._models is None else self._models)

    def _own_counts(self, n_models: int) -> Any:
        """Rows of each model in each shard."""
        if self._sampled:
            raise Unsupported("rows in shards that were sampled are not sampled or cut into batches again.")
        self._check_models(n_models)
        return self._layout.own_counts(range(n_models) if self._models is None else self._models)

    def _check_models(self, n_models: int) -> None:
        if self._models is not None and len(self._models) != n_models:
            raise InvalidInput(f"the mask is for {len(self._models)} models; got {n_models}.")

    def _begin(self, loss: Loss, W: Floats) -> int:
        if W.ndim > 1:
            self._check_models(W.shape[1])
        return super()._begin(loss, W)

    def _note(self, n_models: int) -> None:
        """Answers tell what they were computed in; see ``_stream``."""

    def _stream(self, verb: str, *arguments: Any, own: dict[int, dict[str, Any]] | None = None) -> Any:
        task = replace(self._pass, verb=verb, arguments=arguments, own=own)
        for answer in gathered(self._executor, task, self._layout.live if own is None else sorted(own)):
            self._used.update(answer.used)
            yield answer.value

    def _sum(self, verb: str, *arguments: Any, own: dict[int, dict[str, Any]] | None = None) -> Floats:
        total: Floats | None = None
        for value in self._stream(verb, *arguments, own=own):
            total = np.array(value) if total is None else np.add(total, value, out=total)
        assert total is not None
        return total

    def _sums(self, loss: Loss, W: Floats, batch: Batches | None, wanted: Wanted) -> tuple[Floats, Floats]:
        if not wanted.gradient:
            return self._sum("value_sum", loss, W), np.zeros_like(W)
        if wanted.value:
            value, gradient = np.zeros(W.shape[1]), np.zeros(W.shape)
            for more_value, more_gradient in self._stream("value_and_gradient_sum", loss, W):
                value += more_value
                gradient += more_gradient
            return value, gradient
        own: dict[int, dict[str, Any]] = {shard: {"clip": wanted.clip} for shard in self._layout.live}
        if batch is not None:
            parts = self._parts(batch, W.shape[1])
            own = {shard: {"clip": wanted.clip, "batch": part} for shard, part in parts.items()}
        return np.zeros(W.shape[1]), self._sum("gradient_sum", loss, W, own=own)

    def _parts(self, batch: Batches, n_models: int) -> dict[int, Any]:
        """What each shard has of a batch; shards without any of it are left in peace."""
        shape = (2, len(self._layout.counts), n_models)
        if not isinstance(batch, ShardRanges) or batch.edges.shape != shape:
            raise InvalidInput(f"batch must be a single batch of these rows, for {n_models} models.")
        parts = {shard: batch.of_shard(shard) for shard in self._layout.live}
        return {shard: part for shard, part in parts.items() if part is not None}

    def _margins(self, W: Floats) -> Floats:
        parts = list(self._stream("margins", W))
        return np.concatenate(parts) if self._sampled else self._layout.in_places(parts)

    def _curvatures(self, loss: Loss, W: Floats) -> Floats:
        return self._sum("curvature_sum", loss, W)

    def _power_sums(self, power: int) -> Floats:
        return self._sum("row_sum" if power == 1 else "square_sum")

    def _moments(self) -> Floats:
        return self._sum("row_moments")

    def _scores(self, loss: Loss, W: Floats) -> Evaluation:
        answers = zip(*self._stream("evaluate", loss, W), strict=True)
        return Evaluation(*(np.sum(column, axis=0) for column in answers))


def labels_in(source: ShardSource, encode: Encoder | None = None) -> NDArray[Any]:
    """The labels of all shards as they came, or each encoded where it is."""
    found = list(from_all(Labels(source=source, encode=encode)))
    return np.concatenate(found) if found else np.empty(0)


def persons_in(source: ShardSource) -> NDArray[np.void]:
    """What stands for the person of each row of all shards."""
    return np.concatenate([np.empty(0, DIGEST), *from_all(PersonDigests(source=source))])


def _with_empty(sizes: Sequence[int], n_rows: int) -> tuple[int, ...]:
    """Sizes of all shards, with those of empty rows, none of them larger than the largest of the source."""
    missing, most = n_rows - sum(sizes), max([*sizes, 1024])
    whole, rest = divmod(missing, most)
    return (*sizes, *[most] * whole, *([rest] if rest else []))


def coarsest(found: Sequence[Arithmetic]) -> Arithmetic:
    if len(set(found)) == 1:
        return found[0]
    errors: dict[str, Any] = {}
    for field in fields(Arithmetic):
        errors_here = [getattr(each, field.name) for each in found]
        if all(isinstance(error, int | float) for error in errors_here):
            errors[field.name] = max(errors_here)
    return Arithmetic(name="mixed", **errors)
