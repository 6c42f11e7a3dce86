"""Tables of results as files, runs that are taken into them, and pages that are written from them."""

import json
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dperm.cli.app import run as command
from dperm.errors import InvalidInput
from dperm.experiments.compare import compare
from dperm.experiments.results import curves
from dperm_papers.pages.cells import Number, Table, cell, read_markdown
from dperm_papers.pages.comparisons import over_epsilon, take_comparisons
from dperm_papers.pages.files import Results, holds_results, read
from dperm_papers.pages.markers import files_in, without_markers
from dperm_papers.pages.reports import command_of, named, slug
from dperm_papers.pages.runs import Run, duration, timed
from dperm_papers.pages.writing import MOST_BYTES, filled_pages, shrunk, write_docs
from dperm_papers.reproduce import Bench, Section

RUN = Run(
    date="2026-11-16",
    command="dperm reproduce x --quick",
    size="quick",
    seed=3,
    seconds=75.4,
    versions={"dperm": "9.9", "python": "3.11", "numpy": "2"},
    machine={"cores": "2", "processor": "abacus"},
    settings={"jobs": "2"},
    note="why",
)
TABLE = read_markdown("| a | b | b |\n| --- | --- | --- |\n| x | 1.5 ±0.21 | **2** |\n| y | +3 | 1,024 |\n")


def results(**tables):
    return Results({"one": TABLE, **tables}, RUN)


@pytest.fixture
def docs(tmp_path):
    """A folder of documentation with one file of data and a page in a folder of its own."""
    folder = tmp_path / "docs"
    (folder / "results").mkdir(parents=True)
    checks = Table(("claim", "here"), [["p", "holds"], ["q", "does not hold"]], "Claims")
    results(checks=checks).write(folder / "data" / "x.parquet")
    return folder


def page(docs, text):
    path = docs / "results" / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_are_numbers_and_are_shown_as_they_came():
    for text in (
        "77.8 ±1.8",
        "81.6 ±0.05",
        "+3.4",
        "-0.06",
        "skipped",
        "≈ 290",
        "1,024",
        "1,024.5",
        "6.68e-03",
        "12",
    ):
        assert str(cell(text)) == text
    assert cell("77.8 ±1.85") == Number(number=77.8, digits=1, error=1.85, error_digits=2)
    assert cell("+3.4") == Number(number=3.4, digits=1, error_digits=0, signed=True)
    assert cell("1,024").number == 1024
    for text in ("10,24", "007", "1,024 rows", ""):
        assert cell(text) == text


def test_tables_are_read_as_they_were_written(tmp_path):
    empty = Table(("what",), [], "Nothing here")
    made = results(empty=empty, third=Table(("c",), [[Number(number=1 / 3, digits=2)]]))
    made.write(tmp_path / "x.parquet")
    again = read(tmp_path / "x.parquet")
    assert again.run == RUN
    assert list(again.tables) == ["one", "empty", "third"]
    assert again.tables["one"].as_markdown() == TABLE.as_markdown()
    assert again.tables["one"].rows[0][1] == Number(number=1.5, digits=1, error=0.21, error_digits=2)
    assert again.tables["third"].rows[0][0].number == 1 / 3
    assert again.tables["empty"] == Table(["what"], [], "Nothing here")
    assert pq.read_table(tmp_path / "x.parquet").column_names[:4] == ["table", "row", "column", "heading"]


def test_files_of_another_kind_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    assert not holds_results(tmp_path / "other.parquet")
    with pytest.raises(InvalidInput, match="no tables of results"):
        read(tmp_path / "other.parquet")
    with pytest.raises(InvalidInput, match=r"no file gone.parquet in .*, but other\."):
        read(tmp_path / "gone.parquet")


