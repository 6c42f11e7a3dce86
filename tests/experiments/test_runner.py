"""A killed comparison goes on where it was, and ends with the table of one that was never stopped."""

import os
import random
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm.errors import InvalidInput
from dperm.experiments.batches import Batch
from dperm.experiments.compare import compare, specify
from dperm.experiments.results import Study
from dperm.experiments.splits import assign_folds
from dperm.experiments.store import Part, Store, merged
from dperm.mechanisms import RSGD, NoPrivacy

MECHANISMS, GROUPS = ["output", "rsgd", "majority"], 6
TOTAL = len(MECHANISMS) * GROUPS


def toy(n=200):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 3)) / 3
    return X, np.where(X @ [1.0, -1.0, 0.5] + 0.1 * rng.normal(size=n) > 0, "yes", "no")


def run(mechanisms=MECHANISMS, **settings):
    given = {
        "dataset": "toy",
        "epsilons": [0.5, 2.0],
        "delta": 1e-5,
        "folds": 2,
        "repeats": GROUPS,
        "l2": 1e-2,
    }
    return compare(*toy(), mechanisms=mechanisms, **{**given, **settings})


@pytest.fixture(autouse=True)
def narrow_batches(monkeypatch):
    """One repeat per batch."""
    monkeypatch.setattr("dperm.experiments.splits.WIDEST_BATCH", 2)


@pytest.fixture(scope="module")
def uninterrupted():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dperm.experiments.splits.WIDEST_BATCH", 2)
        return run()


def without_times(table):
    return table.drop_columns(["seconds"])


def same(table, other):
    return without_times(table).equals(without_times(other), check_metadata=True)


def parts(folder):
    return sorted(path.name for path in folder.glob("*/*-*.parquet"))


