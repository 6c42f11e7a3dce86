"""An evaluation by person: one row of each counts, so a person changes what a row could, however many they have."""

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

from dperm import Budget, Ledger, PrivateLogisticRegression, PublicEncoder, evaluate
from dperm.engine.shards import ArrayShards
from dperm.errors import InvalidInput, Unsupported

N = 800
RNG = np.random.default_rng(2)
X = RNG.uniform(-0.5, 0.5, (N, 2))
Y = (X[:, 0] + 0.2 * RNG.normal(size=N) > 0).astype(int)
IDS = RNG.integers(0, 200, N)
BUDGET = Budget(1.0, 1e-6)


@pytest.fixture(scope="module")
def model():
    return PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X, Y, groups=IDS)


def released(model, rows, y, groups, **more):
    unit = "row" if groups is None else "person"
    found = evaluate(model, rows, y, BUDGET, groups=groups, unit=unit, random_state=5, **more)
    return np.array(found.release["numbers"]), found.release["sensitivity"]


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
@pytest.mark.parametrize("hidden", [False, True])
def test_a_person_with_many_rows_moves_the_counts_as_far_as_a_row(model, hidden):
    """Replaced, or where persons are hidden removed; by rows the same person moves more than a row may."""
    theirs = np.bincount(IDS).argmax() == IDS
    stay = ~theirs if hidden else np.ones(N, bool)
    other = np.where(theirs, 1 - Y, Y)
    more = {"neighbours": "add-remove", "max_rows": N} if hidden else {}
    gaps = []
    for ids in (IDS, None):
        before, bound = released(model, X, Y, ids, **more)
        after, _ = released(model, X[stay], other[stay], None if ids is None else ids[stay], **more)
        gaps.append(np.linalg.norm(before - after) / bound)
    assert 0 < gaps[0] <= 1 + 1e-9
    assert gaps[1] > 1.5


def test_persons_are_counted_and_the_page_says_so(model):
    found = evaluate(model, X, Y, BUDGET, groups=IDS)
    assert found.rows == len(set(IDS))
    assert "the guarantee is for a person with all rows" in str(found)
    first = np.unique(IDS, return_index=True)[1]
    alone = np.mean(model.predict(X[first]) == Y[first])
    assert abs(found.metrics["accuracy"].estimate - alone) < 0.2


def test_a_model_of_persons_is_not_evaluated_by_rows_without_saying_so(model, tmp_path):
    ledger = Ledger.create(tmp_path / "b.db", epsilon=3.0, delta=1e-5)
    with pytest.raises(InvalidInput, match="would be private for single rows"):
        evaluate(model, X, Y, BUDGET, ledger=ledger)
    with pytest.raises(InvalidInput, match="leave out groups"):
        evaluate(model, X, Y, BUDGET, groups=IDS, unit="row")
    with pytest.raises(InvalidInput, match="unit='person' needs groups"):
        evaluate(model, X, Y, BUDGET, unit="person")
    with pytest.raises(InvalidInput, match="unit must be 'row' or 'person'"):
        evaluate(model, X, Y, BUDGET, unit="household")
    assert ledger.entries() == []
    assert evaluate(model, X, Y, BUDGET, unit="row", ledger=ledger).rows == N
    assert evaluate(model, X, Y, BUDGET, unit="person", groups=IDS).rows == len(set(IDS))
    assert [entry.unit for entry in ledger.entries()] == ["row"]


def test_a_schema_with_persons_is_a_model_of_persons():
    """Whatever it was trained by: the schema before it says that a person may have several rows."""
    declared = {
        "person": "who",
        "target": {"name": "y", "classes": [0, 1]},
        "features": {"a": {"range": [-0.5, 0.5]}, "b": {"range": [-0.5, 0.5]}},
    }
    rows = {"a": X[:, 0], "b": X[:, 1]}
    last = PrivateLogisticRegression(classes=[0, 1]).fit(PublicEncoder(declared).fit_transform(rows), Y)
    pipe = Pipeline([("encode", PublicEncoder(declared).fit(rows)), ("model", last)])
    with pytest.raises(InvalidInput, match="would be private for single rows"):
        evaluate(pipe, rows, Y, BUDGET)


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
def test_what_has_no_guarantee_for_persons_is_refused(model):
    with pytest.raises(InvalidInput, match=f"799 ids for {N} rows"):
        evaluate(model, X, Y, BUDGET, groups=IDS[1:])
    with pytest.raises(InvalidInput, match="leave out groups"):
        evaluate(model, X, Y, local=True, groups=IDS)
    for shards, groups in ((ArrayShards(X, [N], Y, IDS), None), (ArrayShards(X, [N], Y), IDS)):
        with pytest.raises(Unsupported):
            evaluate(model, shards, None, BUDGET, groups=groups, unit=None if groups is not None else "row")
    with pytest.raises(Unsupported, match="trained by person"):
        model.tune_threshold(X, Y, epsilon=1.0)
