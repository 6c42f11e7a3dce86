"""Rows in shards: what a source of them must say, and who runs a task on each.

An executor decides where and when a task runs, never what it does. To write one, implement ``run``: call
``task(shard)`` for every shard, wherever that is best, and yield what comes back with the shard's number, in any order.
A task can be pickled, is pure and may be run again; it never raises and returns what can be pickled.
``task.part(shard)`` is the same task with what one shard needs alone, which is shorter to send.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.codes import CodedTable
from dperm.errors import InvalidInput


class Task(Protocol):
    """What an executor runs: a pure function of a shard's number."""

    def __call__(self, shard: int, given: Any = None) -> Any:
        """``given``: the rows and labels of the shard, where the executor has them at hand."""

    def part(self, shard: int) -> Task: ...


class Executor(ABC):
    """Runs a task on shards.

    Guarantee
    ---------
    None is needed of it: an answer that comes twice, for a shard that nobody asked for, or not at all, is refused by
    the engine.
    """

    threads: int | None = 1
    """Threads of one task; None for as many as there are processors."""

    @abstractmethod
    def run(self, task: Task, shards: Sequence[int]) -> Iterable[tuple[int, Any]]:
        """The number of each shard and what ``task(shard)`` returned, in any order."""


class LocalExecutor(Executor):
    """In this process: one shard after the other on all threads, or several side by side with one thread each."""

    def __init__(self, side_by_side: int = 1) -> None:
        self._side_by_side = side_by_side
        self.threads = None if side_by_side == 1 else 1

    def run(self, task: Task, shards: Sequence[int]) -> Iterable[tuple[int, Any]]:
        if self._side_by_side == 1:
            for shard in shards:
                yield shard, task(shard)
            return
        with ThreadPoolExecutor(self._side_by_side) as pool:
            yield from zip(shards, pool.map(task, shards), strict=True)


class ShardSource(ABC):
    """Rows in numbered shards, each of which can be loaded by itself, anywhere and more than once.

    A source is pickled and sent to whoever loads a shard, so it names its data (files, keys) and holds none.

    Guarantee
    ---------
    ``load`` is pure: a shard has the same rows in the same order whenever and wherever it is loaded.
    """

    sizes: tuple[int, ...]
    """Rows in each shard. They are public where the number of rows is."""

    n_features: int

    key: str
    """Names the content: two sources with one key load the same rows."""

    sizes_are_known: bool = True
    """Whether ``sizes`` can be told before a row is read."""

    keeps_places: bool = False
    """Whether a row that is put in another's place stands where that one stood, whatever the two hold.

    Partitions made by sorting or hashing rows do not. Passes over such shards are precise, since the rows that two
    tables share may then be rounded in other ways.
    """

    has_labels: bool = True
    """Whether ``load`` gives labels; otherwise they are given apart."""

    classes: tuple[Any, ...] | None = None
    """All labels that may occur, where something public says so."""

    feature_names: tuple[str, ...] | None = None

    person: str | None = None
    """The name of the column with the ids of persons, where the shards hold them; it is no feature."""

    persons_are_apart: bool = True
    """Whether ``persons`` can be told before a row is read."""

    @abstractmethod
    def load(self, shard: int) -> tuple[Any, Any]:
        """Rows of any kind that an engine opens, and their labels as they came, or None."""

    def labels(self, shard: int) -> Any:
        """The labels alone, where that is shorter."""
        return self.load(shard)[1]

    def persons(self, shard: int) -> Any:
        """The id of the person of each row, where ``person`` names their column."""
        raise InvalidInput(
            "these shards hold no ids of persons; give groups, an id for each row of all shards."
        )

    def given(self, shard: int, loaded: Any) -> tuple[Any, Any]:
        """Rows and labels of a shard that an executor has at hand."""
        return loaded[0], loaded[1]

    def part(self, shard: int) -> Self:
        """The same source with what one shard needs alone."""
        return self

    def rest(self, shard: int) -> None:  # noqa: B027
        """Called on the worker when a task on a shard is done: what can be had again at no great cost may go."""

    def executor(self) -> Executor:
        """Who runs tasks on these shards; asked where the fit runs, never on a worker."""
        return LocalExecutor()

    def close(self) -> None:  # noqa: B027
        """Give back what was made for this source alone, such as a folder of copies."""

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.sizes), self.n_features

    def __len__(self) -> int:
        return sum(self.sizes)


