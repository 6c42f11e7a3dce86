"""A newcomer with a hospital table: the commands of the tutorial, in its order and nothing else, for three targets."""

import csv
import json
import re
from pathlib import Path

import pytest

from dperm import Ledger, load_model, read_evaluation, verify
from dperm.schema import Schema, encode_rows, read_table
from dperm.schema.schema import predicting
from package.test_docs_code import ROOT, blocks, run_page

TUTORIAL = ROOT / "docs" / "tutorial.md"
TARGETS = {"readmitted": "model", "triage": "triage", "days": "days"}
STEPS = [
    "schema init",
    "schema check",
    "plan",
    "ledger create",
    "fit",
    "evaluate",
    "verify",
    "report",
    "predict",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the whole tutorial was run, starting from nothing. That it prints what it shows is checked on the way."""
    folder = tmp_path_factory.mktemp("newcomer")
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        run_page(TUTORIAL)
    return folder


def test_the_steps_come_in_the_order_of_the_work():
    shell = "\n".join(block["body"] for block in blocks(TUTORIAL) if block["language"] == "sh")
    called = re.findall(r"^dperm ((?:schema |ledger )?\w+)", shell, re.MULTILINE)
    assert sorted(STEPS, key=called.index) == STEPS
    for name in TARGETS.values():
        for step in ("fit", "evaluate", "verify", "report", "predict"):
            assert re.search(rf"dperm {step} [^$]*?{name}\.json", shell), (name, step)


def test_the_table_is_as_untidy_as_a_real_one(folder):
    with (folder / "hospital.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20_000
    assert len({row["patient_id"] for row in rows}) == len(rows)
    assert {row["sex"] for row in rows} == {"F", "M", "f", "m "}
    assert {"", "public"} <= {row["insurance"] for row in rows}
    assert any(row["hba1c"] == "-9" for row in rows)
    assert 0.1 < sum(row["readmitted"] == "yes" for row in rows) / len(rows) < 0.2
    assert len({row["triage"] for row in rows}) == 4


@pytest.mark.parametrize(("target", "name"), TARGETS.items())
def test_every_target_ends_with_a_model_that_is_verified_evaluated_and_reported(target, name, folder):
    verdict = verify(folder / f"{name}.json", max_epsilon=1, max_delta=1e-6, unit="row")
    assert verdict.ok
    document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    schema = predicting(Schema.from_toml(folder / "hospital.toml"), target)
    assert document["schema"]["target"]["name"] == target
    assert len(document["feature_names"]) == schema.n_columns
    page = (folder / f"{'report' if name == 'model' else name}.html").read_text(encoding="utf-8")
    for words in ("The guarantee holds", "City Hospital", "Ida", document["certificate"]["model"]["sha256"]):
        assert words in page, words
    table = read_table(folder / "arrivals.csv", schema)
    assert len(load_model(folder / f"{name}.json").predict(encode_rows(table, schema))) == 5


@pytest.mark.parametrize(
    ("file", "metric", "least"),
    [("evaluation", "auc", 0.75), ("triage-evaluation", "accuracy", 0.5), ("days-evaluation", "mae", 0.0)],
)
def test_the_figures_have_intervals_and_the_model_is_good(file, metric, least, folder):
    evaluation = read_evaluation(folder / f"{file}.json")
    found = evaluation.metrics[metric]
    assert not evaluation.local
    assert found.low < found.estimate < found.high
    assert found.high > least
    assert found.low < 2.5


def test_what_was_charged_is_what_was_released(folder):
    ledger = Ledger(folder / "hospital.db")
    charges = [entry for entry in ledger.entries() if entry.counts]
    assert [(entry.dataset, entry.kind) for entry in charges] == [
        *[("default", "fit"), ("later", "evaluate")] * 3,
        ("default", "fit"),
    ]
    assert not (folder / "second.json").exists()
    assert ledger.spent() <= 2
    assert ledger.spent("later") <= 2


def test_nothing_else_lies_about(folder):
    assert {path.suffix for path in folder.iterdir()} == {".csv", ".toml", ".db", ".json", ".html", ".yaml"}
    assert not [path for path in folder.iterdir() if path.name.startswith((".", "tmp"))]
    assert Path(folder / "registry.yaml").read_text(encoding="utf-8")
