"""Where randomness comes from: the operating system, or a seed when that is asked for.

No other module of the library asks the operating system for random bits. OpenDP does, where it draws instead of us.
"""

import os
from random import SystemRandom
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


class Entropy(Protocol):
    """A source of randomness. Only a ``secure`` one gives privacy."""

    @property
    def name(self) -> str: ...

    @property
    def secure(self) -> bool: ...

    def words(self, n: int) -> Words:
        """Independent uniform numbers of 64 bits. A secure source may be asked by several threads at a time."""
        ...

    def permutation(self, n: int) -> Integers:
        """A uniformly random order of 0..n-1."""
        ...

    def subset(self, n: int, size: int) -> Integers:
        """A uniformly random set of ``size`` of the numbers 0..n-1."""
        ...


def order_of(keys: Words) -> Integers | None:
    """What sorts the keys; None if two are equal."""
    order = np.argsort(keys)
    in_order = keys[order]
    if (in_order[1:] == in_order[:-1]).any():
        return None
    return order.astype(np.int64, copy=False)


class SystemEntropy:
    """The operating system's generator. The default, and the only private one."""

    name = "operating system"
    secure = True

    def words(self, n: int) -> Words:
        return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)

    def permutation(self, n: int) -> Integers:
        """Sort random 64-bit keys, drawn again on ties: given no ties, every order is equally likely."""
        while (order := order_of(self.words(n))) is None:
            pass
        return order

    def subset(self, n: int, size: int) -> Integers:
        return np.array(SystemRandom().sample(range(n), size), np.int64)


class SeededEntropy:
    """A reproducible generator for tests and experiments. Who knows the seed can subtract the noise."""

    name = "seeded generator: not private"
    secure = False

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self.generator = np.random.default_rng(self._sequence)

    def words(self, n: int) -> Words:
        return self.generator.integers(0, 2**64, size=n, dtype=np.uint64)

    def permutation(self, n: int) -> Integers:
        return self.generator.permutation(n).astype(np.int64, copy=False)

    def subset(self, n: int, size: int) -> Integers:
        return self.generator.choice(n, size, replace=False, shuffle=False)

    def spawn(self, n: int) -> list["SeededEntropy"]:
        """``n`` child streams, independent of this one and of each other; every call gives new ones."""
        return [SeededEntropy(child) for child in self._sequence.spawn(n)]


def seeded(entropy: Entropy) -> np.random.Generator:
    """The generator of a source that is not secure; refuses a source that is neither."""
    if not isinstance(entropy, SeededEntropy):
        raise InvalidInput(f"The source {entropy.name!r} is neither secure nor a SeededEntropy.")
    return entropy.generator


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
