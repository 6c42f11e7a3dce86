"""The page about saved models is run as it stands, and names every key of the file."""

import doctest
import re
from pathlib import Path

from dperm.models.format import KEYS

PAGE = Path(__file__).parents[2] / "docs" / "saved-models.md"


def test_the_examples_give_the_results_they_show(tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    session = doctest.DocTestParser().get_doctest("".join(blocks), {}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(session, out=report.append)
    assert results.attempted >= 15
    assert results.failed == 0, "".join(report)


def test_the_table_names_every_key():
    table = PAGE.read_text(encoding="utf-8").split("## The file")[1]
    assert set(KEYS) <= set(re.findall(r"`([a-z_]+)`", table))
