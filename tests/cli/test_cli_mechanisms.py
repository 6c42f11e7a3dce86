"""``dperm mechanisms`` as a person sees it."""

import json
import re

import pytest

from dperm.cli.app import run
from dperm.cli.grammar import read_mechanism, settings_of
from dperm.cli.mechanisms import COLUMNS
from dperm.mechanisms import mechanism_names, resolve
from dperm.mechanisms.catalogue import catalogue


def written(value):
    """A setting as a person would type it."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


@pytest.fixture
def dperm(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(line):
        code = run(line.split())
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_help_has_an_example(dperm):
    code, text, _ = dperm("mechanisms --help")
    assert code == 0
    assert "Example" in text


def test_mechanisms_into_a_pipe_one_line_each(dperm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = dperm("mechanisms")
    assert code == 0
    for entry in catalogue():
        (line,) = [
            line for line in out.splitlines() if line.split()[:1] == [entry.name] and entry.released in line
        ]
        assert entry.source in line
        assert ("NOT PRIVATE" in line) == (not entry.private)


@pytest.fixture
def terminal(dperm, monkeypatch):
    """Run a command line as on a terminal of some width; what is printed comes without its colours."""

    def call(line, columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("FORCE_COLOR", "1")
        code, out, _ = dperm(line)
        assert code == 0
        return re.sub(r"\x1b\[[0-9;]*m", "", out)

    return call


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 140, 210])
def test_mechanisms_fit_a_terminal(terminal, columns):
    out = terminal("mechanisms", columns)
    lines = out.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in out
    for entry in catalogue():
        found = [line for line in lines if line.split()[:1] == [entry.name] and line.startswith("   ")]
        assert len(found) == 1  # not wrapped
        assert ("NOT PRIVATE" in found[0]) == (not entry.private)
    heading = next(line for line in lines if line.split()[:1] == ["name"]).split()
    left_out = [name for name in COLUMNS if name not in heading]
    assert heading == [name for name in COLUMNS if name in heading]
    told = " ".join(out.split())
    assert (f"Not shown at this width: {', '.join(left_out)}; --wide" in told) == bool(left_out)
    assert bool(left_out) == (columns < 210)


def test_eighty_columns_hold_what_a_mechanism_covers(terminal):
    headings = [line.split() for line in terminal("mechanisms", 80).splitlines()]
    assert ["name", "accounting", "losses", "relations"] in headings


def test_wide_shows_all_columns_at_any_width(terminal):
    lines = terminal("mechanisms --wide", 60).splitlines()
    assert list(COLUMNS) in [line.split() for line in lines]
    assert max(map(len, lines)) > 150


def test_mechanisms_by_name_tell_their_settings_as_the_grammar_takes_them(dperm):
    code, out, _ = dperm("mechanisms rsgd-ar dp-gd")
    assert code == 0
    for name in ("rsgd-ar", "dp-gd"):
        mechanism = resolve(name)
        assert f"{name}: {mechanism.title}" in out
        text = " ".join([name, *(f"{key}={written(value)}" for key, value in settings_of(mechanism).items())])
        assert all(part in out for part in text.split())
        assert read_mechanism(text) == mechanism
    assert "majority" not in out
    code, out, _ = dperm("mechanisms dp-gd --json")
    (entry,) = json.loads(out)
    assert entry["settings"] == settings_of(resolve("dp-gd"))


def test_mechanisms_json(dperm):
    code, out, _ = dperm("mechanisms --json")
    listed = json.loads(out)
    assert code == 0
    assert {entry["name"] for entry in listed} == set(mechanism_names())
    for key in ("family", "losses", "relations", "released", "accountings", "source", "private"):
        assert all(key in entry for entry in listed)
