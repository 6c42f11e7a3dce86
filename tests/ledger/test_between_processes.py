"""Ledgers that are deleted, restored, made anew and copied between processes that know an anchor."""

import shutil
import signal
import sys

import pytest
from outside import in_another_process

from dperm import Ledger
from dperm.cli.app import run

pytestmark = pytest.mark.system_noise(failing=0)  # in processes of their own


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The steps of somebody who wants to spend 0.9 of 1.0 again and again, and what they were told."""
    folder = tmp_path_factory.mktemp("ledgers")

    def outside(*words):
        assert in_another_process(folder / "printed", *words) == 0
        return (folder / "printed").read_text().strip()

    path, old, copy = folder / "budget.db", folder / "old.db", folder / "copy.db"
    first, again, second = (folder / name for name in ("first.json", "again.json", "second.json"))
    told = {"folder": folder, "create": outside("create", path)}
    head = told["create"].split()[1]
    for other in (old, copy):
        shutil.copy(path, other)
    told["first"] = outside("fit", path, first, head)
    told["no budget"] = outside("fit", path, again, first)
    last, spent = Ledger(path).head, path.read_bytes()

    path.unlink()
    told["deleted"] = outside("fit", path, again, first)
    told["made anew"] = outside("create", path)
    told["another ledger"] = outside("fit", path, again, first)
    told["another ledger, by its first head"] = outside("fit", path, again, head)

    shutil.copy(old, path)
    told["restored"] = outside("fit", path, again, first)
    told["restored, by the last head"] = outside("fit", path, again, last)

    path.write_bytes(spent)
    told["copy"] = outside("fit", copy, second, head)
    told["models"] = (first, second)
    told["again"] = again
    told["ledgers"] = (path, copy)
    return told


def test_the_first_process_releases_and_the_second_finds_no_budget(told):
    assert told["first"].startswith("released")
    assert "0.9 is spent" in told["no budget"]


def test_a_deleted_ledger_is_not_made_anew_by_opening(told):
    assert told["deleted"].startswith("refused: There is no ledger at")
    assert told["made anew"].startswith("head")  # only by somebody who says so


@pytest.mark.parametrize("step", ["another ledger", "another ledger, by its first head"])
def test_a_ledger_made_anew_is_told_from_the_one_before(told, step):
    assert told[step].startswith("refused:")
    assert "another ledger" in told[step] or "is not in its history" in told[step]


@pytest.mark.parametrize("step", ["restored", "restored, by the last head"])
def test_an_old_copy_in_its_place_is_told_from_the_ledger(told, step):
    assert "is not in its history" in told[step]


def test_nothing_was_released_on_the_way(told):
    assert not told["again"].exists()


def test_two_live_copies_are_found_by_their_models(told, capsys):
    """What a copied file still allows: it is charged like the original, and the models tell."""
    assert told["copy"].startswith("released")
    (first, second), (path, copy) = told["models"], told["ledgers"]
    for ledger, own, foreign in ((path, first, second), (copy, second, first)):
        assert run(["ledger", "check", str(ledger), "--model", str(own)]) == 0
        assert run(["ledger", "check", str(ledger), "--model", str(own), "--model", str(foreign)]) == 1
        out = capsys.readouterr().out
        assert f"{own}: in order." in out
        assert f"{foreign}: NOT IN ORDER: " in out
        assert "charged by itself" in out


# A process that dies when it first looks at a row.


@pytest.mark.skipif(sys.platform == "win32", reason="needs kill -9")
@pytest.mark.parametrize("step", ["die_in_fit", "die_at_the_labels", "die_in_search", "die_in_command"])
def test_who_dies_at_the_first_row_has_paid(tmp_path, step):
    path, data, schema = tmp_path / "budget.db", tmp_path / "people.csv", tmp_path / "people.toml"
    data.write_text("age,retired\n" + "30,no\n70,yes\n" * 100)
    schema.write_text(
        '[target]\nname = "retired"\nclasses = ["no", "yes"]\n\n[features.age]\nrange = [18, 90]\n'
    )
    Ledger.create(path, epsilon=1.0, delta=1e-6)
    more = (data, schema, tmp_path / "model.json") if step == "die_in_command" else ()
    assert in_another_process(tmp_path / "printed", step, path, *more) == -signal.SIGKILL
    ledger = Ledger(path)
    assert [entry.status for entry in ledger.entries()] == ["open"]
    assert ledger.spent() == pytest.approx(0.5, rel=1e-3)
    assert not (tmp_path / "model.json").exists()