def test_a_page_is_filled_and_stays_as_it_is(docs):
    found = page(
        docs,
        "# P\n\n<!-- table x one -->\nbefore\n<!-- / -->\n\n<!-- data x -->\n<!-- / -->\n\n"
        'It is <!-- value x one "x" "b" -->9<!-- / --> or <!-- value x one "x" "b (2)" --><!-- / -->.\n\n'
        '<!-- list x checks -->\n<!-- / -->\n\n<!-- runs -->\n<!-- / -->\n<!-- table x one "y" -->\n<!-- / -->\n',
    )
    assert write_docs(docs) == [found]
    text = found.read_text(encoding="utf-8")
    assert "before" not in text
    assert TABLE.as_markdown() in text
    assert (
        'It is <!-- value x one "x" "b" -->1.5<!-- / --> or <!-- value x one "x" "b (2)" -->**2**<!-- / -->.'
        in text
    )
    assert "- p: holds\n- q: **does not hold**\n" in text
    assert "[x.parquet](../data/x.parquet)" in text
    assert (
        "run on 16 November 2026; `dperm reproduce x --quick`; seed 3; jobs 2; took 1 min 15 s; dperm 9.9"
        in text
    )
    assert "dperm 9.9 (Python 3.11, NumPy 2); 2 cores of abacus; why." in text
    assert "| `dperm reproduce x --quick` | quick | 1 min 15 s | 2026-11-16 | 1 of 2 |" in text
    assert "| b | b |\n| --- | --- |\n| +3 | 1,024 |\n" in text
    assert write_docs(docs) == []
    assert files_in(text) == {"x"}
    assert "1.5" not in without_markers(text)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("<!-- table y one -->\n<!-- / -->", "no file y.parquet in .*, but x"),
        ("<!-- table x two -->\n<!-- / -->", "no table 'two', but one, checks"),
        ("<!-- table x -->\n<!-- / -->", "a marker is one of table FILE NAME"),
        ('see <!-- value x one "z" "b" --><!-- / -->', "no row begins with 'z'; there are 'x', 'y'"),
        ('see <!-- value x one "x" "c" --><!-- / -->', r"no column 'c', but 'a', 'b', 'b \(2\)'"),
        (
            'see <!-- value x twice "x" "n" --><!-- / -->',
            r"several rows begin with 'x'; there are 'x \| 1', 'x \| 2'",
        ),
        ('<!-- value x one "x" "b" --><!-- / -->', "begins a line"),
        ("<!-- table x one -->\nno end", "has no <!-- / --> of its own"),
        ("<!-- table x one -->\n<!-- / -->\n<!-- / -->", "has no <!-- / --> of its own"),
    ],
)
def test_a_marker_that_cannot_be_filled_is_named_and_nothing_is_written(docs, marker, message, capsys):
    twice = Table(("m", "k", "n"), [["x", cell("1"), "p"], ["x", cell("2"), "q"]])
    checks = Table(("claim", "here"), [["p", "holds"]])
    results(checks=checks, twice=twice).write(docs / "data" / "x.parquet")
    found = page(docs, f"# P\n\n<!-- data x -->\n<!-- / -->\n\n{marker}\n")
    before = found.read_bytes()
    with pytest.raises(InvalidInput, match=message):
        write_docs(docs)
    assert found.read_bytes() == before
    assert command(["reproduce", "--write-docs", str(docs)]) == 1
    shown = capsys.readouterr().err
    assert "results/page.md" in shown
    assert "Traceback" not in shown


def test_folders_that_cannot_be_right_are_refused(tmp_path, docs, capsys):
    assert command(["reproduce", "--write-docs", str(tmp_path / "none")]) == 1
    assert "is not a folder" in capsys.readouterr().err
    (tmp_path / "bare").mkdir()
    assert command(["reproduce", "rsgd-fig1", "--write-docs", str(tmp_path / "bare")]) == 1
    assert "has no page to write" in capsys.readouterr().err
    page(docs, "<!-- data x -->\n<!-- / -->\n")
    assert command(["reproduce", "--write-docs", str(docs), "--out", str(tmp_path / "bare")]) == 1
    assert "has no finished item" in capsys.readouterr().err
    assert command(["reproduce"]) == 2


def test_an_item_is_run_taken_and_shown(tmp_path, docs, capsys):
    """``bounds`` needs no data and no time."""
    found = page(
        docs,
        "![B](figures/bounds.png)\n\n<!-- tables bounds -->\n<!-- / -->\n\n<!-- data bounds -->\n<!-- / -->\n",
    )
    out = tmp_path / "out"
    assert command(["reproduce", "bounds", "--quick", "--out", str(out), "--write-docs", str(docs)]) == 0
    assert "Took bounds to" in capsys.readouterr().out.replace("\n", " ")
    taken = read(docs / "data" / "bounds.parquet")
    assert taken.run.command == "dperm reproduce bounds --quick"
    assert (taken.run.size, taken.run.seed) == ("quick", 0)
    assert taken.run.seconds > 0
    assert taken.run.versions["dperm"]
    assert taken.run.machine["cores"]
    assert str(tmp_path) not in str(pq.read_schema(docs / "data" / "bounds.parquet").metadata)
    assert {row[1] for row in taken.tables["checks"].rows} == {"holds", "does not hold"}
    text = found.read_text(encoding="utf-8")
    assert "**excess risk, convex" in text
    assert "run on" in text
    figure = docs / "results" / "figures" / "bounds.png"
    assert 0 < figure.stat().st_size <= MOST_BYTES
    found.write_text("<!-- table bounds checks -->\n<!-- / -->\n", encoding="utf-8")
    assert command(["reproduce", "--out", str(out), "--write-docs", str(docs)]) == 0
    assert "noisy-sgd" in found.read_text(encoding="utf-8")


