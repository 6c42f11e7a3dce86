"""No error is made while another one is being handled, where that other one may quote a record.

Python hangs the one on the other, and ``from None`` only hides it: whoever logs ``__context__`` logs the record.
"""

import ast
from pathlib import Path

import dperm

SOURCE = Path(dperm.__file__).parent
# Handlers in these parts see settings, public files or ledgers, never a row.
NO_ROWS = {
    "unit.py",
    "certificate/statement.py",
    "strict_json.py",  # of files that hold no rows
    "datasets/registry.py",  # of published data sets
    "schema/schema.py",
    "schema/toml.py",
    "models/files.py",
    "release/release.py",  # files of a release
}
LEDGER = "ledger/"


def errors_made_in_handlers(tree):
    """Line numbers of every ``raise`` of a new error inside an ``except`` block."""
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    raises = [node for handler in handlers for node in ast.walk(handler) if isinstance(node, ast.Raise)]
    return sorted({node.lineno for node in raises if node.exc is not None})


def test_errors_about_rows_are_made_outside_handlers():
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name not in NO_ROWS and not name.startswith(LEDGER):
            found[name] = errors_made_in_handlers(ast.parse(path.read_text(encoding="utf-8")))
    assert len(found) > 100
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_an_error_made_in_a_handler_is_noticed():
    inside = "try:\n    f()\nexcept ValueError:\n    raise TypeError(1) from None\n"
    outside = "try:\n    f()\nexcept ValueError:\n    raise\nraise TypeError(1)\n"
    assert errors_made_in_handlers(ast.parse(inside)) == [4]
    assert errors_made_in_handlers(ast.parse(outside)) == []
