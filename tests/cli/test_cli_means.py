"""``dperm means``: from a model file and a table to means by group, charged before a cell is read."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm import Ledger, PrivateLinearRegression, load_model, read_mean_predictions, save_model
from dperm.cli.app import run
from dperm.schema import Schema, encode_rows, read_table
from dperm.schema.encoding import encode

SCHEMA = """
[target]
name = "sick"
classes = ["no", "yes"]
[features.age]
range = [18, 90]
bins = [40, 60]
[features.height]
range = [100, 220]
[features.job]
categories = ["desk", "farm", "none"]
missing = ["?"]
missing_as = "none"
fold = true
"""
JOBS = ["desk", "FARM", "none", "?"]


def columns(n, seed):
    rng = np.random.default_rng(seed)
    ages, jobs = rng.integers(18, 91, n), rng.choice(JOBS, n)
    sick = rng.random(n) < 1 / (1 + np.exp(-(ages - 60) / 10 - (jobs == "FARM")))
    wards = rng.choice(["A", "B", "C"], n)
    heights = rng.integers(150, 190, n)
    return {
        "age": ages,
        "height": heights,
        "job": jobs,
        "ward": wards,
        "sick": np.where(sick, "yes", "no"),
    }


def write(path, table):
    lines = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    path.write_text("\n".join([",".join(table), *lines]) + "\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("means")
    write(folder / "people.csv", columns(4000, 0))
    new = columns(6000, 1)
    del new["sick"]
    write(folder / "new.csv", new)
    floors = np.array([1, 2, 3])[np.searchsorted(["A", "B", "C"], new["ward"])]
    pq.write_table(pa.table({**new, "floor": floors, "share": floors / 2}), folder / "new.parquet")
    (folder / "people.toml").write_text(SCHEMA)
    arguments = ["--epsilon", "1", "--delta", "1e-6", "--output", str(folder / "model.json")]
    assert run(["fit", str(folder / "people.csv"), "--schema", str(folder / "people.toml"), *arguments]) == 0
    return folder


def means(home, *arguments, data="new.csv"):
    return run(["means", str(home / "model.json"), str(home / data), *map(str, arguments)])


def exact(home):
    """The probabilities that the model gives, and the table."""
    schema = Schema.from_toml(home / "people.toml")
    table = read_table(home / "new.csv")
    return load_model(home / "model.json").predict_proba(encode_rows(table, schema))[:, 1], table


def near(mean, true):
    return abs(mean["mean"]["estimate"] - true) < 4 * mean["here"]["noise"]


def test_a_table_of_groups(home, capsys):
    assert means(home, "--by", "job", "--epsilon", 1) == 0
    out = capsys.readouterr().out
    assert out.startswith("(1, 1e-06)-differentially private for these rows")
    for words in ("mean probability of yes", "desk", "farm", "none", "all rows", "6,000", "95 % interval"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 84


def test_categories_are_read_as_the_schema_reads_them(home, capsys):
    assert means(home, "--by", "job", "--epsilon", 2, "--json") == 0
    printed, (chances, table) = json.loads(capsys.readouterr().out), exact(home)
    assert printed["values"] == ["desk", "farm", "none"]
    jobs = np.array([{"FARM": "farm", "?": "none"}.get(job, job) for job in table["job"].to_pylist()])
    for value, found in zip(printed["values"], printed["groups"], strict=True):
        assert near(found, chances[jobs == value].mean())
        assert abs(found["rows"]["estimate"] - (jobs == value).sum()) <= 4 * found["rows"]["noise"]


def test_bins_are_groups_too(home, capsys):
    assert means(home, "--by", "age", "--epsilon", 2, "--json") == 0
    printed, (chances, table) = json.loads(capsys.readouterr().out), exact(home)
    assert printed["values"] == ["[18, 40)", "[40, 60)", "[60, 90]"]
    ages = np.digitize(table["age"].to_numpy(), [40, 60])
    assert all(near(found, chances[ages == k].mean()) for k, found in enumerate(printed["groups"]))


@pytest.mark.parametrize(
    ("data", "by", "values"), [("new.csv", "ward", "AB"), ("new.parquet", "floor", "12")]
)
def test_other_columns_need_values_and_may_have_a_rest(home, capsys, data, by, values):
    chosen = [word for value in values for word in ("--value", value)]
    assert means(home, "--by", by, *chosen, "--other", "elsewhere", "--epsilon", 2, "--json", data=data) == 0
    printed, (chances, table) = json.loads(capsys.readouterr().out), exact(home)
    wards = table["ward"].to_numpy(zero_copy_only=False)
    assert printed["by"] == by
    assert printed["values"] == list(values)
    assert printed["other"] == "elsewhere"
    assert all(
        near(found, chances[wards == ward].mean())
        for ward, found in zip("ABC", printed["groups"], strict=True)
    )


def test_some_categories_may_be_chosen(home, capsys):
    options = ["--by", "job", "--value", "farm", "--other", "rest", "--label", "no", "--bounds", 0, 0.9]
    assert means(home, *options, "--epsilon", 2, "--json") == 0
    printed, (chances, _) = json.loads(capsys.readouterr().out), exact(home)
    assert printed["values"] == ["farm"]
    assert printed["label"] == "no"
    assert printed["range"] == [0.0, 0.9]
    assert near(printed["overall"], np.minimum(1 - chances, 0.9).mean())


def test_output_and_json_hold_the_same(home, tmp_path, capsys):
    path = tmp_path / "means.json"
    assert means(home, "--epsilon", 1, "--output", path, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == read_mean_predictions(path).to_dict()
    assert printed["model"]["sha256"] == load_model(home / "model.json").certificate_["model"]["sha256"]
    assert printed["budget"] == {"epsilon": 1.0, "delta": 1e-6}  # delta of the model
    assert means(home, "--epsilon", 1, "--output", path) == 1
    assert "--force" in capsys.readouterr().err
    assert means(home, "--epsilon", 1, "--output", path, "--force") == 0


def test_a_ledger_is_charged_once_to_the_dataset_that_was_named(home, tmp_path, capsys):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1, delta=1e-5)
    ledger.set_cap("new", 0.6, 1e-5)
    options = ["--by", "job", "--epsilon", 0.5, "--ledger", ledger.path, "--dataset-name", "new"]
    assert means(home, *options) == 0
    (entry,) = ledger.entries()
    assert entry.dataset == "new"
    assert str(entry.id) in capsys.readouterr().err
    assert means(home, *options) == 1  # what is left is not enough
    assert "Refused" in capsys.readouterr().err
    assert len(ledger.entries()) == 1


def test_add_remove_tells_no_number_of_rows(home, capsys):
    hidden = ["--epsilon", 1, "--neighbours", "add-remove", "--max-rows", 9000, "--by", "job", "--json"]
    assert means(home, *hidden) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["rows"] is None
    assert printed["overall"]["rows"]["noise"] > 0
    (home / "empty.csv").write_text("age,height,job,ward\n")
    assert means(home, *hidden, data="empty.csv") == 0


def test_a_regression_is_averaged_too(tmp_path, capsys):
    features = {"age": {"range": [0, 100]}}
    schema = Schema.from_dict({"target": {"name": "cost", "range": [0, 200]}, "features": features})
    rng = np.random.default_rng(0)
    ages = rng.uniform(0, 100, 4000)
    model = PrivateLinearRegression(epsilon=2, delta=1e-6, y_range=(0, 200))
    model.fit(encode({"age": ages}, schema), 50 + ages + 10 * rng.normal(size=4000))
    save_model(model, tmp_path / "model.json", schema=schema)
    (tmp_path / "new.csv").write_text("\n".join(["age", *(f"{age:.1f}" for age in ages)]))
    assert run(["means", str(tmp_path / "model.json"), str(tmp_path / "new.csv"), "--epsilon", "1"]) == 0
    out = capsys.readouterr().out
    assert "mean prediction" in out
    assert "cut off at 0 and 200" in out


WRONG = {
    "no epsilon": (("--by", "job"), 2, "--epsilon"),
    "values without a column": (("--epsilon", 1, "--value", "A"), 2, "--by"),
    "a rest without a column": (("--epsilon", 1, "--other", "A"), 2, "--by"),
    "a column without values": (("--epsilon", 1, "--by", "ward"), 1, "--value"),
    "a number without bins": (("--epsilon", 1, "--by", "height"), 1, "bins"),
    "the target": (("--epsilon", 1, "--by", "sick"), 1, "predicted"),
    "no such column": (("--epsilon", 1, "--by", "station", "--value", "A"), 1, "station"),
    "no such category": (("--epsilon", 1, "--by", "job", "--value", "frm"), 1, "Did you mean 'farm'?"),
    "a value twice": (("--epsilon", 1, "--by", "ward", "--value", "A", "--value", "A"), 1, "repeat"),
    "no such class": (("--epsilon", 1, "--label", "maybe"), 1, "maybe"),
    "wrong bounds": (("--epsilon", 1, "--bounds", 0, 2), 1, "bounds"),
    "add-remove without a capacity": (("--epsilon", 1, "--neighbours", "add-remove"), 2, "--max-rows"),
    "dataset without a ledger": (("--epsilon", 1, "--dataset-name", "new"), 2, "--ledger"),
    "epsilon of 0": (("--epsilon", 0), 1, "epsilon"),
    "no such ledger": (("--epsilon", 1, "--ledger", "nowhere.db"), 1, "nowhere.db"),
    "no such folder": (("--epsilon", 1, "--output", "nowhere/e.json"), 1, "nowhere"),
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_say_what_to_do_in_one_line(home, capsys, call):
    arguments, code, words = WRONG[call]
    assert means(home, *arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert len([line for line in err.splitlines() if line.startswith(("dperm:", "Error:"))]) == 1
    assert "Traceback" not in err


BAD_TABLES = {
    "no feature": ("age,job,ward\n50,desk,A\n", "height"),
    "no rows": ("age,height,job,ward\n", "no rows"),
    "another ward": ("age,height,job,ward\n50,150,desk,zebra-4711\n", "not among the declared values"),
    "no ward": ("age,height,job,ward\n50,150,desk,\n", "not among the declared values"),
}


@pytest.mark.parametrize("kind", BAD_TABLES)
def test_a_table_that_does_not_fit_costs_nothing_and_is_not_quoted(home, tmp_path, capsys, kind):
    content, words = BAD_TABLES[kind]
    (home / "bad.csv").write_text(content)
    ledger = Ledger.create(tmp_path / "l.db", epsilon=5, delta=1e-5)
    options = ["--epsilon", 1, "--by", "ward", "--value", "A", "--value", "B", "--ledger", ledger.path]
    assert means(home, *options, data="bad.csv") == 1
    err = capsys.readouterr().err
    assert words in err
    assert "4711" not in err
    assert ledger.spent() == 0


def test_columns_that_are_neither_text_nor_whole_numbers_make_no_groups(home, capsys):
    assert means(home, "--epsilon", 1, "--by", "share", "--value", "1", data="new.parquet") == 1
    assert "text or whole numbers" in capsys.readouterr().err


def test_a_model_without_a_schema_is_told_where_to_go(home, tmp_path, capsys):
    save_model(load_model(home / "model.json"), tmp_path / "bare.json")
    assert run(["means", str(tmp_path / "bare.json"), str(home / "new.csv"), "--epsilon", "1"]) == 1
    assert "dperm.mean_predictions" in capsys.readouterr().err
