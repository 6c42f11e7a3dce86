"""A gate that watches: every place where values computed from rows meet randomness, and every draw of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import FLOAT64, Arithmetic
from dperm.engine import Engine, Order, Rows, Table
from dperm.errors import InvalidInput
from dperm.losses.base import has_weights
from dperm.mechanisms import Job, Mechanism, Outcome, Plan
from dperm.privacy import Gate, SeededEntropy
from dperm.privacy.entropy import Entropy
from dperm.privacy.gate import Choice, Scores
from dperm.privacy.noise import Noise
from dperm.privacy.secrets import (
    FixedSizeBatch,
    LocalSample,
    PoissonBatch,
    SecretOrder,
    SplitOrder,
    cut_sample,
    whole_sample,
)
from dperm.problem import Problem
from dperm.row_map import RowMap


class WatchedEntropy(SeededEntropy):
    """A seeded source that keeps a list of all draws; those that no gate asked for are marked as free."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.draws: list[str] = []
        self.at_gate = False
        self.generator: Any = _WatchedGenerator(self.generator, self)

    def spawn(self, n: int) -> list[SeededEntropy]:
        self.drawn("spawn", (n,), {})
        return super().spawn(n)

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


Matrix = NDArray[np.float64]

STORED = 1e-6  # of the bound: what float32 storage may change of a row
ROUNDED = 1e-12  # of the bound: what computing a norm may


@dataclass(frozen=True, eq=False)
class Opened:
    """Rows as an engine holds them, the map and order that were asked for, and for how many models."""

    engine: Engine
    row_map: RowMap
    order: Order | None
    models: int

    @property
    def held(self) -> Matrix:
        """A margin with a unit vector is a column."""
        return self.engine.margins(np.eye(self.engine.n_columns))


class WatchedTable(Table):
    """A table whose copies all write to the same lists."""

    def __init__(self, *rows: Any, **facts: Any) -> None:
        super().__init__(*rows, **facts)
        self.asked: RowMap = self._declared
        self.maps: list[RowMap] = []
        self.opened: list[Opened] = []
        self.noted: list[set[Arithmetic]] = []

    def mapped(self, row_map: RowMap) -> WatchedTable:
        self.maps.append(row_map)
        seen = super().mapped(row_map)
        seen.asked = row_map
        return seen

    def mapped_per_model(self, maps: Sequence[RowMap]) -> None:
        """One by one, so that the rows behind every map are looked at; that all together come to the same is tested."""
        return

    def noting(self, used: set[Arithmetic]) -> WatchedTable:
        self.noted.append(used)
        return super().noting(used)

    def open(self, order: Order | None = None, **how: Any) -> Engine:
        engine = super().open(order, **how)
        models = 1 if self._mask is None else int(self._mask.shape[1])
        self.opened.append(Opened(engine, self.asked, order, models))
        return engine

    def other_rows(self) -> Iterator[str]:
        """Where an engine holds other rows than the map and the order that were asked for make of these."""
        for opened in self.opened:
            row_map, held = opened.row_map, opened.held
            expected = self._through(row_map)[_places(opened.order, self.n_rows)]
            features = held[:, : self._X.shape[1]]
            longest = float(np.sqrt(np.sum(features * features, axis=1)).max())
            if not longest <= row_map.x_norm * (1 + ROUNDED):
                yield f"a row of features is {longest:.6g} long, the bound is {row_map.x_norm:g}"
            allowed = STORED * max(row_map.x_norm, row_map.intercept)
            if held.shape != expected.shape or not np.abs(held - expected).max() <= allowed:
                yield "an engine holds other rows than their map makes of them"

    def imprecise_sums(self, problem: Problem) -> Iterator[str]:
        """Where an engine sums gradients less precisely than it says, at weights of unit margins."""
        loss, n = problem.loss, self.n_rows
        y = np.ones(n, self._y.dtype if has_weights(self._y) else np.float64)
        y[: len(self._y)] = self._y
        for opened in self.opened:
            engine, X, labels = opened.engine, opened.held, y[_places(opened.order, n)]
            shape = (engine.n_columns, opened.models) + (loss.outputs,) * (loss.outputs > 1)
            W = np.cos(np.arange(np.prod(shape))).reshape(shape)
            W /= problem.row_norm * np.linalg.norm(W)
            found = engine.gradient_sum(loss, W)
            says = engine.arithmetic(opened.models)
            units = problem.n_rows
            allowed = units * sum(
                replace(problem, arithmetic=a).gradient_error(units, 1 / problem.row_norm)
                for a in (says, FLOAT64)
            )
            for k in range(opened.models):
                exact = X.T @ loss.slope(X @ W[:, k], labels)
                if not np.linalg.norm(found[:, k] - exact) <= allowed:
                    yield f"an engine sums gradients less precisely than {says.name} would"

    def _through(self, row_map: RowMap) -> Matrix:
        """What the map's definition makes of the rows, in plain NumPy and by none of its own functions."""
        rows = _cut(self._X.astype(np.float64), row_map.x_norm)
        rows = rows if row_map.centre is None else rows - row_map.centre
        rows = rows if row_map.scale is None else rows / row_map.scale
        rows = _cut(rows, row_map.x_norm)
        if row_map.intercept > 0:
            rows = np.column_stack([rows, np.full(len(rows), row_map.intercept)])
        return np.pad(rows, ((0, self.n_rows - len(rows)), (0, 0)))


