"""Compilation is paid once per machine and loss, and only by those who compute."""

import os
import subprocess
import sys

import pytest

USE = """
import numpy as np
from dperm.engine import Table
from dperm.engine.base import kernels as shared
from dperm.engine.dense import kernels
from dperm.losses import {loss}
from dperm.row_map import RowMap

rows = Table(np.eye(3), np.ones(3), row_map=RowMap(x_norm=2.0), n_rows=3).open()
rows.value_and_gradient_sum({loss}(), np.zeros((3, {models})))
stats = {kernel}.stats, kernels.bound_rows.stats
print(*(sum(getattr(s, kind).values()) for s in stats for kind in ("cache_hits", "cache_misses")))
"""

MINE = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.losses import Linear
from dperm.losses.base import Kernel


def _slope(margin, y, one):
    return {factor} * y


def _value(margin, y, one):
    return {factor} * y * margin


@dataclass(frozen=True)
class Mine(Linear):
    name: ClassVar[str] = "mine"
    kernel: ClassVar[Kernel] = Kernel(slope=_slope, value=_value)
"""

USE_MINE = """
import numpy as np
from dperm.engine import Table
from dperm.engine.dense import kernels
from dperm.row_map import RowMap
from mine import Mine

rows = Table(np.eye(3), np.ones(3), row_map=RowMap(x_norm=2.0), n_rows=3).open()
found = rows.gradient_sum(Mine(), np.zeros((3, 1)))[0, 0]
print(found, sum(kernels.one_model.stats.cache_misses.values()))
"""


def python(code, **environment):
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return run.stdout.split()


@pytest.mark.system_noise(failing=0)
def test_the_second_process_compiles_nothing(tmp_path):
    use = USE.format(loss="Logistic", models=2, kernel="shared.slopes_of_models")
    assert python(use, NUMBA_CACHE_DIR=str(tmp_path)) == ["0", "1", "0", "1"]
    assert python(use, NUMBA_CACHE_DIR=str(tmp_path)) == ["1", "0", "1", "0"]


@pytest.mark.slow
@pytest.mark.system_noise(failing=0)
def test_each_loss_is_compiled_for_itself(tmp_path):
    for loss in ("Logistic", "HuberHinge"):
        code = USE.format(loss=loss, models=1, kernel="kernels.one_model")
        assert python(code, NUMBA_CACHE_DIR=str(tmp_path))[:2] == ["0", "1"]
    assert python(code, NUMBA_CACHE_DIR=str(tmp_path))[:2] == ["1", "0"]


@pytest.mark.slow
@pytest.mark.system_noise(failing=0)
def test_a_changed_formula_is_compiled_anew_and_a_lost_one_harms_nobody(tmp_path):
    """Without this a library's old formula would go on running after its file was corrected."""
    path = os.pathsep.join([str(tmp_path), *sys.path])
    setting = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    for factor, compiled in ((2, 1), (3, 1), (2, 0)):
        (tmp_path / "mine.py").write_text(MINE.format(factor=f"{factor}.0"))
        assert python(USE_MINE, **setting) == [f"{factor}.0", str(compiled)]
    (tmp_path / "mine.py").unlink()
    use = USE.format(loss="Logistic", models=1, kernel="kernels.one_model")
    assert python(use, **setting) == ["0", "1", "1", "0"]


@pytest.mark.system_noise(failing=0)
def test_importing_the_package_does_not_import_the_compiler():
    code = "import sys, dperm.engine; print('numba' in sys.modules, 'dperm.engine.dense.rows' in sys.modules)"
    assert python(code) == ["False", "True"]
