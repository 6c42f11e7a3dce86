"""The page on a mechanism of your own is true: its files are used by its commands, in a process that is thrown away."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import test_docs_code

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "own-mechanism.md"


def run_all(page: Path) -> None:
    """Every block of the page, also those that the other test leaves out; a note may say that they end with 1."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for block in test_docs_code.blocks(page):
        if block["file"]:
            Path(block["file"]).write_text(block["body"], encoding="utf-8")
        elif block["language"] == "output":
            assert test_docs_code.same(block["body"], printed), (
                f"{block['body']}\n--- but printed:\n{printed}"
            )
        elif block["language"] in ("sh", "python"):
            block["note"] = "exits with 1" if "ends with 1" in block["note"] else ""
            printed = test_docs_code.printed_by(block, namespace, page)


@pytest.mark.slow
@pytest.mark.system_noise(failing=0)
def test_the_page_runs(tmp_path, monkeypatch):
    test_docs_code.readers_files.__wrapped__(tmp_path, monkeypatch)
    path = [str(tmp_path), str(ROOT / "src"), str(ROOT / "tools"), str(Path(__file__).parent)]
    code = "import test_own_mechanism as page; page.run_all(page.PAGE)"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]


def test_what_is_wrong_on_the_page_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: for this reason -->\n```python\nprint(1)\n```\n\n```output\n2\n```\n")
    with pytest.raises(AssertionError, match="but printed"):
        run_all(page)
