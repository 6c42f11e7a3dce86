"""The compiled sampler: its law, where its bytes end, what it shares with OpenDP's; each with a control that fails."""

import math
import os
from fractions import Fraction

import numpy as np
import pytest
from mpmath import exp, mpf
from scipy.stats import chi2, chisquare, ks_2samp, kstest

import dperm.privacy.noise as module
import opendp_noise
from dperm.errors import InvalidInput
from dperm.privacy import Gate, GaussianNoise, SeededEntropy, SystemEntropy, add_noise
from dperm.privacy._integer_kernels import below, coin, coin_exp, coin_exp_square, coin_root_e, fill_gaussians
from dperm.privacy.noise import LARGEST_DRAW, LARGEST_SCALE, bytes_below, discrete_gaussian
from dperm.privacy.noisy_min import HeldScores, NoisyMin

TINY = 1e-12
SYSTEM = SystemEntropy()
U = np.uint64


class Tape:
    """Bytes that were written down, given out in order; a secure source as far as the sampler can tell."""

    name, secure = "tape", True

    def __init__(self, data):
        self.data, self.used = data, 0

    def words(self, n):
        self.used += 8 * n
        assert self.used <= len(self.data), "the tape ends here"
        return np.frombuffer(self.data[self.used - 8 * n : self.used], np.uint64)


def probabilities(scale, reach):
    weights = [exp(-(mpf(y) ** 2) / (2 * mpf(scale) ** 2)) for y in range(-reach, reach + 1)]
    total = sum(weights)
    return np.array([float(weight / total) for weight in weights])


def goodness(drawn, scale):
    """p-value of Pearson's test, the tails in one cell."""
    reach = 12 * scale
    chances = probabilities(scale, reach)
    counts = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)
    often = chances * len(drawn) >= 20
    seen = np.append(counts[often], counts[~often].sum())
    expected = np.append(chances[often], chances[~often].sum()) * len(drawn)
    if expected[-1] < 5:
        seen, expected = (np.append(x[:-2], x[-2:].sum()) for x in (seen, expected))
    return chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1)


# The law.


@pytest.mark.together
@pytest.mark.parametrize("scale", [1, 2, 3, 7, 50, 300])
def test_the_law_at_small_scales(scale):
    drawn = discrete_gaussian(300_000, [scale], SYSTEM)[:, 0]
    assert goodness(drawn, scale) > TINY


def test_near_laws_are_told_apart():
    """The test sees a rounded Gaussian, another scale by one part in fifty, and twice the chance of zero."""
    rng = np.random.default_rng(0)
    rounded = np.rint(rng.normal(size=300_000)).astype(np.int64)
    assert goodness(rounded, 1) < TINY
    drawn = discrete_gaussian(300_000, [50], SYSTEM)[:, 0]
    assert goodness(np.rint(drawn * 1.02).astype(np.int64), 50) < TINY
    signed = np.abs(discrete_gaussian(300_000, [2], SYSTEM)[:, 0])
    zeros_kept = np.append(signed, np.zeros(np.count_nonzero(signed == 0), np.int64))
    assert goodness(np.where(rng.random(len(zeros_kept)) < 0.5, -zeros_kept, zeros_kept), 2) < TINY


@pytest.mark.together
@pytest.mark.parametrize("scale", [2**10 - 5, 2**20, 2**33 + 12345, 2**48 - 1, 2**56])
def test_the_law_at_large_scales(scale):
    drawn = discrete_gaussian(200_000, [scale], SYSTEM)[:, 0]
    if scale > 10**5:
        assert kstest(drawn / scale, "norm").pvalue > TINY
        assert kstest(drawn / scale * 1.06, "norm").pvalue < TINY
    squares = (drawn / scale) @ (drawn / scale)
    assert min(chi2.cdf(squares, len(drawn)), chi2.sf(squares, len(drawn))) > TINY
    assert chisquare(np.bincount(drawn & 15, minlength=16)).pvalue > TINY
    assert chisquare(np.bincount(drawn & 14, minlength=16)[:8]).pvalue < TINY  # of even numbers: must fail
    assert np.abs(drawn).max() < 8 * scale < LARGEST_DRAW


