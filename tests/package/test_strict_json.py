"""The one reader of files from strangers: what it refuses, and that nothing else in the package reads JSON."""

import ast
import json
from pathlib import Path

import pytest

import dperm
from dperm.errors import InvalidInput
from dperm.strict_json import canonical, check_object, digest, matches, parse, read_file, typed

SOURCE = Path(dperm.__file__).parent
OWN_FILES = {  # or none at all
    "planning/outlook.py",
    "cli/grammar.py",  # an argument of the command line
    "estimators/report.py",  # what it wrote to memory itself
}


@pytest.mark.together
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": -1e999}',
        b'{"a": ' + b"9" * 500 + b"}",
        b'{"a": ' + b"9" * 5000 + b"}",
        b"[" * 21 + b"]" * 21,
        b"[" * 100_000,
        b'{"a": "\\ud800"}',
        b'{"\\udfff": 1}',
        b"{'a': 1}",
        b'{"a": 01}',
        b'{"a": 1} {"b": 2}',
        b'{"a": 1,}',
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_no_plain_json_is_refused(text):
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_what_is_plain_json_comes_back():
    document = {"a": [1, -2.5, None, True, "é", {"b": 1e308, "c": 5e-324}], "d": 10**300}
    assert parse(json.dumps(document).encode()) == document
    assert parse(canonical(document)) == document
    assert digest(document) == digest(dict(reversed(document.items())))


def test_the_size_of_a_file_is_bounded_before_it_is_parsed(tmp_path):
    path = tmp_path / "file.json"
    path.write_bytes(b"[" + b" " * (1 << 20) + b"]")
    assert read_file(path, lambda value: value, "list", 2 << 20) == []
    with pytest.raises(InvalidInput, match="file.json is not a usable list: the file is larger than 1 MiB"):
        read_file(path, lambda value: value, "list", 1 << 20)


class Form:
    name: str
    count: int
    shares: list[float]
    more: dict[str, float] | None


FORM = {"name": "x", "count": 3, "shares": [0.5, 1], "more": None}


def test_an_object_has_the_keys_and_types_that_were_declared():
    assert typed("it", FORM, Form) == FORM
    for key, value in {
        "name": 3,
        "count": 3.0,
        "shares": [True],
        "more": {"a": "b"},
    }.items():
        with pytest.raises(InvalidInput, match=f"it, {key}"):
            typed("it", {**FORM, key: value}, Form)
    for wrong in ({**FORM, "other": 1}, {"name": "x"}, [], None):
        with pytest.raises(InvalidInput, match="exactly the keys"):
            check_object("it", wrong, FORM)


def test_truth_values_and_numbers_beyond_64_bits_are_no_numbers():
    assert not matches(True, int)
    assert not matches(True, float)
    assert not matches(2**63, int)
    assert not matches(float("inf"), float)
    assert not matches("\ud800", str)


def test_nothing_else_in_the_package_parses_json_that_others_wrote():
    found = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if (
                called
                and node.func.attr in ("loads", "load")
                and getattr(node.func.value, "id", "") == "json"
            ):
                found.add(path.relative_to(SOURCE).as_posix())
    own = {name for name in found if name.startswith("experiments/")} | OWN_FILES
    assert found - own == {"strict_json.py"}
