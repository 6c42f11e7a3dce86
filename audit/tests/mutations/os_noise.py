"""What the operating system's randomness adds is not what was declared."""

import math
import os

import numpy as np

from dperm.privacy import Gate, GaussianNoise, SeededEntropy, SystemEntropy
from dperm.privacy.noise import GammaNormNoise
from dperm.privacy.noisy_min import NoisyMin, noisy_min
from dperm_audit.self_test import Mutation, every_private

SYSTEM = SystemEntropy()
NOISE, GAMMA = GaussianNoise(1.0, 1.0, 2), GammaNormNoise(1.0, 1.0, 2)
GRID = math.ldexp(1.0, NOISE.grid_exponent)


def changed(change):
    """What makes a sampler whose noise, once drawn, is changed column by column, in steps of its grid."""

    def make(sampler):
        def broken(size, scales, entropy):
            drawn = sampler(size, scales, entropy).copy()
            for k, scale in enumerate(scales):
                drawn[:, k] = np.rint(change(drawn[:, k], scale))
            return drawn

        return broken

    return make


def first_again(drawn, scale):
    drawn[-1] = drawn[0]
    return drawn


def of_one_byte(drawn, scale):
    return np.random.default_rng(os.urandom(1)[0]).normal(scale=scale, size=len(drawn))


def without_tails(drawn, scale):
    return np.clip(drawn, -2 * scale, 2 * scale)


def off_the_grid(add):
    """Adds noise of the grid to values that were not rounded to it, whose last digits so come out."""
    return lambda columns, noise, exponents: columns + noise * np.ldexp(1.0, exponents)


def of_the_passage_before(add):
    """Adds to every second vector of a length the noise of the one before, in units of its scale."""
    kept = {}

    def broken(self, columns, noises, name):
        noisy = add(self, columns, noises, name)
        for k, noise in enumerate(noises):
            if self.secure and isinstance(noise, GaussianNoise):
                noisy[:, k] = again(columns[:, k], noisy[:, k], noise)
        return noisy

    def again(values, noisy, noise):
        grid = math.ldexp(1.0, noise.grid_exponent)
        rounded = np.rint(values / grid) * grid
        before = kept.pop(noise.dimension, None)
        if before is None:
            kept[noise.dimension] = (noisy - rounded) / noise.scale
            return noisy
        return rounded + np.rint(before * noise.scale / grid) * grid

    return broken


def kept_between_draws(fill):
    """Begins with the bytes that the draw before has left over."""
    left = []

    def broken(out, first, last, each, columns, entropy):
        class Source:
            def words(self, n):
                given = np.concatenate([*left, entropy.words(n)])[:n]
                left[:] = [entropy.words(2)]
                return given

        fill(out, first, last, each, columns, Source() if entropy.secure else entropy)

    return broken


def drawn_again():
    """One release, repeatable but for what was drawn before it."""
    found = []
    for before in range(2):
        for seed in (before, 2):
            source = SeededEntropy(seed)
            source.secure = True
            noisy = Gate(source).release_one(np.zeros(2), NOISE, "probe")
        found.append(noisy.tolist())
    return found[0] == found[1]


def half_gumbel(sampler):
    def broken(scores, choice, entropy):
        return sampler(scores, NoisyMin(sensitivity=choice.sensitivity / 2, epsilon=choice.epsilon), entropy)

    return broken


def half_gamma(draw):
    return lambda self, entropy: draw(self, entropy) / (2 if entropy.secure else 1)


def gaussians(runs):
    return np.array([Gate(SYSTEM).release_one(np.zeros(2), NOISE, "probe") for _ in range(runs)])


def lowest_chosen(runs=1000):
    """Whether the better of two candidates is chosen more often than in 73 of 100 cases, by far."""
    choice = NoisyMin(sensitivity=1.0, epsilon=2.0)
    chosen = [noisy_min(np.array([0.0, 1.0]), choice, SYSTEM) for _ in range(runs)]
    return bool(np.mean(chosen) < 0.195)


# Noise at the gate is Gaussian everywhere but in objective-pure. frank-wolfe has it in its standardisation alone, and
# there alone frank-wolfe and dp-cd have vectors of it.
GAUSSIAN = every_private(but=("objective-pure",))

MUTATIONS = (
    Mutation(
        name="system noise halved",
        what_is_wrong="Noise of the operating system's sampler is halved after it was drawn.",
        touches=GAUSSIAN,
        changes={"dperm.privacy.noise.discrete_gaussian": changed(lambda drawn, scale: drawn / 2)},
        probe=lambda: bool(gaussians(600).std() < 0.75),
    ),
    Mutation(
        name="system noise shared",
        what_is_wrong="The last number of every vector gets the noise of the first.",
        touches=GAUSSIAN,
        changes={"dperm.privacy.noise.discrete_gaussian": changed(first_again)},
        probe=lambda: bool((np.ptp(gaussians(10), axis=1) == 0).all()),
    ),
    Mutation(
        name="system noise of one byte",
        what_is_wrong="Noise comes from a generator with a seed of one byte: 256 vectors in all.",
        touches=GAUSSIAN,
        changes={"dperm.privacy.noise.discrete_gaussian": changed(of_one_byte)},
        probe=lambda: len(np.unique(gaussians(600), axis=0)) <= 256,
    ),
    Mutation(
        name="system noise without tails",
        what_is_wrong="Noise is cut off at two standard deviations.",
        touches=GAUSSIAN,
        changes={"dperm.privacy.noise.discrete_gaussian": changed(without_tails)},
        probe=lambda: bool(np.abs(gaussians(600)).max() < 2.001),
    ),
    Mutation(
        name="values off the grid",
        what_is_wrong="Values are not rounded to the grid of their noise, so their last digits are released.",
        touches=GAUSSIAN,
        changes={"dperm.privacy.noise.added_on_grid": off_the_grid},
        probe=lambda: float(
            Gate(SYSTEM).release_one(np.full(2, 1 / 3), NOISE, "probe")[0] / GRID
        ).is_integer(),
    ),
    Mutation(
        name="system noise of the event before",
        what_is_wrong="Every second vector of a length is released with the noise of the one before.",
        touches=GAUSSIAN,
        changes={"dperm.privacy.gate.Gate._noisy": of_the_passage_before},
        probe=lambda: len(np.unique(gaussians(10), axis=0)),
    ),
    Mutation(
        name="bytes kept between draws",
        what_is_wrong="A draw begins with bytes that the draw before has left over, which a forked process has too.",
        touches=GAUSSIAN,
        changes={"dperm.privacy.noise._fill": kept_between_draws},
        probe=drawn_again,
    ),
    Mutation(
        name="system choice halved",
        what_is_wrong="A private choice draws Gumbel noise for half of the declared sensitivity.",
        touches=("frank-wolfe", "dp-agd"),
        changes={"dperm.privacy.noisy_min.lowest": half_gumbel},
        probe=lowest_chosen,
    ),
    Mutation(
        name="system Gamma noise halved",
        what_is_wrong="Noise of Gamma norm from the operating system is halved after it was drawn.",
        touches=("objective-pure",),
        changes={"dperm.privacy.noise.GammaNormNoise.draw": half_gamma},
        probe=lambda: bool(np.mean([np.linalg.norm(GAMMA.draw(SYSTEM)) for _ in range(2000)]) < 1.5),
    ),
)
