"""The study of scale: its rows, its processes, what it refuses, and what it makes of the measurements."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from dperm.cli.app import run
from dperm_papers.reproduce import Bench, find_item
from dperm_papers.reproduce import scale as item
from dperm_papers.reproduce.scale import checks, left_out, slope
from dperm_papers.scale import cells, child, measuring, memory, rows
from dperm_papers.scale.cells import (
    CODED,
    DENSE,
    FULL,
    LOGISTIC,
    QUICK,
    SGD,
    SHARDS,
    SPARSE,
    Cell,
    Method,
    Shape,
    Sweep,
)
from dperm_papers.scale.measuring import NotRun, Outcome, ask, measure_all

AUTO, THEIRS = Method("auto"), Method(LOGISTIC)
TINY = Sweep(kind=DENSE, over="n", sizes=(300,), fixed=4, methods=(AUTO, THEIRS))


def cell(kind=DENSE, n=300, p=4, method=AUTO):
    return Cell(shape=Shape(kind=kind, n=n, p=p), method=method)


def bench(folder, **settings):
    return Bench(folder=folder, parts=folder / "parts", **settings)


# Rows


@pytest.mark.together
@pytest.mark.parametrize("p", [10, 30, 100, 333])
def test_a_schema_has_as_many_columns_as_were_asked_for(p):
    assert rows.schema(p).n_columns == p


@pytest.mark.cover(1)
@pytest.mark.parametrize("kind", [DENSE, CODED, SPARSE])
@pytest.mark.parametrize("private", [True, False])
def test_rows_follow_from_the_seed_in_pieces_of_any_length(kind, private, monkeypatch):
    monkeypatch.setattr(rows, "AT_ONCE", 70)
    made, same, other = (
        rows.in_memory(Shape(kind=kind, n=200, p=40), private=private, seed=seed) for seed in (0, 0, 1)
    )
    assert made.X.shape == (200, 40)
    assert made.n_bytes > 0
    assert made.entries >= 200
    assert set(made.y) == {0, 1}
    assert (np.asarray(made.y) == same.y).all()
    assert (_array(made.X) == _array(same.X)).all()
    assert (_array(made.X) != _array(other.X)).any()


def _array(X):
    return X.toarray() if hasattr(X, "toarray") else X


def test_scikit_learn_gets_the_records_that_coded_rows_hold():
    shape = Shape(kind=CODED, n=300, p=40)
    ours, theirs = (rows.in_memory(shape, private=private, seed=3) for private in (True, False))
    assert (ours.y == theirs.y).all()
    assert ours.entries == theirs.entries == theirs.X.nnz
    levels = 40 - max(2, 40 // 8)
    assert ((_array(ours.X)[:, :levels] > 0) == (_array(theirs.X)[:, :levels] > 0)).all()
    encoded, given = (_array(made.X)[:, levels:] for made in (ours, theirs))
    assert np.corrcoef(encoded.ravel(), given.ravel())[0, 1] > 0.95


def test_pieces_on_the_disk_are_those_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "AT_ONCE", 70)
    monkeypatch.setattr(rows, "WARM_ROWS", 20)
    shape = Shape(kind=SHARDS, n=200, p=12)
    rows.write(shape, tmp_path, private=False, seed=0)
    read = list(rows.read_pieces(tmp_path / "rows", 12))
    whole = rows.in_memory(replace(shape, kind=CODED), private=False, seed=0)
    assert len(read) == 3
    assert (np.vstack([_array(X) for X, _ in read]) == _array(whole.X)).all()
    assert (np.concatenate([y for _, y in read]) == whole.y).all()
    assert rows.bytes_of(tmp_path / "rows") < rows.expected_bytes(shape) + 3 * 4 * 128 + 8 * 200


# Memory


PEAKS = """
import numpy as np
from dperm_papers.scale import memory
memory.forget()
before = memory.peak()
held = np.ones(2**23)
during = memory.peak() - before
del held
memory.forget()
print(during / 2**26, (memory.peak() - before) / 2**26)
"""


@pytest.mark.system_noise(failing=0)
def test_a_peak_is_counted_until_it_is_forgotten():
    """In a small process of its own: of a large one the system may take other memory back meanwhile."""
    told = subprocess.run([sys.executable, "-c", PEAKS], capture_output=True, text=True, check=True)
    during, after = map(float, told.stdout.split())
    assert during > 0.8
    assert after < 0.5


def test_a_cell_is_too_large_by_public_sizes_alone():
    small, large = cell(), cell(n=10**8, p=100)
    assert memory.too_large(small, 10**10) is None
    assert memory.expected(large) > 100 * 10**8 * 4
    assert "GB" in memory.too_large(large, 10**10)
    assert memory.too_large(large, 10**12) is None
    assert memory.too_large(replace(large, shape=replace(large.shape, kind=SHARDS)), 2 * 10**10) is None


# One process for each cell


@pytest.mark.system_noise(failing=0)
def test_the_process_of_a_cell_answers_in_one_line():
    done = subprocess.run(child.command(cell(), None, 0), capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["seconds"] > 0
    assert answer["cpu_seconds"] > 0
    assert answer["timings"] == 3
    assert answer["row_bytes"] == 300 * 4 * 4
    assert answer["entries"] == 300 * 4


def test_a_refusal_comes_back_as_a_reason(capsys):
    wide = cell(SPARSE, n=50, p=5_000, method=Method("ssp"))
    told = {"shape": vars(wide.shape), "method": vars(wide.method), "folder": None, "seed": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child, "_WARM_COLUMNS", 10_000)
        child.main(json.dumps(told))
    assert "4096 columns" in json.loads(capsys.readouterr().out)["refused"]


def test_a_process_that_takes_too_long_is_ended_with_what_it_started():
    grandchild = "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); print(1, flush=True); time.sleep(60)"
    began = time.monotonic()
    assert ask([sys.executable, "-c", grandchild], 1.0) is None
    assert time.monotonic() - began < 20


@pytest.mark.together
@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("raise SystemExit(3)", "status 3"),
        ("raise KeyError('x')", "KeyError"),
        ('print(\'{"failed": "memory"}\')', "memory"),
    ],
)
def test_a_process_that_fails_is_not_kept(program, status):
    with pytest.raises(NotRun, match=status):
        ask([sys.executable, "-c", program], 60.0)


def test_what_cannot_run_here_has_a_reason_and_is_tried_again_later(tmp_path, monkeypatch):
    monkeypatch.setitem(cells.PACKAGES, "torch", "a_package_that_nobody_has")
    sweep = replace(TINY, sizes=(10**13,), methods=(AUTO, Method("auto", "torch")))
    found = list(measure_all([sweep], bench(tmp_path)).values())
    assert [outcome.word for outcome in found] == ["too large", "not installed"]
    assert all(outcome.seconds is None for outcome in found)
    assert "a_package_that_nobody_has" in left_out(found)[1]
    assert not (tmp_path / "parts").exists()


def test_what_would_take_too_long_is_not_begun():
    small, large = cell(n=10**4), cell(n=10**6)
    before = [Outcome(cell=small, seconds=2.0), Outcome(cell=cell(n=10**3), seconds=2.0)]
    assert "200 s by its time for 10,000 rows" in measuring.too_long(large, before, 100.0)
    assert measuring.too_long(large, before, 300.0) is None
    assert measuring.too_long(replace(large, method=THEIRS), before, 100.0) is None
    assert measuring.too_long(cell(n=10**6, p=5), before, 100.0) is None


@pytest.mark.slow
@pytest.mark.system_noise(failing=0)
def test_a_stopped_study_goes_on_and_is_written_down(tmp_path, monkeypatch):
    monkeypatch.setattr(item, "QUICK", (TINY,))
    monkeypatch.setenv("COLUMNS", "200")
    asked = []

    def counted(command, limit):
        if len(asked) == 1:
            raise KeyboardInterrupt
        asked.append(command)
        return ask(command, limit)

    monkeypatch.setattr(measuring, "ask", counted)
    with pytest.raises(KeyboardInterrupt):
        find_item("scale").run(bench(tmp_path, quick=True))
    assert len(list((tmp_path / "parts").glob("scale-*.parquet"))) == 1
    asked.clear()
    assert run(["reproduce", "scale", "--quick", "--out", str(tmp_path)]) == 0
    assert len(asked) == 1
    kept = pq.read_table(tmp_path / "scale" / "cells.parquet").to_pylist()
    assert [(row["n"], row["method"]) for row in kept] == [(300, "auto"), (300, LOGISTIC)]
    assert all(row["memory"] is not None and row["seconds"] > 0 for row in kept)
    assert (tmp_path / "scale" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "Processor seconds by n (dense)" in (tmp_path / "scale" / "report.md").read_text()


def test_files_of_shards_are_gone_when_the_study_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(rows, "WARM_ROWS", 200)
    ours, theirs = (cell(SHARDS, p=12, method=method) for method in (AUTO, Method(SGD)))
    with measuring.Files(seed=0) as written:
        answers = [child.measure(one, written.folder(one), 0) for one in (ours, theirs)]
        assert len(list(tmp_path.iterdir())) == 2
        written.folder(replace(ours, shape=replace(ours.shape, n=400)))
        assert len(list(tmp_path.iterdir())) == 1
    assert not list(tmp_path.iterdir())
    assert all(answer["seconds"] > 0 for answer in answers)
    assert {answer["entries"] for answer in answers} == {300 * rows.record_entries(12)}


@pytest.mark.system_noise(failing=0)
@pytest.mark.engines
@pytest.mark.parametrize("engine", cells.PACKAGES)
def test_other_engines_fit_the_same_rows(engine, tmp_path, monkeypatch):
    pytest.importorskip(cells.PACKAGES[engine])
    if engine == cells.SPARK and shutil.which("java") is None:
        pytest.skip("there is no Java")
    monkeypatch.setattr(rows, "WARM_ROWS", 300)
    one = cell(DENSE if engine == cells.TORCH else SHARDS, p=12, method=Method("auto", engine))
    with measuring.Files(seed=0) as written:
        folder = written.folder(one) if one.shape.kind == SHARDS else None
        answer = ask(child.command(one, folder, 0), 300.0)
    assert answer["seconds"] > 0
    assert (answer["memory"] is None) == (engine == cells.SPARK)  # a JVM does not tell


# What is made of the measurements


def test_the_exponent_of_a_power_law_is_found_above_its_fixed_cost():
    sizes = (10**4, 10**5, 10**6, 10**7, 10**8)
    seconds = {n: 0.05 + 1e-5 * n**0.9 for n in sizes}
    found = slope(seconds)
    assert (found.first, found.last) == (10**6, 10**8)
    assert found.exponent == pytest.approx(0.9, abs=0.05)
    over_all = np.polyfit(np.log(sizes), np.log(list(seconds.values())), 1)[0]
    assert abs(over_all - 0.9) > 0.05  # what the rule is for


@pytest.mark.together
@pytest.mark.parametrize(
    "values", [{}, {10: 1.0, 1000: 2.0}, {10: 1.0, 20: 2.0, 40: 4.0}, {1: 0.0, 10: 1.0, 100: 2.0}]
)
def test_too_few_or_too_close_sizes_have_no_exponent(values):
    assert slope(values) is None


def measured(seconds, mb, kind=DENSE, methods=(AUTO, THEIRS), theirs=2.0):
    """A sweep whose outcomes follow the two functions of n; scikit-learn takes ``theirs`` times as long."""
    sweep = Sweep(kind=kind, over="n", sizes=(10**5, 10**6, 10**7), fixed=30, methods=methods)
    outcomes = {}
    for one in sweep.cells():
        busy = seconds(one.shape.n) * (1 if one.method.is_private else theirs)
        held = int(1e6 * mb(one.shape.n))
        size = 100 * one.shape.n
        outcomes[one] = Outcome(
            cell=one, seconds=busy, cpu_seconds=busy, memory=held, row_bytes=size, entries=size
        )
    return item.Measured(sweep=sweep, outcomes=outcomes)


def verdicts(*some):
    return [check.holds for check in checks(some)]


def test_checks_hold_for_what_grows_as_it_should():
    assert verdicts(measured(lambda n: 1e-6 * n, lambda n: 1e-4 * n)) == [True, True, True]
    shards = measured(lambda n: 1e-6 * n, lambda n: 500, SHARDS, (AUTO, Method(SGD)))
    assert verdicts(shards) == [True, True, True, True]


def test_every_check_can_fail():
    assert verdicts(measured(lambda n: 1e-9 * n**1.3, lambda n: 1e-4 * n))[0] is False
    assert verdicts(measured(lambda n: 1e-6 * n, lambda n: 1e-4 * n, theirs=0.9))[1] is False
    assert verdicts(measured(lambda n: 1e-6 * n, lambda n: 1e-2 * n))[-1] is False
    shards = measured(lambda n: 1e-6 * n, lambda n: 2e-4 * n, SHARDS, (AUTO, Method(SGD)))
    assert verdicts(shards)[1:3] == [False, False]


def test_tables_name_what_was_measured_and_what_was_not():
    one = measured(lambda n: 1e-6 * n, lambda n: 1e-4 * n)
    gone = cell(n=10**7, p=30, method=THEIRS)
    outcomes = {**one.outcomes, gone: Outcome(cell=gone, word="> 300 s", reason="had not ended after 300 s")}
    found = {
        section.title.partition(":")[0]: section
        for section in item.sections([replace(one, outcomes=outcomes)])
    }
    assert found["Slopes"].rows[0][:4] == ("dense by n: auto", "1.00", "1.00", "1.00")
    assert found["Slopes"].rows[1] == (f"dense by n: {LOGISTIC}", *3 * (item.TOO_FEW,), "")
    assert found["Processor seconds by n (dense)"].rows[1][1:] == ("0.200", "2.00", "> 300 s")
    assert found["Ratio by n (dense)"].rows == (("auto", "0.500", "0.500", "not counted"),)
    assert found["Largest size"].rows[1][1] == "1,000,000"


@pytest.mark.parametrize("sweeps", [FULL, QUICK])
def test_the_sweeps_have_scikit_learn_beside_the_default(sweeps):
    for sweep in sweeps:
        assert AUTO in sweep.methods
        assert not sweep.reference.is_private
        assert {AUTO, sweep.reference} >= {*sweep.few[:1], *sweep.few[-1:]}
    assert max(max(sweep.all_sizes) for sweep in FULL if sweep.over == "n") == 20_000_000
    assert max(max(sweep.all_sizes) for sweep in FULL if sweep.over == "p") == 100_000


def test_larger_sizes_are_for_few_methods():
    sweep = replace(TINY, larger=(900,), few=(THEIRS,))
    assert [(one.shape.n, one.method) for one in sweep.cells()] == [(300, AUTO), (300, THEIRS), (900, THEIRS)]
    found = item.Measured(sweep=sweep, outcomes={}).outcome(AUTO, 900)
    assert (found.seconds, found.word, found.reason) == (None, item.NOT_RUN, "")
