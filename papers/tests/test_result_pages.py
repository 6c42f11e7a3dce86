"""Pages are what the files in docs/data say, and no figure in their text was typed: of results, and of the guide."""

import ast
import math
import re
from pathlib import Path

import pytest

import plan_constants
from dperm.experiments.spec import ORACLE_MARK
from dperm.planning.outlook import constants
from dperm_papers.pages.cells import BETWEEN, Number
from dperm_papers.pages.files import Results, holds_results, read
from dperm_papers.pages.markers import files_in, without_markers
from dperm_papers.pages.reports import CHECKS
from dperm_papers.pages.writing import filled_pages, pages_in
from dperm_papers.reproduce.studies import BEST, BY_RULE

ROOT = Path(__file__).resolve().parents[2]
DOCS, SOURCES = ROOT / "docs", (ROOT / "src" / "dperm", ROOT / "papers" / "src")
RESULTS = sorted((DOCS / "results").glob("*.md"))
TYPED_ROW = re.compile(r"^\|.*\d", re.MULTILINE)
SETTING = re.compile(r"ε = [\d.]+|\bl2\b|\bCS227r\b")  # in a heading, a claim or a name

NO_PROSE = re.compile(
    r"^```.*?^```$|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)|^#[^\n]*$|\$[^$\n]*\$", re.MULTILINE | re.DOTALL
)
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\d])")
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
OF_A_PAPER = re.compile(
    r"\b(?:figure|table|section|theorem|algorithm)s? \d+(?:(?:, | and | to )\d+)*", re.IGNORECASE
)
UNIT = re.compile(r" ?(?:%|points?\b|times\b|s\b|ms\b|min\b|minutes?\b|seconds?\b|hours?\b|[MG]B\b)")
COUNT = 20

GUIDE = sorted(DOCS.glob("*.md"))
HELD_ELSEWHERE = re.compile(
    r"^<!-- (mechanisms|extras|passes|selection|noise of figures) -->$.*?^<!-- (?:/|end of )\1 -->$",
    re.MULTILINE | re.DOTALL,
)
"""Tables that tests of their own compute again."""

OF_A_GUIDE = re.compile(
    r"(?:ε|δ|epsilon|delta|l2) (?:= |from )[\d.e-]+(?:(?:, | and | to )[\d.e-]+)*"
    r"|(?:Python|runs on|scikit-learn|diffprivlib|Opacus|bash) \d+(?:\.\d+)+(?: to \d\.\d+)?"
)
"""Budgets, l2 and versions."""

CONSTANTS = {
    "architecture": "1.044",
    "audit": "30 % 1e-9 0.001 0.999",
    "certificate": "1e-9 1e-3 1.1",
    "dask": "512",
    "evaluation": "95 % 0.02",
    "faq": "1 % 5 % 0.001",
    "gallery": "95 %",
    "glossary": "1.1 2.7",
    "gpu": "1.25",
    "imbalanced": "9 % 5 % 0.5",
    "index": "50",
    "intervals": "15 % 20 % 95 % 0.3",
    "ledger": "0.6 1.2",
    "means": "95 % 0.12 0.10 0.14 0.21 0.18 0.24 0.1 0.5 0.3",
    "model-selection": "10",
    "my-data": "50",
    "out-of-core": "32 512",
    "report": "2 %",
    "spark": "512",
    "tutorial": "0.8",
}
"""By page of the guide, what is no result but has a fraction or a unit: limits, sizes, and figures of examples."""


def prose(text: str) -> str:
    """The words of a page: no code, no link's target, no heading, nothing that a marker filled in."""
    return OF_A_PAPER.sub("", YEAR.sub("", NO_PROSE.sub(" ", without_markers(text))))


def numbers(text: str) -> set[float]:
    return {float(found.replace(",", "").rstrip(",")) for found in NUMBER.findall(text)}


def settings_of(results: Results) -> set[float]:
    """Numbers that say what was run: titles, headings, first columns (remarks are such), the run. Nothing measured."""
    run = results.run
    texts = [run.command, run.note, str(run.seed), *run.settings.values()]
    for name, table in results.tables.items():
        texts += [table.title, *table.headings]
        texts += [str(row[0]) for row in table.rows if name != CHECKS]
    return set().union(*map(numbers, texts))


def literals_of(text: str) -> set[float]:
    """Numbers that stand in the modules that a page names, such as `mechanisms/auto.py`."""
    found: set[float] = set()
    for name in re.findall(r"`([\w/]+\.py)`", text):
        for path in (source / name for source in SOURCES if (source / name).is_file()):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
                    found.add(float(node.value))
    return found


