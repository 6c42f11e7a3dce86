"""Persons on the command line: the schema's ``person`` or ``--person`` makes the guarantee one for persons."""

import json
from pathlib import Path

import numpy as np
import pytest

from dperm import Ledger, load_model
from dperm.cli.app import run

SCHEMA = """
[target]
name = "back"
classes = ["no", "yes"]

[features.age]
range = [18, 98]
"""
N, PERSONS = 900, 250


@pytest.fixture
def dperm(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ages, ids = (
        rng.integers(18, 99, N),
        np.concatenate([np.arange(PERSONS), rng.integers(0, PERSONS, N - PERSONS)]),
    )
    back = np.where(rng.random(N) < ages / 100, "yes", "no")
    lines = [f"p{one},{age},{label}" for one, age, label in zip(ids, ages, back, strict=True)]
    (tmp_path / "visits.csv").write_text("\n".join(["patient,age,back", *lines]) + "\n")
    (tmp_path / "rows.toml").write_text(SCHEMA)
    (tmp_path / "visits.toml").write_text('person = "patient"\n' + SCHEMA)

    def call(line):
        code = run(line.split())
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert "p17," not in out + err
        return code, out, err

    return call


FIT = "--epsilon 1 --delta 1e-6 --output model.json"


def statement():
    return load_model("model.json").privacy_.statement


@pytest.mark.parametrize("how", ["--schema visits.toml", "--schema rows.toml --person patient"])
def test_fit_trains_by_person(dperm, how):
    code, _, err = dperm(f"fit visits.csv {how} {FIT}")
    assert code == 0
    assert f"Training on visits: {PERSONS} persons," in err
    assert str(N) not in err  # how many rows they have is private
    assert statement()["unit"] == "one person"
    assert statement()["problem"]["n_units"] == PERSONS


def test_without_a_person_rows_are_on_their_own(dperm):
    assert dperm(f"fit visits.csv --schema rows.toml {FIT}")[0] == 0
    assert statement()["problem"]["n_units"] == N
    assert "persons" not in statement()


def test_settings_of_persons_and_their_capacity(dperm):
    asked = "--person-loss sum --max-rows-per-person 3 --neighbours add-remove --max-rows 400"
    code, _, err = dperm(f"fit visits.csv --schema visits.toml {asked} {FIT}")
    assert code == 0
    assert "at most 400 persons" in err
    assert statement()["persons"] == {"loss": "sum", "rows_per_person": 3}
    assert statement()["problem"]["n_units"] == 400
    code, _, err = dperm(f"fit visits.csv --schema rows.toml --person-loss sum {FIT} --force")
    assert code == 2
    assert "name the column with their ids" in err
    code, _, err = dperm(f"fit visits.csv --schema visits.toml --person age {FIT} --force")
    assert code != 0
    assert "declared as a feature" in err


def test_a_missing_id_is_found_after_the_charge(dperm, tmp_path):
    text = (tmp_path / "visits.csv").read_text()
    (tmp_path / "visits.csv").write_text(text.replace("p17,", ",", 1))
    ledger = Ledger(tmp_path / "study.ledger", epsilon=3.0, delta=1e-5, create=True)
    code, _, err = dperm(f"fit visits.csv --schema visits.toml --ledger study.ledger {FIT}")
    assert code != 0
    assert "rows without the id of a person" in err
    assert [entry.status for entry in ledger.entries()] == ["void"]
    strict = Ledger.create(tmp_path / "strict.ledger", epsilon=3.0, delta=1e-5, strict=True)
    code, _, err = dperm(f"fit visits.csv --schema visits.toml --ledger strict.ledger {FIT}")
    assert code != 0
    assert "The charge is spent and nothing was released" in err
    assert "id of a person" not in err
    assert [entry.status for entry in strict.entries()] == ["spent"]


def test_ids_alone_are_read_before_the_charge(dperm, tmp_path):
    """A cell of another column that cannot be read is found after the charge, which is then void."""
    text = (tmp_path / "visits.csv").read_text()
    (tmp_path / "visits.csv").write_text(text.replace(",no\n", ",perhaps\n", 1))
    ledger = Ledger(tmp_path / "study.ledger", epsilon=3.0, delta=1e-5, create=True)
    code, _, err = dperm(f"fit visits.csv --schema visits.toml --ledger study.ledger {FIT}")
    assert code != 0
    assert "one of the declared classes" in err
    assert len(ledger.entries()) == 1


def test_a_folder_of_shards_is_by_person_too(dperm):
    assert dperm("convert visits.csv --schema rows.toml --person patient --out visits.shards")[0] == 0
    code, _, err = dperm(f"fit visits.shards {FIT}")
    assert code == 0
    assert str(N) not in err
    assert statement()["problem"]["n_units"] == PERSONS
    code, _, err = dperm(f"fit visits.shards --person patient {FIT} --force")
    assert code == 2
    assert "leave out --schema, --target, --spline and --person" in err


def test_an_evaluation_counts_a_person_once(dperm):
    dperm(f"fit visits.csv --schema visits.toml {FIT}")
    code, out, _ = dperm("evaluate model.json visits.csv --epsilon 1 --delta 1e-6 --json")
    assert code == 0
    told = json.loads(out)
    assert (told["unit"], told["rows"], told["table_rows"]) == ("person", PERSONS, None)
    assert any("Every person counts once" in note for note in told["notes"])
    code, out, _ = dperm("evaluate model.json visits.csv --local --json")
    assert code == 0
    told = json.loads(out)
    assert (told["unit"], told["rows"], told["table_rows"]) == ("person", PERSONS, N)


def test_rows_of_a_model_of_persons_are_counted_when_asked_for(dperm):
    dperm(f"fit visits.csv --schema visits.toml {FIT}")
    for command in ("evaluate", "means"):
        code, out, _ = dperm(f"{command} model.json visits.csv --epsilon 1 --delta 1e-6 --unit row --json")
        assert code == 0
        assert json.loads(out)["rows"] == N
    dperm(f"fit visits.csv --schema rows.toml --person patient {FIT} --force")
    model = json.loads(Path("model.json").read_text())
    assert model["schema"]["person"] == "patient"
    assert dperm("evaluate model.json visits.csv --epsilon 1 --unit household")[0] == 2
    assert dperm("verify model.json --unit person")[0] == 0
    code, out, _ = dperm("verify model.json --unit row")
    assert code == 0
    assert "for one person, replace-one" in out
    dperm(f"fit visits.csv --schema visits.toml --neighbours add-remove --max-rows 400 {FIT} --force")
    code, out, _ = dperm("verify model.json --unit row")
    assert code == 1
    assert "it protects one person under add-remove, and one row was asked for" in out


@pytest.mark.parametrize("how", ["--schema visits.toml", "--schema rows.toml --person patient"])
def test_a_comparison_is_by_person(dperm, how):
    asked = "--epsilon 1 --mechanism output --loss logistic --folds 2 --repeats 1"
    code, out, _ = dperm(f"compare visits.csv {how} {asked} --json")
    assert code == 0
    told = json.loads(out)
    assert (told["unit"], told["n_rows"]) == ("person", PERSONS)
    assert str(N) not in json.dumps({name: told[name] for name in ("n_rows", "max_rows", "delta")})
    code, _, err = dperm("compare made-topics --person patient --epsilon 1")
    assert code != 0
    assert "leave out --person" in err


def test_a_plan_counts_persons(dperm):
    code, out, _ = dperm("plan --persons 5000 --features 40 --epsilon 0.5 --json")
    assert code == 0
    told = json.loads(out)
    assert (told["unit"], told["n_rows"]) == ("person", 5000)
    assert not any("search" in way["name"] for way in told["ways"])
    code, out, _ = dperm("plan --persons 5000 --schema visits.toml --epsilon 0.5 --neighbours add-remove")
    assert code == 0
    assert "at most 5,000 persons" in out
    assert "one person moves them" in out
    code, _, err = dperm("plan --n 5000 --schema visits.toml --epsilon 0.5")
    assert code == 2
    assert "give --persons" in err
    code, _, err = dperm("plan --n 5000 --persons 5000 --features 3 --epsilon 0.5")
    assert code == 2
    assert "in place of --n" in err


def test_the_account_of_persons(dperm):
    found = {}
    for what in ("--n 20000", "--persons 20000", "--persons 20000 --person-loss sum --max-rows-per-person 4"):
        code, out, _ = dperm(
            f"account {what} --epsilon 0.5 --delta 1e-8 --mechanism output --loss svm --l2 0.01 --json"
        )
        assert code == 0
        found[what] = json.loads(out)["prices"][0]["noise_scale"]
    rows, mean, summed = found.values()
    assert mean == pytest.approx(rows, rel=0.02)
    assert summed > 3.9 * mean
    code, out, _ = dperm("account --persons 20000 --epsilon 0.5 --delta 1e-8 --mechanism output")
    assert "which of two persons the table holds" in out
    code, _, err = dperm("account --n 20000 --person-loss sum --epsilon 0.5 --delta 1e-8")
    assert code != 0
    assert "persons" in err
