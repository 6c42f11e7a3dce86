"""The code of the pages on Dask and Spark runs as it stands, where their packages are."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    pytest.param(
        "dask", marks=pytest.mark.skipif(not find_spec("distributed"), reason="Dask is not installed")
    ),
    pytest.param("spark", marks=pytest.mark.engines),
]


@pytest.mark.system_noise(failing=0)
@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_prints_what_it_shows(name, tmp_path, monkeypatch):
    if name == "spark":
        pytest.importorskip("pyspark", reason="pyspark is not installed")
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```output\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "page.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    command = [sys.executable, "-W", "ignore", str(tmp_path / "page.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1:] == shown.splitlines()
