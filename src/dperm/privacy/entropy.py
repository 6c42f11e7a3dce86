"""Where randomness comes from: the operating system, or a seed when that is asked for."""

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput


class Entropy(Protocol):
    """A source of randomness. Only a ``secure`` one gives privacy."""

    @property
    def name(self) -> str: ...

    @property
    def secure(self) -> bool: ...

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A uniformly random order of 0..n-1."""
        ...


class SystemEntropy:
    """The operating system's generator. The default, and the only private one."""

    name = "operating system"
    secure = True

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Sort random 64-bit keys, drawn again on ties: given no ties, every order is equally likely."""
        while True:
            keys = np.frombuffer(os.urandom(8 * n), dtype=np.uint64)
            order = np.argsort(keys)
            in_order = keys[order]
            if not (in_order[1:] == in_order[:-1]).any():
                return order.astype(np.int64, copy=False)


class SeededEntropy:
    """A reproducible generator for tests and experiments. Who knows the seed can subtract the noise."""

    name = "seeded generator: not private"
    secure = False

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self.generator = np.random.default_rng(self._sequence)

    def permutation(self, n: int) -> NDArray[np.int64]:
        return self.generator.permutation(n).astype(np.int64, copy=False)

    def spawn(self, n: int) -> list["SeededEntropy"]:
        """``n`` child streams, independent of this one and of each other; every call gives new ones."""
        return [SeededEntropy(child) for child in self._sequence.spawn(n)]


def entropy_from(
    random_state: int | np.random.Generator | np.random.RandomState | None,
) -> SystemEntropy | SeededEntropy:
    """The source that a scikit-learn ``random_state`` asks for; None asks for the operating system.

    A generator is asked for a 128-bit seed, so a second call with the same generator gives new noise.
    """
    if random_state is None:
        return SystemEntropy()
    if (
        isinstance(random_state, (int, np.integer))
        and not isinstance(random_state, bool)
        and random_state >= 0
    ):
        return SeededEntropy(int(random_state))
    if isinstance(random_state, np.random.Generator):
        words = random_state.integers(0, 2**32, size=4, dtype=np.uint32)
    elif isinstance(random_state, np.random.RandomState):
        words = random_state.randint(0, 2**32, size=4, dtype=np.uint32)
    else:
        raise InvalidInput(
            "random_state must be None (operating system, private), a whole number of at least 0, a numpy "
            f"Generator or a RandomState; got {random_state!r}."
        )
    return SeededEntropy(int.from_bytes(words.tobytes(), "little"))
