"""``dperm show`` and ``dperm export``: what they print and write, and how they refuse."""

import json

import numpy as np
import pytest

from dperm import PrivateLogisticRegression
from dperm.cli.app import run
from dperm.schema import Schema, encode

SCHEMA = Schema.from_dict(
    {
        "target": {"name": "late", "classes": ["no", "yes"]},
        "features": {"age": {"range": [18, 90]}, "home": {"categories": ["rent", "own"]}},
    }
)
TABLE = {"age": np.arange(300.0) % 72 + 18, "home": ["rent", "own", "own"] * 100}


@pytest.fixture
def saved(tmp_path):
    y = np.where(TABLE["age"] > 50, "yes", "no")
    model = PrivateLogisticRegression(classes=["no", "yes"], epsilon=5.0).fit(encode(TABLE, SCHEMA), y)
    model.save(tmp_path / "model.json", schema=SCHEMA)
    model.save(tmp_path / "bare.json")
    (tmp_path / "people.toml").write_text(SCHEMA.to_toml())
    return tmp_path


def test_show_tells_changes_by_name(saved, capsys):
    assert run(["show", str(saved / "model.json")]) == 0
    text = capsys.readouterr().out
    assert "age        from 18 to 90" in text
    assert "home       rent " in text
    assert "(5, 1e-06)-differentially private" in text
    assert max(map(len, text.splitlines())) <= 80
    assert run(["show", str(saved / "model.json"), "--against", "first", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["per"] for row in told["rows"] if row["feature"] == "home"] == ["against rent"]
    assert run(["show", str(saved / "bare.json"), "--schema", str(saved / "people.toml")]) == 0
    assert capsys.readouterr().out == text


def test_show_refuses_in_one_line(saved, capsys):
    for words, code, told in (
        ([str(saved / "none.json")], 1, "No such file"),
        ([str(saved / "people.toml")], 1, "not a usable model file"),
        ([str(saved / "model.json"), "--schema", str(saved / "people.toml")], 1, "leave the other one out"),
        ([str(saved / "model.json"), "--against", "last"], 2, "is not one of"),
    ):
        assert run(["show", *words]) == code
        assert told in capsys.readouterr().err


def test_export_writes_a_graph_or_nothing(saved, capsys):
    pytest.importorskip("onnx", reason="onnx is an extra")
    model, graph = str(saved / "model.json"), str(saved / "model.onnx")
    for words, told in (
        ([model, str(saved / "model.pb")], "ending in .onnx"),
        ([str(saved / "bare.json"), graph, "--raw"], "needs a schema"),
        ([model, str(saved / "none" / "model.onnx")], "not a folder"),
        ([str(saved / "none.json"), graph], "No such file"),
    ):
        assert run(["export", *words]) == 1
        assert told in capsys.readouterr().err
    assert not list(saved.glob("*.onnx"))
    assert run(["export", model, graph, "--raw"]) == 0
    assert run(["export", model, graph]) == 1
    assert "--force" in capsys.readouterr().err
    assert run(["export", model, graph, "--force"]) == 0


def test_export_without_the_package_says_how_to_get_it(saved, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    assert run(["export", str(saved / "model.json"), str(saved / "model.onnx")]) == 1
    assert "pip install 'dperm[onnx]'" in capsys.readouterr().err