def typed_in_guide(text: str, constants: str = "") -> list[str]:
    """The same for a page of the guide, where any whole number without a unit may stand: most are limits or sizes."""
    return typed(OF_A_GUIDE.sub(" ", HELD_ELSEWHERE.sub(" ", text)), constants, math.inf)


def typed(text: str, constants: str = "", count: float = COUNT) -> list[str]:
    """Figures in the words of a page that stand for nothing.

    A number in the prose of a page must be one of these, or be filled in by a marker:

    - a year, or the number of a figure, table, section, theorem or algorithm;
    - a setting of a run that the page shows: in the title, a heading or the first column of a table of its data, in
      what the data say of differences and omissions, or in the command, the seed and the note of the run;
    - a constant in a module that the page names in code, as it is or in per cent, or one of ``constants``;
    - a whole number up to 20, or to ``count``, that counts something.

    Followed by a unit (points, times, seconds, ...) only the marker will do, but for per cent that are a setting or a
    constant, and for ``constants``. What was measured is no setting, even if it stands in a cell of the data: only a
    marker keeps it true.
    """
    allowed = literals_of(text)
    for file in files_in(text):
        allowed |= settings_of(read(DOCS / "data" / f"{file}.parquet"))
    words, known, wrong = prose(text), numbers(constants), []
    for found in NUMBER.finditer(words):
        value = float(found[0].replace(",", ""))
        unit = UNIT.match(words, found.end())
        if value in known:
            fine = True
        elif unit is None:
            fine = value in allowed or (value <= count and value == int(value))
        else:
            fine = "%" in unit[0] and bool({value, value / 100} & allowed)
        if not fine:
            wrong.append(words[max(0, found.start() - 30) : found.end() + 12].strip())
    return wrong


def test_the_pages_are_found():
    names = {page.relative_to(DOCS).as_posix() for page in pages_in(DOCS)}
    assert {"results/index.md", "results/rsgd.md", "results/defaults.md", "planning.md", "gpu.md"} <= names


def test_every_page_says_what_the_data_say():
    for page, text in filled_pages(DOCS).items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: run make tables"


@pytest.mark.together
@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.stem)
def test_no_figure_of_the_results_is_typed(page):
    text = page.read_text(encoding="utf-8")
    assert typed(text) == [], "put a value marker there"
    assert not TYPED_ROW.search(SETTING.sub("", prose(text))), "put a table marker there"


def test_typed_figures_are_noticed():
    page = (DOCS / "results" / "rsgd.md").read_text(encoding="utf-8")
    assert typed(page) == []
    for figure in ("83.7 %", "0.4 points", "412 ms", "9 points", "1,234 rows", "3e-7", "37 models"):
        (found,) = typed(f"{page}\nRSGD-AR has {figure} here (2019, figure 3).\n")
        assert figure.split()[0] in found
    measured = read(DOCS / "data" / "rsgd-fig1.parquet").table("adult").at("DP-AGD, by rule", "ε = 1").alone
    assert len(typed(f"{page}\nDP-AGD reaches {measured} %.\n")) == 1
    assert typed(f"{page}\nAt ε = 0.05, in 5 folds, `83.7` and [there](there-83.7.md), in 2019.\n") == []
    assert TYPED_ROW.search("| a | 1 |\n")


@pytest.mark.together
@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_no_figure_of_the_guide_is_typed(page):
    text = page.read_text(encoding="utf-8")
    allowed = CONSTANTS.get(page.stem, "")
    assert typed_in_guide(text, allowed) == [], (
        "put a value marker there, or link to the page that has the figure"
    )
    unused = numbers(allowed) - numbers(prose(HELD_ELSEWHERE.sub(" ", text)))
    assert not unused, "take these from CONSTANTS"


def test_figures_typed_into_the_guide_are_noticed():
    page = (DOCS / "which-mechanism.md").read_text(encoding="utf-8")
    for figure in ("83.7 %", "0.4 points", "412 ms", "9 points", "21 s", "0.731", "1.4 times", "3e-7"):
        (found,) = typed_in_guide(f"{page}\nThe default has {figure} here.\n")
        assert figure.split()[0] in found
        assert len(typed_in_guide(f"{page}\n\n| a | b |\n|---|---|\n| Adult | {figure} |\n")) == 1
    fine = "At ε = 0.05 and 0.1, on Python 3.11 to 3.14, with 4,096 columns."
    assert typed_in_guide(f"{page}\n{fine}\n") == []
    assert typed_in_guide(f"{page}\nKeeps 512 MB.\n", "512") == []
    assert HELD_ELSEWHERE.search((DOCS / "mechanisms.md").read_text(encoding="utf-8"))


