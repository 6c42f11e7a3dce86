"""A gate that watches: every place where values computed from rows meet randomness, and every draw of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dperm.audit.watched_secrets import WatchedFixedSize, WatchedOrder, WatchedPoisson, WatchedSecret
from dperm.audit.watched_source import WatchedEntropy
from dperm.engine import Rows
from dperm.mechanisms import Job, Mechanism, Outcome, Plan
from dperm.privacy import Gate
from dperm.privacy.entropy import Entropy
from dperm.privacy.gate import Noise
from dperm.privacy.held_scores import HeldScores
from dperm.privacy.noisy_min import NoisyMin
from dperm.privacy.secrets import FixedSizeBatch, PoissonBatch, SecretOrder

Vector = NDArray[np.float64]
Names = NDArray[np.int64]
Kind = Literal["release", "choice", "hidden"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Passage:
    """Values that met noise: in a release, in a private choice, or inside a mechanism that hides the result.

    ``lane`` is the one that the gate was asked for. ``rows_drawn`` tells that rows were drawn at random since the
    passage before in that lane, ``given`` that the noise was drawn from the source of the gate, as far as is seen.
    """

    kind: Kind
    name: str
    values: Vector
    noise: Noise | NoisyMin
    released: Vector
    lane: int
    rows_drawn: bool
    given: bool


@dataclass(eq=False)
class _Log:
    """What all lanes and parts of one gate write down."""

    passages: list[Passage] = field(default_factory=list)
    secrets: list[WatchedSecret] = field(default_factory=list)
    order: Names | None = None
    ordered: list[int] = field(default_factory=list)
    lanes: int = 0
    expected: list[int] = field(default_factory=list)  # lanes of the passages that come next
    hiding: bool = False
    row_draws: int = 0
    known_draws: dict[int, int] = field(default_factory=dict)


class Watch(Gate):
    """A gate for one run. With ``answers`` it lets through those instead of what it drew.

    ``names`` says how rows are called in a table that lacks one of them. What is drawn for rows, an order or a batch,
    then goes with the rows. That is the coupling by which a secret order or sample covers a row that is missing.
    """

    def __init__(
        self, source: Entropy, answers: Sequence[Vector] | None = None, names: Names | None = None
    ) -> None:
        super().__init__(source)
        self.answers, self.names = answers, names
        self.outcomes: list[Outcome] = []
        self._log, self._lane_names = _Log(), [0]

    def run(self, mechanism: Mechanism, plan: Plan, rows: Rows) -> None:
        self.run_together(mechanism, [Job(plan=plan)], rows)

    def run_together(self, mechanism: Mechanism, jobs: Sequence[Job[Any]], rows: Rows) -> None:
        self.outcomes = mechanism.run(jobs, rows, self)

    @property
    def outcome(self) -> Outcome:
        return self.outcomes[0]

    @property
    def passages(self) -> list[Passage]:
        return self._log.passages

    @property
    def row_order(self) -> Names | None:
        return self._log.order

    @property
    def ordered(self) -> list[int]:
        """Of how many things, said to be no rows, a random order was drawn."""
        return self._log.ordered

    def of_lane(self, lane: int) -> Watch:
        """What was seen of one of several jobs."""
        alone = copy(self)
        alone._log = copy(self._log)
        alone._log.passages = [passage for passage in self.passages if passage.lane == lane]
        alone.outcomes = [self.outcomes[lane]]
        return alone

    def draws_anew(self) -> bool:
        """Whether an order or batch of this run is another one when it is asked for again."""
        return any(secret.changes() for secret in self._log.secrets)

    def lanes(self, n: int) -> Self:
        fresh = super().lanes(n)
        fresh._lane_names = list(range(self._log.lanes, self._log.lanes + n))
        self._log.lanes += n
        return fresh

    def part(self, lanes: Sequence[int]) -> Self:
        some = super().part(lanes)
        some._lane_names = [self._lane_names[lane] for lane in lanes]
        return some

    def release(self, values: NDArray[Any], noises: Sequence[Noise], name: str) -> Vector:
        self._log.expected = list(self._lane_names)
        return super().release(values, noises, name)

    def hide(self, values: NDArray[Any], noises: Sequence[Noise]) -> Vector:
        self._log.expected = list(self._lane_names)
        return super().hide(values, noises)

    def order(self) -> SecretOrder:
        order = WatchedOrder(self, super().order())
        self._log.secrets.append(order.secret)
        return order

    def poisson(self, rate: float) -> PoissonBatch:
        batch = WatchedPoisson(self, super().poisson(rate))
        self._log.secrets.append(batch.secret)
        return batch

    def fixed_size(self, size: int) -> FixedSizeBatch:
        batch = WatchedFixedSize(self, super().fixed_size(size))
        self._log.secrets.append(batch.secret)
        return batch

    def permutation(self, n: int) -> Names:
        self._log.ordered.append(n)
        with self.drawing():
            return super().permutation(n)

    def integer(self, words: int = 4) -> int:
        with self.drawing():
            return super().integer(words)

    @property
    def counts_draws(self) -> bool:
        return isinstance(self.source, WatchedEntropy)

    def asked(self) -> int:
        """How often the source was asked so far, if that is counted."""
        return len(self.source.draws) if isinstance(self.source, WatchedEntropy) else 0

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

    def named(self, rows: Names) -> Names:
        """Rows that were drawn, by the names that they have in this table."""
        return rows if self.names is None else self.names[rows]

    def rows_drawn(self, order: Names | None = None) -> None:
        """Rows were drawn at random, an order of all of them or some."""
        self._log.row_draws += 1
        self._log.order = self._log.order if order is None else order

    def _noisy(self, columns: Vector, noises: Sequence[Noise], name: str) -> Vector:
        def noisy(columns: Vector, noises: Sequence[Noise]) -> Vector:
            return super(Watch, self)._noisy(columns, noises, name)

        hiding = self._log.hiding
        return noisy(columns, noises) if hiding else self._apart("release", name, columns, noises, noisy)

    def _hidden(self, columns: Vector, noises: Sequence[Noise]) -> Vector:
        def hidden(columns: Vector, noises: Sequence[Noise]) -> Vector:
            self._log.hiding = True
            try:
                return super(Watch, self)._hidden(columns, noises)
            finally:
                self._log.hiding = False

        return self._apart("hidden", "hidden noise", columns, noises, hidden)

    def _apart(
        self, kind: Kind, name: str, columns: Vector, noises: Sequence[Noise], add: Callable[..., Vector]
    ) -> Vector:
        """Every column passes alone, and is seen with what was drawn for it."""

        def passed(k: int) -> Vector:
            one, noise = columns[:, [k]], noises[k]
            return self._passed(kind, name, one[:, 0], noise, lambda: add(one, [noise])[:, 0])

        seen = [passed(k) for k in range(len(noises))]
        return np.stack(seen, axis=1) if seen else np.empty_like(columns)

    def _chosen(self, scores: Vector | HeldScores, choice: NoisyMin, name: str) -> int:
        def chosen() -> Vector:
            return np.array([super(Watch, self)._chosen(scores, choice, name)])

        self._log.expected = list(self._lane_names)
        return int(self._passed("choice", name, np.asarray(scores, np.float64), choice, chosen)[0])

    def _passed(
        self, kind: Kind, name: str, values: Vector, noise: Noise | NoisyMin, draw: Callable[[], Vector]
    ) -> Vector:
        asked = self.asked()
        with self.drawing():
            released = draw()
        given = self.asked() > asked or not self.counts_draws
        k, log = len(self.passages), self._log
        # What stays hidden keeps its own course: both runs add the same noise to values of their own.
        if kind != "hidden" and self.answers is not None and k < len(self.answers):
            released = self.answers[k].copy() if self.answers[k].shape == released.shape else released
        lane = log.expected.pop(0) if log.expected else self._lane_names[0]
        self.passages.append(
            Passage(
                kind=kind,
                name=name,
                values=np.array(values, np.float64),
                noise=noise,
                released=released.copy(),
                lane=lane,
                rows_drawn=log.row_draws > log.known_draws.get(lane, 0),
                given=given,
            )
        )
        log.known_draws[lane] = log.row_draws
        return released
