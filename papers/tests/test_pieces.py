"""Data sets that are trained side by side give the models of one process, and no process outlives its parent."""

import os
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

import small_tables
from dperm.cli.app import run
from dperm_papers.reproduce import find_item
from dperm_papers.reproduce.item import Bench
from dperm_papers.reproduce.pieces import Piece, pieces_of, run_side_by_side
from dperm_papers.reproduce.rsgd import CENSUS

N = 1_200
NAMES = ("one", "two")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Two tables with two classes."""
    small_tables.write(tmp_path / "data", NAMES, N)
    monkeypatch.setenv("DPERM_DATA", str(tmp_path / "data"))
    return tmp_path


def reproduce(folder, *words):
    named = [word for name in NAMES for word in ("--data", name)]
    assert run(["reproduce", "plan", "--quick", "--out", str(folder), *named, *words]) == 0
    return pq.read_table(folder / "plan" / "results.parquet")


def test_two_processes_give_the_models_of_one(data, capsys):
    alone = reproduce(data / "alone")
    capsys.readouterr()
    together = reproduce(data / "together", "--jobs", "2")
    assert together.equals(alone)
    printed = capsys.readouterr().out
    assert "1 of 2: " in printed
    assert "2 of 2: " in printed
    assert "two (plan)" in printed


@pytest.mark.slow
def test_the_item_finds_every_model_that_was_trained_side_by_side(data):
    bench = Bench(folder=data / "own", parts=data / "parts", quick=True, datasets=NAMES)
    pieces = pieces_of([find_item("plan")], bench)
    assert {finished.piece for finished in run_side_by_side(pieces, bench, 2)} == set(pieces)
    before = {path: path.stat().st_mtime_ns for path in (data / "parts").rglob("*.parquet")}
    bench.folder.mkdir()
    find_item("plan").run(bench)
    assert before
    assert before == {path: path.stat().st_mtime_ns for path in (data / "parts").rglob("*.parquet")}


def test_items_of_a_family_are_one_piece_for_each_data_set(tmp_path):
    bench = Bench(folder=tmp_path, parts=tmp_path)
    items = [find_item(name) for name in ("rsgd-fig1", "rsgd-fig2", "frontier", "report-tables", "rsgd-fig3")]
    assert pieces_of(items, bench) == [
        *(Piece(items=("rsgd-fig1", "frontier"), dataset=name) for name in CENSUS),
        *(Piece(items=("rsgd-fig2",), dataset=name) for name in CENSUS),
    ]


def test_a_data_set_that_nothing_compares_is_refused(tmp_path, capsys):
    assert run(["reproduce", "rsgd-fig1", "--data", "adlt", "--out", str(tmp_path / "out")]) != 0
    said = capsys.readouterr().err
    assert "'adult'" in said
    assert "Did you mean" in said
    assert run(["reproduce", "bounds", "--data", "adult", "--out", str(tmp_path / "out")]) != 0
    assert not (tmp_path / "out").exists()


@pytest.mark.system_noise(failing=0)
@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_a_killed_command_leaves_no_process(data):
    words = [word for name in NAMES for word in ("--data", name)]
    command = [sys.executable, "-m", "dperm", "reproduce", "defaults", "--quick", "--jobs", "2", *words]
    parent = subprocess.Popen(
        [*command, "--out", str(data / "out")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    children = _until(lambda: len(_children(parent.pid)) > 2, lambda: _children(parent.pid))
    parent.kill()
    parent.wait()
    assert children
    _until(lambda: not any(os.path.exists(f"/proc/{child}") for child in children), lambda: None)


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


def _until(reached, value, seconds=60.0):
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return value()