def test_columns_have_their_scales_and_are_independent():
    scales = [3, 2**40 + 7, 50]
    drawn = discrete_gaussian(40_000, scales, SYSTEM)
    assert drawn.shape == (40_000, 3)
    assert drawn.dtype == np.int64
    assert goodness(drawn[:, 0], 3) > TINY
    assert kstest(drawn[:, 1] / scales[1], "norm").pvalue > TINY
    assert goodness(drawn[:, 2], 50) > TINY
    signs = np.sign(drawn[:, 1]) * np.sign(drawn[:, 2])
    assert abs(signs.sum()) < 7 * math.sqrt(len(signs))
    lags = np.sign(drawn[1:, 1]) * np.sign(drawn[:-1, 1])
    assert abs(lags.sum()) < 7 * math.sqrt(len(lags))


@pytest.mark.together
@pytest.mark.parametrize(("size", "scales"), [(0, [5]), (3, []), (1, [1])])
def test_no_draws_or_one(size, scales):
    assert discrete_gaussian(size, scales, SYSTEM).shape == (size, len(scales))


def test_two_threads_draw_apart():
    drawn = discrete_gaussian(20_000, [2**40, 2**40], SYSTEM)
    assert len(np.unique(drawn)) == drawn.size


# Coins.


def long_coin(digits, probability):
    """A coin by fractions: the first byte where a uniform number differs from the probability decides."""
    for at, digit in enumerate(digits):
        probability *= 256
        if digit != int(probability):
            return digit < int(probability), at + 1
        probability -= int(probability)
        if probability == 0:
            return False, at + 1
    return False, len(digits) + 1


@pytest.mark.together
@pytest.mark.parametrize(
    ("a", "b"),
    [(0, 1), (0, 2**56), (1, 2), (1, 3), (255, 256), (1, 65536), (2**56 - 2, 2**56 - 1), (10**15, 2**53 + 1)],
)
def test_a_coin_is_a_comparison_with_a_long_division(a, b):
    rng = np.random.default_rng(1)
    expansion = [int(Fraction(a, b) * 256**k) % 256 for k in range(1, 9)]
    for matched in range(9):
        for _ in range(40):
            digits = np.array([*expansion[:matched], *rng.integers(0, 256, 8 - matched)], np.uint8)
            assert coin(digits, 0, U(a), U(b)) == long_coin(digits.tolist(), Fraction(a, b))


@pytest.mark.together
@pytest.mark.parametrize(
    ("throw", "chance"),
    [
        (lambda digits, at: coin_root_e(digits, at), math.exp(-0.5)),
        (lambda digits, at: coin_exp(digits, at, U(1), U(3)), math.exp(-1 / 3)),
        (lambda digits, at: coin_exp(digits, at, U(2**55 + 1), U(2**56)), math.exp(-0.5)),
        (lambda digits, at: coin_exp_square(digits, at, U(4), U(5)), math.exp(-0.32)),
        (lambda digits, at: coin_exp(digits, at, U(0), U(7)), 1.0),
    ],
)
def test_coins_have_their_chances(throw, chance):
    digits, at, heads, n = SYSTEM.words(40_000).view(np.uint8), 0, 0, 20_000
    for _ in range(n):
        head, at = throw(digits, at)
        heads += head
    assert at <= digits.size
    spread = math.sqrt(n * chance * (1 - chance))
    assert abs(heads - n * chance) <= 7 * spread
    if chance < 1:
        assert abs(heads - n * (chance + 0.05)) > 7 * spread


def test_numbers_below_a_bound_are_equally_likely():
    digits, at, seen = SYSTEM.words(20_000).view(np.uint8), 0, []
    for _ in range(20_000):
        found, at = below(digits, at, U(300), 2, U(511))
        seen.append(int(found))
    assert at <= digits.size
    assert chisquare(np.bincount(seen, minlength=300)).pvalue > TINY
    remainders = SYSTEM.words(20_000) % U(512) % U(300)
    assert chisquare(np.bincount(remainders.astype(int), minlength=300)).pvalue < TINY


def test_a_void_draw_stays_void():
    """At the end of the bytes every coin is false, so that every loop ends."""
    digits = np.zeros(3, np.uint8)
    for throw in (
        lambda at: coin(digits, at, U(1), U(3)),
        lambda at: coin_root_e(digits, at),
        lambda at: coin_exp(digits, at, U(1), U(3)),
        lambda at: coin_exp_square(digits, at, U(1), U(3)),
        lambda at: below(digits, at, U(3), 1, U(3)),
    ):
        for at in (3, 4):
            head, after = throw(at)
            assert (int(head), after) == (0, 4)


# Where bytes end.

