"""The Python code of the pages in docs/ runs as it stands, page by page, and prints what the page shows.

Blocks of one page share a namespace. A block marked ``output`` right behind a Python block is what it prints.
Pages in doctest form (``>>>``) have tests of their own.
"""

import contextlib
import io
import re
import warnings
from pathlib import Path

import pytest

from dperm.errors import PrivacyWarning

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n*^```output\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [
        (code, output)
        for code, output in BLOCK.findall(page.read_text(encoding="utf-8"))
        if ">>>" not in code
    ]


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if blocks(page)]


def run_page(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for code, expected in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # pages show on purpose what is warned of
            exec(compile(code, str(page), "exec"), namespace)
        if expected:
            assert printed.getvalue() == expected, code


def test_the_pages_with_code_are_found():
    assert "pitfalls.md" in [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_a_wrong_output_and_a_broken_block_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\na = 1\n```\n\n```python\nprint(a)\n```\n\n```output\n1\n```\n")
    run_page(page)
    page.write_text(page.read_text().replace("output\n1", "output\n2"))
    with pytest.raises(AssertionError):
        run_page(page)
    page.write_text("```python\nno_such_name\n```\n")
    with pytest.raises(NameError):
        run_page(page)
