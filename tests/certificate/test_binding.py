"""What fit released, what is stated of it, and what the file holds beside it belong together."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from certified_models import document_of, sealed

from dperm import Ledger, PrivateLinearRegression, PrivateLogisticRegression, PrivateSearchCV, verify
from dperm.certificate.statement import model_digest
from dperm.cli.app import run
from dperm.errors import InvalidInput
from dperm.mechanisms import Output
from dperm.models import load_model, read_document, read_model, save_model
from dperm.schema import Schema
from noise_stream import kept

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(300, 3)) / 3, columns=["a", "kind=x", "kind=y"])
Y = np.array(["no", "yes"])[(X["a"] > 0).to_numpy().astype(int)]
SCHEMA = Schema.from_dict(
    {
        "target": {"name": "label", "classes": ["no", "yes"]},
        "rows": {"spline": 0},
        "features": {"a": {"range": [0, 10]}, "kind": {"categories": ["x", "y"]}},
    }
)


def classifier():
    return PrivateLogisticRegression(mechanism="output", classes=["no", "yes"]).fit(X, Y)


def regression():
    return PrivateLinearRegression(mechanism="adassp", y_range=(-1, 1)).fit(X, X["a"])


def chosen_on_public_rows():
    search = PrivateSearchCV(
        PrivateLogisticRegression(classes=["no", "yes"]),
        {"mechanism": [Output()]},
        epsilon=1.0,
        delta=1e-6,
        public_data=(X[:100], Y[:100]),
        cv=2,
    )
    return search.fit(X, Y).best_estimator_


def chosen_privately():
    search = PrivateSearchCV(
        PrivateLogisticRegression(classes=["no", "yes"]), {"l2": [0.01, 0.1]}, epsilon=1.0, delta=1e-6
    )
    return search.fit(X, Y).best_estimator_


@kept
def once(fitted):
    return fitted()


def loaded(tmp_path):
    save_model(classifier(), tmp_path / "first.json")
    return load_model(tmp_path / "first.json")


def doubled(model):
    model.coef_ = 2 * model.coef_


def nudged_in_place(model):
    model.coef_.ravel()[0] += 1e-12


def shifted(model):
    model.intercept_ = model.intercept_ + 1


def swapped(model):
    model.classes_ = model.classes_[::-1] if hasattr(model, "classes_") else np.array([0, 1])


def renamed(model):
    model.feature_names_in_ = np.array(["kind=x", "a", "kind=y"], dtype=object)


CHANGES = [doubled, nudged_in_place, shifted, swapped, renamed]


@pytest.mark.cover(1)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fitted", [classifier, regression, chosen_on_public_rows, chosen_privately])
def test_numbers_changed_after_fit_cannot_be_saved_under_its_certificate(tmp_path, fitted, change):
    model = copy.deepcopy(once(fitted))
    before = model.certificate_
    change(model)
    assert model.certificate_ == before
    with pytest.raises(InvalidInput, match="changed after fit"):
        save_model(model, tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.together
@pytest.mark.parametrize("change", CHANGES)
def test_nor_those_of_a_model_that_was_loaded(tmp_path, change):
    model = loaded(tmp_path)
    change(model)
    with pytest.raises(InvalidInput, match="changed after fit"):
        save_model(model, tmp_path / "second.json")


def test_the_numbers_of_one_model_cannot_go_out_under_the_report_of_another(tmp_path):
    private, open_one = classifier(), PrivateLogisticRegression(mechanism="none").fit(X, Y)
    open_one.privacy_, open_one.ledger_entry_ = private.privacy_, "ledger of another"
    save_model(open_one, tmp_path / "m.json")
    verdict = verify(read_document(tmp_path / "m.json"))
    assert verdict.claim is None
    assert load_model(tmp_path / "m.json").privacy_.guarantee is None
    assert open_one.certificate_["model"]["ledger_entry"] is None


def test_the_ledger_s_entry_is_bound_too(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=2.0, delta=1e-5)
    model = PrivateLogisticRegression(classes=["no", "yes"], ledger=ledger).fit(X, Y)
    entry = model.ledger_entry_
    model.ledger_entry_ = entry.replace("charge 1", "charge 2")
    assert "charge 1, head" in entry
    assert model.certificate_["model"]["ledger_entry"] == entry


def test_a_certificate_in_hand_is_a_copy():
    model = classifier()
    model.certificate_["guarantee"]["epsilon"] = 0.01
    assert model.certificate_["guarantee"]["epsilon"] == 1.0
    again = copy.deepcopy(model)
    assert again.certificate_ == model.certificate_


def test_a_model_that_a_search_chose_is_bound_with_its_names(tmp_path):
    save_model(chosen_privately(), tmp_path / "m.json")
    assert load_model(tmp_path / "m.json").feature_names_in_.tolist() == list(X.columns)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.json"
    save_model(classifier(), path, schema=SCHEMA)
    return path


def leaves(value, path=()):
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path


def another(value):
    """A value of the same kind where there is one, so that no check of types can be what refuses it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return "x" if value is None else [0.5]


