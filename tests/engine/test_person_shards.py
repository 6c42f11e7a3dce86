"""Rows of persons in shards: clips, samples and sources of other packages, as in memory."""

import pickle

import numpy as np
import pytest

from dperm.engine import ShardedRows, Table
from dperm.engine.base.draws import KnownRows, Members
from dperm.engine.shards.sources import ArrayShards, KeptShards, Placed
from dperm.losses import Logistic, Weighted
from dperm.losses.base import weighted_targets
from dperm.row_map import RowMap

N, SIZES = 600, [250, 200, 150]
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 4))
PERSON = np.unique(RNG.integers(0, 90, N), return_inverse=True)[1]
FIRST = np.unique(PERSON, return_index=True)[1]
PERSON = np.argsort(np.argsort(FIRST))[PERSON]  # by their first rows
Y = weighted_targets(np.where(X[:, 0] > 0, 1.0, -1.0), 1 / np.bincount(PERSON)[PERSON])
LOSS = Weighted(Logistic(), 1.0)
W = RNG.normal(size=(5, 1))


def opened(kind, rows):
    members = Members(PERSON, 100, 1.0)
    how = {"row_map": RowMap(x_norm=1.0, intercept=0.3), "n_rows": members.n_rows}
    return kind.of(rows, Y, **how).of_persons(members).open(precise=True), members


@pytest.mark.together
@pytest.mark.parametrize("clip", [None, 1e-3, 0.2])
def test_sums_and_clips_are_those_of_one_table(clip):
    clips = None if clip is None else np.array([clip])
    one, spread = (
        opened(kind, rows)[0].gradient_sum(LOSS, W, clip=clips)
        for kind, rows in ((Table, X), (ShardedRows, ArrayShards(X, SIZES)))
    )
    np.testing.assert_allclose(spread, one, rtol=1e-12)
    free = opened(Table, X)[0].gradient_sum(LOSS, W)
    assert np.allclose(one, free) == (clip is None)


def test_a_sample_of_persons_takes_all_their_rows_from_all_shards():
    sums = []
    for kind, rows in ((Table, X), (ShardedRows, ArrayShards(X, SIZES))):
        engine, members = opened(kind, rows)
        drawn = members.drawn(KnownRows(np.array([0, 3, 41, 95])))  # the last is absent
        sums.append(engine.sample([drawn]).gradient_sum(LOSS, W))
        np.testing.assert_allclose(
            engine.sample([members.first_rows()]).row_sum()[-1], 0.3 * len(FIRST), rtol=1e-12
        )
    np.testing.assert_allclose(*sums, rtol=1e-12)
    chosen = np.isin(PERSON, [0, 3, 41])
    alone = Table.of(
        X[chosen], Y[chosen], row_map=RowMap(x_norm=1.0, intercept=0.3), n_rows=int(chosen.sum())
    )
    np.testing.assert_allclose(sums[0], alone.open(precise=True).gradient_sum(LOSS, W), rtol=1e-12)


def test_kept_shards_hold_the_rows_that_are_kept_wherever_they_are_read():
    kept = RNG.random(N) < 0.4
    kept[SIZES[0] : SIZES[0] + SIZES[1]] = False
    source = KeptShards(Placed(ArrayShards(X, SIZES, Y["target"]), ArrayShards(X, SIZES).executor()), kept)
    assert source.sizes == tuple(int(part.sum()) for part in np.split(kept, np.cumsum(SIZES)[:-1]))
    assert source.sizes[1] == 0
    for copy in (source, pickle.loads(pickle.dumps(source))):
        found = [(copy if n % 2 else copy.part(n)).load(n) for n in range(3)]
        np.testing.assert_array_equal(np.vstack([rows for rows, _ in found]), X[kept])
        np.testing.assert_array_equal(np.concatenate([y for _, y in found]), Y["target"][kept])
        np.testing.assert_array_equal(copy.labels(2), found[2][1])
    np.testing.assert_array_equal(source.given(2, (X[450:], Y["target"][450:]))[0], X[450:][kept[450:]])
    assert len(pickle.dumps(source.part(2))) < len(pickle.dumps(source))
