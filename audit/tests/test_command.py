"""``dperm audit`` is a command of this distribution, and the library says where it comes from."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import dperm as library
import dperm_audit
from dperm.cli import app
from dperm.cli.app import cli, run
from dperm_audit.command import audit


def test_the_entry_point_is_the_command():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    ours = {name for name, where in app.ADDED_BY.items() if f"dperm-{where}" == project["name"]}
    assert project["entry-points"][app.ENTRY_POINTS].keys() == ours == {"audit"}
    assert cli.get_command(None, "audit") is audit


def test_library_and_audit_have_one_version():
    assert dperm_audit.__version__ == library.__version__ == version("dperm-audit")


def test_without_the_package_one_line_says_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setattr(app, "_installed", dict)
    for line in ("audit", "audit --help", "audit output --runs 2000"):
        code = run(line.split())
        out, err = capsys.readouterr()
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert "pip install dperm-audit" in err
        assert "./audit" in err


def test_nothing_in_the_library_imports_it():
    sources = Path(library.__file__).parent.rglob("*.py")
    assert [str(path) for path in sources if "dperm_audit" in path.read_text(encoding="utf-8")] == []