def test_what_is_said_of_mechanisms_follows_from_their_tables():
    """Docs/which-mechanism.md: none is far ahead of auto, ssp is behind it on Adult, rsgd-ar not behind output."""
    tables = read(DOCS / "data" / "which-mechanism.parquet").tables
    for name, table in tables.items():
        rows = {str(row[0]): row[1:] for row in table.rows}
        for label, row in rows.items():
            for epsilon, ours, theirs in zip((0.05, 0.1, 0.5, 1.0), rows["auto"], row, strict=True):
                ahead = theirs.number - ours.number
                strong = label in ("sgd-ma", "psgd", "dp-gd", "objective", "objective-kst")
                people = name in ("adult", "ipums-br", "cps")
                most = 0.75 if strong and people and epsilon < 0.5 else 0.35 if epsilon < 0.5 else 0.25
                assert label == "none" or ahead < most, (name, label, epsilon)
                assert (name, label) != ("adult", "ssp") or ahead < 0
        for mine, theirs in zip(rows["rsgd-ar"], rows.get("output", ()), strict=False):
            assert mine.number >= theirs.number - 0.1001


def test_what_is_said_of_the_audit_follows_from_its_table():
    """Docs/audit.md: nine tenths are proved of 13 whole profiles, all but those of amp and auto."""
    table = read(DOCS / "data" / "audit.parquet").table("claims")
    told = [row for row in table.rows if row[0] != "evaluation"]
    profiles = {row[0]: row[4].number for row in told if row[1] == "profile"}
    assert {name for name, proved in profiles.items() if proved < 0.9} == {"amp", "auto"}
    assert len(profiles) == 13 + 2


def test_the_tables_of_the_plan_are_those_of_its_constants():
    shown = read(DOCS / "data" / "plan.parquet").table("sets-left-out")
    for metric, held in constants()["left_out"].items():
        assert shown.at(metric, "cells inside") == f"{100 * held['cells']:.0f} %"
        assert shown.at(metric, "sets mostly inside") == f"{100 * held['sets']:.0f} %"


@pytest.mark.slow
def test_the_tables_of_the_plan_are_counted_from_its_study():
    kept, again = read(DOCS / "data" / "plan.parquet"), plan_constants.count_again()
    assert kept.run.note != again.run.note or kept.run == again.run
    for name, table in again.tables.items():
        assert kept.table(name).as_markdown() == table.as_markdown()


def test_every_file_is_small_says_where_it_is_from_and_is_shown():
    texts = [page.read_text(encoding="utf-8") for page in pages_in(DOCS)]
    shown = set().union(*map(files_in, texts))
    files = {path.stem: path for path in (DOCS / "data").glob("*.parquet") if holds_results(path)}
    assert set(files) == shown
    for name, path in files.items():
        assert path.stat().st_size < 200_000
        run = read(path).run
        assert any(f"<!-- data {name} -->" in text for text in texts)
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", run.date)
        assert run.command
        assert run.transcribed or run.versions["dperm"]
        assert not re.search(r"/(?:work|tmp|home|root)/", str(run))


def test_every_figure_is_small_and_shown():
    texts = "".join(page.read_text(encoding="utf-8") for page in pages_in(DOCS))
    for path in (DOCS / "results" / "figures").iterdir():
        assert path.stat().st_size < 160_000
        assert f"figures/{path.name})" in texts


def test_rows_are_named_by_their_first_cells():
    table = read(DOCS / "data" / "text.parquet").table("rcv1")
    assert table.at(f"auto{BETWEEN}256", "ε = 1").number > 50


@pytest.mark.together
@pytest.mark.parametrize("file", ["rsgd-fig1", "rsgd-fig2", "rsgd-fig4", "gp-fig2"])
def test_no_oracle_of_the_figures_is_below_its_rule(file):
    """A grid that holds the rule cannot be below it, in any cell."""
    compared = 0
    for name, table in read(DOCS / "data" / f"{file}.parquet").tables.items():
        if table.headings[0] != "method" or "accuracy" not in table.title:
            continue
        rows = {str(row[0]): row[1:-1] for row in table.rows}
        for label in (label for label in rows if label.endswith(BY_RULE)):
            best = rows[label.removesuffix(BY_RULE) + BEST + ORACLE_MARK]
            for rule, oracle in zip(rows[label], best, strict=True):
                if isinstance(rule, Number):
                    assert isinstance(oracle, Number), (name, label)
                    assert oracle.number >= rule.number, (name, label)
                    compared += 1
    assert compared >= 5