def test_taken_data_go_before_those_that_are_there(tmp_path, docs):
    found = page(docs, 'see <!-- value x one "x" "b" --><!-- / -->\n')
    other = Table(TABLE.headings, [["x", cell("7.0"), "8"]])
    Results({"one": other}, RUN).write(tmp_path / "out" / "x" / "tables.parquet")
    assert "-->1.5<!--" in filled_pages(docs)[found]
    assert "-->7.0<!--" in filled_pages(docs, {"x": tmp_path / "out" / "x"})[found]
    write_docs(docs, {"x": tmp_path / "out" / "x"})
    assert read(docs / "data" / "x.parquet").tables["one"].rows[0][1] == cell("7.0")


def test_names_of_tables_and_commands():
    section = Section(title="adult, svm loss: accuracy, %", columns=("m",), rows=(("1.0",),))
    assert list(named([section, section, section])) == ["adult", "adult-2", "adult-3"]
    assert slug("two classes, ε ≥ 0.1: how far") == "two-classes"
    bench = Bench(folder="a", parts="b", middle=True, seed=4, most_rows=500, datasets=("adult",))
    assert command_of("x", bench) == "dperm reproduce x --middle --seed 4 --most-rows 500 --data adult"
    assert [duration(some) for some in (3.21, 75.4, 7300)] == ["3.2 s", "1 min 15 s", "2 h 1 min"]


def test_the_time_of_a_stopped_command_counts(tmp_path):
    file = tmp_path / "seconds.json"

    def stopped():
        with timed(file, "c"):
            time.sleep(0.12)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    with timed(file, "c") as watch:
        pass
    assert watch.seconds >= 0.1 > watch.here
    assert json.loads(file.read_text())["seconds"] >= 0.1
    for how in ({"command": "other"}, {"command": "c", "fresh": True}):
        with timed(file, **how) as watch:
            pass
        assert watch.seconds < 0.1


def test_figures_become_small(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (450, 700, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "figure.png")
    made = shrunk(tmp_path / "figure.png")
    assert len(made) <= MOST_BYTES < (tmp_path / "figure.png").stat().st_size
    (tmp_path / "small.png").write_bytes(made)
    with Image.open(tmp_path / "small.png") as small:
        assert small.width / small.height == pytest.approx(700 / 450, rel=0.01)


@pytest.fixture(scope="module")
def compared():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) / 3
    y = (X[:, 0] > 0).astype(int)
    given = {"mechanisms": {"ours": "output", "none": "none"}, "epsilons": (0.5, 1.0)}
    return compare(X, y, dataset="toy", delta=1e-6, folds=2, repeats=2, **given)


def test_comparisons_become_means_with_standard_errors(tmp_path, compared):
    table = over_epsilon(compared, "toy")
    assert table.headings == ["toy", "ε = 0.5", "ε = 1"]
    curve = next(one for one in curves(compared) if one.label == "ours")
    values = 100 * curve.accuracy[1]
    by_repeat = [values[curve.runs[1][:, 0] == repeat].mean() for repeat in (0, 1)]
    shown = table.at("ours", "ε = 1")
    assert shown.number == pytest.approx(values.mean(), abs=0.05)
    assert shown.error == pytest.approx(np.std(by_repeat, ddof=1) / np.sqrt(2), abs=0.005)

    pq.write_table(compared, tmp_path / "results.parquet")
    folders = {"toy/few": tmp_path, "toy/many": tmp_path, "alone": tmp_path}
    made = read(take_comparisons(tmp_path / "both.parquet", "columns", folders, "`dperm compare`"))
    assert made.tables["toy"].headings == ["toy", "columns", "ε = 0.5", "ε = 1"]
    assert [row[:2] for row in made.tables["toy"].rows] == [
        ["ours", "few"], ["ours", "many"], ["none", "few"], ["none", "many"],
    ]  # fmt: skip
    assert made.tables["alone"].headings[0] == "alone"
    assert made.tables["toy"].at("none | many", "ε = 1") == made.tables["alone"].at("none", "ε = 1")
    assert made.run.seed == 0
    with pytest.raises(InvalidInput, match="has no results.parquet"):
        take_comparisons(tmp_path / "x.parquet", "c", {"t": tmp_path / "gone"}, "x")
