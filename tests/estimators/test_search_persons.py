"""A search by person: persons are parted, train and count with all rows, and the guarantee is for a person."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from dperm import Ledger, PrivateLinearRegression, PrivateLogisticRegression, PrivateSearchCV
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.persons import GroupedRows
from dperm.estimators.search.scoring import Scorer, scorer_for, scores_by_name
from dperm.unit import Neighbours

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")

N, PERSONS = 1200, 300
RNG = np.random.default_rng(5)
X = RNG.uniform(-0.5, 0.5, (N, 2))
Y = (X[:, 0] + 0.2 * RNG.normal(size=N) > 0).astype(int)
IDS = np.concatenate([np.arange(PERSONS), RNG.integers(0, PERSONS, N - PERSONS)])
HIDDEN = {"neighbours": "add-remove", "max_rows": 350}
GRID = {"l2": [1e-2, 1e-1]}
SCORES = scores_by_name()


def search_of(grid=GRID, settings=None, **more):
    model = PrivateLogisticRegression(classes=[0, 1], mechanism="output", **(settings or {}))
    return PrivateSearchCV(model, grid, **{"epsilon": 2.0, "delta": 1e-6, **more})


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("settings", [{}, HIDDEN, {"person_loss": "sum", "max_rows_per_person": 3}])
@pytest.mark.parametrize("refit_share", [None, 0.5])
def test_the_winner_and_the_ledger_speak_of_persons(tmp_path, settings, refit_share):
    relation = settings.get("neighbours", "replace-one")
    ledger = Ledger.create(tmp_path / "b.db", epsilon=3.0, delta=1e-5, unit="person", neighbours=relation)
    found = search_of(settings=settings, refit_share=refit_share, ledger=ledger).fit(X, Y, groups=IDS)
    assert found.privacy_.guarantee == {"epsilon": 2.0, "delta": 1e-6}
    assert "for one person" in str(found.privacy_)
    assert found.best_estimator_.certificate_["unit"] == "one person"
    n_units = settings.get("max_rows", PERSONS)
    assert found.privacy_.n_rows == n_units
    told = found.privacy_.settings
    assert told["training_persons"] + told["validation_persons"] == n_units
    assert "training_rows" not in told
    (entry,) = ledger.entries()
    assert (entry.unit, entry.kind, entry.status) == ("person", "search", "spent")
    assert ledger.spent() == pytest.approx(2.0, rel=1e-6)


def replayed(monkeypatch, rows, y, ids, settings=None, seed=3):
    """What trained the candidates and what they were scored on, by person, and the exact scores."""
    trained, tested, scores = [], [], []
    fit, sums = PrivateLogisticRegression.fit, Scorer.sums

    def spied_fit(self, X, y=None, **given):
        trained.append((np.array(X), np.array(y), np.array(given["groups"])))
        return fit(self, X, y, **given)

    def spied_sums(scorer, model, X, y, shares=None):
        tested.append((np.array(X), np.array(y), np.array(shares)))
        scores.append(sums(scorer, model, X, y, shares))
        return scores[-1]

    with monkeypatch.context() as patch:
        patch.setattr(PrivateLogisticRegression, "fit", spied_fit)
        patch.setattr(Scorer, "sums", spied_sums)
        search_of(settings=settings, random_state=seed, mean_candidates=5).fit(rows, y, groups=ids)
    return trained, tested, scores


@pytest.mark.parametrize("settings", [{}, HIDDEN])
def test_a_person_trains_or_validates_with_all_rows(monkeypatch, settings):
    trained, tested, _ = replayed(monkeypatch, X, Y, IDS, settings)
    assert trained
    for (rows, _, ids), (others, _, shares) in zip(trained, tested, strict=True):
        assert len(rows) + len(others) == N
        inside = np.isin(X[:, 0], rows[:, 0])
        assert set(IDS[inside]).isdisjoint(IDS[~inside])
        assert len(set(ids)) == len(set(IDS[inside]))
        np.testing.assert_array_equal(shares, GroupedRows.of(IDS).shares()[~inside])


def test_a_person_that_is_replaced_changes_one_of_the_two(monkeypatch):
    """Replayed with the same randomness: in some searches the training changes, in others a score, by one person."""
    person = int(np.bincount(IDS).argmax())
    other = np.where(person == IDS, 1 - Y, Y)
    seen = set()
    for seed in range(12):
        before, after = (replayed(monkeypatch, X, y, IDS, seed=seed) for y in (Y, other))
        fits = [not np.array_equal(a[1], b[1]) for a, b in zip(before[0], after[0], strict=True)]
        checks = [not np.array_equal(a[1], b[1]) for a, b in zip(before[1], after[1], strict=True)]
        assert all(a != b for a, b in zip(fits, checks, strict=True))
        if checks and checks[0]:
            n_validation = round(0.2 * PERSONS)
            moved = [float(abs(a - b)[0]) for a, b in zip(before[2], after[2], strict=True)]
            assert max(moved) <= 1 / n_validation + 1e-12
        seen |= set(fits)
    assert seen == {True, False}


@pytest.mark.parametrize("name", SCORES)
def test_a_person_moves_a_score_as_far_as_a_row_however_many_rows(name):
    """The control counts rows: the same person then moves the sums by more than a row may."""
    of_classes = SCORES[name].classifies
    settings = {"epsilon": 5.0, "delta": 1e-6, "mechanism": "output", "random_state": 0}
    model = (
        PrivateLogisticRegression(classes=[0, 1], **settings)
        if of_classes
        else PrivateLinearRegression(y_range=(0, 1), **settings)
    ).fit(X, Y)
    scorer = scorer_for(name, model, 2 if of_classes else None)
    theirs = np.zeros(N, bool)
    theirs[::9] = True  # one person with 134 rows
    ids = np.where(theirs, -1, IDS)
    shares = GroupedRows.of(ids).shares()
    other = np.where(theirs, 1 - Y, Y)
    moved = X.copy()
    moved[theirs] = [0.5, 0.5]
    assert shares[theirs].sum() <= 2**30
    for relation, stay in ((Neighbours.REPLACE_ONE, np.ones(N, bool)), (Neighbours.ADD_REMOVE, ~theirs)):
        bound = scorer.metric.sensitivity(relation)
        gaps = []
        for weights in (shares, None):
            first = scorer.sums(model, X, Y, weights)
            for rows, y in ((X, other), (moved, other), (moved, np.where(theirs, 0, Y))):
                kept = None if weights is None else weights[stay]
                gaps.append(np.linalg.norm(first - scorer.sums(model, rows[stay], y[stay], kept)))
        assert max(gaps[:3]) <= bound
        assert max(gaps[3:]) > 5 * bound


def test_one_row_each_scores_as_rows_do():
    model = PrivateLogisticRegression(classes=[0, 1], mechanism="output", random_state=0).fit(X, Y)
    shares = GroupedRows.of(np.arange(N)).shares()
    for name in (name for name, kind in SCORES.items() if kind.classifies):
        scorer = scorer_for(name, model, 2)
        np.testing.assert_allclose(
            scorer.sums(model, X, Y, shares), scorer.sums(model, X, Y), rtol=0, atol=N * 2.0**-30
        )


def test_what_is_refused_and_when(tmp_path):
    with pytest.raises(Unsupported, match="sample_weight"):
        search_of().fit(X, Y, sample_weight=np.ones(N))
    with pytest.raises(InvalidInput, match="1,199 ids for 1,200 rows"):
        search_of().fit(X, Y, groups=IDS[1:])
    with pytest.raises(InvalidInput, match="give fit the ids"):
        search_of(settings={"max_rows_per_person": 2}).fit(X, Y)
    few = {"neighbours": "add-remove", "max_rows": PERSONS - 1}
    with pytest.raises(InvalidInput, match="more persons than max_rows"):
        search_of(settings=few).fit(X, Y, groups=IDS)
    holed = IDS.tolist()
    holed[4] = None
    plain = Ledger.create(tmp_path / "plain.db", epsilon=3.0, delta=1e-5)
    with pytest.raises(InvalidInput, match="rows without the id of a person"):
        search_of(ledger=plain).fit(X, Y, groups=holed)
    strict = Ledger.create(tmp_path / "strict.db", epsilon=3.0, delta=1e-5, strict=True)
    with pytest.raises(InvalidInput, match="^The charge is spent and nothing was released"):
        search_of(ledger=strict).fit(X, Y, groups=holed)
    assert [entry.status for entry in (*plain.entries(), *strict.entries())] == ["void", "spent"]


def test_settings_are_chosen_on_public_persons(monkeypatch, tmp_path):
    trained = []
    fit = PrivateLogisticRegression.fit

    def spied(self, X, y=None, **given):
        trained.append(np.array(given["groups"]))
        return fit(self, X, y, **given)

    monkeypatch.setattr(PrivateLogisticRegression, "fit", spied)
    ledger = Ledger.create(tmp_path / "b.db", epsilon=3.0, delta=1e-5, unit="person")
    for public in ((X[:400], Y[:400], IDS[:400]), (X[:400], Y[:400])):
        trained.clear()
        found = search_of(public_data=public, cv=4, ledger=ledger, epsilon=1.0).fit(X, Y, groups=IDS)
        assert found.best_estimator_.certificate_["unit"] == "one person"
        assert found.best_estimator_.certificate_["guarantee"] == {"epsilon": 1.0, "delta": 1e-6}
        assert len(trained) == 2 * 4 + 1
        assert len(set(trained[-1])) == PERSONS
        assert 0.5 < found.best_score_ <= 1
    assert {entry.unit for entry in ledger.entries()} == {"person"}
    with (
        pytest.warns(UserWarning, match="groups parameter is ignored"),
        pytest.raises(InvalidInput, match="rows of one person into both parts"),
    ):
        search_of(public_data=(X[:400], Y[:400], IDS[:400]), cv=KFold(4)).fit(X, Y, groups=IDS)
    with pytest.raises(InvalidInput, match="give groups to both, or to none"):
        search_of(public_data=(X[:400], Y[:400], IDS[:400])).fit(X, Y)