class Placed(ShardSource):
    """The shards of a source, with tasks run by another executor. Workers get the source itself."""

    def __init__(self, source: ShardSource, executor: Executor) -> None:
        self._source, self._executor = source, executor
        for name in ShardSource.__annotations__:
            setattr(self, name, getattr(source, name))

    def load(self, shard: int) -> tuple[Any, Any]:
        return self._source.load(shard)

    def labels(self, shard: int) -> Any:
        return self._source.labels(shard)

    def persons(self, shard: int) -> Any:
        return self._source.persons(shard)

    def given(self, shard: int, loaded: Any) -> tuple[Any, Any]:
        return self._source.given(shard, loaded)

    def rest(self, shard: int) -> None:
        self._source.rest(shard)

    def executor(self) -> Executor:
        return self._executor

    def close(self) -> None:
        self._source.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._source,)


def _itself(source: ShardSource) -> ShardSource:
    return source


class ArrayShards(ShardSource):
    """Consecutive slices of rows that one process holds: for tests, and for arrays cut by hand.

    Parameters
    ----------
    X : rows
        Anything with a shape that slices of rows can be taken of.
    sizes : sequence of int
        Rows of each slice, all of X together.
    y : array, optional
    persons : array, optional
        The id of the person of each row.
    """

    keeps_places = True

    def __init__(self, X: Any, sizes: Sequence[int], y: Any = None, persons: Any = None) -> None:
        self._X, self._y, self._persons = X, y, persons
        self.person = None if persons is None else "person"
        self.sizes = tuple(int(size) for size in sizes)
        self.n_features, self.has_labels = int(X.shape[1]), y is not None
        self.key = uuid.uuid4().hex
        self._ends = [sum(self.sizes[: j + 1]) for j in range(len(self.sizes))]

    def load(self, shard: int) -> tuple[Any, Any]:
        rows = self._rows(shard)
        return self._X[rows], None if self._y is None else self._y[rows]

    def persons(self, shard: int) -> Any:
        return super().persons(shard) if self._persons is None else self._persons[self._rows(shard)]

    def _rows(self, shard: int) -> slice:
        return slice(self._ends[shard] - self.sizes[shard], self._ends[shard])


Encoder = Callable[[Any], Any]
"""From the labels of a shard as they came to encoded ones; it can be pickled."""


class KeptShards(ShardSource):
    """The shards of a source with the rows that ``kept`` says, one truth value for each row of all shards.

    Places are not kept: they depend on how many rows before were left out. Workers get the part of their own shard.
    """

    def __init__(self, source: ShardSource, kept: NDArray[np.bool_]) -> None:
        parts = np.split(kept, np.cumsum(source.sizes)[:-1])
        self._source = source
        self._kept = {shard: np.packbits(part) for shard, part in enumerate(parts)}
        self.sizes = tuple(int(part.sum()) for part in parts)
        self.n_features, self.feature_names = source.n_features, source.feature_names
        self.has_labels, self.classes = source.has_labels, source.classes
        self.key = uuid.uuid4().hex

    def load(self, shard: int) -> tuple[Any, Any]:
        return self._of(shard, self._source.load(shard))

    def labels(self, shard: int) -> Any:
        return np.asarray(self._source.labels(shard))[self._places(shard)]

    def given(self, shard: int, loaded: Any) -> tuple[Any, Any]:
        return self._of(shard, self._source.given(shard, loaded))

    def rest(self, shard: int) -> None:
        self._source.rest(shard)

    def executor(self) -> Executor:
        return self._source.executor()

    def part(self, shard: int) -> Self:
        part = copy(self)
        part._source = self._source.part(shard)
        part._kept = {shard: self._kept[shard]} if shard in self._kept else {}
        return part

    def _of(self, shard: int, loaded: tuple[Any, Any]) -> tuple[Any, Any]:
        (X, y), places = loaded, self._places(shard)
        if len(places) == self._source.sizes[shard]:
            return X, y
        return rows_at(X, places), None if y is None else np.asarray(y)[places]

    def _places(self, shard: int) -> NDArray[np.int64]:
        return np.flatnonzero(np.unpackbits(self._kept[shard], count=self._source.sizes[shard]))


def rows_at(rows: Any, places: NDArray[np.int64]) -> Any:
    """Some rows of a table in memory."""
    if isinstance(rows, CodedTable):
        return rows.take(places)
    if sparse.issparse(rows):
        return rows.tocsr()[places]
    return np.asarray(rows)[places]
