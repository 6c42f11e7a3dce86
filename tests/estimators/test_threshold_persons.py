"""Thresholds of models that were trained by person: a person moves the counts no more than a row; Theorem 5."""

import numpy as np
import pytest
from scipy import sparse

import dperm
from dperm import PrivateLogisticRegression
from dperm.counting.design import share_bits, shared_counts
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators import classifier as tuning
from dperm.estimators.persons import GroupedRows
from dperm.ledger import Ledger
from dperm.privacy import Gate

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")

RNG = np.random.default_rng(4)
N, PERSONS = 900, 200
X = RNG.uniform(-0.5, 0.5, (N, 3))
Y = (X[:, 0] + 0.2 * RNG.normal(size=N) > 0).astype(int)
IDS = RNG.integers(0, PERSONS, N)
HIDDEN = {"neighbours": "add-remove", "max_rows": 300}


def fitted(**settings):
    settings = {"classes": [0, 1], "mechanism": "output", "epsilon": 3.0, **settings}
    return PrivateLogisticRegression(**settings).fit(X, Y, groups=IDS)


@pytest.fixture
def seen(monkeypatch):
    """The counts that meet noise, and the noise."""
    passages = []
    exact = Gate.release_one

    def release_one(gate, values, noise, name):
        passages.append((np.array(values), noise))
        return exact(gate, values, noise, name)

    monkeypatch.setattr(Gate, "release_one", release_one)
    return passages


def neighbour(person, n_rows, hidden, rng):
    """The table without a person, or with another one in their place, who has so many rows."""
    kept = person != IDS
    if hidden:
        return X[kept], Y[kept], IDS[kept]
    rows = rng.uniform(-0.5, 0.5, (n_rows, 3)) * np.where(rng.random() < 0.5, 1, 50)
    return (
        np.vstack([X[kept], rows]),
        np.append(Y[kept], rng.integers(0, 2, n_rows)),
        np.append(IDS[kept], np.full(n_rows, person)),
    )


@pytest.mark.parametrize("person_loss", ["mean", "sum"])
@pytest.mark.parametrize("hidden", [False, True], ids=["replace-one", "add-remove"])
def test_one_person_moves_the_counts_by_their_sensitivity_and_no_more(seen, hidden, person_loss):
    most = {"max_rows_per_person": 3, "person_loss": "sum"} if person_loss == "sum" else {}
    model = fitted(**(HIDDEN if hidden else {}), **most)
    seen.clear()
    model.tune_threshold(X, Y, epsilon=1.0, groups=IDS)
    ((before, noise),) = seen
    assert before.sum() == pytest.approx(len(set(IDS)), abs=1e-6)  # each person counts as one
    rng = np.random.default_rng(7)
    moves, by_rows = [], []
    for person in range(30):
        rows, labels, ids = neighbour(person, (1, 2, 60)[person % 3], hidden, rng)
        seen.clear()
        model.tune_threshold(rows, labels, epsilon=1.0, groups=ids)
        moves.append(float(np.linalg.norm(seen[0][0] - before)))
        by_rows.append(abs(len(rows) - len(X)))
    assert max(moves) <= noise.sensitivity
    assert max(moves) > noise.sensitivity / 2
    assert max(by_rows) > 2 * noise.sensitivity  # the control: counts of rows would move by more


def test_shares_are_added_exactly_however_many_persons_there_are():
    grouped = GroupedRows.of(np.repeat(np.arange(7), 3))
    cells = np.arange(21) % 4
    for n_units in (7, 2**23, 2**30, 2**40):
        bits = 30 - max(0, n_units.bit_length() - 23)
        assert share_bits(n_units) == bits
        counts = shared_counts(cells, 4, grouped.shares(), bits)
        assert counts.dtype == np.int64
        assert n_units * 2**bits <= 2**53  # whole numbers that a float holds
        assert 7 * (1 - 3 * 2.0**-bits) <= counts.sum() / 2**bits <= 7
    thirds = shared_counts(np.zeros(3, int), 2, GroupedRows.of([1, 1, 1]).shares())
    assert thirds[0] < 2**30  # rounded down


