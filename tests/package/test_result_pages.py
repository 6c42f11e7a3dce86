"""The tables of the results pages are what the files in docs/data say, and runs are taken into these files."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import result_data
import result_pages
import take_results
from dperm.experiments.compare import compare
from dperm.experiments.results import curves
from result_data import DATA, Number, Run, Table, cell, read_markdown

STUDIES = {"defaults", "defaults-calibration", "demo"}
TYPED_ROW = re.compile(r"^\|.*\d", re.MULTILINE)


def test_the_pages_are_found():
    assert {"results.md", "defaults.md"} <= {page.name for page in result_pages.pages()}


@pytest.mark.parametrize("page", result_pages.pages(), ids=lambda page: page.name)
def test_a_page_says_what_the_data_say(page):
    text = page.read_text(encoding="utf-8")
    assert result_pages.written(text) == text, "run: python tools/result_pages.py --write"


def test_no_table_of_the_results_is_typed():
    text = result_pages.BLOCK.sub("", (result_pages.DOCS / "results.md").read_text(encoding="utf-8"))
    assert not TYPED_ROW.search(text)
    assert text.count("<!-- table") == text.count("<!-- data") == 0
    typed = "| a | 1 |\n"
    assert TYPED_ROW.search(typed)


def test_every_file_is_small_says_where_it_is_from_and_is_used():
    used = {
        found[2]
        for page in result_pages.pages()
        for found in result_pages.BLOCK.finditer(page.read_text("utf-8"))
    }
    named = {
        found[2]
        for page in result_pages.pages()
        for found in result_pages.BLOCK.finditer(page.read_text("utf-8"))
        if found[1] == "data"
    }
    files = {path.stem for path in DATA.glob("*.parquet")}
    assert files - STUDIES == used == named
    for name in used:
        assert (DATA / f"{name}.parquet").stat().st_size < 200_000
        _, run = result_data.read(name)
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", run.date)
        assert run.command
        assert run.transcribed or run.versions["dperm"]


def test_numbers_are_numbers_and_print_as_they_came():
    for text in ("77.8 ±1.8", "+3.4", "-0.06", "skipped", "≈ 290", "1,024", "6.68e-03", "0.10", "", "12"):
        assert str(cell(text)) == text
    assert cell("77.8 ±1.8") == Number(77.8, 1, 1.8)
    assert cell("+3.4") == Number(3.4, 1, None, signed=True)
    assert isinstance(cell("1,024"), str)


def test_tables_are_read_as_they_were_written(tmp_path):
    table = read_markdown("| a | b | b |\n| --- | --- | --- |\n| x | 1.5 ±0.2 | **2** |\n| y | +3 | |\n")
    run = Run(date="2026-11-16", command="dperm reproduce x", seed=0, note="why")
    result_data.write("x", {"one": table, "two": Table(["c"], [[Number(1 / 3, 2)]])}, run, tmp_path)
    tables, again = result_data.read("x", tmp_path)
    assert again == run
    assert tables["one"].as_markdown() == table.as_markdown()
    assert tables["two"].rows[0][0].value == 1 / 3
    assert tables["two"].as_markdown().endswith("| 0.33 |\n")
    page = "<!-- table x one -->\nold\n<!-- / -->\n\n<!-- data x -->\n<!-- / -->\nafter\n"
    filled = result_pages.written(page, tmp_path)
    assert "old" not in filled
    assert table.as_markdown() in filled
    assert "run on 16 November 2026; `dperm reproduce x`; seed 0; why." in filled
    assert result_pages.written(filled, tmp_path) == filled
    with pytest.raises(SystemExit, match="has no table 'three'"):
        result_pages.written("<!-- table x three -->\n<!-- / -->\n", tmp_path)


@pytest.fixture(scope="module")
def results() -> pa.Table:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) / 3
    y = (X[:, 0] > 0).astype(int)
    given = {"mechanisms": {"ours": "output", "none": "none"}, "epsilons": (0.5, 1.0)}
    return compare(X, y, dataset="toy", delta=1e-6, folds=2, repeats=2, **given)


def test_curves_become_means_with_standard_errors(results):
    table = take_results.over_epsilon(results, "toy")
    assert table.headings == ["toy", "ε = 0.5", "ε = 1"]
    curve = next(one for one in curves(results) if one.label == "ours")
    values = 100 * curve.accuracy[1]
    by_repeat = [values[curve.runs[1][:, 0] == repeat].mean() for repeat in (0, 1)]
    shown = next(row[2] for row in table.rows if row[0] == "ours")
    assert shown.value == pytest.approx(values.mean())
    assert shown.spread == pytest.approx(np.std(by_repeat, ddof=1) / np.sqrt(2))


def test_items_and_comparisons_are_taken(tmp_path, results):
    report = (
        "# x\n\n`dperm reproduce x --quick`: quick\n\n**accuracy, %: first**\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n"
        "**accuracy, %: second**\n\n| data set | m |\n| --- | --- |\n| s, 5 rows | 3.0 |\n| t | 4 |\n\n"
        "## Checks\n\n- y\n"
    )
    for name in ("x", "gp-table4", "rsgd-fig1", "defaults"):
        (tmp_path / "out" / name).mkdir(parents=True)
        (tmp_path / "out" / name / "report.md").write_text(report, encoding="utf-8")
        pq.write_table(results, tmp_path / "out" / name / "results.parquet")
    data = tmp_path / "data"
    assert [path.stem for path in take_results.take(tmp_path / "out", data)] == [
        "gp-table4",
        "rsgd-fig1",
        "x",
    ]
    tables, run = result_data.read("x", data)
    assert list(tables) == ["accuracy", "accuracy-2"]
    assert (run.command, run.seed) == ("dperm reproduce x --quick", 0)
    assert run.machine["cores"]
    assert list(result_data.read("gp-table4", data)[0]) == ["1", "s", "t"]
    assert list(result_data.read("rsgd-fig1", data)[0]) == ["toy"]
    folders = {"toy/few": tmp_path / "out" / "x", "toy/many": tmp_path / "out" / "x"}
    take_results.take_comparisons("both", "columns", folders, "`dperm compare`", data)
    both = result_data.read("both", data)[0]["toy"]
    assert both.headings == ["toy", "columns", "ε = 0.5", "ε = 1"]
    assert [row[:2] for row in both.rows] == [
        ["ours", "few"],
        ["ours", "many"],
        ["none", "few"],
        ["none", "many"],
    ]
