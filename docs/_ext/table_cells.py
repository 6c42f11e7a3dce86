"""Cells that hold a number or one name do not wrap, and those with sentences stay wide: classes for the style sheet."""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

NUMBER = re.compile(r"[-+≈]? ?\d[^a-zA-Z]{0,30}|[-+]?\d\S* \(\w+\)|-|")
LONGEST = 26


def kind(cell: nodes.entry) -> str | None:
    text = cell.astext().strip()
    if NUMBER.fullmatch(text) and len(text) <= LONGEST:
        return "number"
    inside = list(cell.children[0].children) if len(cell.children) == 1 else []
    alone = len(inside) == 1 and isinstance(inside[0], nodes.literal | nodes.reference | pending_xref)
    if alone and len(text) <= LONGEST:
        return "name"
    return "words" if len(text) > LONGEST else None


def mark(app: Sphinx, doctree: nodes.document) -> None:
    for cell in doctree.findall(nodes.entry):
        found = kind(cell)
        if found is not None:
            cell["classes"].append(found)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True}
