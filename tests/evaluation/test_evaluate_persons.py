"""An evaluation by person: one row of each counts, so a person changes what a row could, however many they have."""

import numpy as np
import pytest

from dperm import Budget, PrivateLogisticRegression, PrivateSearchCV, evaluate
from dperm.engine.shards import ArrayShards
from dperm.errors import InvalidInput, PrivacyWarning, Unsupported

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
    found = evaluate(model, rows, y, BUDGET, groups=groups, random_state=5, **more)
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


def test_a_model_of_persons_warns_where_rows_are_counted(model):
    with pytest.warns(PrivacyWarning, match="trained by person, and this release is private for single rows"):
        evaluate(model, X, Y, BUDGET)


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
def test_what_has_no_guarantee_for_persons_is_refused(model):
    with pytest.raises(InvalidInput, match=f"799 ids for {N} rows"):
        evaluate(model, X, Y, BUDGET, groups=IDS[1:])
    with pytest.raises(InvalidInput, match="leave out groups"):
        evaluate(model, X, Y, local=True, groups=IDS)
    for shards, groups in ((ArrayShards(X, [N], Y, IDS), None), (ArrayShards(X, [N], Y), IDS)):
        with pytest.raises(Unsupported):
            evaluate(model, shards, None, BUDGET, groups=groups)
    with pytest.raises(Unsupported, match="trained by person"):
        model.tune_threshold(X, Y, epsilon=1.0)


def test_a_search_refuses_persons():
    estimator = PrivateLogisticRegression(classes=[0, 1], mechanism="output")
    search = PrivateSearchCV(estimator, {"l2": [1e-2, 1e-1]}, epsilon=1.0, delta=1e-6)
    with pytest.raises(Unsupported, match="no guarantee for a person with several"):
        search.fit(X, Y, groups=IDS)
    with pytest.raises(TypeError, match="sample_weight"):
        search.fit(X, Y, sample_weight=np.ones(N))
    estimator.set_params(max_rows_per_person=1)
    with pytest.raises(Unsupported, match="no guarantee for a person with several"):
        search.fit(X, Y)
