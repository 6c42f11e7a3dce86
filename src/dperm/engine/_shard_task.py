"""What is done with one shard, wherever it is: load, open as told, and make one pass. Pure, and safe to run again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

import dperm.errors
from dperm.arithmetic import Arithmetic
from dperm.engine._shard_cache import CACHE
from dperm.engine.base import Engine, Floats
from dperm.engine.drawn import Order, Sample
from dperm.engine.held import HeldRows, check_labels
from dperm.engine.registry import engine_for
from dperm.engine.shards import Encoder, ShardSource
from dperm.errors import DpermError, InvalidInput, Unsupported
from dperm.losses import Loss
from dperm.person_ids import digests
from dperm.row_map import RowMap

Loaded = tuple[Any, Any]


class Failed(NamedTuple):
    """An error without its traceback, its context or its values: those of a worker are written to logs."""

    kind: str
    text: str
    again: bool
    """Whether another try may help: it was no error that dperm raises on purpose."""

    def error(self) -> DpermError:
        found = getattr(dperm.errors, self.kind, InvalidInput)
        return found(self.text) if issubclass(found, DpermError) else InvalidInput(self.text)


@dataclass(frozen=True, repr=False, kw_only=True)
class SafeTask(ABC):
    """A task on the shards of a source that returns an error in place of raising it."""

    source: ShardSource

    def __call__(self, shard: int, given: Loaded | None = None) -> Any:
        try:
            return self._do(shard, given)
        except DpermError as error:
            return Failed(type(error).__name__, str(error), False)
        except Exception as error:  # it may quote a record
            return Failed(
                "InvalidInput",
                f"the task of shard {shard} failed with {type(error).__name__}; see that every worker can read the "
                "shards, has the memory for one and the same packages as the driver.",
                True,
            )
        finally:
            if given is None and shard < len(self.source.sizes):
                self.source.rest(shard)

    def _labels(self, shard: int, given: Loaded | None) -> Any:
        return self.source.labels(shard) if given is None else self.source.given(shard, given)[1]

    def part(self, shard: int) -> Self:
        return replace(self, source=self.source.part(shard))

    @abstractmethod
    def _do(self, shard: int, given: Loaded | None) -> Any: ...

    def _loaded(self, shard: int, given: Loaded | None) -> Loaded:
        """Rows and labels; beyond the last shard of the source there are empty rows only."""
        if shard >= len(self.source.sizes):
            return np.empty((0, self.source.n_features)), np.empty(0)
        X, y = self.source.load(shard) if given is None else self.source.given(shard, given)
        shape = engine_for(X).shape_of(X)
        if shape != (self.source.sizes[shard], self.source.n_features):
            raise InvalidInput(
                f"shard {shard} has another shape than its source said; its rows must stay as they are."
            )
        return X, y


class Piece(NamedTuple):
    """What belongs to one shard of an opening. ``targets`` are encoded labels, where they are not the shard's own."""

    n_rows: int
    targets: NDArray[Any] | None
    mask: NDArray[Any] | None
    order: Order | None


@dataclass(frozen=True, repr=False)
class Opening:
    """How shards are opened; ``token`` tells it from all others."""

    token: str
    row_map: RowMap
    precise: bool
    threads: int | None
    encode: Encoder | None
    pieces: Mapping[int, Piece]
    clip_bound: float | None = None

    def opened(self, shard: int, loaded: Loaded, empty: bool, used: set[Arithmetic]) -> Engine:
        X, labels = loaded
        piece = self.pieces[shard]
        if empty:
            y: Any = labels
        elif piece.targets is not None:
            y = piece.targets
        else:
            assert self.encode is not None
            y = self.encode(labels)
        kind = engine_for(X)
        rows = kind.of(X, y, row_map=self.row_map, n_rows=piece.n_rows, mask=piece.mask).noting(used)
        precise = self.precise or empty
        if isinstance(rows, HeldRows):
            rows = rows if self.clip_bound is None else rows.sharing_clips(self.clip_bound)
            return rows.open(piece.order, precise=precise, threads=self.threads)
        if self.clip_bound is not None:
            raise Unsupported(f"{rows.name} rows in shards cannot be told apart by persons; give arrays.")
        return rows.open(piece.order, precise=precise)


Step = tuple[int, ...] | Mapping[int, Sequence[Sample]]
"""A selection of models, or what each shard samples for them."""


class Answer(NamedTuple):
    value: Any
    used: frozenset[Arithmetic]


@dataclass(frozen=True, repr=False, kw_only=True)
class Pass(SafeTask):
    """One verb of the engine of a shard, seen through a view. ``own`` holds what each shard is told besides."""

    opening: Opening
    view: tuple[Step, ...] = ()
    verb: str = ""
    arguments: tuple[Any, ...] = ()
    own: Mapping[int, Mapping[str, Any]] | None = None

    def part(self, shard: int) -> Self:
        view = tuple(step if isinstance(step, tuple) else {shard: step[shard]} for step in self.view)
        own = None if self.own is None else {shard: self.own[shard]}
        opening = replace(self.opening, pieces={shard: self.opening.pieces[shard]})
        return replace(super().part(shard), opening=opening, view=view, own=own)

    def _do(self, shard: int, given: Loaded | None) -> Answer:
        empty = shard >= len(self.source.sizes)
        key = (self.source.key, shard, self.opening.token)

        def opened() -> tuple[Engine, set[Arithmetic]]:
            used: set[Arithmetic] = set()
            return self.opening.opened(shard, self._loaded(shard, given), empty, used), used

        engine, used = CACHE.get(key, opened)
        for step in self.view:
            engine = engine.select(step) if isinstance(step, tuple) else engine.sample(step[shard])
        used.clear()
        value = getattr(engine, self.verb)(*self.arguments, **({} if self.own is None else self.own[shard]))
        return Answer(value, frozenset() if empty else frozenset(used))


@dataclass(frozen=True, repr=False, kw_only=True)
class LabelCheck(SafeTask):
    """Whether the loss knows all labels of a shard."""

    encode: Encoder
    loss: Loss

    def _do(self, shard: int, given: Loaded | None) -> None:
        check_labels(np.asarray(self.encode(self._labels(shard, given))), self.loss)


@dataclass(frozen=True, repr=False, kw_only=True)
class Predicted(SafeTask):
    """Margins of the rows as they came."""

    row_map: RowMap
    coefficients: Floats
    constant: Floats | float

    def _do(self, shard: int, given: Loaded | None) -> Floats:
        X, _ = self._loaded(shard, given)
        return engine_for(X).margins_of(X, self.row_map, self.coefficients, self.constant)


@dataclass(frozen=True, repr=False, kw_only=True)
class Labels(SafeTask):
    """The labels as they came, for a score."""

    def _do(self, shard: int, given: Loaded | None) -> Any:
        return np.asarray(self._labels(shard, given))


@dataclass(frozen=True, repr=False, kw_only=True)
class EncodedLabels(SafeTask):
    """The labels as losses take them."""

    encode: Encoder

    def _do(self, shard: int, given: Loaded | None) -> Any:
        return np.asarray(self.encode(self._labels(shard, given)))


@dataclass(frozen=True, repr=False, kw_only=True)
class PersonDigests(SafeTask):
    """Whose rows they are. An executor that has a shard at hand has its ids behind the labels."""

    def _do(self, shard: int, given: Any) -> Any:
        ids = self.source.persons(shard) if given is None else given[2]
        found = digests(ids, tolerant=True)
        if len(found) != self.source.sizes[shard]:
            raise InvalidInput(f"shard {shard} has another number of ids of persons than of rows.")
        return found
