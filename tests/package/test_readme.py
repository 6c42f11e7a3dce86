"""The README is short, and the figures of its demo are what the command prints. `test_docs_code.py` runs its code."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from dperm.cli.app import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICK = ("ssp", "rsgd-ar", "rsgd-ar:paper", "majority")  # noise depends on no other configuration
EPSILONS = ("0.05", "0.1", "0.5", "1", "2")


DEMO = re.search(
    r"dperm (compare .*?) --out demo (.*?)\\\n.*foreach name,([^,]*),", (ROOT / "Makefile").read_text()
)


def cells(text: str) -> dict[str, list[tuple[str, str]]]:
    """The accuracies of a printed table: rows that start with a name and hold some of ``mean ±error``."""
    rows = re.findall(r"^ ([a-z][\w:-]+) ((?: +\d+\.\d ±\d+\.\d+)+) ", text, re.MULTILINE)
    return {name: re.findall(r"(\S+) ±(\S+)", values) for name, values in rows}


def printed_by_demo(
    folder: Path, names: Sequence[str], epsilons: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> dict[str, list[tuple[str, str]]]:
    chosen = [word for name in names for word in ("--mechanism", name)]
    budgets = [word for epsilon in epsilons for word in ("--epsilon", epsilon)]
    arguments = [*DEMO[1].split(), *DEMO[2].split(), "--out", str(folder), *chosen, *budgets]
    assert run(arguments) == 0
    return cells(capsys.readouterr().out)


def test_the_readme_can_be_read_in_a_few_minutes():
    assert len(README.split()) <= 950


def test_the_demo_prints_these_figures(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = printed_by_demo(tmp_path, QUICK, EPSILONS, capsys)
    shown = cells(README)
    assert {name: shown[name] for name in QUICK} == printed


def test_the_demo_prints_these_figures_of_the_default(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    first = EPSILONS[:3]  # noise depends on the budgets before
    printed = printed_by_demo(tmp_path, ["auto"], first, capsys)
    assert printed["auto"] == cells(README)["auto"][: len(first)]


def test_the_table_has_the_methods_and_budgets_of_the_demo():
    shown = cells(README)
    assert list(shown) == DEMO[3].split()
    assert all(len(values) == len(EPSILONS) for values in shown.values())
    assert re.search(
        r"^ mechanism " + "".join(rf" +ε = {epsilon}" for epsilon in EPSILONS), README, re.MULTILINE
    )
    assert "--epsilon" not in DEMO[1] + DEMO[2]


def test_what_the_readme_says_of_the_table_is_so():
    """Within 0.6 points of no privacy from 0.5 on; at 0.1 0.3 points ahead of rsgd-ar, 3.8 at the paper's price."""
    mean = {name: [float(value) for value, _ in values] for name, values in cells(README).items()}
    gaps = [none - ours for none, ours in zip(mean["none"], mean["auto"], strict=True)]
    assert max(gaps[EPSILONS.index("0.5") :]) < 0.65
    at = EPSILONS.index("0.1")
    assert mean["auto"][at] - mean["rsgd-ar"][at] == pytest.approx(0.3, abs=0.05)
    assert mean["auto"][at] - mean["rsgd-ar:paper"][at] == pytest.approx(3.8, abs=0.05)
    others = [values for name, values in mean.items() if name not in ("auto", "none")]
    assert all(ours >= max(theirs) - 0.2001 for ours, *theirs in zip(mean["auto"], *others, strict=True))
