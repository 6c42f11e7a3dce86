"""Passes over shards keep what was found out about rows while there is room, and map one shard at a time."""

from pathlib import Path

import numpy as np
import pytest

from dperm.data import FolderShards, write_shards
from dperm.engine import ShardedRows
from dperm.engine.shards.tasks import CACHE
from dperm.losses import Logistic
from dperm.row_map import RowMap

ROWS, COLUMNS, SHARDS = 16_384, 64, 6
STATUS = Path("/proc/self/status")


@pytest.fixture
def folder(tmp_path):
    """4 MB in each shard."""
    rng = np.random.default_rng(0)
    pairs = ((rng.normal(size=(ROWS, COLUMNS)), rng.choice([-1, 1], ROWS)) for _ in range(SHARDS))
    return write_shards(pairs, None, tmp_path / "shards", rows_per_shard=ROWS).folder


def opened(source):
    row_map = RowMap(x_norm=1.0, intercept=0.3)
    return ShardedRows.of(source, np.asarray, row_map=row_map, n_rows=len(source)).open(precise=True)


def test_a_cache_with_room_for_half_of_the_shards_keeps_half_of_them_open(folder, monkeypatch):
    loaded = []

    class Counted(FolderShards):
        def load(self, shard):
            loaded.append(shard)
            return super().load(shard)

    CACHE.begin()
    engine, W = opened(Counted(folder)), np.ones((COLUMNS + 1, 1))
    first = engine.gradient_sum(Logistic(), W)
    assert loaded == list(range(SHARDS))
    monkeypatch.setenv("DPERM_SHARD_CACHE_BYTES", str(CACHE.held_bytes // 2))
    CACHE.begin()
    for _ in range(3):
        np.testing.assert_array_equal(engine.gradient_sum(Logistic(), W), first)
    assert loaded[SHARDS:] == [*range(SHARDS), 3, 4, 5, 3, 4, 5]


@pytest.mark.skipif(not STATUS.exists(), reason="the system does not tell what is mapped")
@pytest.mark.parametrize("all_may_stay", [True, False])
def test_maps_are_given_back_where_the_shards_are_large(folder, all_may_stay, monkeypatch):
    monkeypatch.setattr("dperm.data.folder.MAPPED_BYTES", 2**40 if all_may_stay else 0)
    CACHE.begin()
    engine, W = opened(FolderShards(folder)), np.ones((COLUMNS + 1, 1))
    engine.gradient_sum(Logistic(), W)  # compiled code is mapped too
    if all_may_stay:
        CACHE.begin()
    before = mapped_bytes()
    sums = engine.gradient_sum(Logistic(), W)
    grown = mapped_bytes() - before
    whole = SHARDS * ROWS * COLUMNS * 4
    assert grown > 0.9 * whole if all_may_stay else grown < 0.3 * whole
    np.testing.assert_array_equal(engine.gradient_sum(Logistic(), W), sums)


def mapped_bytes():
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("RssFile"))
    return 1024 * int(line.split()[1])
