"""Orders and batches of rows in shards: uniform, pure, drawn once; with controls that must fail."""

import pickle
from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from dperm.errors import InvalidInput
from dperm.privacy import Gate, SeededEntropy
from dperm.privacy.secrets import LocalOrder, SplitOrder, cut_sample, new_secret, task_words, whole_sample
from dperm_audit.watch import Watch, WatchedEntropy

TINY = 1e-9
SECRET = bytes(range(32))
COUNTS = (1, 0, 2, 2)


class Counted(SeededEntropy):
    def __init__(self, seed):
        super().__init__(seed)
        self.asked = []

    def words(self, n):
        self.asked.append(n)
        return super().words(n)


# Words of tasks.


def test_words_of_a_task_are_those_of_the_standard():
    """SHAKE-128 of label, secret, shard and step: fixed here, since a retry on another machine must repeat it."""
    words = task_words(SECRET, 3, 4, 5)
    assert words.dtype == np.uint64
    assert words.tolist() == [
        int.from_bytes(part, "little")
        for part in np.array_split(np.frombuffer(expected_bytes(3, 4, 40), np.uint8), 5)
    ]
    assert np.array_equal(task_words(SECRET, 3, 4, 9)[:5], words)


def expected_bytes(shard, step, n):
    from hashlib import shake_128

    sponge = shake_128(b"dperm task words 1")
    sponge.update(SECRET)
    sponge.update(np.array([shard, step], "<u8").tobytes())
    return sponge.digest(n)


def test_words_differ_by_secret_shard_and_step():
    names = [
        (SECRET, 0, 0),
        (SECRET, 1, 0),
        (SECRET, 0, 1),
        (SECRET, 1, 1),
        (bytes(32), 0, 0),
        (SECRET, 256, 0),
    ]
    drawn = [tuple(task_words(*name, 4).tolist()) for name in names]
    assert len({word for words in drawn for word in words}) == 4 * len(names)
    with pytest.raises(InvalidInput, match="32 bytes"):
        task_words(b"short", 0, 0, 1)


# Orders.


def uniformity(draw, n, trials):
    """p-value that every order of n things is equally likely."""
    seen = Counter(tuple(draw().tolist()) for _ in range(trials))
    assert set(seen) <= set(permutations(range(n)))
    return chisquare([seen[order] for order in permutations(range(n))]).pvalue


@pytest.mark.some(1)
@pytest.mark.parametrize("gate", [Gate.system(), Gate.seeded(0)], ids=["system", "seeded"])
def test_split_orders_are_uniform(gate):
    assert uniformity(lambda: gate.order().split(COUNTS).permutation(), 5, 24_000) > TINY


def test_one_order_for_all_shards_or_ordered_labels_are_not_uniform():
    gate = Gate.seeded(1)

    def in_blocks():
        drawn = gate.order().split((2, 2))
        return SplitOrder(np.sort(drawn.labels), [drawn.local(0), drawn.local(1)]).permutation()

    def same_inside():
        drawn = gate.order().split((2, 2))
        rows = drawn.local(0).permutation(2)
        return SplitOrder(drawn.labels, [LocalOrder(shard, 2, drawn=rows) for shard in (0, 1)]).permutation()

    assert uniformity(in_blocks, 4, 24_000) < TINY
    assert uniformity(same_inside, 4, 24_000) < TINY


def feistel(keys, n=10, half=2):
    """Four rounds of a cipher on a small domain, walked until it lands inside: fast, and not uniform."""

    def mix(x):
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
        return x ^ (x >> 31)

    def once(i):
        left, right = i >> half, i & (2**half - 1)
        for key in keys:
            left, right = right, left ^ (mix((right + key) % 2**64) & (2**half - 1))
        return (left << half) | right

    def walked(i):
        i = once(i)
        while i >= n:
            i = once(i)
        return i

    return np.array([walked(i) for i in range(n)])


def pairs_p(orders):
    """p-value that the places of rows 0 and 1 are any two, equally likely."""
    n = orders.shape[1]
    pairs = np.bincount(orders[:, 0] * n + orders[:, 1], minlength=n * n).reshape(n, n)
    return chisquare(pairs[~np.eye(n, dtype=bool)]).pvalue