@pytest.mark.parametrize("hidden", [False, True], ids=["replace-one", "add-remove"])
@pytest.mark.parametrize("kind", ["array", "sparse"])
def test_file_and_report_say_persons_and_verify(tmp_path, hidden, kind):
    model = fitted(**(HIDDEN if hidden else {}))
    rows = sparse.csr_matrix(X) if kind == "sparse" else X
    model.tune_threshold(rows, Y, epsilon=0.5, groups=IDS)
    assert model.threshold_.unit == "one person"
    assert model.threshold_.n_units == (300 if hidden else len(set(IDS)))
    assert f"on {model.threshold_.n_units} persons; costs (0.5, 1e-06) beside the fit" in str(model.privacy_)
    model.save(tmp_path / "m.json")
    verdict = dperm.verify(tmp_path / "m.json", unit="person", max_epsilon=3.5)
    assert verdict.ok, verdict
    assert verdict.guarantee["epsilon"] == 3.5
    assert dperm.load_model(tmp_path / "m.json").threshold_ == model.threshold_


def test_one_row_each_counts_as_rows_do(seen):
    by_row = PrivateLogisticRegression(classes=[0, 1], mechanism="output", random_state=0).fit(X, Y)
    by_person = PrivateLogisticRegression(classes=[0, 1], mechanism="output", random_state=0)
    by_person.set_params(max_rows_per_person=1).fit(X, Y, groups=np.arange(N)[::-1])
    seen.clear()
    by_row.tune_threshold(X, Y, epsilon=1.0)
    by_person.tune_threshold(X, Y, epsilon=1.0, groups=np.arange(N))
    assert np.array_equal(seen[0][0], seen[1][0])
    assert seen[0][1] == seen[1][1]


def test_the_ledger_is_charged_for_persons(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db", epsilon=5.0, delta=1e-4, unit="person")
    model = fitted(ledger=ledger, epsilon=1.0).tune_threshold(X, Y, epsilon=1.0, groups=IDS, ledger=ledger)
    assert [(entry.kind, entry.unit) for entry in ledger.entries()] == [
        ("fit", "person"),
        ("threshold", "person"),
    ]
    assert model.privacy_.epsilon == 2.0


def test_refusals_come_before_anything_is_spent(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db", epsilon=5.0, delta=1e-4, unit="person", strict=True)
    model = fitted()
    paying = {"epsilon": 0.5, "ledger": ledger}
    with pytest.raises(InvalidInput, match="trained by person.*give groups"):
        model.tune_threshold(X, Y, **paying)
    with pytest.raises(InvalidInput, match="ids for"):
        model.tune_threshold(X, Y, groups=IDS[:-1], **paying)
    with pytest.raises(InvalidInput, match="one for each row"):
        model.tune_threshold(X, Y, groups="patient", **paying)
    by_row = PrivateLogisticRegression(classes=[0, 1], mechanism="output").fit(X, Y)
    with pytest.raises(Unsupported, match="trained by rows"):
        by_row.tune_threshold(X, Y, groups=IDS, **paying)
    assert ledger.entries() == []
    assert model.threshold_ is None
    assert model.privacy_.epsilon == 3.0


def test_shards_of_persons_are_refused_before_anything_is_spent(tmp_path):
    dask = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    import pandas as pd

    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = PrivateLogisticRegression(classes=[0, 1], mechanism="output").fit(frame, Y, groups=IDS)
    ledger = Ledger.create(tmp_path / "b.db", epsilon=5.0, delta=1e-4, unit="person", strict=True)
    held = dask.from_pandas(frame.assign(y=Y, patient=IDS), npartitions=2)
    for groups in ("patient", IDS):
        with pytest.raises(Unsupported, match="rows that belong to persons are not counted in shards"):
            model.tune_threshold(held, "y", groups=groups, epsilon=0.5, ledger=ledger)
    assert ledger.entries() == []


def test_more_persons_than_declared_are_refused():
    model = fitted(**HIDDEN)
    with pytest.raises(InvalidInput, match="more persons than max_rows"):
        model.tune_threshold(X, Y, epsilon=0.5, groups=np.arange(N))
    assert model.threshold_ is None


def test_it_is_close_to_what_all_rows_say_without_noise(monkeypatch):
    monkeypatch.setattr(Gate, "release_one", lambda gate, values, noise, name: values)
    model = fitted()
    margins = model.decision_function(X)
    weights = 1 / np.bincount(IDS)[IDS]
    model.tune_threshold(X, Y, epsilon=50.0, delta=1e-2, groups=IDS)

    def balanced(edge):
        said = margins > edge
        caught = weights[said & (Y == 1)].sum() / weights[Y == 1].sum()
        return caught + weights[~said & (Y == 0)].sum() / weights[Y == 0].sum()

    edges = tuning.margin_scale(model).edges(model.threshold_.bins)
    assert balanced(model.threshold_.margin) == pytest.approx(max(map(balanced, edges)), abs=1e-6)
