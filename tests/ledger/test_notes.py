"""What a charge paid for: the kind, the mechanism that was used, and the file and digest that are noted later."""

import json

import numpy as np
import pytest
from test_anchors import gaussian, links, rewrite

from dperm import Ledger, PrivateLinearRegression, PrivateLogisticRegression, PrivateSearchCV
from dperm.cli.app import run
from dperm.errors import InvalidInput
from dperm.models import load_model, save_model

RNG = np.random.default_rng(5)
X = RNG.uniform(-0.5, 0.5, size=(300, 3))
Y = (X[:, 0] > 0).astype(int)


def fitted(ledger, mechanism="output", epsilon=0.2):
    return PrivateLogisticRegression(
        epsilon=epsilon, delta=1e-8, mechanism=mechanism, classes=[0, 1], ledger=ledger
    ).fit(X, Y)


def test_a_charge_names_the_mechanism_that_is_used_and_who_chose_it(ledger):
    fitted(ledger, "auto")
    fitted(ledger, "output")
    PrivateLinearRegression(epsilon=0.1, delta=1e-8, y_range=(0, 1), ledger=ledger).fit(X, Y.astype(float))
    found = [(entry.kind, entry.mechanism) for entry in ledger.entries()]
    assert found == [("fit", "objective (auto)"), ("fit", "output"), ("fit", "objective (auto)")]


def test_searches_and_charges_by_hand_have_kinds_of_their_own(ledger):
    model = PrivateLogisticRegression(mechanism="output", classes=[0, 1])
    PrivateSearchCV(model, {"l2": [0.1, 1.0]}, epsilon=0.3, delta=1e-8, ledger=ledger).fit(X, Y)
    ledger.charge(gaussian(0.1))
    ledger.charge(gaussian(0.1), kind="evaluate", label="quarterly")
    assert [entry.kind for entry in ledger.entries()] == ["search", "other", "evaluate"]


@pytest.mark.parametrize(
    ("label", "mechanism", "kind"),
    [
        ("PrivateLogisticRegression", "auto", "fit"),
        ("PrivateSearchCV", "private search", "search"),
        ("evaluation of model 0123", "evaluation", "evaluate"),
        ("by hand", "", "other"),
    ],
)
def test_a_charge_that_names_no_kind_gets_it_from_its_words(path, ledger, label, mechanism, kind):
    ledger.charge(gaussian(0.1), label=label, mechanism=mechanism)
    ledger.pay(gaussian(0.1), list, list, label=label, mechanism=mechanism)
    assert [entry.kind for entry in Ledger(path).entries()] == [kind, kind]


@pytest.mark.parametrize("key", ["kind", "unit"])
def test_a_charge_without_its_kind_or_unit_is_damage(path, ledger, key):
    ledger.charge(gaussian(0.1))
    rewrite(path, lambda events: [*events[:-1], {k: v for k, v in events[-1].items() if k != key}])
    with pytest.raises(InvalidInput, match="none that a ledger writes"):
        Ledger(path)


@pytest.mark.parametrize("kind", [3, None, ["fit"]])
def test_a_kind_that_is_no_text_is_damage(path, ledger, kind):
    ledger.charge(gaussian(0.1))
    rewrite(path, lambda events: [*events[:-1], {**events[-1], "kind": kind}])
    with pytest.raises(InvalidInput, match="none that a ledger writes"):
        Ledger(path)


def test_saving_a_model_notes_its_file_and_digest_once(ledger, tmp_path):
    model = fitted(ledger)
    spent, head = ledger.spent(), ledger.head
    assert ledger.entries()[0].files == ()
    save_model(model, tmp_path / "first.json")
    save_model(model, tmp_path / "first.json")
    save_model(model, tmp_path / "again.json")
    (entry,) = ledger.entries()
    assert entry.files == ("first.json", "again.json")
    assert entry.sha256 == model.certificate_["model"]["sha256"]
    assert [json.loads(event)["event"] for event, _ in links(ledger.path)][-2:] == ["note", "note"]
    assert ledger.spent() == spent
    ledger.check(head)  # a note extends the history
    ledger.check(model)


def test_a_model_without_its_ledger_is_noted_by_hand(ledger, tmp_path):
    save_model(fitted(None), tmp_path / "free.json")
    save_model(fitted(ledger), tmp_path / "own.json")
    save_model(load_model(tmp_path / "own.json"), tmp_path / "m.json")  # a loaded model has no ledger at hand
    assert ledger.entries()[0].files == ("own.json",)
    assert run(["ledger", "note", str(ledger.path), str(tmp_path / "m.json")]) == 0
    assert ledger.entries()[0].files == ("own.json", "m.json")
    assert run(["ledger", "note", str(ledger.path), str(tmp_path / "free.json")]) == 1
    with pytest.raises(InvalidInput, match="was fitted with a ledger"):
        ledger.note(load_model(tmp_path / "free.json"), "free.json")


@pytest.mark.parametrize("other", [True, False])
def test_the_ledger_of_the_fit_is_told_whatever_is_set_later(ledger, tmp_path, other):
    model = fitted(ledger)
    another = Ledger.create(tmp_path / "other.db", epsilon=1.0, delta=1e-6)
    model.set_params(ledger=another if other else None)
    save_model(model, tmp_path / "m.json")
    assert another.entries() == []
    assert ledger.entries()[0].files == ("m.json",)
    with pytest.raises(InvalidInput, match="another ledger"):
        another.note(model, "m.json")


def test_a_ledger_that_is_gone_does_not_stop_the_model_from_being_saved(ledger, tmp_path):
    model = fitted(ledger)
    ledger.path.rename(tmp_path / "moved.db")
    with pytest.warns(RuntimeWarning, match="the model was saved, and the ledger does not name its file"):
        save_model(model, tmp_path / "m.json")
    assert load_model(tmp_path / "m.json").ledger_entry_ == model.ledger_entry_


def test_a_charge_pays_for_one_model(path, ledger, tmp_path):
    first, second = fitted(ledger), fitted(ledger)
    save_model(first, tmp_path / "a.json")
    second.ledger_entry_ = first.ledger_entry_
    with pytest.raises(InvalidInput, match="a charge pays for one model"):
        ledger.note(second, "b.json")
    assert [entry.files for entry in ledger.entries()] == [("a.json",), ()]
    rewrite(path, lambda events: [*events, {**events[-1], "file": "b.json", "sha256": "0" * 64}])
    with pytest.raises(InvalidInput, match="none that a ledger writes"):
        Ledger(path)


def test_a_void_charge_has_no_note(path, ledger):
    with pytest.raises(RuntimeError):
        ledger.pay(gaussian(0.1), lambda: (_ for _ in ()).throw(RuntimeError), list)
    note = {"event": "note", "charge": 1, "file": "m.json", "sha256": "0" * 64}
    rewrite(path, lambda events: [*events, note])
    with pytest.raises(InvalidInput, match="none that a ledger writes"):
        Ledger(path)
