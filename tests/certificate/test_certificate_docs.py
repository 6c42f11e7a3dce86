"""The page about the certificate is run as it stands."""

import doctest
import re
from pathlib import Path

from dperm.certificate import statement

PAGE = Path(__file__).parents[2] / "docs" / "certificate.md"


def test_the_examples_give_the_results_they_show(tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    session = doctest.DocTestParser().get_doctest("".join(blocks), {}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(session, out=report.append)
    assert results.attempted >= 15
    assert results.failed == 0, "".join(report)


def test_the_schema_names_every_key():
    table = PAGE.read_text(encoding="utf-8").split("## Schema")[1]
    named = set(re.findall(r"`([a-z_0-9]+)`", table))
    keys = {*statement.STATEMENT, "persons", "inference"}
    parts = (
        statement.PROBLEM,
        statement.PLANNED,
        statement.RELEASE,
        statement.MECHANISM,
        statement.STANDARDISATION,
        statement.INFERENCE,
        statement.PERSONS,
    )
    for form in parts:
        keys |= set(form)
    assert keys <= named