def test_no_place_of_a_file_can_be_edited(saved, tmp_path, capsys):
    whole = read_document(saved)
    assert verify(whole).ok
    tried: set[str] = set()
    for place in leaves(whole):
        document = json.loads(saved.read_text(encoding="utf-8"))
        *parents, key = place
        inner = document
        for parent in parents:
            inner = inner[parent]
        inner[key] = another(inner[key])
        path = tmp_path / "edited.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        assert not verify(document).accepted, place
        with pytest.raises(InvalidInput, match="not a usable model file"):
            read_model(path)
        if place[0] not in tried:
            assert run(["verify", str(path)]) == 1, place
            assert capsys.readouterr().out.startswith("NOT OK: "), place
        tried.add(place[0])
    assert tried == set(whole)


def test_the_columns_of_a_schema_cannot_change_places(saved, tmp_path):
    document = read_document(saved)
    wide = {"b": {"range": [0, 1]}, "c": {"range": [0, 1]}, "d": {"range": [0, 1]}}
    for schema in (
        {**document["schema"], "features": dict(reversed(document["schema"]["features"].items()))},
        {**document["schema"], "features": wide},
        None,
    ):
        edited = {**document, "schema": schema}
        assert not verify(edited).ok
        path = tmp_path / "edited.json"
        path.write_text(json.dumps(edited), encoding="utf-8")
        with pytest.raises(InvalidInput, match="the file was changed"):
            read_model(path)


def test_the_order_of_other_keys_is_free(saved, tmp_path):
    """A tool that sorts keys does no harm; the features of a schema are columns, and theirs counts."""
    document = read_document(saved)
    shuffled = dict(reversed(document.items()))
    shuffled["certificate"] = dict(reversed(document["certificate"].items()))
    assert verify(shuffled).ok


@pytest.mark.together
@pytest.mark.parametrize("version", [0, 2, 1.0, True, "1", None])
@pytest.mark.parametrize("place", ["file", "certificate"])
def test_a_file_of_another_version_is_refused_with_the_way_out(place, version, tmp_path):
    document = document_of("output")
    (document if place == "file" else document["certificate"])["version"] = version
    path = tmp_path / "other.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"reads version 1 of the format.*write it anew"):
        load_model(path)
    assert not verify(document).ok


def test_a_file_whose_classes_are_not_sorted_is_refused(tmp_path):
    document = document_of("output")
    document["classes"] = document["classes"][::-1]
    document["certificate"]["model"]["sha256"] = model_digest(document)
    path = tmp_path / "unsorted.json"
    path.write_text(json.dumps(sealed(document)), encoding="utf-8")
    assert not verify(path).ok
    with pytest.raises(InvalidInput, match="sorted"):
        load_model(path)


def test_labels_that_no_file_can_hold_do_not_stop_a_fit(tmp_path):
    days = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")
    model = PrivateLogisticRegression(mechanism="output", classes=days).fit(X, days[(Y == "yes").astype(int)])
    assert model.certificate_["guarantee"] == {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(InvalidInput, match="cannot keep"):
        save_model(model, tmp_path / "m.json")
