from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from dperm.errors import InvalidInput
from dperm.privacy import SeededEntropy, SystemEntropy, entropy_from

TINY = 1e-9
DRAWS = 24_000


def uniformity(draw):
    """p-value of the hypothesis that ``draw`` makes the 24 orders of four things equally likely."""
    counts = Counter(tuple(int(i) for i in draw(4)) for _ in range(DRAWS))
    assert set(counts) <= set(permutations(range(4)))
    return chisquare([counts[order] for order in permutations(range(4))]).pvalue


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(0)], ids=lambda e: e.name)
def test_permutations_are_uniform(entropy):
    assert uniformity(entropy.permutation) > TINY


def test_a_shuffle_that_swaps_with_any_place_is_caught():
    rng = np.random.default_rng(0)

    def biased(n):
        order = list(range(n))
        for i in range(n):
            j = rng.integers(n)
            order[i], order[j] = order[j], order[i]
        return order

    assert uniformity(biased) < TINY


def test_equal_keys_are_drawn_again(monkeypatch):
    answers = [bytes(8 * 5), bytes([7] * 40), bytes(range(40))]
    monkeypatch.setattr("dperm.privacy.entropy.os.urandom", lambda size: answers.pop(0)[:size])
    assert sorted(SystemEntropy().permutation(5)) == [0, 1, 2, 3, 4]
    assert answers == []


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("n", [0, 1, 2, 10_000])
@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(0)], ids=lambda e: e.name)
def test_a_permutation_holds_every_row_once(entropy, n):
    order = entropy.permutation(n)
    assert order.dtype == np.int64
    assert np.array_equal(np.sort(order), np.arange(n))


@pytest.mark.system_noise(failing=1e-100)
def test_the_system_never_repeats_itself():
    assert not np.array_equal(SystemEntropy().permutation(100), SystemEntropy().permutation(100))
    entropy = SystemEntropy()
    assert not np.array_equal(entropy.permutation(100), entropy.permutation(100))


def test_a_seed_reproduces_and_says_that_it_is_not_private():
    first, again, other = SeededEntropy(3), SeededEntropy(3), SeededEntropy(4)
    order = first.permutation(100)
    assert np.array_equal(order, again.permutation(100))
    assert not np.array_equal(order, other.permutation(100))
    assert not np.array_equal(order, first.permutation(100))
    assert not first.secure
    assert "not private" in first.name
    assert SystemEntropy().secure


def test_children_differ_and_are_reproducible():
    parent = SeededEntropy(5)
    children = [*parent.spawn(3), *parent.spawn(2), parent]
    orders = [tuple(child.permutation(50)) for child in children]
    assert len(set(orders)) == 6
    assert [tuple(child.permutation(50)) for child in SeededEntropy(5).spawn(3)] == orders[:3]
    assert all(not child.secure for child in children)


def test_what_a_random_state_may_be():
    assert entropy_from(None).secure
    assert np.array_equal(entropy_from(7).permutation(50), SeededEntropy(7).permutation(50))
    assert np.array_equal(entropy_from(np.int32(7)).permutation(50), SeededEntropy(7).permutation(50))
    for make in (np.random.default_rng, np.random.RandomState):
        state = make(7)
        first, second = (entropy_from(state) for _ in range(2))
        order = first.permutation(50)
        assert not first.secure
        assert np.array_equal(order, entropy_from(make(7)).permutation(50))
        assert not np.array_equal(order, second.permutation(50))


@pytest.mark.together
@pytest.mark.parametrize("random_state", [True, -1, 1.5, "seed", np.random])
def test_other_random_states_are_refused(random_state):
    with pytest.raises(InvalidInput, match="random_state"):
        entropy_from(random_state)
