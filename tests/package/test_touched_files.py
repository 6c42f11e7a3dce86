"""How many files of the package a reader of one call has to open: none of the four walks may grow."""

import os
import sys

import numpy as np
import pytest

import dperm
from dperm import Budget, PrivateLogisticRegression

pytestmark = pytest.mark.system_noise(failing=0)  # nothing is asserted of what is drawn

FIT, EVALUATE, VERIFY, DASK = 44, 36, 42, 44  # lower these whenever fewer are touched
ROOT = os.path.dirname(dperm.__file__)


def touched(call):
    """The package's files of which a function is called, in this thread."""
    seen = set()

    def watch(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(ROOT):
            seen.add(os.path.relpath(name, ROOT))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted(seen)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5)) / 3
    return X, (X[:, 0] > 0).astype(int)


def fitted(X, y):
    return PrivateLogisticRegression(epsilon=1, delta=1e-6, classes=[0, 1]).fit(X, y)


def check(call, most):
    call()  # nothing is compiled or loaded while the files are counted
    files = touched(call)
    assert len(files) <= most, files


def test_fit(table):
    check(lambda: fitted(*table), FIT)


def test_evaluate(table):
    model = fitted(*table)
    check(lambda: dperm.evaluate(model, *table, Budget(1, 1e-6)), EVALUATE)


def test_verify(table, tmp_path):
    path = tmp_path / "model.json"
    fitted(*table).save(path)
    check(lambda: dperm.verify(path), VERIFY)


@pytest.mark.engines
def test_a_fit_on_dask(table):
    da = pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    X, y = table
    with distributed.Client(processes=False, dashboard_address=None):
        rows, labels = (da.from_array(part, chunks=len(part) // 2) for part in (X, y))
        check(lambda: fitted(rows, labels), DASK)
