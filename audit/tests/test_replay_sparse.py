"""The replays of mechanisms on worst-case neighbours, with rows that the sparse engine holds."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from dperm.arithmetic import FLOAT64
from dperm.engine.sparse.engine import SparseEngine
from dperm.engine.sparse.rows import SparseRows
from dperm.mechanisms.standardising import MEAN, MOMENTS
from dperm_audit.neighbours import table_of
from dperm_audit.replay import replay_all
from dperm_audit.watch import WatchedTable


class WatchedSparse(WatchedTable):
    """Rows that are watched as a table is, and opened as sparse ones with two numbers at each place."""

    def _engine(self, request):
        whole = csr_array(self._X)
        halves, places = np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2)
        X = csr_array((halves, places, 2 * whole.indptr), shape=whole.shape)
        rows = SparseRows(X, self._y, row_map=self._map, n_rows=self._n_rows)
        rows._used = self._used
        return rows._engine(request)


def sparse_table_of(*given, **facts):
    made = table_of(*given, **facts)
    made.__class__ = WatchedSparse
    return made


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in ("dp-gd", "dp-sgd", "rsgd-ar")]


@pytest.mark.parametrize("name", ["objective", "output", "ssp", *LONG])
@pytest.mark.parametrize("share", [12, pytest.param(4, marks=pytest.mark.slow)])
def test_neighbours_in_sparse_rows_are_as_close_as_declared(name, share, monkeypatch):
    opened, centred = [], []
    original = SparseEngine.__init__

    def noted(self, rows, *rest, **more):
        opened.append(self)
        centred.append(rows.centre.size > 0)
        original(self, rows, *rest, **more)

    monkeypatch.setattr(SparseEngine, "__init__", noted)
    # Rows of three columns with a centre would be held densely; here the sparse engine holds them all.
    monkeypatch.setattr("dperm.engine.sparse.engine.arithmetic_at", lambda *facts: FLOAT64)
    for module in ("replay", "coupling"):
        monkeypatch.setattr(f"dperm_audit.{module}.table_of", sparse_table_of)
    reports = list(replay_all([name], share=share))
    assert [str(report) for report in reports if not report.passed] == []
    own = [step for report in reports for step in report.events if step.name not in (MEAN, MOMENTS)]
    assert max(step.distance / step.declared for step in own) > 0.5
    assert len(opened) > len(reports)
    assert any(centred)
    assert not all(centred)