STREAM = np.random.default_rng(7).bytes(2**17)


def drawn_with(longest, monkeypatch, n=3000, scale=10**9 + 7):
    monkeypatch.setattr(module, "LONGEST_BUFFER", longest)
    return discrete_gaussian(n, [scale], Tape(STREAM))[:, 0]


@pytest.mark.together
@pytest.mark.parametrize("longest", [8, 16, 40, 200, 4096])
def test_the_same_draws_for_every_size_of_buffer(longest, monkeypatch):
    assert np.array_equal(drawn_with(longest, monkeypatch), drawn_with(2**16, monkeypatch))


@pytest.mark.parametrize("first", [np.zeros(100, np.uint8), np.full(100, 255, np.uint8)])
def test_a_cut_anywhere_changes_nothing(first):
    columns = np.array([[2**40 + 1, 6, 2**41 - 1]], U)
    digits = np.concatenate(
        [np.frombuffer(STREAM[:150], np.uint8), first, np.frombuffer(STREAM[150:900], np.uint8)]
    )
    whole = np.zeros(20, np.int64)
    assert fill_gaussians(whole, 0, 20, 20, columns, digits)[0] == 20
    for cut in range(len(digits)):
        parts = np.zeros(20, np.int64)
        done, used = fill_gaussians(parts, 0, 20, 20, columns, digits[:cut])
        assert used <= cut
        fill_gaussians(parts, done, 20, 20, columns, digits[used:])
        assert np.array_equal(parts, whole)


