"""What a shell offers, through click's own machinery and as the shells call it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from dperm.cli.app import cli
from dperm.datasets import dataset_names
from dperm.mechanisms import mechanism_names

VARIABLE = "_DPERM_COMPLETE"


def offered(line, begun=""):
    """The words that are offered for one that has begun, behind a line; with their kinds."""
    items = ShellComplete(cli, {}, "dperm", VARIABLE).get_completions(line.split(), begun)
    return {item.value: item.type for item in items}


def names(line, begun=""):
    return [name for name, kind in offered(line, begun).items() if kind == "plain"]


def test_commands_and_options():
    assert names("", "comp") == ["compare"]
    assert names("ledger", "ch") == ["check"]
    assert names("fit people.csv", "--max") == ["--max-rows-per-person", "--max-rows"]


@pytest.mark.together
@pytest.mark.parametrize(
    "line",
    [
        "fit people.csv --mechanism",
        "account --mechanism",
        "compare --mechanism",
        "compare --oracle",
        "compare --search",
        "audit",
        "audit rsgd",
        "mechanisms",
    ],
)
def test_mechanisms(line):
    assert names(line) == list(mechanism_names())
    assert names(line, "obj") == ["objective", "objective-kst", "objective-pure"]


def test_a_mechanism_comes_with_its_title():
    (item,) = ShellComplete(cli, {}, "dperm", VARIABLE).get_completions(["account", "--mechanism"], "bolt")
    assert "noise" in item.help


def test_losses_and_relations():
    for command in ("fit people.csv", "compare"):
        assert names(f"{command} --loss")[:6] == [
            "auto",
            "logistic",
            "soft-clip",
            "margin",
            "hard-clip",
            "svm",
        ]
    assert names("account --loss", "s") == ["soft-clip", "svm", "squared", "soft-clip-squared", "softmax"]
    for command in ("fit people.csv", "account", "compare", "ledger create b.db"):
        assert names(f"{command} --neighbours") == ["replace-one", "add-remove"]
        assert names(f"{command} --neighbours", "a") == ["add-remove"]


@pytest.mark.together
@pytest.mark.parametrize("line", ["fit", "compare", "predict model.json"])
def test_data_sets_and_files(line):
    assert names(line) == list(dataset_names())
    assert names(line, "ad") == ["adult"]
    assert offered(line, "peo") == {"peo": "file"}


@pytest.mark.together
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("fit people.csv --schema", "file"),
        ("fit people.csv --output", "file"),
        ("fit people.csv --ledger", "file"),
        ("fit people.csv --import", "file"),
        ("predict", "file"),
        ("verify", "file"),
        ("report model.json --html", "file"),
        ("ledger show", "file"),
        ("compare --out", "dir"),
        ("plot", "dir"),
        ("audit --mutations", "dir"),
    ],
)
def test_files_and_folders(line, kind):
    assert offered(line, "x") == {"x": kind}


def test_no_code_runs_while_a_line_is_completed(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert names(f"account --import {mine} --mechanism", "rsgd-") == ["rsgd-ar"]
    assert not (tmp_path / "ran").exists()


def ran(**variables):
    done = subprocess.run(
        [sys.executable, "-m", "dperm"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.system_noise(failing=0)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shells_get_their_scripts(shell):
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("click asks bash for its version, and there is none")
    script = ran(**{VARIABLE: f"{shell}_source"})
    assert "_dperm_completion" in script
    assert f"{VARIABLE}={shell}_complete" in script
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    assert f"{VARIABLE}={shell}_source dperm" in page.read_text(encoding="utf-8")


@pytest.mark.system_noise(failing=0)
def test_bash_is_answered():
    words = {"COMP_WORDS": "dperm fit people.csv --neighbours a", "COMP_CWORD": "4"}
    assert ran(**{VARIABLE: "bash_complete"}, **words) == "plain,add-remove\n"
