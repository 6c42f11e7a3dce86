"""Shards: every one counted exactly once; what is run again is the same; errors quote no record."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from engine_tables import FixedOrder
from kind_sharded import Elsewhere, as_they_are

from dperm.arithmetic import FLOAT32, FLOAT64
from dperm.engine import Executor, LocalExecutor, ShardedRows, Table, register_adapter, source_of
from dperm.engine.shards import tasks as gathering
from dperm.engine.shards.dask import DaskShards
from dperm.engine.shards.rows import coarsest
from dperm.engine.shards.sources import ArrayShards, Placed, ShardSource
from dperm.engine.shards.spark import SparkShards
from dperm.engine.shards.tasks import CACHE, bytes_of
from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.losses import Logistic
from dperm.privacy import Gate, SeededEntropy
from dperm.row_map import RowMap

N, SIZES = 900, [250, 0, 350, 300]
MAP = RowMap(x_norm=1.0, intercept=0.5)
W = np.random.default_rng(1).standard_normal((5, 1))


def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((N, 4)) / 3, np.where(rng.random(N) < 0.5, -1.0, 1.0)


def sharded(executor=None, source=None, n_rows=N):
    X, y = data()
    source = source or ArrayShards(X, SIZES, y)
    placed = Placed(source, executor) if executor else source
    return ShardedRows.of(placed, as_they_are, row_map=MAP, n_rows=n_rows)


def dense():
    return Table.of(*data(), row_map=MAP, n_rows=N)


class Twice(Executor):
    """Gives the answer of one shard twice, as an accumulator does when a task is run again."""

    def run(self, task, shards):
        for shard in (*shards, shards[-1]):
            yield shard, task(shard)


class Forgets(Executor):
    def run(self, task, shards):
        return [(shard, task(shard)) for shard in shards[1:]]


class Strange(Executor):
    def run(self, task, shards):
        return [(shard + 7, task(shard)) for shard in shards]


@pytest.mark.together
@pytest.mark.parametrize("executor", [Twice(), Forgets(), Strange()], ids=lambda e: type(e).__name__)
def test_a_shard_that_is_not_counted_once_stops_everything(executor):
    with pytest.raises(NotCertified, match="nothing is released"):
        sharded(executor).open().gradient_sum(Logistic(), W)


def test_a_shard_counted_twice_would_show(monkeypatch):
    """The mutation that the check above is for: without it, the sum is another one than that of the rows."""

    def trusting(executor, task, shards):
        for _, answer in executor.run(task, shards):
            yield answer

    monkeypatch.setattr("dperm.engine.shards.rows.gathered", trusting)
    right = dense().open(precise=True).gradient_sum(Logistic(), W)
    assert (
        np.linalg.norm(sharded(LocalExecutor()).open(precise=True).gradient_sum(Logistic(), W) - right) < 1e-9
    )
    assert np.linalg.norm(sharded(Twice()).open(precise=True).gradient_sum(Logistic(), W) - right) > 1


@pytest.mark.together
@pytest.mark.parametrize("executor", [LocalExecutor(), LocalExecutor(3), Elsewhere()])
def test_bits_do_not_depend_on_the_executor(executor):
    expected = sharded().open().value_and_gradient_sum(Logistic(), W)
    for found, wanted in zip(
        sharded(executor).open().value_and_gradient_sum(Logistic(), W), expected, strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


class RunsAgain(Executor):
    """Every task twice, as if the first answer had been lost, each time sent anew; and keeps what differed."""

    def __init__(self):
        self.differed = []

    def run(self, task, shards):
        for shard in shards:
            CACHE.begin()
            first = pickle.dumps(pickle.loads(pickle.dumps(task.part(shard)))(shard))
            CACHE.begin()
            again = pickle.dumps(pickle.loads(pickle.dumps(task.part(shard)))(shard))
            if first != again:
                self.differed.append(shard)
            yield shard, pickle.loads(again)


def passes(executor, poisson=None):
    gate = Gate(SeededEntropy(5))
    engine = sharded(executor).open(gate.order())
    batches = engine.batches([[450], [450]])
    engine.gradient_sum(Logistic(), W, batch=batches.only(1))
    for draw in (poisson or gate.poisson(0.3), gate.fixed_size(100)):
        engine.sample([draw]).gradient_sum(Logistic(), W)
    return executor.differed


@dataclass(frozen=True)
class FreshPart:
    """A part of a batch that is drawn anew wherever it is asked for: a task that is run again takes other rows."""

    def positions(self, n_rows):
        return np.flatnonzero(np.random.default_rng().random(n_rows) < 0.3)


class FreshBatch:
    def positions(self, n_rows):
        return FreshPart().positions(n_rows)

    def split(self, counts):
        return [FreshPart() for _ in counts]


def test_a_task_that_is_run_again_takes_the_same_rows():
    assert passes(RunsAgain()) == []


def test_a_batch_that_is_drawn_anew_by_a_retry_is_caught():
    assert passes(RunsAgain(), FreshBatch())


def test_secret_batches_cover_every_row_once_and_have_exact_sizes():
    gate = Gate(SeededEntropy(6))
    engine = sharded(Elsewhere(), n_rows=N + 50).open(gate.order(), precise=True)
    sizes = np.array([[100]] * 9 + [[50]])
    batches = engine.batches(sizes)
    rows = engine.margins(np.eye(5))[:, :4]
    total = sum(engine.gradient_sum(Logistic(), W, batch=batches.only(j)) for j in range(len(sizes)))
    whole = engine.gradient_sum(Logistic(), W)
    np.testing.assert_allclose(total, whole, rtol=1e-12, atol=1e-12)
    X = sharded(n_rows=N + 50).open(precise=True).margins(np.eye(5))[:, :4]
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(X, axis=0))
    assert np.abs(rows - X).max() > 0.1
    start = 0
    for j, (size,) in enumerate(sizes):
        inside = rows[start : start + size]
        found = engine.gradient_sum(Logistic(), 0 * W, batch=batches.only(j), clip=[1e-3])
        assert np.linalg.norm(found) <= 1e-3 * size
        assert len(inside) == size
        start += size


def test_a_poisson_batch_has_about_its_rate_and_no_row_twice():
    gate = Gate(SeededEntropy(7))
    engine = sharded(Elsewhere()).open()
    counts = [
        int(engine.sample([gate.poisson(0.3)]).evaluate(Logistic(), W).training_rows[0]) for _ in range(40)
    ]
    assert abs(np.mean(counts) - 0.3 * N) < 4 * np.sqrt(0.21 * N / 40)
    assert len(set(counts)) > 10
    fixed = [
        int(engine.sample([gate.fixed_size(77)]).evaluate(Logistic(), W).training_rows[0]) for _ in range(3)
    ]
    assert fixed == [77] * 3


class FailsAtFirst(ArrayShards):
    """The disk of one shard comes back after a while."""

    failures = 0

    def load(self, shard):
        if shard == 2 and FailsAtFirst.failures > 0:
            FailsAtFirst.failures -= 1
            raise OSError("0.1234567 is a number of a record")
        return super().load(shard)


def test_a_shard_that_cannot_be_loaded_is_tried_again():
    expected = sharded().open().gradient_sum(Logistic(), W)
    FailsAtFirst.failures = gathering.TRIES - 1
    X, y = data()
    found = sharded(source=FailsAtFirst(X, SIZES, y)).open().gradient_sum(Logistic(), W)
    np.testing.assert_array_equal(found, expected)


def test_what_goes_wrong_elsewhere_quotes_no_record():
    X, y = data()
    FailsAtFirst.failures = 99
    with pytest.raises(InvalidInput, match="shard 2 failed with OSError") as caught:
        sharded(source=FailsAtFirst(X, SIZES, y)).open().gradient_sum(Logistic(), W)
    assert "12345" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    X = X.astype(object)
    X[3, 1] = "a secret diagnosis"
    with pytest.raises(InvalidInput) as caught:
        sharded(source=ArrayShards(X, SIZES, y)).open().gradient_sum(Logistic(), W)
    assert "diagnosis" not in str(caught.value)


def test_a_task_shows_nothing_of_its_shards():
    """Dask writes the arguments of a task to its log."""
    X, y = data()
    seen = []

    class Looks(Executor):
        def run(self, task, shards):
            seen.extend([repr(task), repr(task.part(2)), str(task)])
            return [(shard, task(shard)) for shard in shards]

    rows = ShardedRows.of(Placed(ArrayShards(X, SIZES), Looks()), y, row_map=MAP, n_rows=N)
    rows.open(Gate(SeededEntropy(1)).order()).gradient_sum(Logistic(), W)
    assert all(len(text) < 120 and "array" not in text for text in seen)


def test_the_cache_keeps_no_more_than_its_bytes(monkeypatch):
    CACHE.begin()
    engine = sharded().open()
    engine.gradient_sum(Logistic(), W)
    full = CACHE.held_bytes
    assert full > 0
    del engine
    assert CACHE.held_bytes == 0  # what nobody can ask for again is dropped
    monkeypatch.setenv("DPERM_SHARD_CACHE_BYTES", str(full // 2))
    again = sharded().open()
    expected = again.gradient_sum(Logistic(), W)
    assert 0 < CACHE.held_bytes <= full // 2
    np.testing.assert_array_equal(again.gradient_sum(Logistic(), W), expected)
    monkeypatch.setenv("DPERM_SHARD_CACHE_BYTES", "0")
    np.testing.assert_array_equal(sharded().open().gradient_sum(Logistic(), W), expected)
    assert bytes_of(np.zeros(3)) == 24


def test_bytes_of_a_memory_map_are_not_counted(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((10, 3)))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert bytes_of({"a": rows[2:5], "b": np.zeros(2)}) == 16


def test_what_cannot_be_sharded_is_refused():
    X, y = data()
    with pytest.raises(InvalidInput, match="too many"):
        ShardedRows.of(ArrayShards(X, [1] * N), y, row_map=MAP, n_rows=N)
    with pytest.raises(InvalidInput, match="one number per row"):
        ShardedRows.of(ArrayShards(X, SIZES), y[1:], row_map=MAP, n_rows=N)
    with pytest.raises(InvalidInput, match="no labels"):
        ShardedRows.of(ArrayShards(X, SIZES), as_they_are, row_map=MAP, n_rows=N)

    class Whole:
        def permutation(self, n_rows):
            return np.arange(n_rows)

        def positions(self, n_rows):
            return np.arange(n_rows)

    with pytest.raises(Unsupported, match="order"):
        sharded().open(Whole())
    engine = sharded().open()
    with pytest.raises(Unsupported, match="batch"):
        engine.sample([Whole()])
    few = engine.sample([Gate(SeededEntropy(0)).poisson(0.5)])
    with pytest.raises(Unsupported, match="sampled"):
        few.batches([[N]])

    class Other(FixedOrder):
        def split(self, counts):
            return super().split(counts[::-1])

    with pytest.raises(InvalidInput, match="order"):
        sharded().open(Other(np.arange(N)))

    class Liar(ArrayShards):
        def load(self, shard):
            X, y = super().load(shard)
            return X[1:], y[1:]

    with pytest.raises(InvalidInput, match="another shape"):
        sharded(source=Liar(X, SIZES, y)).open().row_sum()


def test_an_adapter_makes_shards_of_what_it_knows():
    class Mine:
        pass

    source = ArrayShards(*data()[:1], SIZES)

    @register_adapter
    def adapted(X, y):
        return source if isinstance(X, Mine) else None

    assert source_of(Mine(), None) is source
    assert source_of(source) is source
    assert source_of(np.zeros((3, 2)), None) is None
    assert source_of(np.zeros((3, 2)), None, "patient") is None
    with pytest.raises(Unsupported, match="no column of persons"):
        source_of(Mine(), None, "patient")
    assert issubclass(ArrayShards, ShardSource)


def test_only_the_shard_of_a_replaced_row_answers_other_bits():
    answers = {}

    class Keeps(Executor):
        def run(self, task, shards):
            for shard in shards:
                answer = task(shard)
                answers.setdefault(shard, []).append(answer.value.tobytes())
                yield shard, answer

    X, y = data()
    for replaced in (X, np.where(np.arange(N)[:, None] == 300, -X, X)):
        rows = sharded(Keeps(), ArrayShards(replaced, SIZES, y))
        rows.open().gradient_sum(Logistic(), W)
    assert {shard for shard, (one, other) in answers.items() if one != other} == {2}


def test_shards_that_may_move_their_rows_are_summed_precisely():
    source = sharded()._source
    assert source.keeps_places
    source.keeps_places = False
    rows = ShardedRows(source, np.ones(len(source)), row_map=RowMap(x_norm=1.0), n_rows=len(source))
    assert rows.open().arithmetic(1) == FLOAT64
    assert not any(kind.keeps_places for kind in (DaskShards, SparkShards, ShardSource))


def test_arithmetic_of_different_shards_is_the_coarsest():
    assert sharded().open(precise=True).arithmetic(1) == FLOAT64
    assert sharded().open().arithmetic(1) == FLOAT32
    mixed = coarsest([FLOAT32, FLOAT64])
    assert FLOAT32.within(mixed)
    assert FLOAT64.within(mixed)
