"""A gate that watches: every place where values computed from rows meet randomness, and every draw of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dperm.engine import Table
from dperm.mechanisms import Job, Mechanism, Outcome, Plan
from dperm.privacy import Gate, SeededEntropy
from dperm.privacy.entropy import Entropy
from dperm.privacy.gate import Noise
from dperm.privacy.noisy_min import NoisyMin
from dperm.privacy.secrets import FixedSizeBatch, PoissonBatch, SecretOrder
from dperm.row_map import RowMap

Vector = NDArray[np.float64]
Names = NDArray[np.int64]
Kind = Literal["release", "choice", "hidden"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Passage:
    """Values that met noise: in a release, in a private choice, or inside a mechanism that hides the result.

    ``rows_drawn`` tells that rows were drawn at random since the passage before.
    """

    kind: Kind
    name: str
    values: Vector
    noise: Noise | NoisyMin
    released: Vector
    rows_drawn: bool


class WatchedEntropy(SeededEntropy):
    """A seeded source that keeps a list of all draws; those that no gate asked for are marked as free."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.draws: list[str] = []
        self.at_gate = False
        self.generator: Any = _WatchedGenerator(self.generator, self)

    def drawn(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.draws.append(f"{'gate' if self.at_gate else 'free'} {method}{arguments}{named}")

    @property
    def free(self) -> list[str]:
        return [draw for draw in self.draws if draw.startswith("free")]


class _WatchedGenerator:
    def __init__(self, generator: np.random.Generator, entropy: WatchedEntropy) -> None:
        self._generator, self._entropy = generator, entropy

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def draw(*arguments: Any, **named: Any) -> Any:
            self._entropy.drawn(method, arguments, named)
            return getattr(self._generator, method)(*arguments, **named)

        return draw


class WatchedTable(Table):
    """Rows that keep a list of the maps through which they were seen."""

    def __init__(self, *rows: Any, **facts: Any) -> None:
        super().__init__(*rows, **facts)
        self.maps: list[RowMap] = []

    def mapped(self, row_map: RowMap) -> WatchedTable:
        self.maps.append(row_map)
        return super().mapped(row_map)


@dataclass(eq=False)
class _Log:
    passages: list[Passage] = field(default_factory=list)
    order: Names | None = None
    rows_drawn: bool = False


class Watch(Gate):
    """A gate for one run of one job. With ``answers`` it lets through those instead of what it drew.

    ``names`` says how rows are called in a table that lacks one of them. What is drawn for rows, an order or a batch,
    then goes with the rows. That is the coupling by which a secret order or sample covers a row that is missing.
    """

    def __init__(
        self, source: Entropy, answers: Sequence[Vector] | None = None, names: Names | None = None
    ) -> None:
        super().__init__(source)
        self.answers, self.names = answers, names
        self._log = _Log()  # shared by all lanes and parts of this gate
        self.outcome: Outcome | None = None
        self.maps: list[RowMap] = []

    @property
    def passages(self) -> list[Passage]:
        return self._log.passages

    @property
    def row_order(self) -> Names | None:
        return self._log.order

    def run(self, mechanism: Mechanism, plan: Plan, table: Table) -> None:
        (self.outcome,) = mechanism.run([Job(plan=plan)], table, self)
        self.maps = table.maps if isinstance(table, WatchedTable) else []

    def order(self) -> SecretOrder:
        return _WatchedOrder(self)

    def poisson(self, rate: float) -> PoissonBatch:
        return _WatchedPoisson(self, rate)

    def fixed_size(self, size: int) -> FixedSizeBatch:
        return _WatchedFixedSize(self, size)

    def permutation(self, n: int) -> Names:
        with self.drawing():
            return super().permutation(n)

    def integer(self, words: int = 4) -> int:
        with self.drawing():
            return super().integer(words)

    def rows_drawn(self, rows: Names, order: bool = False) -> Names:
        """Rows that were drawn, by the names that they have in this table."""
        rows = rows if self.names is None else self.names[rows]
        self._log.rows_drawn = True
        if order:
            self._log.order = rows
        return rows

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """While the gate itself asks the source."""
        watched = self.source if isinstance(self.source, WatchedEntropy) else None
        before = watched is not None and watched.at_gate
        if watched is not None:
            watched.at_gate = True
        try:
            yield
        finally:
            if watched is not None:
                watched.at_gate = before

    def _noisy(self, values: Vector, noise: Noise, name: str) -> Vector:
        with self.drawing():
            return self._passed("release", name, values, noise, super()._noisy(values, noise, name))

    def _hidden(self, values: Vector, noise: Noise) -> Vector:
        name = "hidden noise"
        with self.drawing():
            return self._passed("hidden", name, values, noise, super()._noisy(values, noise, name))

    def _chosen(self, scores: Vector, choice: NoisyMin, name: str) -> int:
        with self.drawing():
            index = super()._chosen(scores, choice, name)
        return int(self._passed("choice", name, scores, choice, np.array([index]))[0])

    def _passed(
        self, kind: Kind, name: str, values: Vector, noise: Noise | NoisyMin, released: Vector
    ) -> Vector:
        k = len(self.passages)
        # What stays hidden keeps its own course: both runs add the same noise to values of their own.
        if kind != "hidden" and self.answers is not None and k < len(self.answers):
            released = self.answers[k].copy() if self.answers[k].shape == released.shape else released
        self.passages.append(
            Passage(
                kind=kind,
                name=name,
                values=np.array(values, np.float64),
                noise=noise,
                released=released.copy(),
                rows_drawn=self._log.rows_drawn,
            )
        )
        self._log.rows_drawn = False
        return released


class _WatchedOrder(SecretOrder):
    def __init__(self, watch: Watch) -> None:
        super().__init__(watch.source)
        self._watch = watch

    def _draw(self, n_rows: int) -> Names:
        with self._watch.drawing():
            return self._watch.rows_drawn(super()._draw(n_rows), order=True)


class _WatchedPoisson(PoissonBatch):
    def __init__(self, watch: Watch, rate: float) -> None:
        super().__init__(watch.source, rate)
        self._watch = watch

    def _draw(self, n_rows: int) -> Names:
        with self._watch.drawing():
            return np.sort(self._watch.rows_drawn(super()._draw(n_rows)))


class _WatchedFixedSize(FixedSizeBatch):
    def __init__(self, watch: Watch, size: int) -> None:
        super().__init__(watch.source, size)
        self._watch = watch

    def _draw(self, n_rows: int) -> Names:
        with self._watch.drawing():
            return self._watch.rows_drawn(super()._draw(n_rows))
