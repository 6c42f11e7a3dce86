"""Choices from scores that are kept in blocks: the law, the coin, and which blocks are computed anew."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy import Gate, SeededEntropy, SystemEntropy
from dperm.privacy.noisy_min import LARGEST_SCORE, HeldScores, NoisyMin, block_width, coin_exp

ALPHA = 1e-9  # chance that a right mechanism fails a statistical test
CHOICE = NoisyMin(sensitivity=1.0, epsilon=1.0)
UNIT = Fraction(1, 2**20)


def held(scores, block=16, choice=CHOICE):
    """Of scores in units of the sensitivity; also the values and marks that they are kept in."""
    n = len(scores)
    values = np.zeros(-(-n // block) * block, np.int64)
    values[:n] = np.rint(np.asarray(scores) / float(UNIT))
    changed = np.zeros(len(values) // block, np.uint8)
    return HeldScores(values, changed, n, UNIT, choice), values, changed


def chances(scores, scale=CHOICE.scale):
    both = np.concatenate([scores, -np.asarray(scores)])
    weights = np.exp(-(both - both.min()) / scale)
    return weights / weights.sum()


def fits(counts, expected):
    often = expected > 5
    pooled = np.append(expected[often], expected[~often].sum() + 1e-9)
    seen = np.append(counts[often], counts[~often].sum())
    return stats.chisquare(seen, pooled * seen.sum() / pooled.sum()).pvalue > ALPHA


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("spread", "entropy"),
    [(0.0, SystemEntropy()), (3.0, SeededEntropy(7)), (6.0, SystemEntropy()), (100.0, SeededEntropy(7))],
    ids=["0-system", "3-seeded", "6-system", "100-seeded"],
)
def test_the_law_is_that_of_the_exponential_mechanism(spread, entropy):
    """37 columns in blocks of 16, so that the last block has spare ones. Scales off by a quarter are told apart."""
    scores = spread * np.random.default_rng(2).standard_normal(37)
    given, _, _ = held(scores)
    counts = np.bincount([given.draw(CHOICE, entropy) for _ in range(6000)], minlength=74)
    assert len(counts) == 74 == len(given)
    assert fits(counts, 6000 * chances(scores))
    if 0 < spread < 100:
        assert not fits(counts, 6000 * chances(scores, 1.25 * CHOICE.scale))
        assert not fits(counts, 6000 * chances(scores, 0.75 * CHOICE.scale))
        assert not fits(counts, 6000 * np.roll(chances(scores), 37))


@pytest.mark.parametrize(("epsilon", "steps"), [(1.0, 3), (0.4, 6)])
def test_a_scale_between_two_steps_is_rounded_up(epsilon, steps):
    """Of 2.5 or 5.0 units, and a little: with two steps, or with five, the best would be chosen too often."""
    choice = NoisyMin(sensitivity=1.0, epsilon=epsilon)
    unit = Fraction(4, 5) if epsilon == 1.0 else Fraction(1)
    values = np.arange(16, dtype=np.int64)
    given = HeldScores(values, np.zeros(1, np.uint8), 16, unit, choice)
    assert float(unit) * (steps - 1) < choice.scale < float(unit) * steps
    entropy = SeededEntropy(11)
    counts = np.bincount([given.draw(choice, entropy) for _ in range(6000)], minlength=32)
    assert fits(counts, 6000 * chances(values, steps))
    assert not fits(counts, 6000 * chances(values, steps - 1))


def test_weights_that_are_not_rounded_up_change_the_law(monkeypatch):
    """The control for the last coin: without it, proposals by coarse weights are another choice."""
    scores = 3.0 * np.arange(33)
    monkeypatch.setattr("dperm.privacy.noisy_min.coin_exp", lambda *_: True)
    given, _, _ = held(scores)
    given._bits = 2
    counts = np.bincount([given.draw(CHOICE, SystemEntropy()) for _ in range(3000)], minlength=66)
    assert not fits(counts, 3000 * chances(scores))
    monkeypatch.undo()
    counts = np.bincount([given.draw(CHOICE, SystemEntropy()) for _ in range(3000)], minlength=66)
    assert fits(counts, 3000 * chances(scores))


def test_only_marked_blocks_are_computed_anew():
    rng = np.random.default_rng(3)
    scores = rng.standard_normal(100)
    given, values, changed = held(scores)
    given.draw(CHOICE, SeededEntropy(0))
    assert not changed.any()
    values[50] -= 40 * 2**20
    values[51] += 7
    changed[50 // 16] = 1
    assert given.draw(CHOICE, SeededEntropy(1)) == 50
    fresh = HeldScores(values.copy(), np.zeros_like(changed), 100, UNIT, CHOICE)
    assert fresh.draw(CHOICE, SeededEntropy(1)) == 50
    np.testing.assert_array_equal(given._weight, fresh._weight)
    np.testing.assert_array_equal(given._largest, fresh._largest)
    values[3] -= 80 * 2**20  # without a mark nothing is seen
    assert given.draw(CHOICE, SeededEntropy(2)) == 50


def test_weights_are_at_least_what_they_bound():
    given, _, _ = held(np.zeros(5))
    above = np.unique(np.random.default_rng(4).integers(0, 30 * given._steps, 3000))
    for gap, weight in zip(above.tolist(), given._rounded_up(above).tolist(), strict=True):
        exact = math.ldexp(math.exp(-gap / given._steps), given._bits)
        assert exact <= weight <= exact + 3


@pytest.mark.together
@pytest.mark.parametrize(
    ("a", "ratio"), [(0, Fraction(1)), (7, Fraction(1)), (7, Fraction(2)), (90, Fraction(1, 3))]
)
def test_the_coin_has_its_chance(a, ratio):
    chance, entropy = float(ratio) * math.exp(-a / 10), SeededEntropy(5)
    heads = sum(coin_exp(a, 10, ratio, entropy) for _ in range(4000))
    assert stats.binomtest(heads, 4000, min(chance, 1.0)).pvalue > ALPHA
    if 0.01 < chance < 1:
        assert stats.binomtest(heads, 4000, 0.8 * chance).pvalue < ALPHA


class Words:
    """The given words, then none."""

    name, secure = "given", True

    def __init__(self, *words):
        self.left = list(words)

    def words(self, n):
        return np.array([self.left.pop(0) for _ in range(n)], np.uint64)


def test_a_coin_takes_as_many_digits_as_it_needs():
    """The first words of exp(-1/3), and then one that is above or below."""
    with mpmath.workdps(60):
        exact = Fraction(str(mpmath.exp(mpmath.mpf(-1) / 3)))
    first = int(exact * 2**64)
    second = int(exact * 2**128) - (first << 64)
    assert coin_exp(1, 3, Fraction(1), Words(first - 1))
    assert not coin_exp(1, 3, Fraction(1), Words(first + 1))
    assert coin_exp(1, 3, Fraction(1), Words(first, second - 1))
    assert not coin_exp(1, 3, Fraction(1), Words(first, second + 1))
    assert not coin_exp(10**9, 1, Fraction(1), Words(0, 0, 1))
    with pytest.raises(NotCertified, match="weight"):
        coin_exp(1, 3, Fraction(2), Words(1))


def test_it_is_chosen_at_the_gate_and_written_down():
    gate = Gate.system()
    scores = np.full(300, 50.0)
    given, _, _ = held(scores, block_width(300))
    chosen = gate.choose(given, CHOICE, "corner")
    assert 300 <= chosen < 600  # the opposites are far below
    (record,) = gate.records()
    assert (record.dimension, record.noise_scale, record.secure) == (600, CHOICE.scale, True)
    np.testing.assert_allclose(np.asarray(given), np.concatenate([scores, -scores]))


@pytest.mark.system_noise(failing=1e-10)
def test_the_lowest_by_far_is_chosen():
    given, values, _ = held(np.zeros(40))
    values[7] = 2**40
    given, _, _ = held(values[:40] * float(UNIT))
    assert given.draw(CHOICE, SystemEntropy()) == 47


def test_held_scores_refuse():
    given, values, _ = held(np.zeros(40))
    with pytest.raises(InvalidInput, match="another choice"):
        given.draw(NoisyMin(sensitivity=2.0, epsilon=1.0), SystemEntropy())
    values[1] = LARGEST_SCORE + 1
    with pytest.raises(NotCertified, match="too large"):
        given.draw(CHOICE, SystemEntropy())
    for bad in (np.zeros(40, np.int64), np.zeros(48)):
        with pytest.raises(InvalidInput, match="blocks"):
            HeldScores(bad, np.zeros(3, np.uint8), 40, UNIT, CHOICE)