def restarted(n, scale, buffer):
    """A draw that meets the end of a buffer is thrown away: the mistake that favours draws of few bytes."""
    bits = max(1, (scale - 1).bit_length())
    columns, out, done = np.array([[scale, -(-bits // 8), 2**bits - 1]], U), np.empty(n, np.int64), 0
    while done < n:
        done, _ = fill_gaussians(out, done, n, n, columns, SYSTEM.words(buffer // 8).view(np.uint8))
    return out


def test_draws_that_are_thrown_away_at_the_end_of_a_buffer_are_noticed(monkeypatch):
    assert goodness(restarted(100_000, 7, 64), 7) < TINY
    monkeypatch.setattr(module, "LONGEST_BUFFER", 64)
    assert goodness(discrete_gaussian(100_000, [7], SYSTEM)[:, 0], 7) > TINY


@pytest.mark.together
@pytest.mark.parametrize("scale", [1, 5, 2**20 + 3])
def test_the_last_byte_of_a_draw_is_its_sign_and_nothing_else(scale):
    """By its lowest bit; so no sign hangs on a byte that a coin has read, and no coin on that of a sign."""
    columns, digits = np.array([[scale, *bytes_below(scale)]], U), np.frombuffer(STREAM, np.uint8).copy()
    at, signs = 0, set()
    for _ in range(60):
        one = np.zeros(1, np.int64)
        _, used = fill_gaussians(one, 0, 1, 1, columns, digits[at:])
        mine = digits[at : at + used].copy()
        at += used
        if one[0] == 0:  # a zero with the other sign is refused
            continue
        signs.add(int(np.sign(one[0])))
        for byte in range(256):
            mine[-1] = byte
            assert fill_gaussians(one, 0, 1, 1, columns, mine) == (1, used)
            assert one[0] == (-abs(one[0]) if byte & 1 else abs(one[0]))
    assert signs == {-1, 1}


class Repeatable(SeededEntropy):
    """Words that can be had again, from a source that the samplers take for a secure one."""

    secure = True


def held_choice(entropy):
    choice = NoisyMin(sensitivity=1.0, epsilon=1.0)
    values = np.zeros(32, np.int64)
    values[:16] = np.arange(16)
    return HeldScores(values, np.zeros(2, np.uint8), 32, Fraction(1, 4), choice).draw(choice, entropy)


DRAWS = {
    "a Gaussian": lambda source: discrete_gaussian(1, [2**40], source).tolist(),
    "a release": lambda source: (
        Gate(source).release_one(np.zeros(3), GaussianNoise(1.0, 1.0, 3), "r").tolist()
    ),
    "a choice": lambda source: [
        Gate(source).choose(np.zeros(1000), NoisyMin(sensitivity=1.0, epsilon=1.0), "c")
    ],
    "a choice from held scores": lambda source: [held_choice(source) for _ in range(4)],
    "an order": lambda source: Gate(source).order().permutation(50).tolist(),
    "a batch": lambda source: Gate(source).poisson(0.3).positions(60).tolist(),
}


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("before", DRAWS)
@pytest.mark.parametrize("draw", DRAWS)
def test_no_byte_is_kept_between_draws(draw, before):
    """What is drawn from a source does not depend on what another source gave, and left over, before."""
    drawn = []
    for seed in (1, 2, 1):
        DRAWS[before](Repeatable(seed))
        drawn.append(DRAWS[draw](Repeatable(7)))
    assert drawn[0] == drawn[1] == drawn[2]
    assert DRAWS[draw](Repeatable(8)) != drawn[0]


def released_by_a_child(noise):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, Gate.system().release_one(np.zeros(noise.dimension), noise, "child").tobytes())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = np.frombuffer(pipe.read())
    os.waitpid(child, 0)
    return found


@pytest.mark.system_noise(failing=1e-12)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child draws and ends
def test_a_forked_process_draws_other_noise():
    """Bytes that a parent has read and kept would be its child's too, after whatever draws.

    A number comes twice by chance in one of 10**12 runs.
    """
    noise = GaussianNoise(1.0, 1e6, 4)
    for before in (1, 1, 2, 3, 8):
        Gate.system().release_one(np.zeros(before), GaussianNoise(1.0, 1e6, before), "before")
        theirs, mine = (
            released_by_a_child(noise),
            Gate.system().release_one(np.zeros(4), noise, "parent"),
        )
        assert theirs.shape == mine.shape
        assert not set(theirs.tolist()) & set(mine.tolist())


def test_how_many_bytes_a_draw_takes():
    for scale, most in ((1, 24), (2**20, 26), (2**19 + 1, 32), (2**56, 32)):
        tape = Tape(np.random.default_rng(3).bytes(2**20))
        discrete_gaussian(10_000, [scale], tape)
        assert 10 * 10_000 < tape.used < most * 10_000 + 300
    tape = Tape(STREAM)
    discrete_gaussian(124, [2**30], tape)
    assert tape.used == 8 * -(-(30 * 124 + 128) // 8)


# OpenDP's sampler, the oracle.


@pytest.mark.system_noise(failing=1e-10)
def test_opendp_draws_from_the_same_law():
    noise = GaussianNoise(1.0, 0.05, 2000)
    values = np.full(2000, 1 / 3)

    ours = np.concatenate([add_noise(values, noise, SYSTEM) for _ in range(20)])
    theirs = np.concatenate([opendp_noise.opendp_gaussian(values, noise) for _ in range(20)])
    assert ks_2samp(ours, theirs).pvalue > TINY
    assert ks_2samp(1 / 3 + 1.2 * (ours - 1 / 3), theirs).pvalue < TINY
    for released in (ours, theirs):
        steps = released / 2.0**noise.grid_exponent
        assert np.array_equal(steps, np.rint(steps))
        low = (np.rint(steps).astype(np.int64) & 7).astype(int)
        assert chisquare(np.bincount(low, minlength=8)).pvalue > TINY


@pytest.mark.system_noise(failing=1e-10)
def test_at_a_scale_of_two_steps_both_have_the_exact_law():
    """On a coarse grid that the library never uses, so that single points can be counted."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T=int), size=20_000), l2_distance(T=float)
    theirs = np.array(make_gaussian(*space, scale=2.0)([0] * 20_000))
    ours = discrete_gaussian(20_000, [2], SYSTEM)[:, 0]
    assert goodness(theirs, 2) > TINY
    assert goodness(ours, 2) > TINY
    assert goodness(discrete_gaussian(20_000, [3], SYSTEM)[:, 0], 2) < TINY


# Refusals.


@pytest.mark.together
@pytest.mark.parametrize("scale", [0, -1, 2**56 + 1, 1.0, 2.5, True, None])
def test_other_scales_are_refused(scale):
    with pytest.raises(InvalidInput, match="whole number"):
        discrete_gaussian(1, [scale], SYSTEM)


def test_the_largest_scale_keeps_sums_in_64_bits():
    assert 64 * LARGEST_SCALE == LARGEST_DRAW == 2**62
    digits = np.full(
        10_000, 255, np.uint8
    )  # every coin false: the draw is 0 scales and the largest part, refused or not
    out = np.zeros(1, np.int64)
    fill_gaussians(out, 0, 1, 1, np.array([[2**56, 7, 2**56 - 1]], U), digits)
    assert abs(int(out[0])) < 2**56
