"""The page on what changed since 2019: every method of the sources has its row, and no figure is typed."""

import re
from pathlib import Path

import pytest

from dperm.mechanisms import mechanism_names
from dperm_papers.reproduce import gradient_perturbation as gp
from dperm_papers.reproduce.frontier import PAPER_METHODS
from dperm_papers.reproduce.report_simulation import OBJECTIVE, PRIVATE
from dperm_papers.reproduce.studies import BASELINES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "results" / "since-2019.md").read_text(encoding="utf-8")
FILLED = re.compile(
    r"<!-- value [^\n]*?<!-- / -->|^<!-- (?:table|list|data) .*?^<!-- / -->$", re.MULTILINE | re.DOTALL
)
NO_PROSE = re.compile(r"^```.*?^```$|`[^`]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
SETTING = re.compile(
    r"ε = \d[\d.]*|c² = 1/400|\b20(?:19|20)\b|ε (?:below|of|up to) 1\b|(?:claimed|for) 1\b|32 moments|ln\(1/δ\)/32"
    r"|[Aa]lgorithm \d|CS227r|l2"
)


def rows(page: str) -> dict[str, list[str]]:
    """The cells of the great table by the bold names at the beginning of its rows."""
    table = page.partition("| method | its paper claims |")[2].partition("\n\n")[0]
    found = {}
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        for name in re.findall(r"\*\*(.+?)\*\*", cells[0]):
            found[name] = cells
    return found


TABLE = rows(PAGE)


def test_every_method_of_the_sources_has_a_row():
    asked = {*PAPER_METHODS, *BASELINES, *gp.PUBLISHED["adult"], PRIVATE, OBJECTIVE, "expected curvature"}
    assert asked <= set(TABLE)
    assert len(TABLE) > len(asked)  # the lecture
    assert {len(cells) for cells in TABLE.values()} == {6}


@pytest.mark.together
@pytest.mark.parametrize("label", PAPER_METHODS)
def test_a_method_of_the_papers_has_its_proof_price_accuracy_and_name(label):
    method, claim, holds, _, accuracy, here = TABLE[label]
    assert method
    assert claim
    assert f'<!-- value claims printed-noise "{label}" "claimed 1" -->' in holds
    (proof,) = re.findall(r"\[proved\]\(\.\./(proofs/[\w-]+\.md)\)", holds)
    assert (DOCS / proof).is_file()
    assert accuracy.count("<!-- value ") == 2
    assert here == f"`{PAPER_METHODS[label].removesuffix(':paper')}`"


def test_names_of_mechanisms_are_names():
    given = {name for cells in TABLE.values() for name in re.findall(r"`([\w-]+)`", cells[-1])}
    assert given <= set(mechanism_names())
    assert len(given) > 12


def typed(page: str) -> list[str]:
    """Numbers outside of markers, code and links, but for settings, years and names."""
    prose = NO_PROSE.sub("", FILLED.sub("", page))
    return re.findall(r".{0,20}\d[\d.,]*", SETTING.sub("", prose))


def test_no_figure_is_typed():
    assert typed(PAGE) == []
    assert typed('it costs 1.57 and <!-- value a b "c" "d" -->2.1<!-- / -->') == ["it costs 1.57"]
