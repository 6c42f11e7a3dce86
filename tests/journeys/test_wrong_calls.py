"""Wrong calls of the command line: one line that says what to do, no traceback, nothing spent, nothing half-written."""

import hashlib
import shlex
from pathlib import Path

import numpy as np
import pytest

from dperm import Ledger
from dperm.cli.app import run

SCHEMA = """
[target]
name = "retired"
classes = ["no", "yes"]

[features.age]
range = [18, 90]

[features.town]
categories = ["north", "south"]
"""
FIT = "--epsilon 1 --delta 1e-6 --ledger budget.db --output new.json"
GIVEN = "people.csv --schema people.toml"

CALLS = {
    # commands, options and names
    "fitt people.csv": "Did you mean 'fit'?",
    "fit": "Missing argument 'DATA'",
    f"fit {GIVEN} --delta 1e-6 --output new.json": "Missing option '--epsilon'",
    f"fit {GIVEN} --epsilon 1 --output new.json": "Missing option '--delta'",
    f"fit {GIVEN} --epsilon 1 --delta 1e-6": "Missing option '--output'",
    f"fit {GIVEN} {FIT} --epsilonn 1": "No such option '--epsilonn'",
    f"fit {GIVEN} --epsilon one --delta 1e-6 --output new.json": "'one' is not a valid float",
    f"fit {GIVEN} --epsilon 0 --delta 1e-6 --output new.json": "epsilon",
    f"fit {GIVEN} --epsilon -1 --delta 1e-6 --output new.json": "epsilon",
    f"fit {GIVEN} --epsilon nan --delta 1e-6 --output new.json": "epsilon",
    f"fit {GIVEN} --epsilon 1 --delta 2 --output new.json": "delta",
    f"fit {GIVEN} {FIT} --mechanism objectiv": "Did you mean",
    f"fit {GIVEN} {FIT} --mechanism 'dp-gd stepz=3'": "stepz",
    f"fit {GIVEN} {FIT} --mechanism 'dp-gd steps=many'": "steps",
    f"fit {GIVEN} {FIT} --mechanism none": "without",
    f"fit {GIVEN} {FIT} --loss hinge": "--loss",
    f"fit {GIVEN} {FIT} --loss squared": "squared",
    f"fit {GIVEN} {FIT} --l2 little": "neither 'auto' nor a number",
    f"fit {GIVEN} {FIT} --neighbours add-remove": "--max-rows",
    f"fit {GIVEN} {FIT} --max-rows 500": "add-remove",
    f"fit {GIVEN} {FIT} --neighbours swap": "not one of",
    f"fit {GIVEN} {FIT} --spline 2": "from 3 to 256",
    f"fit {GIVEN} {FIT} --class-weight yes": "--class-weight",
    f"fit {GIVEN} {FIT} --class-weight maybe=2": "maybe",
    f"fit {GIVEN} {FIT} --class-weight yes=-1": "class_weight",
    # files
    f"fit nowhere.csv --schema people.toml {FIT}": "nowhere.csv",
    f"fit nowhere {FIT}": "neither a file nor one of the data sets",
    f"fit adlt {FIT}": "Did you mean 'adult'?",
    f"fit people.csv {FIT}": "--schema is needed",
    f"fit people.csv --schema nowhere.toml {FIT}": "nowhere.toml",
    f"fit people.csv --schema people.csv {FIT}": "not a TOML file",
    f"fit people.csv --schema todo.toml {FIT}": "TODO",
    f"fit people.csv --schema twins.toml {FIT}": "[features.age]",
    f"fit people.csv --schema other.toml {FIT}": "height",
    f"fit {GIVEN} {FIT} --target pension": "pension",
    f"fit empty.csv --schema people.toml {FIT}": "no rows",
    f"fit words.csv --schema people.toml {FIT}": "age",
    f"fit ragged.csv --schema people.toml {FIT}": "ragged.csv",
    f"fit picture.png --schema people.toml {FIT}": "picture.png",
    f"fit {GIVEN} --epsilon 1 --delta 1e-6 --output people.csv": "--force",
    f"fit {GIVEN} --epsilon 1 --delta 1e-6 --output .": "folder",
    f"fit {GIVEN} --epsilon 1 --delta 1e-6 --output nowhere/new.json": "nowhere",
    # ledgers
    f"fit {GIVEN} --epsilon 1 --delta 1e-6 --ledger nowhere.db --output new.json": "nowhere.db",
    f"fit {GIVEN} --epsilon 1 --delta 1e-6 --ledger people.csv --output new.json": "people.csv",
    f"fit {GIVEN} --epsilon 9 --delta 1e-6 --ledger budget.db --output new.json": "Refused",
    f"fit {GIVEN} {FIT} --dataset-name elsewhere": "elsewhere",
    f"fit {GIVEN} {FIT} --expect 0123": "64 hexadecimal digits",
    f"fit {GIVEN} --epsilon 1 --delta 1e-6 --output new.json --expect 0123": "--ledger",
    "ledger create budget.db --epsilon 1 --delta 1e-6": "budget.db",
    "ledger create new.db --epsilon 1": "Missing option '--delta'",
    "ledger show nowhere.db": "nowhere.db",
    "ledger show people.csv": "people.csv",
    "ledger check budget.db --model people.csv": "people.csv",
    # schemas
    "schema chek people.csv": "Did you mean 'check'?",
    "schema init nowhere.csv": "nowhere.csv",
    "schema init people.csv --output people.toml": "--force",
    "schema init people.csv --target pension --output new.toml": "pension",
    "schema init people.csv --from-codebook people.toml --output new.toml": "people.toml",
    "schema check people.csv": "--schema",
    "schema check nowhere.csv --schema people.toml": "nowhere.csv",
    "schema check people.csv --schema other.toml --strict": "",
    # before and after
    "plan --epsilon 1": "--features",
    "plan --features 4 --epsilon 1": "--n",
    "plan --n 0 --features 4 --epsilon 1": "--n",
    "plan --n 1000 --features 4 --classes 1 --epsilon 1": "classes",
    "plan --n 1000 --features 4 --epsilon 0": "epsilon",
    "account --n 1000 --features 4 --delta 1e-6": "epsilon",
    "predict nowhere.json people.csv": "nowhere.json",
    "predict people.csv people.csv": "not a usable model file",
    "predict model.json other.csv": "age",
    "predict svm.json people.csv --proba": "--proba",
    "predict model.json people.csv --output new.txt": ".csv or .parquet",
    "evaluate model.json people.csv": "--local",
    "evaluate nowhere.json people.csv --epsilon 1 --delta 1e-6": "nowhere.json",
    "evaluate model.json other.csv --epsilon 1 --delta 1e-6": "",
    "evaluate model.json people.csv --epsilon 9 --delta 1e-6 --ledger budget.db": "Refused",
    "evaluate model.json people.csv --epsilon 1 --delta 1e-6 --output people.csv": "--force",
    "evaluate model.json people.csv --epsilon 1 --local": "--local",
    "means model.json people.csv": "--epsilon",
    "means nowhere.json people.csv --epsilon 1 --delta 1e-6": "nowhere.json",
    "means model.json people.csv --by pension --value yes --epsilon 1 --delta 1e-6": "pension",
    "means model.json people.csv --by retired --value yes --epsilon 1 --delta 1e-6": "predicted",
    "means model.json people.csv --epsilon 9 --delta 1e-6 --ledger budget.db": "Refused",
    "show nowhere.json": "nowhere.json",
    "show people.csv": "not a usable model file",
    "export model.json new.txt": "new.txt",
    "report model.json --html people.csv": "--force",
    "report model.json --html new.html --deployment people.toml": "people.toml",
    "report model.json --html new.html --evaluation people.csv": "people.csv",
    "report model.json --html new.html --ledger people.csv": "people.csv",
    "report model.json --registry new.yaml": "--deployment",
    "verify people.csv": "",  # the verdict is its output
    "verify model.json --max-epsilon 0.1": "",
    "verify model.json --unit household": "household",
    "convert people.csv --schema people.toml": "--out",
    "compare people.csv --schema people.toml --mechanism quick": "quick",
    "compare people.csv --schema people.toml --epsilon 0": "epsilon",
    "mechanisms no-such": "no-such",
    "audit no-such": "no-such",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder as a person has it in the middle of their work."""
    folder = tmp_path_factory.mktemp("work")
    rng = np.random.default_rng(0)
    ages = rng.integers(18, 90, size=400)
    towns = rng.choice(["north", "south"], size=400)
    rows = [f"{age},{town},{'yes' if age > 60 else 'no'}" for age, town in zip(ages, towns, strict=True)]
    written = {
        "people.csv": "\n".join(["age,town,retired", *rows, ""]),
        "people.toml": SCHEMA,
        "other.toml": SCHEMA.replace("features.age", "features.height"),
        "todo.toml": SCHEMA.replace("[18, 90]", '"TODO"'),
        "twins.toml": SCHEMA.replace("range = [18, 90]", 'range = [18, 90]\ncategories = ["a", "b"]'),
        "other.csv": "length\n3\n",
        "empty.csv": "age,town,retired\n",
        "words.csv": "age,town,retired\nold,north,yes\nyoung,south,no\n",
        "ragged.csv": "age,town,retired\n30,north,no\n31,north\n32,south,no,no\n",
        "picture.png": "\x89PNG not a table",
    }
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        for line in (
            "ledger create budget.db --epsilon 2 --delta 1e-6",
            f"fit {GIVEN} --epsilon 1 --delta 1e-6 --ledger budget.db --output model.json",
            f"fit {GIVEN} --epsilon 1 --delta 1e-6 --loss svm --output svm.json",
        ):
            assert run(shlex.split(line)) == 0
    return folder


def content(folder: Path) -> dict[str, object]:
    """What lies in the folder; of the ledger what is spent, since a charge that became void is written down too."""
    found: dict[str, object] = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()
    }
    return found | {"budget.db": Ledger(folder / "budget.db").spent()}


@pytest.mark.together
@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_is_refused_in_one_line(call, prepared, monkeypatch, capfd):
    monkeypatch.chdir(prepared)
    before = content(prepared)
    capfd.readouterr()
    code = run(shlex.split(call))
    printed = capfd.readouterr()
    said = [
        line
        for line in printed.err.splitlines()
        if not line.startswith(("dperm: warning: ", "Training on ", "Evaluating on "))
    ]
    assert code in (1, 2), printed
    assert "Traceback" not in printed.out + printed.err
    if CALLS[call] or printed.err:
        assert len(said) == 1, printed.err
        assert said[0].startswith("dperm: ")
        assert CALLS[call] in said[0]
        assert len(said[0]) > len("dperm: ") + 15
    assert content(prepared) == before


def test_there_are_enough_of_them():
    assert len(CALLS) >= 60
