"""``dperm reproduce`` and ``dperm curvature`` beside the other commands, and what is said where they are missing."""

import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

import dperm as library
import dperm_papers
from dperm.cli import app
from dperm.cli.app import cli, run
from dperm.cli.options import loss_names
from dperm.datasets import dataset_names
from dperm_papers.cli.curvature import curvature
from dperm_papers.cli.reproduce import reproduce
from dperm_papers.reproduce import item_names

COMMANDS = {"reproduce": reproduce, "curvature": curvature}


@pytest.fixture
def dperm(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(line):
        code = run(line.split())
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_the_entry_points_are_the_commands():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    ours = {name for name, where in app.ADDED_BY.items() if f"dperm-{where}" == project["name"]}
    assert project["entry-points"][app.ENTRY_POINTS].keys() == ours == COMMANDS.keys()
    assert {name: cli.get_command(None, name) for name in COMMANDS} == COMMANDS


def test_the_distributions_have_one_version():
    assert dperm_papers.__version__ == library.__version__ == version("dperm-papers")


@pytest.mark.parametrize("name", COMMANDS)
def test_without_the_package_one_line_says_how_to_get_it(name, dperm, monkeypatch):
    monkeypatch.setattr(app, "_installed", dict)
    assert name not in cli.list_commands(None)
    for line in (name, f"{name} --help", f"{name} frontier --quick"):
        code, out, err = dperm(line)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert "pip install dperm-papers" in err
    code, out, err = dperm("reproduces")
    assert (code, out) == (2, "")
    assert "No such command" in err


def offered(line, begun=""):
    items = ShellComplete(cli, {}, "dperm", "_DPERM_COMPLETE").get_completions(line.split(), begun)
    return [item.value for item in items if item.type == "plain"]


def test_a_shell_completes_items_losses_and_data_sets():
    assert offered("reproduce") == list(item_names())
    assert offered("curvature") == list(dataset_names())
    assert offered("curvature cps --loss")[:3] == ["auto", "logistic", "soft-clip"]


def test_a_near_miss_is_asked_about(dperm):
    for line, meant in (("curvature adut", "adult"), ("reproduce frontiers", "frontier")):
        code, out, err = dperm(line)
        assert (code, out) == (1, "")
        assert len(err.splitlines()) == 1
        assert "Did you mean" in err
        assert repr(meant) in err


def test_curvature_shares_its_options_with_the_other_commands():
    found = {option.opts[0]: option for option in curvature.params if isinstance(option, click.Option)}
    assert found["--import"].is_eager
    assert found["--loss"].type.choices == loss_names()
    fit = {
        option.opts[0]: option for option in cli.commands["fit"].params if isinstance(option, click.Option)
    }
    for name in ("--l2", "--import", "--schema", "--target", "--loss"):
        assert found[name].to_info_dict()["default"] == fit[name].to_info_dict()["default"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_states_every_default_and_fits_eighty_columns(name, dperm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, text, _ = dperm(f"{name} --help")
    assert code == 0
    assert "Example" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    shown = re.sub(r"- ", "-", " ".join(text.split()))
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option):
            assert option.opts[0] in shown
            assert option.is_flag or option.required or option.show_default


def test_curvature_takes_a_plain_encoding(dperm, tmp_path):
    (tmp_path / "people.toml").write_text(
        '[target]\nname = "bought"\nclasses = ["no", "yes"]\n\n[features.age]\nrange = [18, 90]\n'
    )
    (tmp_path / "people.csv").write_text("age,bought\n" + "30,no\n70,yes\n" * 50)
    assert "1 feature" in dperm("curvature people.csv --schema people.toml --spline 0")[1]


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
