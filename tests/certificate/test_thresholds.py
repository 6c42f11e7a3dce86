"""Thresholds in model files: none lowers a claim, each is added up, and nothing of one is believed."""

import copy
import json

import numpy as np
import pytest
from certified_models import sealed

import dperm
from dperm import Ledger, PrivateLinearRegression, PrivateLogisticRegression
from dperm.certificate import verify
from dperm.certificate.statement import check_citation
from dperm.counting.bins import margin_scale
from dperm.errors import InvalidInput
from dperm.ledger.history import Anchor
from dperm.models import read_document
from dperm.release import page, read_release, text

RNG = np.random.default_rng(2)
X = RNG.uniform(-0.5, 0.5, (2000, 4))
Y = (X[:, 0] + 0.2 * RNG.normal(size=2000) > 0).astype(int)
CITED = f"ledger {'0' * 32}, charge 1, head {'1' * 64}"


def model_of(**settings):
    return PrivateLogisticRegression(**{"classes": [0, 1], "mechanism": "output", **settings}).fit(X, Y)


@pytest.fixture(scope="module", params=["replace-one", "add-remove"])
def tuned(request, tmp_path_factory):
    hidden = {"neighbours": "add-remove", "max_rows": 2500} if request.param == "add-remove" else {}
    model = model_of(epsilon=6.0, **hidden).tune_threshold(X, Y, epsilon=0.5)
    path = tmp_path_factory.mktemp("model") / "m.json"
    model.save(path)
    return model, read_document(path)


def with_change(document, **change):
    document = copy.deepcopy(document)
    document["thresholds"][0] |= change
    return sealed(document)


def test_the_forger_s_tool_leaves_an_honest_file_accepted(tuned):
    verdict = verify(with_change(tuned[1]))
    assert verdict.ok, verdict
    assert verdict.guarantee == {"epsilon": 6.5, "delta": pytest.approx(2e-6)}
    assert not verify(with_change(tuned[1]), max_epsilon=6.4).ok


@pytest.mark.cover(1)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": -5.5, "delta": 0.996}, "epsilon"),
        ({"epsilon": -5.5}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": -1e-6}, "delta"),
        ({"delta": 0.996}, "delta"),
        ({"delta": 0.0}, "delta"),
        ({"epsilon": 0.4}, "costs more|bins"),
        ({"epsilon": 0.6}, "noise_scale|bins"),
        ({"n_units": -3}, "n_units"),
        ({"n_units": 0}, "n_units"),
        ({"n_units": 10**17}, "n_units"),
        ({"neighbours": "nobody"}, "those of the certificate"),
        ({"unit": "one person"}, "those of the certificate"),
        ({"unit": "nobody"}, "those of the certificate"),
        ({"bins": 2}, "bins"),
        ({"bins": 32}, "bins"),
        ({"margin": 0.12345}, "margin"),
        ({"margin": 1e300}, "margin"),
        ({"sensitivity": 0.5}, "sensitivity"),
        ({"noise_scale": 1e-9}, "costs more"),
        ({"noise_scale": 1e9}, "noise_scale"),
        ({"noise_scale": -10.0}, "costs more"),
        ({"objective": "whatever I like"}, "objective"),
        ({"objective": "recall>=2"}, "objective"),
        ({"ledger_entry": "paid, believe me"}, "ledger_entry"),
        ({"private": False}, "private"),
        ({"entropy": "seeded generator: not private"}, "private"),
        ({"entropy": "a seed", "private": False, "ledger_entry": CITED}, "a ledger does not take"),
        ({"epsilon": "0.5"}, "wrong type"),
        ({"private": 1}, "wrong type"),
    ],
)
def test_an_edited_threshold_is_rejected(tuned, tmp_path, change, message):
    document = with_change(tuned[1], **change)
    verdict = verify(document)
    assert not verdict.accepted
    assert verdict.guarantee is None
    (failure,) = verdict.failures
    assert failure.startswith("thresholds: ")
    assert any(part in failure for part in message.split("|"))
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InvalidInput):
        dperm.load_model(path)


def test_another_relation_is_rejected(tuned):
    model, document = tuned
    other = {"replace-one": "add-remove", "add-remove": "replace-one"}[model.threshold_.neighbours]
    rows = {"replace-one": 2, "add-remove": 1}[other]
    factor = np.sqrt(rows) / model.threshold_.sensitivity
    change = {
        "neighbours": other,
        "sensitivity": float(np.sqrt(rows)),
        "noise_scale": factor * document["thresholds"][0]["noise_scale"],
    }
    assert "those of the certificate" in str(verify(with_change(document, **change)))


def test_under_add_remove_the_number_of_rows_is_the_declared_one():
    model = model_of(neighbours="add-remove", max_rows=2500).tune_threshold(X[:900], Y[:900], epsilon=4.0)
    assert model.threshold_.n_units == 2500
    few = model_of(neighbours="add-remove", max_rows=2500).tune_threshold(X[:20], Y[:20], epsilon=4.0)
    assert few.threshold_.bins == model.threshold_.bins  # a private count would give fewer
    assert model_of().tune_threshold(X[:20], Y[:20], epsilon=4.0).threshold_.bins < model.threshold_.bins
    with pytest.raises(InvalidInput, match="more rows than max_rows"):
        few.tune_threshold(np.vstack([X, X]), np.append(Y, Y), epsilon=0.5)


def test_keys_and_number_of_thresholds_are_checked(tuned):
    document = copy.deepcopy(tuned[1])
    for stored in ([], {}, None, "none", [3], [{}], [document["thresholds"][0]] * 1001):
        document["thresholds"] = stored
        assert not verify(sealed(document)).accepted
    document["thresholds"] = [{**tuned[1]["thresholds"][0], "more": 1}]
    assert not verify(sealed(document)).accepted


