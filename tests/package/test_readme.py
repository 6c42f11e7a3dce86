"""The README's Python example runs and prints what it says it prints."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code, *_ = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    *report, accuracy = capsys.readouterr().out.strip().splitlines()
    assert report[0] == "(0.5, 1e-08)-differentially private, replace-one neighbours"
    assert "\n".join(report) in README.read_text()
    assert 0.6 < float(accuracy) < 0.75
