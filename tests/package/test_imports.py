"""`import dperm` is light, and every public name resolves. Which module may import which: `test_import_graph.py`."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dperm
import names

SOURCE = Path(dperm.__file__).parent


def test_kernels_of_the_engine_alone_know_numba():
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(
            line.strip().startswith(("import numba", "from numba")) for line in path.read_text().splitlines()
        )
    }
    compiled = {"engine/base/formulas.py", "engine/base/intrinsics.py", "engine/base/kernels.py"}
    assert users == {"compiling.py", *compiled}


@pytest.mark.system_noise(failing=0)
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


@pytest.mark.system_noise(failing=0)
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
    assert set(dir(dperm)) == {*dperm.__all__, "__version__"}
    assert len(dir(dperm)) <= 35
    assert not {mechanism.__name__ for mechanism in dperm.mechanisms.registered()} & set(dir(dperm))
    with pytest.raises(AttributeError):
        dperm.no_such_name  # noqa: B018


def test_only_public_scikit_learn_names_are_used():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
                assert not [name for name in names if name.startswith("_")], path


def test_the_stubs_name_what_the_packages_export():
    assert names.stale() == [], "run: make names"
