"""An evaluation as a fragment of a web page."""

from __future__ import annotations

from html import escape

from dperm.evaluation.found import Found
from dperm.evaluation.text import text


def section(found: Found) -> str:
    return f"<pre>{escape(text(found))}</pre>"
