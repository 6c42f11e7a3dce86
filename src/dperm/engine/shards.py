"""Rows in shards: what a source of them must say, and who runs a task on each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from dperm.engine.executors import Executor, LocalExecutor
from dperm.errors import InvalidInput


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
        self.sizes, self.n_features, self.key = source.sizes, source.n_features, source.key
        self.has_labels, self.classes = source.has_labels, source.classes
        self.sizes_are_known, self.keeps_places = source.sizes_are_known, source.keeps_places
        self.feature_names = source.feature_names
        self.person, self.persons_are_apart = source.person, source.persons_are_apart

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
        import uuid

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

Results = Iterable[tuple[int, Any]]
