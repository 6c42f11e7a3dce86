"""The study behind ``dperm plan`` runs on small tables, counts right, and hands over what the package reads."""

import csv
import json

import pytest

import plan_constants
import small_tables
from dperm.cli.app import run
from dperm.planning.expectation import LossCurve
from dperm_papers.reproduce import development, expected
from dperm_papers.reproduce.expected import Design, number_instead

NAMES = ("one", "two", "three", "four")
N = 600


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Four tables with two classes and numbers among their features."""
    small_tables.write(tmp_path / "data", NAMES, N)
    monkeypatch.setenv("DPERM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(expected, "NUMBERS", {"one": "b"})
    design = Design(sizes=(100,), epsilons=(1.0, 4.0), repeats=2, most_rows=N, most_work=1e9)
    monkeypatch.setattr(expected, "QUICK", design)
    return tmp_path


def reproduce(folder, *names):
    words = [word for name in names for word in ("--data", name)]
    return run(["reproduce", "plan", "--quick", "--out", str(folder / "out"), *words])


def test_the_study_writes_what_the_package_reads(folder, monkeypatch):
    assert reproduce(folder, *NAMES) == 0
    out = folder / "out" / "plan"
    with (out / "study.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 * 2 * 2  # four tables and a number; two sizes; two epsilons
    assert {row["dataset"] for row in rows} == {*NAMES, "one: b"}
    assert {int(row["n"]) for row in rows} == {100, 480}
    number = [row for row in rows if row["kind"] == "regression"]
    assert all(row["r2"] and not row["accuracy"] for row in number)
    made = json.loads((out / "expected.json").read_text(encoding="utf-8"))
    assert made["command"] == "dperm reproduce plan --quick --seed 0"
    curves = {one["metric"]: LossCurve.from_dict(one) for one in made["curves"]}
    assert set(curves) == {"accuracy", "auc"}  # one number to predict is too few to fit
    assert curves["accuracy"].sets == 4
    assert (out / "figure.png").stat().st_size > 1_000
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "Sets left out, against the band of all others" in report

    root = folder / "root"
    (root / plan_constants.PLACE).mkdir(parents=True)
    plan_constants.main(str(folder / "out"), root)
    for name in plan_constants.FILES:
        assert (root / plan_constants.PLACE / name).read_bytes() == (out / name).read_bytes()


def test_finished_tables_are_not_run_again_and_few_are_not_fitted(folder, monkeypatch):
    assert reproduce(folder, "one", "two") == 0
    parts = sorted((folder / "out" / "parts").iterdir())
    times = [part.stat().st_mtime_ns for part in parts]
    assert reproduce(folder, "one", "two") == 0
    assert [part.stat().st_mtime_ns for part in sorted((folder / "out" / "parts").iterdir())] == times
    made = json.loads((folder / "out" / "plan" / "expected.json").read_text(encoding="utf-8"))
    assert made["curves"] == []
    assert not (folder / "out" / "plan" / "figure.png").exists()


def test_a_loss_is_what_the_best_model_without_noise_reaches_beyond_the_default():
    about = {"dataset": "t, 9 rows", "kind": "binary", "n": 1_000, "features": 3, "outputs": 1, "delta": 1e-8}
    runs = [
        {**about, "label": label, "l2": l2, "epsilon": epsilon, "accuracy": value, "auc": None, "r2": None}
        for label, l2, epsilon, value in [
            ("default", "auto", 1.0, 0.7),
            ("default", "auto", 1.0, 0.8),
            ("default", "auto", 4.0, 0.88),
            ("none", "auto", None, 0.85),
            ("none", "auto", None, 0.87),
            ("none", "1/n", None, 0.9),
            ("none", "1/n", None, 0.9),
        ]
    ]
    first, second = expected.losses(runs)
    assert (first["dataset"], first["accuracy"], second["accuracy"]) == ("t", "0.15000", "0.02000")
    assert first["auc"] == first["r2"] == ""
    assert float(first["level"]) > float(second["level"])


def test_a_number_of_a_table_can_be_its_target(folder):
    some = number_instead(development.read("two", 100), "a")
    assert (some.name, some.kind) == ("two: a, 100 rows", "regression")
    assert [feature.name for feature in some.schema.features] == ["b"]
    assert some.records().X.shape[0] == 100
