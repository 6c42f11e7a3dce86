"""``--import``: names that a module registers are known to every command that resolves one."""

import importlib
import sys

import pytest

from dperm.cli.app import run
from dperm.mechanisms import mechanism_names, registry

MINE = '''
from dataclasses import dataclass
from typing import ClassVar

from dperm.mechanisms import Output, register


@register
@dataclass(frozen=True)
class Mine(Output):
    """Output perturbation under another name."""

    name: ClassVar[str] = "my-output"
'''
FIT = "fit people.csv --schema people.toml --epsilon 1 --delta 1e-6 --output model.json"


@pytest.fixture
def dperm(tmp_path, monkeypatch, capsys):
    """Run a command line; the registry and the modules forget what a test imports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_MECHANISMS", dict(registry._MECHANISMS))
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "people.toml").write_text(
        '[target]\nname = "bought"\nclasses = ["no", "yes"]\n\n[features.age]\nrange = [18, 90]\n'
    )
    (tmp_path / "people.csv").write_text("age,bought\n" + "30,no\n70,yes\n" * 100)

    def call(line, *more):
        code = run([*line.split(), *more])
        out, err = capsys.readouterr()
        return code, out, err

    yield call
    sys.modules.pop("mine", None)


def test_a_mechanism_of_a_file_is_fitted_verified_and_used(dperm):
    assert dperm(f"{FIT} --mechanism my-output")[0] == 1
    code, out, err = dperm(f"{FIT} --import mine.py", "--mechanism", "my-output tolerance=1e-3")
    assert code == 0, err
    assert "my-output" in out
    for line in ("verify model.json", "predict model.json people.csv", "report model.json"):
        assert dperm(f"{line} --import mine.py")[0] == 0, line


def test_a_model_needs_the_module_again(dperm, monkeypatch):
    assert dperm(f"{FIT} --import mine.py --mechanism my-output")[0] == 0
    monkeypatch.setattr(
        registry, "_MECHANISMS", {k: v for k, v in registry._MECHANISMS.items() if k != "my-output"}
    )
    for line in ("verify model.json", "predict model.json people.csv", "report model.json"):
        code, out, err = dperm(line)
        assert code == 1
        assert "'my-output'" in out + err


@pytest.mark.parametrize(
    "line",
    [
        "account --mechanism my-output --import mine.py --n 100 --epsilon 1 --delta 1e-6",
        "mechanisms my-output --import mine.py",
        "compare people.csv --schema people.toml --mechanism my-output --import mine.py --epsilon 1 --repeats 1",
    ],
)
def test_it_comes_before_all_names_wherever_it_stands(dperm, line):
    code, out, err = dperm(line)
    assert code == 0, err
    assert "my-output" in out
    assert "my-output" in mechanism_names()


def test_a_module_by_its_name(dperm, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert dperm("mechanisms my-output --import mine")[0] == 0


@pytest.mark.parametrize(
    ("module", "text", "says"),
    [
        ("nowhere.py", None, "there is no such file"),
        ("no_such_module", None, "No module named"),
        ("", None, "Empty module name"),
        ("broken.py", "1 / 0\n", "ZeroDivisionError: division by zero"),
        ("broken.py", "def\n", "SyntaxError"),
        ("broken.py", "import no_such_module\n", "No module named"),
        ("twice.py", MINE.replace("my-output", "output"), "a mechanism named 'output' is registered already"),
        ("json.py", "", "a module named 'json' is loaded already"),
    ],
)
def test_what_cannot_be_imported_is_said_so(dperm, tmp_path, module, text, says):
    if text is not None:
        (tmp_path / module).write_text(text)
    code, out, err = dperm("mechanisms --import", module)
    assert (code, out) == (1, "")
    assert err.startswith(f"dperm: --import {module}: ")
    assert says in err
    assert "Traceback" not in err


def test_a_self_test_knows_nothing_of_imports(dperm):
    code, _, err = dperm("audit --self-test --import mine.py my-output")
    assert code == 2
    assert "leave out --import" in err


def test_an_audit_of_what_was_imported_stays_in_this_process(dperm, monkeypatch):
    asked = {}

    def noted(names, epsilon, delta, **settings):
        asked.update(settings, names=names)
        return iter(())

    module = importlib.import_module("dperm_audit.examination")
    monkeypatch.setattr(module, "audit_all", noted)
    monkeypatch.setattr(module, "noise_differs_between_processes", lambda: True)
    assert dperm("audit my-output --import mine.py --processes 4")[0] == 0
    assert (asked["names"], asked["processes"]) == (("my-output",), 1)
    assert dperm("audit output --processes 4")[0] == 0
    assert asked["processes"] == 4
