"""Classes for the style sheet: cells that hold a number or one name do not wrap, those with sentences stay wide, and
tables of many numbers are small."""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

NUMBER = re.compile(r"[-+≈]? ?\d[^a-zA-Z]{0,30}|[-+]?\d\S* \(\w+\)|ε = \d\S*|-|")
LONGEST = 26
DENSE = 105
"""Characters in the longest line of a table from which on it is set in smaller type."""


def kind(cell: nodes.entry) -> str | None:
    text = cell.astext().strip()
    if NUMBER.fullmatch(text) and len(text) <= LONGEST:
        return "number"
    inside = list(cell.children[0].children) if len(cell.children) == 1 else []
    alone = len(inside) == 1 and isinstance(inside[0], nodes.literal | nodes.reference | pending_xref)
    if (alone or " " not in text) and len(text) <= LONGEST:
        return "name"
    return "words" if len(text) > LONGEST else None


def is_dense(table: nodes.table) -> bool:
    rows = [list(row.findall(nodes.entry)) for row in table.findall(nodes.row)]
    numbers = all(kind(cell) != "words" for row in rows for cell in row)
    return numbers and max(sum(len(cell.astext()) for cell in row) for row in rows) > DENSE


def mark(app: Sphinx, doctree: nodes.document) -> None:
    for cell in doctree.findall(nodes.entry):
        found = kind(cell)
        if found is not None:
            cell["classes"].append(found)
    for table in doctree.findall(nodes.table):
        if is_dense(table):
            table["classes"].append("dense")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True}
