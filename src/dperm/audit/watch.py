"""Watch a run: every place where values computed from rows meet randomness, and every draw of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dperm.engine import Table
from dperm.mechanisms import Job, Mechanism, Outcome, Plan
from dperm.privacy import GaussianNoise, ReleaseRecord, SeededEntropy
from dperm.privacy.entropy import Entropy
from dperm.privacy.gamma_norm import GammaNormNoise
from dperm.privacy.noisy_min import NoisyMin

Vector = NDArray[np.float64]
Names = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Passage:
    """Values that met noise: at the gate, in a private choice, or inside a mechanism that hides the result.

    ``rows_drawn`` tells that rows were drawn at random since the passage before, ``given`` that the noise came
    from the source that the mechanism was given.
    """

    kind: Literal["release", "choice", "hidden"]
    name: str
    values: Vector
    noise: GaussianNoise | GammaNormNoise | NoisyMin
    released: Vector
    record: ReleaseRecord | None
    rows_drawn: bool
    given: bool


class WatchedEntropy(SeededEntropy):
    """Keeps a list of all draws. ``names`` says how rows are called in a table that lacks one of them.

    What is drawn for rows, such as an order, a batch or a key for each, then goes with the rows. That is the
    coupling by which a secret order or sample covers a row that is missing.
    """

    def __init__(self, seed: int, n_rows: int, names: Names | None = None) -> None:
        super().__init__(seed)
        self.n_rows, self.names = n_rows, names
        self.draws: list[str] = []
        self.order: Names | None = None
        self.rows_drawn = False
        self.within_noise = False
        self.generator: Any = _WatchedGenerator(self.generator, self)

    def drawn(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any], result: Any) -> Any:
        self.draws.append(f"{'noise' if self.within_noise else 'free'} {method}{arguments}{named}")
        if self.within_noise or not isinstance(result, np.ndarray):
            return result
        of_names = method in ("permutation", "choice") and np.ndim(arguments[0]) == 0
        if of_names and arguments[0] == self.n_rows:
            self.rows_drawn = True
            result = result if self.names is None else self.names[result]
            self.order = result if method == "permutation" else self.order
        elif not of_names and result.shape[:1] == (self.n_rows,):
            self.rows_drawn = True
            if self.names is not None:
                moved = np.empty_like(result)
                moved[self.names] = result
                result = moved
        return result


class _WatchedGenerator:
    def __init__(self, generator: np.random.Generator, entropy: WatchedEntropy) -> None:
        self._generator, self._entropy = generator, entropy

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def draw(*arguments: Any, **named: Any) -> Any:
            result = getattr(self._generator, method)(*arguments, **named)
            return self._entropy.drawn(method, arguments, named, result)

        return draw


class Watch:
    """One run of one job. With ``answers`` the gate lets through those instead of what it drew."""

    def __init__(self, entropy: Entropy, answers: Sequence[Vector] | None = None) -> None:
        self.entropy = entropy
        self.answers = answers
        self.passages: list[Passage] = []
        self.centres: list[Vector] = []  # that rows were centred by
        self.outcome: Outcome | None = None
        self._within_noise = False

    def run(self, mechanism: Mechanism, plan: Plan, table: Table) -> None:
        with self._watching(mechanism):
            (self.outcome,) = mechanism.run([Job(plan=plan)], table, self.entropy)

    def _release(
        self,
        real: Callable[..., tuple[Vector, ReleaseRecord]],
        values: Vector,
        noise: GaussianNoise | GammaNormNoise,
        entropy: Entropy,
        name: str,
    ) -> tuple[Vector, ReleaseRecord]:
        with self._noise():
            released, record = real(values, noise, entropy, name)
        return self._passed("release", name, values, noise, released, record, entropy), record

    def _choose(self, real: Callable[..., int], scores: Vector, choice: NoisyMin, entropy: Entropy) -> int:
        with self._noise():
            index = real(scores, choice, entropy)
        answer = self._passed("choice", "private choice", scores, choice, np.array([index]), None, entropy)
        return int(answer[0])

    def _add_hidden(
        self,
        real: Callable[..., Vector],
        values: Vector,
        noise: GaussianNoise | GammaNormNoise,
        entropy: Entropy,
    ) -> Vector:
        if self._within_noise:
            return real(values, noise, entropy)
        with self._noise():
            noisy = real(values, noise, entropy)
        return self._passed("hidden", "hidden noise", values, noise, noisy, None, entropy)

    def _passed(
        self,
        kind: Literal["release", "choice", "hidden"],
        name: str,
        values: Vector,
        noise: GaussianNoise | GammaNormNoise | NoisyMin,
        released: Vector,
        record: ReleaseRecord | None,
        entropy: Entropy,
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
                record=record,
                rows_drawn=getattr(self.entropy, "rows_drawn", False),
                given=entropy is self.entropy,
            )
        )
        if isinstance(self.entropy, WatchedEntropy):
            self.entropy.rows_drawn = False
        return released

    @contextmanager
    def _noise(self) -> Iterator[None]:
        self._mark(True)
        try:
            yield
        finally:
            self._mark(False)

    def _mark(self, within_noise: bool) -> None:
        self._within_noise = within_noise
        if isinstance(self.entropy, WatchedEntropy):
            self.entropy.within_noise = within_noise

    @contextmanager
    def _watching(self, mechanism: Mechanism) -> Iterator[None]:
        """Stand before whatever is called by the names of the noise, wherever a mechanism may have imported it."""
        before: dict[str, Callable[..., Any]] = {
            "pass_gate": self._release,
            "noisy_min": self._choose,
            "add_noise": self._add_hidden,
        }
        real_add = GammaNormNoise.add

        def add_gamma(noise: GammaNormNoise, values: Vector, entropy: Entropy) -> Vector:
            return self._add_hidden(lambda v, n, e: real_add(n, v, e), values, noise, entropy)

        real_centred = Table.centred

        def centred(table: Table, centre: Vector, radius: float) -> Table:
            self.centres.append(np.array(centre))
            return real_centred(table, centre, radius)

        swapped: list[tuple[Any, str, Any, Any]] = [
            (GammaNormNoise, "add", real_add, add_gamma),
            (Table, "centred", real_centred, centred),
        ]
        names = {kind.__module__ for kind in type(mechanism).__mro__}
        names |= {name for name in sys.modules if name.startswith("dperm.")}
        for module in (sys.modules[name] for name in names):
            for name, watch in before.items():
                value = vars(module).get(name)
                if isinstance(value, FunctionType):
                    swapped.append((module, name, value, partial(watch, value)))
        try:
            for owner, name, _, stand_in in swapped:
                setattr(owner, name, stand_in)
            yield
        finally:
            for owner, name, value, _ in swapped:
                setattr(owner, name, value)
