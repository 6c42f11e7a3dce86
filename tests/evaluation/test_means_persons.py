"""Mean predictions by person: each counts once, as the mean of their rows, and the guarantee is for a person."""

import numpy as np
import pytest

import dperm
from dperm.counting.design import WHOLE, Owners
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.persons import GroupedRows
from dperm.evaluation import means
from dperm.evaluation.groups import GroupSums
from dperm_audit.gates import SilentGate

RNG = np.random.default_rng(4)
X = RNG.uniform(-0.5, 0.5, (2000, 2))
Y = (X[:, 0] > 0).astype(int)
IDS = RNG.integers(0, 500, 2000)
WARD = np.where(RNG.uniform(size=2000) < 0.4, "A", "B")
BUDGET = dperm.Budget(1.0, 1e-6)
MODEL = dperm.PrivateLogisticRegression(epsilon=1, delta=1e-6, classes=[0, 1]).fit(X, Y)
BY_PERSON = dperm.PrivateLogisticRegression(epsilon=1, delta=1e-6, classes=[0, 1]).fit(X, Y, groups=IDS)


def exact_release(monkeypatch, ids, rows, ward, **more):
    gate = SilentGate()
    monkeypatch.setattr(means, "Gate", type("Door", (), {"from_random_state": staticmethod(lambda _: gate)}))
    found = dperm.mean_predictions(MODEL, rows, BUDGET, by=ward, values=["A", "B"], groups=ids, **more)
    return gate.exact[0], found


def test_every_person_counts_once_as_the_mean_of_their_rows(monkeypatch):
    sums, found = exact_release(monkeypatch, IDS, X, WARD)
    weights, t = 1 / np.bincount(IDS)[IDS], 2 * MODEL.predict_proba(X)[:, 1] - 1
    for place, ward in enumerate("AB"):
        theirs = weights * (ward == WARD)
        expected = theirs.sum(), theirs @ t, theirs @ (1 - t**2)
        np.testing.assert_allclose(sums[3 * place : 3 * place + 3], expected, atol=1e-2)
        assert found.groups[ward].mean.estimate == pytest.approx(
            (1 + expected[1] / expected[0]) / 2, abs=1e-2
        )
    persons = len(set(IDS))
    assert sums[0] + sums[3] == persons
    assert (found.unit, found.rows) == ("person", persons)
    assert "for these persons" in str(found)
    assert "all persons" in str(found)
    assert "2,000 rows" not in str(found) + found._repr_html_()
    assert any("each of k rows as 1/k" in note for note in found.notes)
    with pytest.raises(InvalidInput, match="entropy"):  # a file without noise is nobody's
        dperm.MeanPredictions.from_dict(found.to_dict())


def test_a_file_names_the_unit():
    found = dperm.mean_predictions(MODEL, X, BUDGET, by=WARD, values=["A", "B"], groups=IDS)
    assert dperm.MeanPredictions.from_dict(found.to_dict()).unit == "person"


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
@pytest.mark.parametrize("hidden", [{}, {"neighbours": "add-remove", "max_rows": 900}])
def test_persons_replayed(monkeypatch, hidden):
    whole, found = exact_release(monkeypatch, IDS, X, WARD, **hidden)
    rng, farthest = np.random.default_rng(5), 0.0
    for person in range(12):
        theirs = person == IDS
        rows, ward, ids = X[~theirs], WARD[~theirs], IDS[~theirs]
        if not hidden:
            count = (1, 3, 40)[person % 3]
            new = np.tile(1e3 * rng.normal(size=2), (count, 1)) if person % 2 else rng.normal(size=(count, 2))
            rows, ids = np.concatenate([rows, new]), np.concatenate([ids, np.full(count, person)])
            ward = np.concatenate([ward, rng.choice(["A", "B"], count)])
        vector, _ = exact_release(monkeypatch, ids, rows, ward, **hidden)
        farthest = max(farthest, float(np.linalg.norm(vector - whole)))
    stated = found.release["sensitivity"]
    assert 0.3 * stated < farthest <= stated * (1 + 1e-12)


@pytest.mark.together
@pytest.mark.parametrize("rows", [1, 2, 3, 17])
def test_no_two_persons_are_further_apart_than_two_rows(rows):
    """In whole numbers: means of t at the ends, next to them, in the middle and anywhere, in one group or more."""
    rng = np.random.default_rng(6)
    owners, vectors = Owners.of_persons(GroupedRows.of(np.zeros(rows, int))), []
    for _ in range(300):
        t = rng.choice([-1.0, 1.0, 0.0, 1 - 2.0**-20, 2.0**-20 - 1, 2.0**-20, rng.uniform(-1, 1)], rows)
        vectors.append(GroupSums(2).count(rng.integers(0, 1 + rng.integers(0, 2), rows), t, owners))
    steps = np.array(vectors, object)
    assert max((one**2).sum() for one in steps) <= 2 * WHOLE**2
    assert max(((one - other) ** 2).sum() for one in steps for other in steps[:60]) <= 4 * WHOLE**2


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
