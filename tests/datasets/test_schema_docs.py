"""The page for newcomers is run as it stands."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "schema.md"


def _blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_the_example_of_the_page_gives_the_results_it_shows(tmp_path, monkeypatch):
    (loans, jobs), (csv,) = _blocks("toml"), _blocks("csv")
    (tmp_path / "loans.toml").write_text(loans, encoding="utf-8")
    (tmp_path / "jobs.toml").write_text(jobs, encoding="utf-8")
    (tmp_path / "loans.csv").write_text(csv, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    session = doctest.DocTestParser().get_doctest("".join(_blocks("python")), {}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(session, out=report.append)
    assert results.attempted >= 10
    assert results.failed == 0, "".join(report)
