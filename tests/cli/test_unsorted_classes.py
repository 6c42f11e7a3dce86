"""A schema whose classes are not in the sorted order: its second class is the positive one in every command."""

import csv
import io
import json

import numpy as np
import pytest

from dperm import load_model
from dperm.cli.app import run

TOML = """
[target]
name = "krank"
classes = ["nein", "ja"]

[features.alter]
range = [0, 100]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("unsorted")
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, 3000)
    ill = np.where(age + 20 * rng.normal(size=3000) > 70, "ja", "nein")
    rows = "".join(f"{a:.2f},{label}\n" for a, label in zip(age, ill, strict=True))
    (path / "people.csv").write_text("alter,krank\n" + rows)
    (path / "people.toml").write_text(TOML)
    data, schema, model = (str(path / name) for name in ("people.csv", "people.toml", "model.json"))
    assert run(["fit", data, "--schema", schema, "--epsilon", "5", "--delta", "1e-6", "--output", model]) == 0
    assert run(["convert", data, "--schema", schema, "--out", str(path / "shards")]) == 0
    return path, ill


def test_predict_names_its_columns_in_the_order_of_the_schema(folder, capsys):
    path, ill = folder
    assert run(["predict", str(path / "model.json"), str(path / "people.csv"), "--proba"]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(found[0]) == ["prediction", "probability of nein", "probability of ja"]
    chances = np.array([float(row["probability of ja"]) for row in found])
    said = np.array([row["prediction"] for row in found])
    assert chances[ill == "ja"].mean() > chances[ill == "nein"].mean() + 0.2
    assert ((chances > 0.5) == (said == "ja")).all()


def test_show_verify_and_evaluate_tell_of_the_second_class(folder, capsys):
    path, _ = folder
    model, data = str(path / "model.json"), str(path / "people.csv")
    assert run(["show", model]) == 0
    text = capsys.readouterr().out
    assert "of 'ja'" in text.splitlines()[0]
    assert "Signs are turned" in text
    assert run(["show", model, "--json"]) == 0
    change = next(row for row in json.loads(capsys.readouterr().out)["rows"] if row["feature"] == "alter")[
        "change"
    ]
    assert change > 0  # the older, the more often ill
    assert run(["verify", model]) == 0
    capsys.readouterr()
    assert run(["evaluate", model, data, "--epsilon", "5", "--delta", "1e-6", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["classes"] == ["nein", "ja"]
    assert told["metrics"]["auc"]["estimate"] > 0.7


def test_a_folder_of_shards_gives_the_same_direction(folder, capsys):
    path, _ = folder
    again = str(path / "again.json")
    words = [str(path / "shards"), "--epsilon", "5", "--delta", "1e-6", "--output", again]
    assert run(["fit", *words]) == 0
    assert run(["verify", again]) == 0
    capsys.readouterr()
    model = load_model(again)
    model = model[-1] if hasattr(model, "steps") else model
    assert (model.classes_.tolist(), model.positive_) == (["ja", "nein"], "ja")