def test_two_thresholds_do_not_share_a_charge(tuned):
    document = copy.deepcopy(tuned[1])
    document["thresholds"] = [document["thresholds"][0] | {"ledger_entry": CITED}] * 2
    assert "a charge pays for one release" in str(verify(sealed(document)))
    document["thresholds"] = document["thresholds"][:1]
    assert verify(sealed(document)).ok
    document["certificate"]["model"]["ledger_entry"] = CITED
    assert "a charge pays for one release" in str(verify(sealed(document)))


def test_a_citation_has_the_form_that_a_ledger_gives_it():
    check_citation("here", str(Anchor(head="a" * 64, ledger="b" * 32, charge=7)))
    for wrong in ("a" * 64, "", None, 3, CITED + " ", CITED.upper()):
        with pytest.raises(InvalidInput, match="here must be null or have the form"):
            check_citation("here", wrong)


def test_a_threshold_belongs_to_two_classes(tuned, tmp_path):
    PrivateLinearRegression(y_range=(0, 1), mechanism="output").fit(X, Y).save(tmp_path / "m.json")
    document = read_document(tmp_path / "m.json")
    document["thresholds"] = tuned[1]["thresholds"]
    assert "two classes" in str(verify(sealed(document)))


def test_edges_are_those_of_a_map_that_moves_and_scales(tmp_path):
    model = PrivateLogisticRegression(classes=[0, 1], epsilon=3.0).fit(X, Y)
    assert model.row_map_.centre is not None
    model.tune_threshold(X, Y, epsilon=0.5).save(tmp_path / "m.json")
    document = read_document(tmp_path / "m.json")
    assert verify(document).ok
    for edge in margin_scale(model).edges(model.threshold_.bins):
        assert verify(with_change(document, margin=float(edge))).ok


def test_parameters_set_after_the_fit_do_not_choose_the_relation(tmp_path):
    model = model_of(epsilon=1.0).set_params(neighbours="add-remove", max_rows=2500)
    model.tune_threshold(X, Y, epsilon=1.0)
    assert model.threshold_.neighbours == "replace-one"
    assert model.threshold_.sensitivity == pytest.approx(np.sqrt(2))
    assert model.threshold_.n_units == len(X)
    model.save(tmp_path / "m.json")
    assert verify(read_document(tmp_path / "m.json")).ok


def test_every_tuning_is_paid_for(tmp_path):
    model, path = model_of(epsilon=1.0, delta=1e-6), tmp_path / "m.json"
    for _ in range(4):
        model.tune_threshold(X, Y, epsilon=1.0, delta=1e-6)
    five = {"epsilon": pytest.approx(5.0), "delta": pytest.approx(5e-6)}
    assert model.privacy_.guarantee == five
    assert "(5, 5e-06)-differentially private" in str(model.privacy_)
    assert str(model.privacy_).count("  threshold ") == 4
    model.save(path)
    verdict = dperm.verify(path)
    assert verdict.ok, verdict
    assert verdict.guarantee == five
    assert verdict.price.meets(5.0, 5e-6)
    assert not verdict.price.meets(2.0, 2e-6)  # the control: one of them would cost that much
    loaded = dperm.load_model(path)
    assert loaded.threshold_ == model.threshold_
    assert loaded.privacy_.thresholds == model.privacy_.thresholds
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_a_discarded_threshold_was_paid_for_and_is_not_left_out(tmp_path):
    model = model_of().tune_threshold(X, Y, epsilon=1.0)
    model.threshold_ = None
    with pytest.raises(InvalidInput, match="what was tuned was paid for"):
        model.save(tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()


def test_one_seed_among_several_leaves_no_claim(tmp_path):
    model = model_of().tune_threshold(X, Y, epsilon=1.0, random_state=0).tune_threshold(X, Y, epsilon=1.0)
    assert model.threshold_.private
    assert model.privacy_.guarantee is None
    model.save(tmp_path / "m.json")
    assert "predictable" in str(dperm.verify(tmp_path / "m.json"))


def test_one_total_everywhere(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=10, delta=1e-4)
    model = model_of(ledger=ledger, epsilon=1.0, delta=1e-6)
    model.tune_threshold(X, Y, epsilon=2.0, delta=1e-6, ledger=ledger)
    report = model.privacy_
    assert (report.epsilon, report.delta) == (3.0, pytest.approx(2e-6))
    assert report.budget == {"epsilon": 1.0, "delta": 1e-6}
    told = report.to_dict()
    json.dumps(told)
    assert (told["epsilon"], told["guarantee"]["epsilon"], told["budget"]["epsilon"]) == (3.0, 3.0, 1.0)
    assert told["thresholds"] == [model.threshold_.to_dict()]
    assert "(3, 2e-06)" in str(report).splitlines()[0]
    assert "(3, 2e-06)" in report._repr_html_()
    assert "(3, 2e-06)" in str(model.summary())
    model.save(tmp_path / "m.json")
    release = read_release(tmp_path / "m.json", ledger=tmp_path / "budget.db")
    assert release.verdict.guarantee["epsilon"] == 3.0
    assert release.spending.cited == (1, 2)
    assert release.spending.after == pytest.approx(ledger.spent())
    assert release.spending.later == 0
    shown = text(release), page(release)
    assert all("ε = 3" in written for written in shown)
    assert all("The threshold between the two classes was chosen" in written for written in shown)
    assert shown[1].count("(this one)") == 2