def _places(order: Order | None, n_rows: int) -> NDArray[np.int64]:
    return np.arange(n_rows) if order is None else order.permutation(n_rows)


def _cut(rows: Matrix, bound: float) -> Matrix:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(norms > bound, rows * (bound / np.maximum(norms, bound)), rows)


Vector = NDArray[np.float64]
Kind = Literal["release", "choice", "hidden"]


@dataclass(frozen=True, eq=False, kw_only=True)
class NoiseEvent:
    """Values that met noise: in a release, in a private choice, or inside a mechanism that hides the result.

    ``job`` is the one that the gate was asked for. ``rows_drawn`` tells that rows were drawn at random since the
    event before in that job, ``given`` that the noise was drawn from the source of the gate, as far as is seen.
    """

    kind: Kind
    name: str
    values: Vector
    noise: Noise | Choice
    released: Vector
    job: int
    rows_drawn: bool
    given: bool


@dataclass(eq=False)
class _Log:
    """What all jobs and parts of one gate write down."""

    events: list[NoiseEvent] = field(default_factory=list)
    secrets: list[WatchedSecret] = field(default_factory=list)
    order: Names | None = None
    ordered: list[int] = field(default_factory=list)
    jobs: int = 0
    expected: list[int] = field(default_factory=list)  # jobs of the events that come next
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
        self._log, self._job_numbers = _Log(), [0]

    def run(self, mechanism: Mechanism, plan: Plan, rows: Rows) -> None:
        self.run_together(mechanism, [Job(plan=plan)], rows)

    def run_together(self, mechanism: Mechanism, jobs: Sequence[Job[Any]], rows: Rows) -> None:
        self.outcomes = mechanism.run(jobs, rows, self)

    @property
    def outcome(self) -> Outcome:
        return self.outcomes[0]

    @property
    def events(self) -> list[NoiseEvent]:
        return self._log.events

    @property
    def row_order(self) -> Names | None:
        return self._log.order

    @property
    def ordered(self) -> list[int]:
        """Of how many things, said to be no rows, a random order was drawn."""
        return self._log.ordered

    def of_job(self, job: int) -> Watch:
        """What was seen of one of several jobs."""
        alone = copy(self)
        alone._log = copy(self._log)
        alone._log.events = [event for event in self.events if event.job == job]
        alone.outcomes = [self.outcomes[job]]
        return alone

    def draws_anew(self) -> bool:
        """Whether an order or batch of this run is another one when it is asked for again."""
        return any(secret.changes() for secret in self._log.secrets)

    def for_jobs(self, n: int) -> Self:
        fresh = super().for_jobs(n)
        fresh._job_numbers = list(range(self._log.jobs, self._log.jobs + n))
        self._log.jobs += n
        return fresh

    def part(self, jobs: Sequence[int]) -> Self:
        some = super().part(jobs)
        some._job_numbers = [self._job_numbers[job] for job in jobs]
        return some

    def release(self, values: NDArray[Any], noises: Sequence[Noise], name: str) -> Vector:
        self._log.expected = list(self._job_numbers)
        return super().release(values, noises, name)

    def hide(self, values: NDArray[Any], noises: Sequence[Noise]) -> Vector:
        self._log.expected = list(self._job_numbers)
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

    def _chosen(self, scores: Scores, choice: Choice, name: str) -> int:
        def chosen() -> Vector:
            return np.array([super(Watch, self)._chosen(scores, choice, name)])

        self._log.expected = list(self._job_numbers)
        return int(self._passed("choice", name, np.asarray(scores, np.float64), choice, chosen)[0])

    def _passed(
        self, kind: Kind, name: str, values: Vector, noise: Noise | Choice, draw: Callable[[], Vector]
    ) -> Vector:
        asked = self.asked()
        with self.drawing():
            released = draw()
        given = self.asked() > asked or not self.counts_draws
        k, log = len(self.events), self._log
        # What stays hidden keeps its own course: both runs add the same noise to values of their own.
        if kind != "hidden" and self.answers is not None and k < len(self.answers):
            released = self.answers[k].copy() if self.answers[k].shape == released.shape else released
        job = log.expected.pop(0) if log.expected else self._job_numbers[0]
        self.events.append(
            NoiseEvent(
                kind=kind,
                name=name,
                values=np.array(values, np.float64),
                noise=noise,
                released=released.copy(),
                job=job,
                rows_drawn=log.row_draws > log.known_draws.get(job, 0),
                given=given,
            )
        )
        log.known_draws[job] = log.row_draws
        return released
