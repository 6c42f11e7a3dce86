"""The study of the defaults runs on tables with a schema beside them, goes on after a stop, and counts right."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm.cli.app import run
from dperm.errors import InvalidInput
from dperm.experiments.results import Study, separate
from dperm_papers.reproduce import cached, calibration, defaults, development, find_item

N = 400
FEATURES = '[features.a]\nrange = [0, 1]\n\n[features.b]\ncategories = ["u", "v"]\n'
TARGETS = {
    "pair": '[target]\nname = "y"\nclasses = [0, 1]\n',
    "triple": '[target]\nname = "y"\nclasses = [0, 1, 2]\n',
    "number": '[target]\nname = "y"\nrange = [0, 10]\n',
}
SIZE = defaults.Size(epsilons=(1.0, 4.0), repeats=1, folds=2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three tables with their schemas, one table without; few methods."""
    rng = np.random.default_rng(0)
    a, b = rng.random(N), rng.choice(["u", "v"], N)
    score = a + 0.3 * (b == "u") + 0.1 * rng.normal(size=N)
    targets = {"pair": score > 0.6, "triple": np.digitize(score, [0.4, 0.8]), "number": 6 * score}
    more = tmp_path / "data" / "more"
    more.mkdir(parents=True)
    for name, y in targets.items():
        y = y if name == "number" else y.astype(int)
        pq.write_table(pa.table({"a": a, "b": b, "y": y}), more / f"{name}.parquet")
        (more / f"{name}.toml").write_text(f"{TARGETS[name]}\n{FEATURES}")
    pq.write_table(pa.table({"a": a}), more / "alone.parquet")
    monkeypatch.setenv("DPERM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(defaults, "QUICK", SIZE)
    monkeypatch.setattr(defaults, "CANDIDATES", dict(list(defaults.CANDIDATES.items())[:2]))
    kept = (defaults.DEFAULT_PLAIN, defaults.MAJORITY, "OutPert", "AMP")
    monkeypatch.setattr(defaults, "PLAIN", {label: defaults.PLAIN[label] for label in kept})
    some = (defaults.DEFAULT_PLAIN, "AdaSSP")
    monkeypatch.setattr(
        defaults, "PLAIN_REGRESSION", {label: defaults.PLAIN_REGRESSION[label] for label in some}
    )
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def reproduce(folder, *more):
    names = [part for name in TARGETS for part in ("--data", name)]
    return run(["reproduce", "defaults", "--quick", "--out", str(folder / "out"), *names, *more])


def test_sets_are_tables_with_a_schema_beside_them(folder):
    assert set(development.development_sets()) >= {"cps", "adult", *TARGETS}
    assert "alone" not in development.development_sets()
    with pytest.raises(InvalidInput, match=r"alone\.toml"):
        development.read("alone")
    kinds = {name: development.read(name).kind for name in TARGETS}
    assert kinds == {"pair": "binary", "triple": "classes", "number": "regression"}
    part = development.read("pair", 100)
    assert (part.name, part.table.num_rows) == ("pair, 100 rows", 100)
    assert part.table.equals(development.read("pair", 100).table)
    assert not part.table.equals(development.read("pair").table.slice(0, 100))  # not the first ones
    assert development.read("pair", 100, 1e12).name == "pair, 100 rows"
    assert (
        development.read("pair", most_work=1.0).name == "pair"
    )  # a thousand rows at least, and it has fewer
    assert part.records().X.shape[0] == part.records(plain=True).X.shape[0] == 100


@pytest.mark.slow
def test_the_whole_study(folder, monkeypatch, capsys):
    assert reproduce(folder) == 0
    shown = capsys.readouterr().out
    out = folder / "out" / "defaults"
    files = {path.name for path in out.iterdir()}
    assert files == {
        "results.parquet", "candidates.parquet", "regression.parquet", "calibration.parquet", "pair.png",
        "triple.png", "figure.png", "others.png", "regret.png", "report.md", "tables.parquet", "seconds.json",
    }  # fmt: skip
    for words in ("two classes, accuracy, %", "several classes, AUC", "regression, R²", "calibration error"):
        assert words in shown
    assert "AMP at ε = 1, 4" in shown  # not for several classes
    by_set = {Study.of(table).dataset: table for table in separate(pq.read_table(out / "results.parquet"))}
    assert set(by_set) == {"pair", "triple"}
    assert set(by_set["pair"]["label"].to_pylist()) == {"default", "none", *defaults.PLAIN}
    candidates = pq.read_table(out / "candidates.parquet")
    assert set(candidates["label"].to_pylist()) == set(defaults.CANDIDATES)
    assert "mean regret of what the rule could be" in shown
    regression = pq.read_table(out / "regression.parquet").to_pylist()
    none = {(row["epsilon"], row["fold"]): row["r2"] for row in regression if row["label"] == "none"}
    assert len(none) == 4
    assert none[1.0, 1] == none[4.0, 1] > 0.5  # the baseline is the same at every epsilon
    bins = pq.read_table(out / "calibration.parquet").to_pylist()
    assert sum(row["count"] for row in bins if row["epsilon"] == 1.0) == N
    text = (out / "report.md").read_text()
    assert find_item("defaults").title in text
    assert "regret of the default in log loss" in text

    def fail(*given, **settings):
        raise AssertionError("something was run again")

    monkeypatch.setattr("dperm.experiments.runner.train", fail)
    monkeypatch.setattr(calibration, "_held_out", fail)
    monkeypatch.setattr(defaults, "_fit", fail)
    assert reproduce(folder) == 0
    assert (out / "report.md").read_text().splitlines()[6:] == text.splitlines()[6:]
    with pytest.raises(AssertionError, match="run again"):
        run(["reproduce", "defaults", "--quick", "--out", str(folder / "out"), "--data", "number", "--fresh"])


def test_rows_are_limited(folder, monkeypatch, capsys):
    monkeypatch.setattr(defaults, "SLOW", {"OutPert": 100})
    assert reproduce(folder, "--most-rows", "120") == 0
    results = pq.read_table(folder / "out" / "defaults" / "results.parquet")
    assert {study.n_rows for study in Study.all_of(results)} == {120}
    assert "OutPert" not in results["label"].to_pylist()
    assert "pair, 120 rows: OutPert: it takes minutes" in capsys.readouterr().out


def test_the_middle_size(folder, monkeypatch):
    monkeypatch.setattr(
        defaults,
        "MIDDLE",
        replace(defaults.MIDDLE, epsilons=(1.0, 4.0), folds=2, calibrated=(4.0,), without=("AMP",)),
    )
    out = folder / "out"
    assert run(["reproduce", "defaults", "--middle", "--out", str(out), "--data", "pair"]) == 0
    results = pq.read_table(out / "defaults" / "results.parquet")
    assert set(results["label"].to_pylist()) == {"default", "none", *defaults.PLAIN} - {"AMP"}
    bins = pq.read_table(out / "defaults" / "calibration.parquet")
    assert set(bins["epsilon"].to_pylist()) == {4.0}
    assert (
        "reproduce defaults --middle --data pair`: middle sizes"
        in (out / "defaults" / "report.md").read_text()
    )


def test_bins_are_true_to_the_rows():
    rng = np.random.default_rng(1)
    probabilities = np.append(rng.random(50_000), [0.0, 1.0])
    positive = rng.random(len(probabilities)) < probabilities
    bins = calibration.binned(probabilities, positive)
    assert [one["bin"] for one in bins] == list(range(10))
    assert sum(one["count"] for one in bins) == len(probabilities)
    assert calibration.expected_error(bins) < 0.01
    shifted = calibration.binned(np.clip(probabilities + 0.1, 0, 1), positive)
    assert (
        0.08 < calibration.expected_error(shifted) < 0.11
    )  # the control: probabilities that are wrong by 0.1
    half = len(probabilities) // 2
    parts = [
        *calibration.binned(probabilities[:half], positive[:half]),
        *calibration.binned(probabilities[half:], positive[half:]),
    ]
    for one, whole in zip(calibration.pooled(parts), bins, strict=True):
        assert one == pytest.approx(whole)


def test_a_kept_table_belongs_to_its_key(tmp_path):
    made = []

    def make():
        made.append(1)
        return [{"value": len(made)}]

    def value(key, fresh=False):
        return cached.cached(tmp_path, "part", key, make, fresh)["value"].to_pylist()

    assert [value({"a": 1}), value({"a": 1}), value({"a": 2}), value({"a": 1}, fresh=True)] == [
        [1],
        [1],
        [2],
        [3],
    ]
    assert json.dumps(sorted(path.name[:5] for path in tmp_path.iterdir())) == '["part-", "part-"]'
