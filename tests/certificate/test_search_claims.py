"""A model that a private search chose has the guarantee of the whole search, and its file cannot claim its own."""

import copy
import json

import numpy as np
import pytest
from certified_models import sealed

import dperm
from dperm import Ledger, PrivateLogisticRegression, PrivateSearchCV
from dperm.certificate import verify
from dperm.certificate.assumptions import Assumption, Code
from dperm.certificate.statement import file_digest
from dperm.errors import InvalidInput
from dperm.models import read_document
from dperm.release import read_release

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")

RNG = np.random.default_rng(5)
X = RNG.uniform(-0.5, 0.5, (2000, 2))
Y = (X[:, 0] > 0).astype(int)
WHOLE = {"epsilon": 3.0, "delta": 1e-6}


def searched(**settings):
    model = PrivateLogisticRegression(mechanism="output", classes=[0, 1])
    return PrivateSearchCV(model, {"l2": [1e-2, 1e-1]}, **WHOLE, **settings).fit(X, Y)


@pytest.fixture(scope="module")
def winner(tmp_path_factory):
    path = tmp_path_factory.mktemp("winner") / "m.json"
    searched().best_estimator_.save(path)
    return read_document(path)


def claiming(document, **changes):
    document = copy.deepcopy(document)
    certificate = document["certificate"]
    certificate["guarantee"], certificate["reason"] = dict(certificate["budget"]), None
    for name, value in changes.items():
        certificate[name] = value
    return sealed(document)


SETTINGS = Assumption(Code.SETTINGS).to_dict()


def replaced(lines, line):
    return [line if one["code"] == str(Code.SEARCH_GRID) else one for one in lines]


def test_it_claims_nothing_by_itself_and_names_the_whole(winner):
    verdict = verify(winner)
    assert verdict.accepted
    assert verdict.claim is None
    assert winner["certificate"]["search"] == WHOLE
    assert winner["certificate"]["budget"]["epsilon"] < 3.0
    assert "epsilon = 3" in str(verdict)


def test_a_loaded_one_says_the_same(tmp_path):
    search = searched()
    search.best_estimator_.save(tmp_path / "m.json")
    loaded = dperm.load_model(tmp_path / "m.json")
    assert loaded.privacy_.budget == search.privacy_.budget == WHOLE
    assert loaded.privacy_.epsilon == search.privacy_.epsilon == 3.0
    assert loaded.privacy_.guarantee is None  # which a file of one fit cannot show


def test_its_own_budget_cannot_be_claimed(winner):
    verdict = verify(claiming(winner))
    assert not verdict.accepted
    assert "that a private search chose" in str(verdict)


def test_neither_the_line_nor_the_part_can_go_alone(winner):
    certificate = winner["certificate"]
    other = {name: replaced(certificate[name], SETTINGS) for name in ("around", "assumptions")}
    assert "that a private search chose" in str(verify(claiming(winner, **other)))
    without = copy.deepcopy(winner)
    del without["certificate"]["search"]
    assert "that a private search chose" in str(verify(claiming(without)))


@pytest.mark.together
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"text": "x_norm, grid and every other setting were chosen blindly."},
            "status and text are not those",
        ),
        ({"status": "met"}, "status and text are not those"),
        ({"status": "not met"}, "status and text are not those"),
        ({"code": "settings"}, "status and text are not those"),
        ({"code": "blind"}, "an unknown code"),
        ({"code": ["settings"]}, "an unknown code"),
        ({"values": {"line": "Nothing."}}, "values of search-grid must be an object"),
        (Assumption.of(Code.MECHANISM, line="Nothing.").to_dict(), "more than what stood around the fit"),
        (Assumption(Code.FEATURES).to_dict(), "how the settings were chosen"),
    ],
)
def test_no_other_sentence_can_stand_in_its_place(winner, change, why):
    without = copy.deepcopy(winner)
    del without["certificate"]["search"]
    other = {
        name: [
            {**one, **change} if one["code"] == str(Code.SEARCH_GRID) else one
            for one in without["certificate"][name]
        ]
        for name in ("around", "assumptions")
    }
    verdict = verify(claiming(without, **other))
    assert not verdict.accepted
    assert why in str(verdict)


def test_the_part_has_a_form(winner):
    for wrong in (None, {}, {"epsilon": 3.0}, {"epsilon": "3", "delta": 1e-6}, {**WHOLE, "more": 1.0}):
        document = copy.deepcopy(winner)
        document["certificate"]["search"] = wrong
        assert not verify(sealed(document)).accepted


def test_settings_chosen_on_public_rows_may_claim(tmp_path):
    search = searched(public_data=(X[:300], Y[:300]), cv=3)
    search.best_estimator_.save(tmp_path / "m.json")
    verdict = dperm.verify(tmp_path / "m.json")
    assert verdict.ok, verdict
    assert verdict.guarantee == WHOLE


def test_a_threshold_adds_to_the_whole_search():
    search = searched()
    search.best_estimator_.tune_threshold(X, Y, epsilon=0.5, delta=1e-7)
    assert search.privacy_.guarantee == {"epsilon": 3.5, "delta": pytest.approx(1.1e-6)}
    assert search.privacy_.budget == WHOLE


def test_its_ledger_gives_away_who_leaves_out_both(tmp_path):
    """Without the ledger such a file cannot be told from that of a fit that was never searched for."""
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=10, delta=1e-4)
    searched(ledger=ledger).best_estimator_.save(tmp_path / "m.json")
    document = read_document(tmp_path / "m.json")
    read_release(tmp_path / "m.json", ledger=tmp_path / "budget.db")
    certificate = document["certificate"]
    del certificate["search"]
    forged = claiming(
        document,
        **{name: replaced(certificate[name], SETTINGS) for name in ("around", "assumptions")},
    )
    forged["digest"] = file_digest(forged)
    assert verify(forged).ok
    (tmp_path / "forged.json").write_text(json.dumps(forged), encoding="utf-8")
    with pytest.raises(InvalidInput, match="has the guarantee of the whole search"):
        read_release(tmp_path / "forged.json", ledger=tmp_path / "budget.db")
