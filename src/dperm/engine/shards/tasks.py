"""What is done with one shard, wherever it is: load, open, make one pass; and how the answers come back.

A task is pure and safe to run again. A process keeps opened shards between tasks, bounded by their bytes.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

import dperm.errors
from dperm.arithmetic import Arithmetic
from dperm.engine.base.draws import Order, Sample
from dperm.engine.base.engine import Engine
from dperm.engine.base.rows import InMemoryRows, check_labels
from dperm.engine.registry import engine_for
from dperm.engine.shards.sources import Encoder, Executor, ShardSource
from dperm.errors import DpermError, InvalidInput, NotCertified, Unsupported
from dperm.losses import Loss
from dperm.person_ids import digests
from dperm.row_map import RowMap
from dperm.typing import Floats

CACHE_BYTES = 512 * 2**20
"""Bytes of opened shards that a process keeps; the environment variable DPERM_SHARD_CACHE_BYTES sets another number."""

Key = tuple[str, int, str]
Opened = tuple[Engine, set[Arithmetic]]
"""An engine, and where it notes the arithmetic of its passes."""


class ShardCache:
    """The least recently used shard of another opening goes first; those of the same opening stay.

    Passes go over the shards in turn: were the oldest of them to go, it would be gone whenever its turn came.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Nothing is held, and the lock is free: it may have been held in the process that this one was forked from."""
        self._lock = threading.Lock()
        self._held: OrderedDict[Key, tuple[Opened, int]] = OrderedDict()

    def get(self, key: Key, opened: Callable[[], Opened]) -> Opened:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key][0]
        found = opened()
        wished = os.environ.get("DPERM_SHARD_CACHE_BYTES", "")
        size, room = bytes_of(found[0]), int(wished) if wished.isdecimal() else CACHE_BYTES
        with self._lock:
            total = size + sum(held for _, held in self._held.values())
            for other in [other for other in self._held if other[2] != key[2]]:
                if total > room:
                    total -= self._held.pop(other)[1]
            if total <= room:
                self._held[key] = found, size
        return found

    def forget(self, token: str) -> None:
        """Drop what was opened in one way."""
        with self._lock:
            for key in [key for key in self._held if key[2] == token]:
                del self._held[key]

    @property
    def held_bytes(self) -> int:
        with self._lock:
            return sum(size for _, size in self._held.values())


CACHE = ShardCache()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CACHE.begin)


def bytes_of(thing: Any, depth: int = 4) -> int:
    """Bytes of the arrays that an object holds, those of memory-mapped files not counted."""
    if isinstance(thing, np.ndarray):
        return 0 if _is_mapped(thing) else thing.nbytes
    if callable(getattr(thing, "arrays", None)):  # categorical rows, which may be mapped too
        return bytes_of(thing.arrays(), depth)
    if isinstance(getattr(thing, "nbytes", None), int):  # an array of another package
        return int(thing.nbytes)
    if depth == 0:
        return 0
    if not isinstance(thing, dict | list | tuple):
        thing = getattr(thing, "__dict__", {})
    parts = thing if isinstance(thing, list | tuple) else thing.values()
    return sum(bytes_of(part, depth - 1) for part in parts)


def _is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


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
        if isinstance(rows, InMemoryRows):
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
class Labels(SafeTask):
    """The labels as they came, or as losses take them."""

    encode: Encoder | None

    def _do(self, shard: int, given: Loaded | None) -> Any:
        labels = self.source.labels(shard) if given is None else self.source.given(shard, given)[1]
        return np.asarray(labels if self.encode is None else self.encode(labels))


@dataclass(frozen=True, repr=False, kw_only=True)
class LabelCheck(Labels):
    """Whether the loss knows all labels of a shard."""

    loss: Loss

    def _do(self, shard: int, given: Loaded | None) -> None:
        check_labels(super()._do(shard, given), self.loss)


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
class PersonDigests(SafeTask):
    """Whose rows they are. An executor that has a shard at hand has its ids behind the labels."""

    def _do(self, shard: int, given: Any) -> Any:
        ids = self.source.persons(shard) if given is None else given[2]
        found = digests(ids, tolerant=True)
        if len(found) != self.source.sizes[shard]:
            raise InvalidInput(f"shard {shard} has another number of ids of persons than of rows.")
        return found


def from_all(task: SafeTask, executor: Executor | None = None) -> Iterator[Any]:
    """The answers of all shards of its source that have rows."""
    shards = [shard for shard, n in enumerate(task.source.sizes) if n]
    return gathered(executor or task.source.executor(), task, shards)


TRIES = 4
"""How often a task is run that fails by other errors than those of dperm: a file that is not there yet, a lost disk."""


def gathered(executor: Executor, task: SafeTask, shards: Sequence[int]) -> Iterator[Any]:
    """Results in the order of ``shards``; only those that come too early wait in memory.

    Raises
    ------
    NotCertified
        When a shard is answered twice, not at all, or without having been asked for: a sum over rows that are counted
        twice has no sensitivity that was planned for.
    """
    waiting: dict[int, Any] = {}
    place, todo = 0, list(shards)
    for tries in range(TRIES):
        failed = []
        missing = set(todo)
        for shard, answer in executor.run(task, todo):
            if shard not in missing:
                raise NotCertified(
                    f"shard {shard} was answered twice, or was not asked for; nothing is released. "
                    "The executor is at fault: it must give one answer for every shard."
                )
            missing.remove(shard)
            if isinstance(answer, Failed):
                if not answer.again or tries == TRIES - 1:
                    raise answer.error()
                failed.append(shard)
                continue
            waiting[shard] = answer
            while place < len(shards) and shards[place] in waiting:
                yield waiting.pop(shards[place])
                place += 1
        if missing:
            raise NotCertified(
                f"{len(missing)} of {len(todo)} shards were not answered; nothing is released. "
                "The executor is at fault: it must give one answer for every shard."
            )
        todo = failed
        if not todo:
            return
