"""Imports point one way, `import dperm` is light, and every public name resolves."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dperm

SOURCE = Path(dperm.__file__).parent

# From the bottom to the top; a package may import those on lower lines only, and itself.
LAYERS = [
    {"errors", "arithmetic"},
    {"neighbours"},
    {"losses", "row_map"},
    {"problem"},
    {"privacy", "engine", "solvers", "datasets"},
    {"planning"},
    {"mechanisms"},
    {"ledger", "certificate", "analysis"},
    {"audit"},
    {"estimators"},
    {"models"},
    {"experiments"},
    {"cli", "plot"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported_parts(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("dperm.")}
    return found & set(LEVEL)


def offences(part: str, imported: set[str]) -> set[str]:
    return {other for other in imported if other != part and LEVEL[other] >= LEVEL[part]}


def test_every_part_has_a_layer():
    parts = {p.stem if p.is_file() else p.name for p in SOURCE.iterdir() if p.suffix in ("", ".py")}
    assert parts - {"__init__", "__pycache__"} == set(LEVEL)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part == "__init__":
        return
    assert not offences(part, imported_parts(path))


def test_an_upward_import_is_noticed():
    assert offences("engine", {"errors", "mechanisms", "privacy"}) == {"mechanisms", "privacy"}


def test_engine_is_the_only_part_that_compiles_or_opens_rows():
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(
            line.strip().startswith(("import numba", "from numba")) for line in path.read_text().splitlines()
        )
    }
    assert users
    assert all(user.startswith("engine/_") for user in users)


def test_import_is_light():
    code = "import sys, dperm; print(*sorted(m.split('.')[0] for m in sys.modules))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    heavy = {
        "numba",
        "opendp",
        "dp_accounting",
        "sklearn",
        "scipy",
        "pyarrow",
        "matplotlib",
        "pandas",
        "numpy",
    }
    assert not loaded & heavy


def test_estimators_do_not_load_what_only_noise_or_figures_need():
    code = "import sys, dperm; dperm.PrivateLogisticRegression; print(*sorted(m.split('.')[0] for m in sys.modules))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert "sklearn" in loaded
    # scikit-learn itself loads pandas, and that pyarrow, where they are installed
    assert not loaded & {"numba", "opendp", "dp_accounting", "matplotlib"}


def test_public_names_resolve():
    assert {name: getattr(dperm, name) for name in dperm.__all__}
    assert set(dperm.__all__) <= set(dir(dperm))
    with pytest.raises(AttributeError):
        dperm.no_such_name  # noqa: B018


def test_only_public_scikit_learn_names_are_used():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
                assert not [name for name in names if name.startswith("_")], path
