"""``dperm plan``: words, JSON, schemas and wrong calls."""

import json

import pytest

from dperm.cli.app import run
from dperm.planning.outlook import outlook
from dperm.schema import Schema

TASK = ["plan", "--n", "20000", "--features", "40", "--epsilon", "0.5"]


def test_the_figures_are_those_of_the_outlook(capsys):
    from dperm import PrivateLogisticRegression

    assert run([*TASK, "--classes", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    made = PrivateLogisticRegression(epsilon=0.5, classes=[0, 1]).plan(20_000, 40)
    expected = outlook(made.problem, made.budget)
    for metric, forecast in expected.losses.items():
        told = found["losses"][metric]
        assert (told["expected"], told["low"], told["high"]) == (
            forecast.expected,
            forecast.low,
            forecast.high,
        )
    assert found["half"]["n_rows"] == expected.half().n_rows
    assert [way["n_rows"] for way in found["ways"]] == [20_000, 16_000, 16_000, 16_000]
    assert found["beyond_what_was_studied"] == {}
    assert found["study"]["command"].startswith("dperm reproduce plan")


def test_the_words_name_loss_noise_half_and_ways(capsys):
    assert run(TASK) == 0
    out = capsys.readouterr().out
    for words in (
        "Is ε = 0.5 enough? 20,000 rows, 40 features, 2 classes, δ = 1e-06",
        "accuracy  ",
        "AUC       ",
        "the band for 8 of 10 tables, from a study of the default on 27 public tables",
        "of the 20,000 rows at worst could do to the fit",
        "rows at ε = 0.5, or ε = ",
        "20 % held out to evaluate",
        "charged ε = 0.1 here",
        "a search of 10 settings",
    ):
        assert words in out
    assert "Beyond" not in out


def test_regression_and_several_classes(capsys):
    assert run([*TASK, "--target-range", "0", "100"]) == 0
    out = capsys.readouterr().out
    assert "R²" in out
    assert "AUC" not in out
    assert run([*TASK, "--classes", "7"]) == 0
    assert "7 classes" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["classes", "range"])
def test_a_schema_says_features_and_target(tmp_path, capsys, kind):
    target = (
        {"name": "y", "classes": ["a", "b", "c"]} if kind == "classes" else {"name": "y", "range": [0, 9]}
    )
    schema = Schema.from_dict({"target": target, "features": {"x": {"range": [0, 1]}}})
    path = tmp_path / "s.toml"
    path.write_text(schema.to_toml(), encoding="utf-8")
    assert run(["plan", "--n", "5000", "--schema", str(path), "--epsilon", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["features"] == schema.n_columns
    assert found["outputs"] == (3 if kind == "classes" else 1)
    assert list(found["losses"]) == (["accuracy", "auc"] if kind == "classes" else ["r2"])


def test_add_remove_takes_a_capacity(capsys):
    words = ["plan", "--features", "40", "--epsilon", "0.5", "--neighbours", "add-remove"]
    assert run([*words, "--max-rows", "20000"]) == 0
    assert "at most 20,000 rows" in capsys.readouterr().out
    assert run(words) == 2
    assert run([*words, "--max-rows", "20000", "--n", "5"]) == 2


def test_what_is_beyond_the_study_is_said(capsys):
    assert run(["plan", "--n", "500", "--features", "300", "--epsilon", "0.1"]) == 0
    assert "more noise than in any run of the study" in capsys.readouterr().out
    assert run(["plan", "--n", "900000", "--features", "30", "--epsilon", "1", "--delta", "1e-9"]) == 0
    assert "Beyond what was studied: " in capsys.readouterr().out


def test_a_large_delta_is_warned_of(capsys):
    assert run([*TASK, "--delta", "0.01"]) == 0
    assert "dperm: warning: delta = 0.01 is not below 1 / 20000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--features", "4", "--epsilon", "1"], 2, "give --n"),
        (["--n", "100", "--epsilon", "1"], 2, "give --features"),
        (["--n", "100", "--features", "4"], 2, "--epsilon"),
        (["--n", "0", "--features", "4", "--epsilon", "1"], 2, "--n"),
        (["--n", "100", "--features", "4", "--epsilon", "-1"], 1, "epsilon"),
        (["--n", "100", "--features", "4", "--epsilon", "1", "--delta", "0"], 1, "delta"),
        (["--n", "100", "--features", "4", "--epsilon", "1", "--evaluation", "0"], 1, "epsilon"),
        (
            ["--n", "9", "--features", "4", "--epsilon", "1", "--classes", "3", "--target-range", "0", "1"],
            2,
            "both",
        ),
        (["--n", "9", "--features", "4", "--epsilon", "1", "--target-range", "1", "0"], 1, "y_range"),
        (["--n", "9", "--features", "4", "--epsilon", "1", "--evaluation", "1"], 2, "give less"),
        (["--n", "9", "--schema", "no.toml", "--epsilon", "1"], 1, "no.toml"),
        (["--n", "9", "--schema", "no.toml", "--features", "3", "--epsilon", "1"], 2, "leave out"),
    ],
)
def test_wrong_calls_get_one_line(words, code, said, capsys):
    assert run(["plan", *words]) == code
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err
