"""A gate whose answers a test chooses; it writes down all that comes to it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dperm.privacy import Entropy, Gate, GaussianNoise, SeededEntropy
from dperm.privacy.noise import Noise
from dperm.privacy.noisy_min import NoisyMin

Array = NDArray[np.float64]


class ScriptedGate(Gate):
    """Values leave with noise of ``strength`` times its scale; at 0 they leave as they came.

    The lowest score is chosen unless ``picks`` says otherwise. With ``replay`` the answers are those of another run, so
    that a neighbour is trained along the same public trajectory. Orders and batches come from ``source``.
    """

    def __init__(
        self,
        source: Entropy | None = None,
        *,
        strength: float = 0.0,
        replay: "ScriptedGate | None" = None,
        picks: Sequence[int] | None = None,
    ) -> None:
        super().__init__(SeededEntropy(5) if source is None else source)
        self.strength, self.replay, self.picks = strength, replay, picks
        self.rng = np.random.default_rng(9)
        self.values: list[Array] = []
        self.released: list[Array] = []
        self.noises: list[GaussianNoise] = []
        self.scores: list[Array] = []
        self.choices: list[NoisyMin] = []
        self.picked: list[int] = []

    def _noisy(self, columns: Array, noises: Sequence[Noise], name: str) -> Array:
        noisy = [self._one(values, noise) for values, noise in zip(columns.T, noises, strict=True)]
        return np.stack(noisy, axis=1)

    def _one(self, values: Array, noise: Noise) -> Array:
        assert isinstance(noise, GaussianNoise)
        assert values.shape == (noise.dimension,)
        noisy = values + self.strength * noise.scale * self.rng.normal(size=values.shape)
        if self.replay is not None:
            noisy = self.replay.released[len(self.released)]
        self.values.append(values.copy())
        self.noises.append(noise)
        self.released.append(noisy)
        return noisy.copy()

    def _chosen(self, scores: Array, choice: NoisyMin, name: str) -> int:
        if self.replay is not None:
            pick = self.replay.picked[len(self.picked)]
        elif self.picks is not None:
            pick = self.picks[len(self.picked) % len(self.picks)]
        else:
            pick = int(np.argmin(scores))
        self.scores.append(np.array(scores, np.float64))
        self.choices.append(choice)
        self.picked.append(pick)
        return pick
