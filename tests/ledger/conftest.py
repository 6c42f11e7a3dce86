import pytest

from dperm import Ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(path):
    return Ledger.create(path, epsilon=1.0, delta=1e-6)
