"""The README is short, and the figures of its demo are what the command prints. `test_docs_code.py` runs its code."""

import re
from pathlib import Path

import pytest

from dperm.cli.app import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICK = ("ssp", "output-gd", "output", "none", "majority")  # noise depends on no other contender


def cells(text: str) -> dict[str, list[str]]:
    """The accuracies of a printed table: rows that start with a name and hold five of ``mean ±deviation``."""
    rows = re.findall(r"^ ([a-z][\w:-]+) ((?: +\d+\.\d ±\d+\.\d){5}) ", text, re.MULTILINE)
    return {name: values.split() for name, values in rows}


def test_the_readme_can_be_read_in_a_few_minutes():
    assert len(README.split()) <= 960


def test_the_demo_prints_these_figures(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [word for name in QUICK for word in ("--mechanism", name)]
    assert run(["compare", "--loss", "logistic", "--out", str(tmp_path), *chosen]) == 0
    printed = cells(capsys.readouterr().out)
    assert set(printed) == set(QUICK)
    shown = cells(README)
    assert {name: shown[name] for name in QUICK} == printed


def test_the_table_has_the_methods_of_the_demo():
    named = re.search(r"foreach name,([^,]*),", (ROOT / "Makefile").read_text())[1].split()
    assert list(cells(README)) == named
