"""CONTRIBUTING is true: its files and those of the page that it refers to, as they stand, are used everywhere."""

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import numpy as np
import pytest
import test_docs_code

from dperm import read_evaluation
from dperm.errors import InvalidInput
from dperm.privacy import Budget, gaussian_mu

pytestmark = pytest.mark.system_noise(failing=0)  # nothing is asserted of what the processes draw

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGE = ROOT / "docs" / "own-mechanism.md"
SCHEMA = """
[target]
name = "bought"
classes = ["no", "yes"]

[features.age]
range = [18, 90]

[features.town]
categories = ["north", "south"]
"""
TASK = ["--mechanism", "mean-direction length=3", "--loss", "smooth-hinge"]


def blocks() -> dict[str, str]:
    """The files of CONTRIBUTING by their names, which stand in their first lines, and those of the page."""
    found = {block["file"]: block["body"] for block in test_docs_code.blocks(PAGE) if block["file"]}
    for indent, code in re.findall(r"^( *)```(?:python|toml)\n(.*?)^ *```", TEXT, re.M | re.S):
        text = textwrap.dedent(code) if indent else code
        found[text.splitlines()[0].removeprefix("# ")] = text
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An installed package with the files, and a table of the user's."""
    folder = tmp_path_factory.mktemp("package")
    files = blocks()
    declared = tomllib.loads(files["pyproject.toml of your package"])["project"]["entry-points"]
    info = folder / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    lines = [
        line
        for group, entries in declared.items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for name in (
        "smooth_hinge.py",
        "mean_direction.py",
        "toy_engine.py",
        "toy_format.py",
        "specificity.py",
        "toy_command.py",
    ):
        (folder / name).write_text(files[name])
    rng = np.random.default_rng(0)
    age, town = rng.integers(18, 90, 600), rng.choice(["north", "south"], 600)
    bought = np.where(age + 20 * (town == "south") + rng.normal(size=600) * 5 > 60, "yes", "no")
    rows = [f"{a},{t},{b}" for a, t, b in zip(age, town, bought, strict=True)]
    (folder / "people.csv").write_text("\n".join(["age,town,bought", *rows]) + "\n")
    records = [{"age": int(a), "town": t, "bought": b} for a, t, b in zip(age, town, bought, strict=True)]
    (folder / "people.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "people.toml").write_text(SCHEMA)
    return folder


GIVEN = ["people.csv", "--schema", "people.toml", "--epsilon", "1", "--delta", "1e-6"]
COMMANDS = {
    "mechanisms": ["mechanisms"],
    "one mechanism": ["mechanisms", "mean-direction"],
    "account": ["account", "--n", "5000", "--epsilon", "1", "--delta", "1e-6", *TASK],
    "compare": [
        *("compare", "people.csv", "--schema", "people.toml", *TASK, "--mechanism", "none"),
        *("--repeats", "1", "--folds", "3", "--epsilon", "5"),
    ],
    "fit": ["fit", *GIVEN, *TASK, "--output", "model.json"],
    "predict": ["predict", "model.json", "people.csv"],
    "verify": ["verify", "model.json"],
    "fit plain": ["fit", *GIVEN, *TASK[:2], "--output", "plain.json"],
    "verify plain": ["verify", "plain.json"],
    **{
        f"check {ending}": ["schema", "check", f"people.{ending}", "--schema", "people.toml", "--json"]
        for ending in ("jsonl", "csv", "txt")
    },
    "fit judged": ["fit", *GIVEN, "--output", "judged.json"],
    "evaluate": ["evaluate", "judged.json", "people.csv", *GIVEN[3:], "--output", "evaluation.json"],
    "verify evaluation": ["verify", "evaluation.json"],
    "evaluate locally": ["evaluate", "judged.json", "people.csv", "--local"],
    "help": ["--help"],
    "command": ["mu", "--epsilon", "1"],
}
RUN = """
import contextlib, io, json, sys
from dperm.cli.app import run

done = {}
for name, words in json.loads(sys.argv[1]).items():
    shown = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        code = run(words)
    shown.flush()
    done[name] = code, shown.buffer.getvalue().decode()
print(json.dumps(done))
"""


@pytest.fixture(scope="module")
def dperm(folder):
    """What a command prints, in a process that finds the package; one process runs all of them."""
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    ran = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(COMMANDS)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    done = json.loads(ran.stdout)

    def printed(name, code=0):
        found, shown = done[name]
        assert found == code, shown
        return shown

    return printed


def test_mechanisms_lists_loss_mechanism_and_engine(dperm):
    shown = dperm("mechanisms")
    assert "mean-direction" in shown
    assert "smooth-hinge" in shown
    assert "Engines: dense, categorical" in shown
    assert ", plain" in shown
    assert "length" in dperm("one mechanism")


def test_account_prices_them(dperm):
    shown = dperm("account")
    assert "mean-direction" in shown
    assert "smooth-hinge" in shown


def test_compare_runs_them(dperm):
    (accuracy,) = re.findall(r"mean-direction.*?(\d+\.\d) ±", dperm("compare"))[:1]
    assert float(accuracy) > 60


def test_fit_predict_and_verify(dperm):
    dperm("fit")
    assert "yes" in dperm("predict")
    assert "no independent constants for the loss 'smooth-hinge'" in dperm("verify", code=1)
    dperm("fit plain")
    assert "OK" in dperm("verify plain")


def test_the_file_format_gives_the_rows_of_the_csv_file(dperm):
    shown, known = (dperm(f"check {ending}") for ending in ("jsonl", "csv"))
    assert json.loads(shown)["n_rows"] == 600
    assert shown.replace("people.jsonl", "people.csv") == known
    assert ".jsonl was expected" in dperm("check txt", code=1)


def test_evaluate_estimates_the_metric_and_verify_makes_it_again(dperm, folder):
    dperm("fit judged")
    (estimate,) = re.findall(r"specificity +(\d\.\d+) +0\.\d+ to \d\.\d+ +±", dperm("evaluate"))
    assert 0 <= float(estimate) <= 1
    assert "OK" in dperm("verify evaluation")
    assert re.search(r"specificity +\d\.\d+ +0\.\d+ to \d\.\d+\n", dperm("evaluate locally"))
    with pytest.raises(InvalidInput, match="metrics or classes do not fit"):  # the metric is not known here
        read_evaluation(folder / "evaluation.json")


def test_the_page_declares_the_same_entry_points(folder):
    """`test_own_mechanism.py` runs the page, its audit too."""
    page = PAGE.read_text(encoding="utf-8")
    (declared,) = re.findall(r"^```toml\n# pyproject.*?\n(.*?)^```", page, re.M | re.S)
    ours = tomllib.loads(blocks()["pyproject.toml of your package"])["project"]["entry-points"]
    for group, entries in tomllib.loads(declared)["project"]["entry-points"].items():
        assert ours[group] == entries
    assert set(re.findall(r"`(dperm\.\w+)`", page.split("## In a package")[1])) == set(ours)


def test_the_command_is_there(dperm):
    assert "mu " in dperm("help")
    assert dperm("command").strip() == f"{gaussian_mu(Budget(1.0, 1e-6)):.4f}"


ENGINE = """
import json, numpy as np
from dataclasses import replace
import toy_engine
from dperm import PrivateLinearRegression, PrivateLogisticRegression, arithmetic
from dperm.engine import engine_for, engine_names
from dperm.mechanisms import mechanism_names, resolve


rng = np.random.default_rng(0)
rows = rng.normal(size=(80, 3)) / 4
y = (rows[:, 0] > 0).astype(int)
X = toy_engine.ListOfRows(rows.tolist())
assert engine_for(X) is toy_engine.PlainRows and "plain" in engine_names()


def guarantee(name):
    mechanism = resolve(name)
    if mechanism.accounting != "tight":
        mechanism = replace(mechanism, accounting="tight")
    settings = {"mechanism": mechanism, "epsilon": 2.0, "delta": 1e-5}
    if name == "adassp":
        return PrivateLinearRegression(y_range=(0, 1), **settings).fit(X, y).privacy_.guarantee
    return PrivateLogisticRegression(classes=[0, 1], **settings).fit(X, y).privacy_.guarantee


private = [name for name in mechanism_names() if resolve(name).private]
sound = {name: guarantee(name) is not None for name in private}
toy_engine.PlainEngine.arithmetic = lambda self, n_models: arithmetic.FLOAT32
coarse = {name: guarantee(name) is not None for name in private}
model = PrivateLogisticRegression(classes=[0, 1], mechanism="output", random_state=0)
same = [model.fit(rows, y).coef_.tolist(), model.fit(X, y).coef_.tolist()]
print(json.dumps([sound, coarse, same]))
"""


def test_the_engine_trains_every_mechanism_and_is_believed_only_as_far_as_it_claims(folder):
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ENGINE],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    sound, coarse, same = json.loads(ran.stdout)
    assert {name for name, certified in sound.items() if not certified} == {"objective-pure"}
    assert {name for name, certified in coarse.items() if certified} == {"dp-gd", "dp-cd", "frank-wolfe"}
    assert len(coarse) > 20
    np.testing.assert_allclose(*same, rtol=1e-9)
