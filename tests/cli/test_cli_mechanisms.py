"""``dperm mechanisms`` and ``dperm curvature`` as a person sees them."""

import json

import pytest

from dperm.cli.app import run
from dperm.mechanisms import mechanism_names
from dperm.mechanisms.catalogue import catalogue


@pytest.fixture
def dperm(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(line):
        code = run(line.split())
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_help_has_an_example(dperm):
    for command in ("mechanisms", "curvature"):
        code, text, _ = dperm(f"{command} --help")
        assert code == 0
        assert "Example" in text


@pytest.mark.parametrize("columns", ["60", "100", "200"])
def test_mechanisms_one_line_each(dperm, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    code, out, _ = dperm("mechanisms")
    assert code == 0
    for entry in catalogue():
        (line,) = [
            line for line in out.splitlines() if line.split()[:1] == [entry.name] and entry.released in line
        ]
        assert entry.source in line
        assert ("NOT PRIVATE" in line) == (not entry.private)


def test_mechanisms_json(dperm):
    code, out, _ = dperm("mechanisms --json")
    listed = json.loads(out)
    assert code == 0
    assert {entry["name"] for entry in listed} == set(mechanism_names())
    for key in ("family", "losses", "relations", "released", "accountings", "source", "private"):
        assert all(key in entry for entry in listed)


def test_curvature_says_that_it_is_not_private(dperm):
    code, out, _ = dperm("curvature cps --l2 1e-3 --sigma 1 --sigma 0.05")
    assert code == 0
    assert "NOT PRIVATE" in out
    assert "noise 0.05 on the iterate" in out
    code, out, _ = dperm("curvature cps --l2 1e-3 --sigma 1 --sigma 0.05 --json")
    found = json.loads(out)
    assert found["not_private"].startswith("NOT PRIVATE")
    assert list(found["expected"]) == ["1.0", "0.05"]
    assert found["minimum"] == pytest.approx(
        1e-3, rel=1e-9
    )  # the categories of a column sum to one: a flat direction
    assert found["minimum"] < found["average"] < found["maximum"]
    # Logistic loss at zero weights: a quarter of the mean squared row, which is at most 1.044 squared.
    assert found["average"] <= (0.25 * 1.09 + 9 * 1e-3) / 9


def test_curvature_refuses(dperm):
    code, out, err = dperm("curvature cps --sigma 0")
    assert (code, out) == (1, "")
    assert "noise scales" in err
    assert dperm("curvature cps --loss cubic")[0] == 2
