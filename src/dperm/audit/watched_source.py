"""A seeded source that keeps a list of what was drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dperm.privacy import SeededEntropy


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
