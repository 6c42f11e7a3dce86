"""The page of a reproduced item says what its report.md says: what holds, what does not, what was skipped and why."""

import re

import pyarrow as pa
import pytest

from dperm.errors import InvalidInput
from dperm.experiments.html import html_page
from dperm_papers.cli.reproduce import pictures, tables, verdicts
from dperm_papers.reproduce.item import Check, Item, Report, Section

HOSTILE = "</script><img src=x onerror=alert(1)>"
REPORT = Report(
    checks=(Check(claim="a is above b", holds=True), Check(claim=f"c {HOSTILE}", holds=False)),
    skipped=(f"d: no such file {HOSTILE}",),
    sections=(Section(title=f"t {HOSTILE}", columns=("method", "ours"), rows=((HOSTILE, "1.0 ±0.10"),)),),
)
ITEM = Item(name="x", title="X", paper="P", run=lambda bench: REPORT, differs=(f"Rows {HOSTILE}",))


def test_every_verdict_is_there_in_words():
    found = re.findall(r'<span class="verdict (\w+)">([^<]*)</span> <span>([^<]*)', verdicts(REPORT))
    assert [(kind, verdict) for kind, verdict, _ in found] == [
        ("yes", "holds"),
        ("no", "does not hold"),
        ("skipped", "skipped"),
    ]
    assert found[0][2] == "a is above b"
    assert found[2][2].startswith("d: no such file")
    assert [str(check).rpartition(": ")[2].lower() for check in REPORT.checks] == [
        verdict for _, verdict, _ in found[:2]
    ]


def test_nothing_to_say_is_no_card():
    assert verdicts(Report()) == ""
    assert tables(Item(name="x", title="X", paper="P", run=lambda bench: REPORT), Report()) == ""


def test_texts_stay_texts():
    page = html_page((), title="X", above=verdicts(REPORT), below=tables(ITEM, REPORT))
    assert "<img" not in page
    assert page.count("<script") == page.count("</script") == 2
    assert page.index("does not hold") < page.index('id="curves-heading"') < page.index("1.0 ±0.10")


def test_an_item_without_curves_shows_its_figure(tmp_path):
    (tmp_path / "figure.png").write_bytes(b"picture")
    files = (tmp_path / "figure.png", tmp_path / "results.parquet")
    assert 'alt="figure" src="data:image/png;base64,cGljdHVyZQ=="' in pictures(Report(files=files))
    assert pictures(REPORT) == ""
    assert pictures(Report(files=files, results=(pa.table({"accuracy": [1.0]}),))) == ""


def test_a_page_without_curves_needs_something_to_say():
    with pytest.raises(InvalidInput, match="no results"):
        html_page((), title="X")
