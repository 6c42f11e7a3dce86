"""``dperm fit --class-weight``: declared labels and numbers, or one line that says what was expected."""

import json
from pathlib import Path

import numpy as np
import pytest

from dperm import load_model, verify
from dperm.cli.app import run

FIT = [
    "fit",
    "people.csv",
    "--schema",
    "people.toml",
    "--epsilon",
    "2",
    "--delta",
    "1e-5",
    "--output",
    "m.json",
]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ages = np.random.default_rng(0).integers(18, 90, size=2000)
    rows = [f"{age},{'x=yes' if age > 80 else 'no'}" for age in ages]
    Path("people.csv").write_text("\n".join(["age,retired", *rows]) + "\n")
    Path("people.toml").write_text(
        '[target]\nname = "retired"\nclasses = ["no", "x=yes"]\n\n[features.age]\nrange = [18, 90]\n'
    )


def test_weights_are_taken_saved_and_told(capsys):
    assert run([*FIT, "--class-weight", "x=yes=5", "--class-weight", "no=0.5"]) == 0
    assert "no row weighs more than 5" in capsys.readouterr().out
    assert load_model("m.json").class_weight == {"x=yes": 5.0, "no": 0.5}
    assert verify("m.json").ok


@pytest.mark.together("files")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--class-weight", "balanced"], "declare weights"),
        (["--class-weight", "yess=5"], "a label of the schema, no, x=yes"),
        (["--class-weight", "no"], "LABEL=WEIGHT"),
        (["--class-weight", "no=many"], "wants a number"),
        (["--class-weight", "no=-1"], "from 1e-09"),
        (["--class-weight", "no=nan"], "from 1e-09"),
        (["--class-weight", "no=1", "--class-weight", "no=2"], "twice"),
        (["--class-weight", "no=2", "--mechanism", "ssp"], "equal weight"),
    ],
)
def test_what_is_none_is_refused_in_one_line_and_nothing_is_written(given, message, capsys):
    assert run([*FIT, *given]) in (1, 2)
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert not Path("m.json").exists()


def test_the_price_of_heavy_rows_is_told_beforehand(capsys):
    given = [
        "account",
        "--n",
        "5000",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--mechanism",
        "dp-gd",
        "--l2",
        "0",
    ]
    noise = []
    for more in ([], ["--weight-bound", "4"]):
        assert run([*given, *more, "--json"]) == 0
        noise.append(json.loads(capsys.readouterr().out)["prices"][0]["noise_scale"])
    assert noise[1] == pytest.approx(4 * noise[0], rel=1e-3)
    assert run([*given, "--weight-bound", "0"]) == 2
    assert "--weight-bound" in capsys.readouterr().err
