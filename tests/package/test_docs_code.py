"""The code of the README and of the pages in docs/ runs as it stands, page by page, and prints what the page shows.

Python blocks of one page share a namespace. A block marked ``sh`` holds ``dperm`` commands, one to a line. A block
with a file's name and a colon above it is written to that file. A block marked ``output`` is what the block before it
prints; ``...`` stands for anything, blanks at the end of a line do not count. In an HTML comment right above a block,
``exits with 1`` says that its commands are refused, ``not run: <why>`` that it is not run here, and ``numbers differ``
that an output has the same lines but for its numbers.

Pages that speak of the reader's own files find a small ``people.csv``, ``people.toml`` and ``new_people.csv``. Pages in
doctest form (``>>>``) have tests of their own.
"""

import contextlib
import doctest
import io
import re
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_examples import people, shape
from dperm.cli.app import run
from dperm.errors import PrivacyWarning

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*) -->\n)?"
    r"(?:^`(?P<file>[\w.-]+)`:\n\n)?"
    r"^```(?P<language>[^\n]*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = re.compile(r"not run: \w.{10,}")
SHELL = ("sh", "console")


def blocks(page: Path) -> Iterator[dict[str, str]]:
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield match.groupdict(default="")


def runs(block: dict[str, str]) -> bool:
    if NOT_RUN.fullmatch(block["note"]):
        return False
    return block["language"] in SHELL or (block["language"] == "python" and ">>>" not in block["body"])


SITE = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts]
ELSEWHERE = ("tutorial.md",)  # run in tests/journeys, which looks at what it leaves behind too
PAGES = [
    page
    for page in [ROOT / "README.md", *SITE]
    if any(map(runs, blocks(page))) and page.name not in ELSEWHERE
]


def commands(body: str) -> Iterator[list[str]]:
    for line in body.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words:
            assert words[0] == "dperm", f"only dperm commands are run here, not: {line}"
            yield words[1:]


def printed_by(block: dict[str, str], namespace: dict[str, object], page: Path) -> str:
    kept = io.BytesIO()
    printed = io.TextIOWrapper(kept, encoding="utf-8", newline="", write_through=True)
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # pages show on purpose what is warned of
        if block["language"] == "python":
            exec(compile(block["body"], str(page), "exec"), namespace)
        else:
            expected = int(block["note"].removeprefix("exits with ") or 0)
            for arguments in commands(block["body"]):
                with contextlib.redirect_stderr(printed):
                    code = run(arguments)
                assert code == expected, f"dperm {shlex.join(arguments)}\n{kept.getvalue().decode()}"
    return kept.getvalue().decode()


def same(expected: str, printed: str) -> bool:
    wanted, got = (
        "".join(f"{line.rstrip()}\n" for line in text.splitlines()) for text in (expected, printed)
    )
    return doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS)


def alike(expected: str, printed: str) -> bool:
    return shape(expected) == shape(printed)


def run_page(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed: str | None = None
    for block in blocks(page):
        if block["language"] == "output":
            if printed is not None:
                agrees = alike if block["note"] == "numbers differ" else same
                assert agrees(block["body"], printed), f"{block['body']}\n--- but printed:\n{printed}"
            continue
        printed = None
        if block["file"]:
            Path(block["file"]).write_text(block["body"], encoding="utf-8")
        elif runs(block):
            printed = printed_by(block, namespace, page)


@pytest.fixture
def readers_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people(tmp_path)


def test_the_pages_with_code_are_found():
    assert {"README.md", "ledger.md", "pitfalls.md", "my-data.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.usefixtures("readers_files")
def test_the_code_of_a_page_runs(page):
    run_page(page)


@pytest.mark.together
@pytest.mark.parametrize("page", [ROOT / "README.md", *SITE], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_block_that_is_not_run_says_why(page):
    text = page.read_text(encoding="utf-8")
    notes = [block["note"] for block in blocks(page) if block["note"].startswith("not run")]
    assert text.count("<!-- not run") == len(notes), "the comment stands right above its block"
    assert all(NOT_RUN.fullmatch(note) for note in notes), notes
    for block in blocks(page):
        if block["language"] not in (*SHELL, "output"):
            assert not re.search(r"^(\$ )?dperm ", block["body"], re.MULTILINE), (
                "commands belong in an sh block"
            )


def test_what_is_wrong_on_a_page_is_noticed(tmp_path):
    page = tmp_path / "page.md"

    def write(text: str) -> None:
        page.write_text(text, encoding="utf-8")

    write("```python\na = 1\n```\n\n```python\nprint(a, 2)\n```\n\n```output\n1 2\n```\n")
    run_page(page)
    write(page.read_text().replace("output\n1 2", "output\n1 ..."))
    run_page(page)
    write(page.read_text().replace("output\n1 ...", "output\n2 ..."))
    with pytest.raises(AssertionError):
        run_page(page)
    write("```python\nprint('age', 3)\n```\n\n<!-- numbers differ -->\n```output\nage -0.5\n```\n")
    run_page(page)
    write(page.read_text().replace("age -", "sex -"))
    with pytest.raises(AssertionError):
        run_page(page)
    write("```python\nno_such_name\n```\n")
    with pytest.raises(NameError):
        run_page(page)
    write("<!-- not run: it takes a week -->\n" + page.read_text())
    run_page(page)
    write("<!-- not run: -->\n```python\nno_such_name\n```\n")
    with pytest.raises(AssertionError):
        test_a_block_that_is_not_run_says_why(page)
    with pytest.raises(NameError):
        run_page(page)


def test_what_is_wrong_with_a_command_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\ndperm --version  # which\n```\n\n```output\ndperm, version ...\n```\n")
    run_page(page)
    page.write_text(page.read_text().replace("dperm, ver", "no ver"))
    with pytest.raises(AssertionError, match="but printed"):
        run_page(page)
    page.write_text("```sh\ndperm verify no_such_file.json\n```\n")
    with pytest.raises(AssertionError, match="no_such_file"):
        run_page(page)
    page.write_text("<!-- exits with 1 -->\n" + page.read_text())
    run_page(page)
    page.write_text("```sh\nrm model.json\n```\n")
    with pytest.raises(AssertionError, match="only dperm"):
        run_page(page)
    page.write_text("```\ndperm --version\n```\n")
    with pytest.raises(AssertionError, match="sh block"):
        test_a_block_that_is_not_run_says_why(page)
