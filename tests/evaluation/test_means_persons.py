"""Mean predictions by person: the first row of each counts, and the guarantee is for a person."""

import numpy as np
import pytest

import dperm
from dperm.errors import InvalidInput, Unsupported

RNG = np.random.default_rng(4)
X = RNG.uniform(-0.5, 0.5, (2000, 2))
Y = (X[:, 0] > 0).astype(int)
IDS = RNG.integers(0, 500, 2000)
WARD = np.where(RNG.uniform(size=2000) < 0.4, "A", "B")
BUDGET = dperm.Budget(1.0, 1e-6)
MODEL = dperm.PrivateLogisticRegression(epsilon=1, delta=1e-6, classes=[0, 1]).fit(X, Y)
BY_PERSON = dperm.PrivateLogisticRegression(epsilon=1, delta=1e-6, classes=[0, 1]).fit(X, Y, groups=IDS)


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
def test_the_first_row_of_each_person_counts():
    _, first = np.unique(IDS, return_index=True)
    first.sort()
    how = {"values": ["A", "B"], "random_state": 0}
    all_rows = dperm.mean_predictions(MODEL, X, BUDGET, by=WARD, groups=IDS, **how)
    some = dperm.mean_predictions(MODEL, X[first], BUDGET, by=WARD[first], **how)
    assert all_rows.release["numbers"] == some.release["numbers"]
    assert all_rows.rows == len(first)
    assert any("for a person" in note for note in all_rows.notes)
    assert not any("for a person" in note for note in some.notes)


def test_a_model_of_persons_is_refused_without_ids_unless_rows_are_meant():
    with pytest.raises(InvalidInput, match="would be private for single rows"):
        dperm.mean_predictions(BY_PERSON, X, BUDGET)
    assert dperm.mean_predictions(BY_PERSON, X, BUDGET, unit="row").rows == 2000


def test_ids_must_fit():
    with pytest.raises(InvalidInput, match="ids for 2,000 rows"):
        dperm.mean_predictions(MODEL, X, BUDGET, groups=IDS[:-1])


def test_the_ledger_is_charged_for_a_person(tmp_path):
    ledger = dperm.Ledger.create(tmp_path / "p.db", epsilon=3, delta=1e-5, unit="person")
    dperm.mean_predictions(MODEL, X, BUDGET, groups=IDS, ledger=ledger)
    assert ledger.spent() <= 1.0
    with pytest.raises(Unsupported, match="kept for one person"):
        dperm.mean_predictions(MODEL, X, BUDGET, ledger=ledger)