def test_pairs_of_places_are_uniform_and_a_small_cipher_is_caught():
    gate, trials = Gate.seeded(2), 20_000
    split = np.array([gate.order().split((3, 4, 3)).permutation().argsort() for _ in range(trials)])
    cipher = np.array([feistel([gate.integer(1) for _ in range(4)]) for _ in range(trials)])
    assert pairs_p(split) > TINY
    assert pairs_p(cipher) < TINY


def test_labels_hold_every_shard_as_often_as_it_has_rows():
    counts = (130_000, 1, 0, 90_000)
    order = Gate.system().order().split(counts)
    assert order.labels.dtype == np.uint16
    assert np.bincount(order.labels, minlength=4).tolist() == list(counts)
    halves = np.count_nonzero(order.labels[:110_000] == 0)
    assert abs(halves - 65_000) < 7 * np.sqrt(220_000 * 0.6 * 0.4 / 4)
    assert Gate.seeded(0).order().split([1] * 70_000).labels.dtype == np.uint32
    assert len(Gate.system().order().split([]).labels) == 0


@pytest.mark.some(1)
@pytest.mark.parametrize("total", [2, 3, 1000, 400_000])
def test_a_shuffle_takes_words_until_it_is_done(total):
    order = Gate.seeded(3).order().split([1] * total)
    assert np.array_equal(np.sort(order.labels), np.arange(total))


def test_local_orders_travel_and_repeat():
    order = Gate.system().order().split((3, 500))
    local = order.local(1)
    again = pickle.loads(pickle.dumps(local))
    assert np.array_equal(local.permutation(500), again.permutation(500))
    assert np.array_equal(np.sort(local.permutation(500)), np.arange(500))
    assert local.secret.hex() not in repr(local)
    assert repr(local.secret) not in repr(local)
    with pytest.raises(InvalidInput, match="500 rows, not 499"):
        local.permutation(499)


def test_equal_keys_take_the_next_step(monkeypatch):
    steps = []

    def words(secret, shard, step, n):
        steps.append(step)
        return np.zeros(n, np.uint64) if step < 2 else np.arange(n, dtype=np.uint64)[::-1].copy()

    monkeypatch.setattr("dperm.privacy.secrets.task_words", words)
    assert Gate.seeded(0).order().split([4]).local(0).permutation(4).tolist() == [3, 2, 1, 0]
    assert steps == [0, 1, 2]


def test_an_order_that_was_drawn_can_be_cut():
    order = np.array([4, 0, 3, 1, 2])
    cut = SplitOrder.cut(order, (2, 3))
    assert cut.labels.tolist() == [1, 0, 1, 0, 1]
    assert cut.local(1).permutation(3).tolist() == [2, 1, 0]
    assert np.array_equal(cut.permutation(), order)


# Batches.


@pytest.mark.parametrize("gate", [Gate.system(), Gate.seeded(0)], ids=["system", "seeded"])
def test_fixed_sizes_in_shards_are_uniform(gate):
    counts, trials = (1, 2, 3), 15_000
    drawn = Counter(tuple(whole_sample(gate.fixed_size(2).split(counts), counts)) for _ in range(trials))
    assert chisquare([drawn[pair] for pair in combinations(range(6), 2)]).pvalue > TINY
    assert sum(drawn.values()) == trials


def test_a_fixed_number_from_every_shard_is_caught():
    gate = Gate.seeded(0)
    drawn = Counter(
        (int(gate.fixed_size(1).positions(3)[0]), 3 + int(gate.fixed_size(1).positions(3)[0]))
        for _ in range(15_000)
    )
    assert chisquare([drawn[pair] for pair in combinations(range(6), 2)]).pvalue < TINY


def test_a_fixed_size_has_the_rows_of_the_whole():
    parts = Gate.seeded(5).fixed_size(7).split((10, 0, 30))
    whole = np.sort(Gate.seeded(5).fixed_size(7).positions(40))
    assert np.array_equal(whole_sample(parts, (10, 0, 30)), whole)
    assert pickle.loads(pickle.dumps(parts[2])).positions(30).tolist() == parts[2].positions(30).tolist()
    with pytest.raises(InvalidInput, match="30 rows"):
        parts[2].positions(31)


