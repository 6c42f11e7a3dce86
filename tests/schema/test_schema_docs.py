"""The page for newcomers is run as it stands."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "schema.md"


def _blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def _files() -> list[tuple[str, str]]:
    """Blocks with the name of a file above them."""
    return re.findall(
        r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_the_example_of_the_page_gives_the_results_it_shows(tmp_path, monkeypatch):
    for name, content in _files():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    session = doctest.DocTestParser().get_doctest("".join(_blocks("python")), {}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(session, out=report.append)
    assert results.attempted >= 20
    assert results.failed == 0, "".join(report)
