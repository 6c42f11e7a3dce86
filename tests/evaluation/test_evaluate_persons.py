"""An evaluation by person: every person counts once, as the mean of their rows, and changes what a row could."""

import numpy as np
import pandas as pd
import pytest
from evaluation_cases import all_of_persons
from scipy.special import expit
from sklearn import metrics
from sklearn.pipeline import Pipeline

from dperm import Budget, Ledger, PrivateLinearRegression, PrivateLogisticRegression, PublicEncoder, evaluate
from dperm.counting.classification import CONFUSION
from dperm.counting.design import STEP, WHOLE, Owners
from dperm.engine.shards.sources import ArrayShards
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.persons import GroupedRows
from dperm.evaluation import evaluation
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate

N = 800
RNG = np.random.default_rng(2)
X = RNG.uniform(-0.5, 0.5, (N, 2))
Y = (X[:, 0] + 0.2 * RNG.normal(size=N) > 0).astype(int)
IDS = RNG.integers(0, 200, N)
BUDGET = Budget(1.0, 1e-6)


@pytest.fixture(scope="module")
def model():
    return PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X, Y, groups=IDS)


def visits(n_persons=4000, seed=0):
    """Patients with one to eight visits each, who are seldom ill at the first and more often later, once they are told
    apart by their numbers better."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(n_persons), rng.integers(1, 9, n_persons))
    visit = np.arange(len(ids)) - np.searchsorted(ids, ids)
    rows = rng.uniform(-0.5, 0.5, (len(ids), 2))
    risk = expit(-3.2 + 0.5 * visit + (2 + visit) * rows[:, 0])
    order = rng.permutation(len(ids))
    order = order[np.argsort(visit[order], kind="stable")]  # the first visit of everybody comes first
    ill = (rng.random(len(ids)) < risk).astype(int)
    return rows[order], ill[order], ids[order]


def exact_by_weight(fitted, rows, ill, ids):
    """As scikit-learn computes them, a row of k weighing 1/k."""
    weights = 1 / np.bincount(ids)[ids]
    said, chances = fitted.predict(rows), fitted.predict_proba(rows)[:, 1]
    return {
        "accuracy": metrics.accuracy_score(ill, said, sample_weight=weights),
        "balanced_accuracy": metrics.balanced_accuracy_score(ill, said, sample_weight=weights),
        "auc": metrics.roc_auc_score(ill, chances, sample_weight=weights),
        "log_loss": metrics.log_loss(ill, chances, sample_weight=weights),
        "brier": metrics.brier_score_loss(ill, chances, sample_weight=weights),
    }


def prevalence(found):
    return sum(cell.estimate for cell in found.confusion[1])


def test_people_are_judged_by_all_of_their_rows():
    """First rows are another population: fewer of them are ill, and they are harder to tell apart."""
    rows, ill, ids = visits()
    fitted = PrivateLogisticRegression(epsilon=8.0, delta=1e-6, classes=[0, 1], random_state=0).fit(
        rows, ill, groups=ids
    )
    weights = 1 / np.bincount(ids)[ids]
    first = np.unique(ids, return_index=True)[1]
    true = exact_by_weight(fitted, rows, ill, ids)
    first_alone = exact_by_weight(fitted, rows[first], ill[first], np.arange(len(first)))
    assert np.average(ill, weights=weights) > 1.5 * ill[first].mean()
    assert true["auc"] > first_alone["auc"] + 0.05

    local = evaluate(fitted, rows, ill, local=True, groups=ids)
    for name, value in true.items():
        assert local.metrics[name].estimate == pytest.approx(value, abs=2e-4), name
    assert prevalence(local) == pytest.approx(np.average(ill, weights=weights), abs=1e-5)

    private = evaluate(fitted, rows, ill, Budget(8.0, 1e-6), groups=ids, random_state=0)
    for name, value in true.items():
        figure = private.metrics[name]
        assert abs(figure.estimate - value) < 3 * figure.noise + 0.002, name
    assert abs(prevalence(private) - prevalence(local)) < 0.01
    assert private.metrics["auc"].low > first_alone["auc"]


def test_a_regression_by_person_has_the_weighted_figures():
    rows, _, ids = visits(1000)
    target = rows[:, 0] + 0.1 * np.bincount(ids)[ids] + 0.1 * np.random.default_rng(1).normal(size=len(ids))
    fitted = PrivateLinearRegression(epsilon=8.0, delta=1e-6, y_range=(-1, 2), random_state=0).fit(
        rows, target
    )
    weights, said = 1 / np.bincount(ids)[ids], fitted.predict(rows)
    local = evaluate(fitted, rows, target, local=True, groups=ids)
    assert local.metrics["r2"].estimate == pytest.approx(
        metrics.r2_score(target, said, sample_weight=weights), abs=1e-4
    )
    assert local.metrics["mae"].estimate == pytest.approx(
        metrics.mean_absolute_error(target, said, sample_weight=weights), abs=1e-4
    )
    private = evaluate(fitted, rows, target, Budget(8.0, 1e-6), groups=ids, random_state=0)
    for name, figure in private.metrics.items():
        assert abs(figure.estimate - local.metrics[name].estimate) < 3 * figure.noise + 0.002, name


@pytest.mark.together
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 1000, 2**20, 2**20 + 5])
def test_the_parts_of_a_person_are_one_exactly(rows):
    owners = Owners.of_persons(GroupedRows.of(np.repeat(["a", "b"], [rows, 2])))
    assert owners.parts[:rows].sum() == owners.parts[rows:].sum() == WHOLE
    assert owners.parts[:rows].max() - owners.parts[:rows].min() <= 1
    assert owners.count == 2


def exact_release(monkeypatch, fitted, rows, y, ids, neighbours):
    gate = SilentGate()
    monkeypatch.setattr(
        evaluation, "Gate", type("Door", (), {"from_random_state": staticmethod(lambda _: gate)})
    )
    hidden = {"neighbours": "add-remove", "max_rows": 5000} if neighbours is Neighbours.ADD_REMOVE else {}
    found = evaluate(fitted, rows, y, BUDGET, groups=ids, **hidden)
    return gate.exact[0], found.release


@pytest.mark.cover(1)
@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("kind", ["binary", "classes", "regression"])
def test_persons_replayed(monkeypatch, kind, neighbours):
    """Persons with up to 40 rows come, go and change; a person whose rows are all alike moves as far as one row."""
    rng = np.random.default_rng(3)
    score = X[:, 0] + 0.2 * rng.normal(size=N)
    if kind == "regression":
        y, easy = score, {"y_range": (-1.0, 1.0)}
        fitted = PrivateLinearRegression(epsilon=5.0, delta=1e-3, random_state=0, **easy).fit(X, y)
    else:
        y = np.digitize(score, [0.0] if kind == "binary" else [-0.2, 0.2])
        fitted = PrivateLogisticRegression(epsilon=5.0, delta=1e-3, random_state=0).fit(X, y)
    rows, targets, ids = all_of_persons(X, y, rng)
    whole, release = exact_release(monkeypatch, fitted, rows, targets, ids, neighbours)
    stated = release["sensitivity"]
    assert np.array_equal(whole / STEP * 4, np.rint(whole / STEP * 4))  # all weights are multiples of 1/4
    farthest = 0.0
    for person in range(8):
        theirs = ids == person
        others = []
        if neighbours is Neighbours.ADD_REMOVE:
            others.append((rows[~theirs], targets[~theirs], ids[~theirs]))
        else:
            for count in (1, 5, 40):
                new = rng.integers(0, N, count)
                far = np.sign(X[new]) * rng.choice([0.3, 1e3], size=(count, 1))
                other = np.full(count, rng.choice(y)) if count == 5 else rng.choice(y, count)
                others.append(
                    tuple(
                        np.concatenate(pair)
                        for pair in (
                            (rows[~theirs], far),
                            (targets[~theirs], other),
                            (ids[~theirs], np.full(count, person)),
                        )
                    )
                )
        for changed in others:
            vector, again = exact_release(monkeypatch, fitted, *changed, neighbours)
            assert again["sensitivity"] == stated
            farthest = max(farthest, float(np.linalg.norm(vector - whole)))
    assert 0.25 * stated < farthest <= stated * (1 + 1e-12)


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
def test_a_replay_notices_rows_that_count_whole(monkeypatch):
    """The control: were each row of a person to count as one, the bound would not hold."""
    fitted = PrivateLogisticRegression(epsilon=5.0, delta=1e-3, classes=[0, 1], random_state=0).fit(X, Y)

    def greedy(grouped):
        return Owners(grouped.person, np.full(len(grouped.person), WHOLE), grouped.n_persons)

    monkeypatch.setattr(Owners, "of_persons", greedy)
    theirs = np.bincount(IDS).argmax() == IDS
    whole, release = exact_release(monkeypatch, fitted, X, Y, IDS, Neighbours.ADD_REMOVE)
    less, _ = exact_release(monkeypatch, fitted, X[~theirs], Y[~theirs], IDS[~theirs], Neighbours.ADD_REMOVE)
    assert np.linalg.norm(whole - less) > 1.5 * release["sensitivity"]


def test_persons_count_as_many_as_there_are_exactly(monkeypatch, model):
    whole, release = exact_release(monkeypatch, model, X, Y, IDS, Neighbours.REPLACE_ONE)
    assert (release["parts"][0]["name"], release["parts"][0]["size"]) == (CONFUSION, 4)
    assert whole[:4].sum() == len(set(IDS))
    weights = 1 / np.bincount(IDS)[IDS]
    shares = np.bincount(2 * Y + model.predict(X), weights=weights, minlength=4)
    np.testing.assert_allclose(whole[:4], shares, atol=N * STEP)


def test_the_unit_is_named(model):
    private = evaluate(model, X, Y, BUDGET, groups=IDS)
    local = evaluate(model, X, Y, local=True, groups=IDS)
    persons = len(set(IDS))
    assert (private.unit, private.rows, private.table_rows) == ("person", persons, None)
    assert f"for the persons in the test rows,\nreplace-one neighbours: figures on {persons} persons" in str(
        private
    )
    assert f"Measured on {persons} persons." in private._repr_html_()
    assert "% of the persons" in private._repr_html_()
    assert f"{N} rows" not in str(private) + private._repr_html_()
    assert (local.unit, local.rows, local.table_rows) == ("person", persons, N)
    assert f"exact figures on {N} rows of {persons} persons" in str(local)
    assert f"exact figures on {N} rows of {persons} persons" in local._repr_html_()
    hidden = evaluate(model, X, Y, BUDGET, groups=IDS, neighbours="add-remove", max_rows=900)
    assert " persons (their number is private" in str(hidden)
    by_rows = evaluate(model, X, Y, local=True, unit="row")
    assert f"figures on {N} rows\n" in str(by_rows)
    for found in (private, local, hidden, by_rows):
        assert type(found).from_dict(found.to_dict()).to_dict() == found.to_dict()


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
    with pytest.raises(InvalidInput, match="count a person with k of them k times"):
        evaluate(model, X, Y, local=True)
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
    rows = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    last = PrivateLogisticRegression(classes=[0, 1]).fit(PublicEncoder(declared).fit_transform(rows), Y)
    pipe = Pipeline([("encode", PublicEncoder(declared).fit(rows)), ("model", last)])
    with pytest.raises(InvalidInput, match="would be private for single rows"):
        evaluate(pipe, rows, Y, BUDGET)


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")
def test_what_has_no_guarantee_for_persons_is_refused(model):
    for how in ({"budget": BUDGET}, {"local": True}):
        with pytest.raises(InvalidInput, match=f"799 ids for {N} rows"):
            evaluate(model, X, Y, groups=IDS[1:], **how)
    for shards, groups in ((ArrayShards(X, [N], Y, IDS), None), (ArrayShards(X, [N], Y), IDS)):
        with pytest.raises(Unsupported, match="not counted in shards"):
            evaluate(model, shards, None, BUDGET, groups=groups)
    assert evaluate(model, ArrayShards(X, [N], Y, IDS), None, BUDGET, unit="row").rows == N
    with pytest.raises(InvalidInput, match="trained by person"):
        model.tune_threshold(X, Y, epsilon=1.0)