def test_poisson_rows_join_with_the_rate_each_on_its_own():
    gate, rate, trials = Gate.system(), 0.3, 4000
    joined = np.zeros((trials, 5), bool)
    for trial in range(trials):
        joined[trial, whole_sample(gate.poisson(rate).split((2, 3)), (2, 3))] = True
    for row in range(5):
        assert binomtest(int(joined[:, row].sum()), trials, rate).pvalue > TINY
    for i, j in combinations(range(5), 2):
        assert binomtest(int((joined[:, i] & joined[:, j]).sum()), trials, rate**2).pvalue > TINY
    repeated = joined[:, 0] & joined[:, 0]
    assert binomtest(int(repeated.sum()), trials, rate**2).pvalue < TINY


def test_poisson_parts_are_pure_and_long_shards_are_drawn_in_steps():
    part = Gate.system().poisson(0.01).part(4)
    again = pickle.loads(pickle.dumps(part))
    drawn = part.positions(400_000)
    assert np.array_equal(drawn, again.positions(400_000))
    assert np.array_equal(np.unique(drawn), drawn)
    assert binomtest(len(drawn), 400_000, 0.01).pvalue > TINY
    assert len({tuple(p) for p in np.split(drawn[: len(drawn) // 2 * 2] % 2**17, 2)}) == 2
    assert Gate.system().poisson(0.0).part(0).positions(100).tolist() == []
    assert Gate.system().poisson(0.5).part(0).positions(0).dtype == np.int64


def test_a_rate_of_one_takes_every_row_and_asks_for_nothing():
    source = Counted(0)
    batch = Gate(source).poisson(1.0)
    assert whole_sample(batch.split((2, 3)), (2, 3)).tolist() == [0, 1, 2, 3, 4]
    assert source.asked == []


# Handles.


def test_a_handle_asks_for_its_secret_once():
    source = Counted(0)
    batch, order = Gate(source).poisson(0.5), Gate(source).order()
    parts = [batch.part(shard) for shard in (0, 1, 0)]
    assert len({part.secret for part in parts}) == 1
    assert source.asked == [4]
    assert order.split((2, 3)) is order.split((2, 3))
    assert source.asked[:2] == [4, 4]
    assert Gate(source).poisson(0.5).part(0).secret != parts[0].secret
    assert len(new_secret(source)) == 32


def test_a_handle_is_drawn_whole_or_in_shards():
    gate = Gate.seeded(0)
    for draw_whole, draw_parts, handle in (
        (lambda h: h.permutation(5), lambda h: h.split((2, 3)), gate.order),
        (lambda h: h.positions(5), lambda h: h.split((2, 3)), lambda: gate.poisson(0.5)),
    ):
        first, second = handle(), handle()
        draw_whole(first)
        with pytest.raises(InvalidInput, match="as a whole cannot"):
            draw_parts(first)
        draw_parts(second)
        with pytest.raises(InvalidInput, match="in shards cannot"):
            draw_whole(second)
    order = gate.order()
    order.split((2, 3))
    with pytest.raises(InvalidInput, match="other sizes"):
        order.split((3, 2))
    for counts in ((-1, 3), (2**32, 1)):
        with pytest.raises(InvalidInput, match="2\\*\\*32"):
            gate.order().split(counts)


def test_watched_handles_are_those_of_the_gate_and_by_name():
    counts, names = (2, 3), np.array([0, 4, 1, 2, 3])
    plain, watched = Gate(WatchedEntropy(7)), Watch(WatchedEntropy(7), names=names)
    order = plain.order().split(counts).permutation()
    handle = watched.order()
    assert np.array_equal(handle.split(counts).permutation(), names[order])
    assert np.array_equal(handle.split(counts).permutation(), names[order])
    for make in (lambda gate: gate.poisson(0.5), lambda gate: gate.fixed_size(2)):
        rows = whole_sample(make(plain).split(counts), counts)
        assert np.array_equal(whole_sample(make(watched).split(counts), counts), np.sort(names[rows]))
    assert not watched.draws_anew()
    with pytest.raises(InvalidInput, match="call split"):
        watched.poisson(0.5).part(0)


def test_cutting_keeps_every_row():
    parts = cut_sample(np.array([9, 0, 4]), (3, 0, 2, 5))
    assert [part.positions(n).tolist() for part, n in zip(parts, (3, 0, 2, 5), strict=True)] == [
        [0],
        [],
        [1],
        [4],
    ]
