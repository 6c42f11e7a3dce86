"""``dperm evaluate``: from a model file and a test table to figures, charged before a cell is read."""

import json

import numpy as np
import pytest

from dperm import Ledger, PrivateLinearRegression, load_model, save_model
from dperm.cli.app import run
from dperm.evaluation import read_evaluation
from dperm.schema import Schema
from dperm.schema.encoding import encode

SCHEMA = """
[target]
name = "sick"
classes = ["no", "yes"]
[features.age]
range = [18, 90]
[features.job]
categories = ["desk", "farm", "none"]
"""


def table(path, n, seed):
    rng = np.random.default_rng(seed)
    ages, jobs = rng.integers(18, 91, n), rng.choice(["desk", "farm", "none"], n)
    sick = rng.random(n) < 1 / (1 + np.exp(-(ages - 60) / 10 - (jobs == "farm")))
    lines = [f"{age},{job},{'yes' if one else 'no'}" for age, job, one in zip(ages, jobs, sick, strict=True)]
    path.write_text("\n".join(["age,job,sick", *lines]) + "\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    table(folder / "people.csv", 4000, 0)
    table(folder / "test.csv", 3000, 1)
    (folder / "people.toml").write_text(SCHEMA)
    arguments = ["--epsilon", "1", "--delta", "1e-6", "--output", str(folder / "model.json")]
    assert run(["fit", str(folder / "people.csv"), "--schema", str(folder / "people.toml"), *arguments]) == 0
    return folder


def evaluate(home, *arguments, data="test.csv"):
    return run(["evaluate", str(home / "model.json"), str(home / data), *map(str, arguments)])


def test_a_table_of_figures(home, capsys):
    assert evaluate(home, "--epsilon", 1) == 0
    out = capsys.readouterr().out
    assert out.startswith("(1, 1e-06)-differentially private for the test rows")
    for words in (
        "accuracy",
        "AUC",
        "log loss",
        "95 % interval",
        "of which noise",
        "predicted yes",
        "3,000 rows",
    ):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80


def test_output_and_json_hold_the_same_curves(home, tmp_path, capsys):
    path = tmp_path / "evaluation.json"
    assert evaluate(home, "--epsilon", 1, "--output", path, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    found = read_evaluation(path)
    assert printed == found.to_dict()
    assert printed["format"] == "dperm evaluation"
    assert len(printed["roc"]) == printed["release"]["bins"] - 1
    assert printed["model"]["sha256"] == load_model(home / "model.json").certificate_["model"]["sha256"]
    assert printed["budget"] == {"epsilon": 1.0, "delta": 1e-6}  # delta of the model


def test_a_ledger_is_charged_once_to_the_dataset_that_was_named(home, tmp_path, capsys):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1, delta=1e-5)
    ledger.set_cap("test", 0.6, 1e-5)
    options = ["--epsilon", 0.5, "--ledger", ledger.path, "--dataset-name", "test"]
    assert evaluate(home, *options) == 0
    (entry,) = ledger.entries()
    assert entry.dataset == "test"
    assert str(entry.id) in capsys.readouterr().err
    assert evaluate(home, *options) == 1  # what is left is not enough
    assert "Refused" in capsys.readouterr().err
    assert len(ledger.entries()) == 1


def test_add_remove_tells_no_number_of_rows(home, capsys):
    assert evaluate(home, "--epsilon", 1, "--neighbours", "add-remove", "--max-rows", 5000) == 0
    out, err = capsys.readouterr()
    assert "their number is private" in out
    assert "on 3,000 rows" not in out + err  # "about 3,000" may be what the noise left
    assert evaluate(home, "--epsilon", 1, "--neighbours", "add-remove", "--max-rows", 5000, "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] is None
    (home / "empty.csv").write_text("age,job,sick\n")
    assert (
        evaluate(home, "--epsilon", 1, "--neighbours", "add-remove", "--max-rows", 5000, data="empty.csv")
        == 0
    )
    assert "too noisy to say" in capsys.readouterr().out


def test_local_figures_say_what_they_are(home, capsys):
    assert evaluate(home, "--local", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["local"] is True
    assert printed["private"] is False
    assert printed["budget"] is None
    assert evaluate(home, "--local") == 0
    out = capsys.readouterr().out
    assert out.startswith("NOT PRIVATE")
    assert "must not be published" in out


def test_a_regression_is_judged_too(tmp_path, capsys):
    features = {"age": {"range": [0, 100]}}
    schema = Schema.from_dict({"target": {"name": "cost", "range": [0, 200]}, "features": features})
    rng = np.random.default_rng(0)
    ages = rng.uniform(0, 100, 4000)
    cost = 50 + ages + 10 * rng.normal(size=4000)
    model = PrivateLinearRegression(epsilon=2, delta=1e-6, y_range=(0, 200)).fit(
        encode({"age": ages}, schema), cost
    )
    save_model(model, tmp_path / "model.json", schema=schema)
    lines = [f"{age:.1f},{one:.1f}" for age, one in zip(ages, cost, strict=True)]
    (tmp_path / "test.csv").write_text("\n".join(["age,cost", *lines]))
    assert run(["evaluate", str(tmp_path / "model.json"), str(tmp_path / "test.csv"), "--epsilon", "1"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("R²", "RMSE", "MAE"))


WRONG = {
    "neither epsilon nor local": ((), 2, "--local"),
    "both": (("--local", "--epsilon", 1), 2, "leave out --epsilon"),
    "local with a ledger": (("--local", "--ledger", "l.db"), 2, "leave out --ledger"),
    "add-remove without a capacity": (("--epsilon", 1, "--neighbours", "add-remove"), 2, "--max-rows"),
    "a capacity of replace-one": (("--epsilon", 1, "--max-rows", 5), 2, "add-remove"),
    "dataset without a ledger": (("--epsilon", 1, "--dataset-name", "test"), 2, "--ledger"),
    "one bin": (("--epsilon", 1, "--bins", 1), 1, "bins"),
    "epsilon of 0": (("--epsilon", 0), 1, "epsilon"),
    "delta of 0": (("--epsilon", 1, "--delta", 0), 1, "delta"),
    "no such ledger": (("--epsilon", 1, "--ledger", "nowhere.db"), 1, "nowhere.db"),
    "no such folder": (("--epsilon", 1, "--output", "nowhere/e.json"), 1, "nowhere"),
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_say_what_to_do_in_one_line(home, capsys, call):
    arguments, code, words = WRONG[call]
    assert evaluate(home, *arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert len([line for line in err.splitlines() if line.startswith(("dperm:", "Error:"))]) == 1
    assert "Traceback" not in err


BAD_TABLES = {
    "no target": ("age,job\n50,desk\n", "sick"),
    "no rows": ("age,job,sick\n", "no rows"),
    "other labels": ("age,job,sick\n50,desk,zebra-4711\n", "declared classes"),
}


@pytest.mark.parametrize("kind", BAD_TABLES)
def test_a_table_that_does_not_fit_costs_nothing_and_is_not_quoted(home, tmp_path, capsys, kind):
    content, words = BAD_TABLES[kind]
    (home / "bad.csv").write_text(content)
    ledger = Ledger.create(tmp_path / "l.db", epsilon=5, delta=1e-5)
    output = tmp_path / "e.json"
    assert evaluate(home, "--epsilon", 1, "--ledger", ledger.path, "--output", output, data="bad.csv") == 1
    err = capsys.readouterr().err
    assert words in err
    assert "4711" not in err
    assert ledger.spent() == 0
    assert not output.exists()


def test_an_existing_file_is_kept(home, tmp_path, capsys):
    output = tmp_path / "e.json"
    output.write_text("mine")
    assert evaluate(home, "--epsilon", 1, "--output", output) == 1
    assert "--force" in capsys.readouterr().err
    assert output.read_text() == "mine"
    assert evaluate(home, "--epsilon", 1, "--output", output, "--force") == 0
    assert read_evaluation(output).private


def test_a_model_without_a_schema_is_told_where_to_go(home, tmp_path, capsys):
    model = load_model(home / "model.json")
    save_model(model, tmp_path / "bare.json")
    assert run(["evaluate", str(tmp_path / "bare.json"), str(home / "test.csv"), "--epsilon", "1"]) == 1
    assert "dperm.evaluate" in capsys.readouterr().err
