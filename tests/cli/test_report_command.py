"""``dperm report`` on the command line: what it writes, and that nothing is half-written when it refuses."""

import tomllib

import numpy as np
import pytest

from dperm import PrivateLogisticRegression, save_model
from dperm.cli.app import run
from dperm.ledger import Ledger

FILLED = {
    "product": {"name": "M", "description": "d", "purpose": "p", "publication_date": "2026-01-31"},
    "dataset": {"region": "Exampleland"},
    "curator": {"organisations": ["O"]},
    "registry": {"authors": ["A"]},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 2)) / 3
    model = PrivateLogisticRegression(mechanism="output", classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))
    save_model(model, tmp_path / "model.json")
    lines = []
    for table, answers in FILLED.items():
        lines += [f"[{table}]", *(f"{key} = {answer!r}" for key, answer in answers.items())]
    (tmp_path / "deployment.toml").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_from_questions_to_a_page_and_an_entry(folder, capsys):
    assert run(["report", "--init-deployment", "empty.toml"]) == 0
    assert "product" in tomllib.loads((folder / "empty.toml").read_text(encoding="utf-8"))
    assert run(["report", "model.json", "--deployment", "empty.toml", "--html", "page.html"]) == 0
    assert "not stated" in (folder / "page.html").read_text(encoding="utf-8")
    arguments = ["report", "model.json", "--deployment", "deployment.toml", "--html", "page.html"]
    assert run(arguments) == 1
    assert "--force" in capsys.readouterr().err
    assert run([*arguments, "--force", "--registry", "entry.yaml"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", "Wrote page.html.\nWrote entry.yaml.\n")
    assert "url_slug: m-o-2026" in (folder / "entry.yaml").read_text(encoding="utf-8")


def test_the_text(folder, capsys):
    assert run(["report", "model.json", "--deployment", "deployment.toml"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Differentially private: ε = 1, δ = 10⁻⁶")
    assert "dperm verify model.json --max-epsilon 1.0" in shown
    assert names(folder) == ["deployment.toml", "model.json"]


WRONG = {
    "no model": ([], 2, "MODEL"),
    "a registry without answers": (
        ["model.json", "--registry", "e.yaml"],
        2,
        "--registry needs --deployment",
    ),
    "questions and a model": (["model.json", "--init-deployment", "d.toml"], 2, "takes no model"),
    "questions over answers": (["--init-deployment", "deployment.toml"], 1, "--force"),
    "one file for two": (
        ["model.json", "--deployment", "deployment.toml", "--html", "a", "--registry", "a"],
        2,
        "the same file",
    ),
    "no such deployment": (
        ["model.json", "--deployment", "none.toml", "--html", "p.html"],
        1,
        "no such file",
    ),
    "no such model": (["none.json", "--html", "p.html"], 1, "none.json"),
    "no such folder": (["model.json", "--html", "none/p.html"], 1, "is not a folder"),
    "no such ledger": (["model.json", "--ledger", "none.db", "--html", "p.html"], 1, "cites no ledger"),
    "a model as a deployment": (["model.json", "--deployment", "model.json"], 1, "not a TOML file"),
    "a ledger that did not pay": (
        ["model.json", "--ledger", "budget.db", "--html", "p.html"],
        1,
        "cites no ledger",
    ),
    "a misspelt option": (["model.json", "--deploment", "deployment.toml"], 2, "--deployment"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_say_what_to_do_and_write_nothing(folder, capsys, case):
    arguments, code, said = WRONG[case]
    Ledger.create(folder / "budget.db", 1.0, 1e-6)
    before = {name: (folder / name).read_bytes() for name in names(folder)}
    assert run(["report", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err
    assert {name: (folder / name).read_bytes() for name in names(folder)} == before


def test_a_registry_entry_that_lacks_answers_leaves_no_page_either(folder, capsys):
    (folder / "some.toml").write_text('[product]\nname = "M"\n', encoding="utf-8")
    arguments = [
        "report",
        "model.json",
        "--deployment",
        "some.toml",
        "--html",
        "p.html",
        "--registry",
        "e.yaml",
    ]
    assert run(arguments) == 1
    err = capsys.readouterr().err
    assert "product.description, product.purpose, product.publication_date, dataset.region" in err
    assert err.count("\n") == 1
    assert names(folder) == ["deployment.toml", "model.json", "some.toml"]


def test_a_misspelt_key_is_asked_about(folder, capsys):
    (folder / "some.toml").write_text('[product]\nporpose = "M"\n', encoding="utf-8")
    assert run(["report", "model.json", "--deployment", "some.toml"]) == 1
    assert "did you mean 'purpose'?" in capsys.readouterr().err
