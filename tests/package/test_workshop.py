"""What is said twice about versions, dependencies and commands is said the same way."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

import dperm

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = {path.stem: path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")}
PYTHONS = [words.rpartition(" ")[2] for words in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", words)]


def pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE))


def requirements(*extras: str) -> list[Requirement]:
    """What the package and the extras need, each other left out."""
    lines = [
        *PROJECT["dependencies"],
        *(line for extra in extras for line in PROJECT["optional-dependencies"][extra]),
    ]
    return [needed for needed in map(Requirement, lines) if needed.name != "dperm"]


def lower_bound(needed: Requirement) -> Version:
    (bound,) = (part.version for part in needed.specifier if part.operator == ">=")
    return Version(bound)


def test_the_oldest_versions_are_the_lower_bounds():
    oldest = pins((ROOT / "requirements" / "oldest.txt").read_text())
    bounds = {needed.name: lower_bound(needed) for needed in requirements("cli", "excel", "onnx", "test")}
    assert {name: Version(version) for name, version in oldest.items()} == bounds


def test_the_lock_meets_every_requirement_and_names_no_index():
    text = (ROOT / "requirements" / "dev.txt").read_text()
    locked = pins(text)
    for needed in requirements("cli", "test", "docs", "dev"):
        versions = re.findall(rf"^{re.escape(needed.name)}==([\w.]+)", text, re.MULTILINE | re.IGNORECASE)
        assert versions, needed
        assert all(version in needed.specifier for version in versions), needed
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) >= len(locked)


def test_the_hooks_run_the_locked_versions():
    locked = pins((ROOT / "requirements" / "dev.txt").read_text())
    hooks = re.findall(r'"([\w-]+)==([\w.]+)"', (ROOT / ".pre-commit-config.yaml").read_text())
    assert {version for name, version in hooks if name == "ruff"} == {locked["ruff"]}


def test_every_python_is_tested():
    assert PYTHONS == ["3.11", "3.12", "3.13", "3.14"]
    newest = re.search(r"newest:.*?python: \[(.*?)\]", WORKFLOWS["tests"], re.DOTALL)[1]
    assert newest.replace('"', "").split(", ") == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


def test_every_command_that_is_named_is_a_target():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = [
        *WORKFLOWS.values(),
        *((ROOT / name).read_text() for name in (".ci/run", ".pre-commit-config.yaml")),
        *re.findall(r"`(make [\w -]+)`", (ROOT / "CONTRIBUTING.md").read_text()),
        *re.findall(r"^(make \w+)", (ROOT / "README.md").read_text(), re.MULTILINE),
    ]
    used = {
        word
        for text in named
        for words in re.findall(r"\bmake ([a-z][a-z -]*)", text)
        for word in words.split()
    }
    assert {"check", "test", "test-slow", "coverage", "docs", "locked", "demo"} <= used
    assert used <= targets


def test_the_checks_are_the_ones_that_contributors_are_told_of():
    assert re.search(r"^check: lint types graph words docs$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r"^make (\w+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE) == ["check", "test"]
    assert "run: make lint types graph words\n" in WORKFLOWS["check"]
    assert "run: make docs\n" in WORKFLOWS["check"]


def test_the_citation_has_the_version():
    assert f'version: "{dperm.__version__}"' in (ROOT / "CITATION.cff").read_text()


def test_a_release_needs_no_token():
    release = WORKFLOWS["release"]
    assert "id-token: write" in release
    assert "secrets." not in release
    assert all("permissions:\n  contents: read\n" in text for text in WORKFLOWS.values())