CHILD = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import test_runner as t
from dperm.experiments import splits, store
splits.WIDEST_BATCH = 2
die_at = int(sys.argv[2])
write, written = store.pq.write_table, 0
def torn(table, path):
    global written
    written += 1
    if written == die_at:  # half of a part, then the end
        write(table, path)
        with open(path, "rb+") as file:
            file.truncate(os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    write(table, path)
store.pq.write_table = torn
t.run(folder=sys.argv[1], progress=lambda done, total: print(done, flush=True))
"""


def start(folder, die_at=0):
    code = CHILD.format(tests=os.path.dirname(__file__))
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(die_at)], stdout=subprocess.PIPE, text=True
    )


def kill_after(folder, n_batches, delay):
    """Kill -9 a running comparison some time after its n-th batch; what it had reported as finished."""
    with start(folder) as child:
        reported = [int(child.stdout.readline()) for _ in range(n_batches + 1)]
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        reported += [int(line) for line in child.stdout.read().split()]
    assert child.returncode == -signal.SIGKILL
    return reported


@pytest.mark.system_noise(failing=0)
def test_a_comparison_killed_again_and_again_loses_a_batch_at_most(uninterrupted, tmp_path):
    chance = random.Random()
    before = 0
    for _ in range(2):
        reported = kill_after(tmp_path, chance.randint(1, 5), chance.random() * 0.02)
        assert reported[0] == before  # nothing finished was done again
        assert reported == list(range(reported[0], reported[-1] + 1))
        before = len(parts(tmp_path))
        assert reported[-1] <= before <= reported[-1] + 1
    assert before < TOTAL
    seen = []
    found = run(folder=tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, TOTAL) for done in range(before, TOTAL + 1)]
    assert same(found, uninterrupted)
    (stored,) = tmp_path.glob("*/results.parquet")
    assert same(pq.read_table(stored), uninterrupted)


@pytest.mark.system_noise(failing=0)
def test_a_kill_in_the_middle_of_writing_leaves_no_part(uninterrupted, tmp_path):
    with start(tmp_path, die_at=3) as child:
        reported = child.stdout.read().split()
    assert (child.returncode, reported) == (-signal.SIGKILL, ["0", "1", "2"])
    assert len(parts(tmp_path)) == 2
    assert len(list(tmp_path.glob("*/.dperm-*.tmp"))) == 1  # what a kill leaves is not taken for a part
    assert same(run(folder=tmp_path), uninterrupted)


def test_an_interrupt_keeps_the_finished_batches(uninterrupted, tmp_path):
    def stop(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder=tmp_path, progress=stop)
    assert len(parts(tmp_path)) == 4
    seen = []
    assert same(run(folder=tmp_path, progress=lambda done, total: seen.append(done)), uninterrupted)
    assert seen[0] == 4


def test_a_finished_comparison_is_read_and_a_fresh_one_is_run(uninterrupted, tmp_path, monkeypatch):
    first = run(folder=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("dperm.experiments.runner._Trainer", None)  # nothing may be trained
        assert run(folder=tmp_path).equals(first, check_metadata=True)  # the same times
    again = run(folder=tmp_path, fresh=True)
    assert same(again, first)
    assert again["seconds"] != first["seconds"]


def test_every_spec_has_a_folder_of_its_own(tmp_path):
    few = {"mechanisms": ["majority"], "repeats": 1, "folder": tmp_path}
    first, second = run(**few), run(l2=2e-2, **few)
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == sorted(Study.of(table).identity[:16] for table in (first, second))
    assert len(folders) == 2


def test_torn_files_are_done_again_and_foreign_ones_refused(uninterrupted, tmp_path):
    run(folder=tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / "notes.txt").write_text("of no concern")
    torn = folder / "001-002.parquet"
    torn.write_bytes(torn.read_bytes()[:100])
    (folder / "002-000.parquet").write_bytes(b"")
    seen = []
    assert same(run(folder=tmp_path, progress=lambda done, total: seen.append(done)), uninterrupted)
    assert seen == [TOTAL - 2, TOTAL - 1, TOTAL]

    swapped = (folder / "000-000.parquet").read_bytes()
    torn.write_bytes(swapped)  # whole, but another batch
    with pytest.raises(InvalidInput, match=r"001-002.parquet is not a part of this comparison.*--fresh"):
        run(folder=tmp_path)
    pq.write_table(pa.table({"accuracy": [1.0]}), torn)
    with pytest.raises(InvalidInput, match="not a part of this comparison"):
        run(folder=tmp_path)
    torn.unlink()
    (folder / "spec.json").write_text("{}")
    with pytest.raises(InvalidInput, match="not the description"):
        run(folder=tmp_path)
    assert same(run(folder=tmp_path, fresh=True), uninterrupted)


def test_parts_and_refusals_survive_the_file(tmp_path):
    spec, _ = specify(*toy(), dataset="toy", mechanisms=["output"], epsilons=[1.0], delta=1e-5)
    found = run(["output:paper", "majority"], repeats=1, folder=tmp_path)
    again = run(["output:paper", "majority"], repeats=1, folder=tmp_path)
    assert Study.of(found).skipped
    assert Study.of(again) == Study.of(found)
    store = Store(spec, None)
    assert store.get(0, 0) is None
    store.put(0, 0, Part.make([], []))
    assert store.get(0, 0).rows.num_rows == 0


def test_versions_and_machine_travel_with_the_results(uninterrupted):
    study = Study.of(uninterrupted)
    assert study.versions["numpy"] == np.__version__
    assert {"dperm", "python", "pyarrow"} <= set(study.versions)
    assert set(study.machine) == {"system", "architecture", "processor", "cores"}
    assert merged([{"a": "1"}, {"a": "2", "b": "3"}, {"a": "1"}]) == {"a": "1 / 2", "b": "3"}


def rows_of(table, label):
    return [
        {name: value for name, value in row.items() if name != "seconds"}
        for row in table.to_pylist()
        if row["label"] == label
    ]


def test_a_configuration_does_not_depend_on_the_others(uninterrupted):
    for mechanisms in (["rsgd"], ["none", "rsgd", "nsgd"]):
        assert rows_of(run(mechanisms), "rsgd") == rows_of(uninterrupted, "rsgd")
    labelled = run({"mine": RSGD(), "other": RSGD(epochs=7)}, repeats=2)
    expected = [{**row, "label": "mine"} for row in rows_of(uninterrupted, "rsgd") if row["repeat"] < 2]
    assert rows_of(labelled, "mine") == expected  # a label is a name only
    noise = [rows_of(labelled, name)[0]["objective"] for name in ("mine", "other")]
    assert noise[0] != noise[1]


def test_only_the_training_call_is_timed(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("dperm.experiments.batches.time", SimpleNamespace(perf_counter=lambda: clock.now))

    def takes(seconds, call):
        def slow(*arguments):
            clock.now += seconds
            return call(*arguments)

        return slow

    monkeypatch.setattr(NoPrivacy, "plan", takes(100.0, NoPrivacy.plan))
    monkeypatch.setattr(NoPrivacy, "_run", takes(4.0, NoPrivacy._run))
    monkeypatch.setattr(Batch, "judge", takes(1000.0, Batch.judge))
    found = run(["none"], repeats=1)
    assert set(found["seconds"].to_pylist()) == {4.0 / len(found)}
    assert clock.now > 2000


def test_splits_are_those_of_dataset_and_repeat(uninterrupted):
    _, y = toy()
    for row in rows_of(uninterrupted, "majority"):
        held_out = assign_folds("toy", row["repeat"], len(y), 2) == row["fold"]
        majority = "yes" if np.mean(y[~held_out] == "yes") >= 0.5 else "no"
        assert row["accuracy"] == pytest.approx(np.mean(y[held_out] == majority))
