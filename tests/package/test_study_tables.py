"""The page on the default is what the data of its study say, and a run can be taken into them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm.experiments.compare import compare
from dperm.experiments.reproduce.regret import Entry
from result_data import DATA, Run
from study_tables import BEGIN, END, FIGURES, PAGE, StudyData, inserted, read, save, study, taken, write


@pytest.fixture(scope="module")
def data():
    return read()


def test_the_page_says_what_the_data_say(data):
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert inserted(page, study(data)) == page, "run: python tools/study_tables.py --write"


def test_the_study_is_whole(data):
    assert len(data.sets) > 25
    assert {"binary", "classes", "regression"} == set(data.sets.values())
    assert len(data.epsilons) >= 5
    assert data.bins
    assert len(data.checks()) == 7


def test_other_data_give_another_page(data):
    entries = [
        Entry(dataset=one.dataset, label=one.label, private=one.private, means={**one.means, "accuracy": {}})
        for one in data.entries
    ]
    other = StudyData(entries=entries, bins=data.bins, sets=data.sets, run=data.run, skipped=())
    assert study(other) != study(data)


def test_text_goes_between_the_markers_again_and_again():
    page = f"# Page\n\n{BEGIN}before\n{END}\n## After\n"
    once = inserted(page, "text")
    assert once.startswith(f"# Page\n\n{BEGIN}")
    assert once.endswith(f"{END}\n## After\n")
    assert "before" not in once
    assert inserted(once, "text") == once
    with pytest.raises(SystemExit, match="markers"):
        inserted("# Page\n", "text")


def test_what_is_saved_is_read_and_drawn(tmp_path, data):
    save(data, tmp_path / "data")
    again = read(tmp_path / "data")
    assert study(again) == study(data)
    (tmp_path / "_static").mkdir()
    page = tmp_path / "defaults.md"
    page.write_text(f"{BEGIN}{END}", encoding="utf-8")
    write(again, page)
    assert study(data) in page.read_text(encoding="utf-8")
    for shown in FIGURES.values():
        assert (tmp_path / "_static" / shown).stat().st_size > 10_000
        assert f"_static/{shown}" in PAGE.read_text(encoding="utf-8")


def test_a_run_is_taken_from_its_folder(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) / 3
    y = (X[:, 0] > 0).astype(int)
    results = compare(
        X, y, dataset="toy", mechanisms={"default": "output", "none": "none"}, epsilons=(0.5, 1.0),
        delta=1e-6, folds=2, repeats=1,
    )  # fmt: skip
    pq.write_table(results, tmp_path / "results.parquet")
    rows = [
        {
            "dataset": "reg",
            "label": "default",
            "private": True,
            "epsilon": e,
            "repeat": 0,
            "fold": 0,
            "r2": 0.5,
        }
        for e in (0.5, 1.0)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "regression.parquet")
    (tmp_path / "report.md").write_text(
        "# x\n\n`dperm reproduce defaults --quick`: quick\n\n## Skipped\n\n- toy: why\n\n## What differs\n\n- no\n"
    )
    found = taken(tmp_path)
    assert found.sets == {"toy": "binary", "reg": "regression"}
    assert found.run.command == "dperm reproduce defaults --quick"
    assert found.run.versions["dperm"]
    assert found.skipped == ("toy: why",)
    mean = np.mean([row["accuracy"] for row in results.to_pylist() if row["label"] == "none"])
    none = next(one for one in found.entries if one.label == "none")
    assert none.means["accuracy"][1.0] == pytest.approx(mean)


def test_the_run_is_named():
    assert isinstance(read().run, Run)
    assert (DATA / "defaults.parquet").stat().st_size < 200_000
