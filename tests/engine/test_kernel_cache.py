"""Compilation is paid once per machine, and only by those who compute."""

import os
import subprocess
import sys

USE = """
import numpy as np
from dperm.engine import Table, _kernels
from dperm.row_map import RowMap
from dperm.losses import Logistic

engine = Table(np.eye(3), np.ones(3), row_map=RowMap(x_norm=2.0), n_rows=3).open()
engine.gradient_sum(Logistic(), np.zeros((3, 1)))
stats = _kernels.one_model.stats, _kernels.bound_rows.stats
print(*(sum(getattr(s, kind).values()) for s in stats for kind in ("cache_hits", "cache_misses")))
"""


def python(code, **environment):
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return run.stdout.split()


def test_the_second_process_compiles_nothing(tmp_path):
    assert python(USE, NUMBA_CACHE_DIR=str(tmp_path)) == ["0", "1", "0", "1"]
    assert python(USE, NUMBA_CACHE_DIR=str(tmp_path)) == ["1", "0", "1", "0"]


def test_importing_the_package_does_not_import_the_compiler():
    code = "import sys, dperm.engine; print('numba' in sys.modules, 'dperm.engine.table' in sys.modules)"
    assert python(code) == ["False", "True"]
