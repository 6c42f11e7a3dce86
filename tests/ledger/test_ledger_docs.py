"""The page on the ledger is run as it stands."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"


def test_the_page_gives_the_results_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    session = doctest.DocTestParser().get_doctest("".join(blocks), {}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    results = runner.run(session, out=report.append)
    assert results.attempted >= 15
    assert results.failed == 0, "".join(report)
