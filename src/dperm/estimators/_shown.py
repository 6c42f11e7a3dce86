"""What a notebook shows of a fitted model and of its privacy report; every word that came from outside is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dperm.estimators.report import PrivacyReport

SHORT = 20
"""Rows of a table that is shown at once."""

_STYLE = (
    "<style>.dperm-privacy{margin:.4em 0}.dperm-privacy table{border-collapse:collapse}.dperm-privacy td{padding:.1em "
    ".7em .1em 0;text-align:left;vertical-align:top;border:0;background:none}.dperm-privacy .bad{color:#b00020;"
    "font-weight:bold}.dperm-privacy .good{font-weight:bold}</style>"
)


def report_html(report: PrivacyReport) -> str:
    """The guarantee in a line, the facts behind it and the assumptions below."""
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(told)}</td></tr>" for name, told in report.facts)
    assumed = "".join(f"<li>{escape(str(one))}</li>" for one in report.assumptions)
    return _framed(
        _headline(report) + f"<details><summary>How it is reached</summary><table>{rows}</table></details>"
        f"<details><summary>What is assumed</summary><ul>{assumed}</ul></details>"
    )


def model_html(diagram: str, report: PrivacyReport, summary: str, n_rows: int) -> str:
    """scikit-learn's diagram, the guarantee, and the coefficients, which are folded where they are many."""
    opened = " open" if n_rows <= SHORT else ""
    head = _framed(_headline(report))
    said = f"<details{opened}><summary>What the model says</summary>{summary}</details>"
    return f"<div>{diagram}{head}{said}</div>"


def _headline(report: PrivacyReport) -> str:
    return f'<p class="{"bad" if report.guarantee is None else "good"}">{escape(report.headline)}</p>'


def _framed(*parts: str) -> str:
    return f'<div class="dperm-privacy">{_STYLE}{"".join(parts)}</div>'
