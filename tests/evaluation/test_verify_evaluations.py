"""``dperm verify`` of evaluations and means: honest files stand, no edit lowers a claim, a wrong library is found."""

import json
import math

import numpy as np
import pytest
from stated_cases import BUDGET, CASES, EASY, NOT_PRIVATE, X, document_of, edited, evaluated, labelled, leaves

import dperm
from dperm import PrivateLogisticRegression, verify
from dperm.cli.app import run
from dperm.counting import query
from dperm.counting.design import Histogram
from dperm.counting.regression import Moments
from dperm.errors import InvalidInput
from dperm.evaluation.groups import GroupSums
from dperm.release import read_release

EDITS_OF_EACH = 50
HARMLESS = {  # names that no claim rests on, what the public rule gives as well, and numbers that no figure needs
    "numbers",
    "library",
    "by",
    "values",
    "other",
    "label",
    "classes",
    "max_rows",
    "default_bins",
    "scales",
}
LABELS = ("", "x", "row", "person", "replace-one", "add-remove", "binary", "operating system", None, True)


@pytest.mark.together
@pytest.mark.parametrize("name", CASES)
def test_an_honest_file_stands(name):
    document = document_of(name)
    verdict = verify(document)
    assert verdict.ok, verdict.objections
    assert verdict.guarantee == document["budget"]
    assert verdict.independent
    assert verdict.unit == ("one person" if "persons" in name else "one row")
    assert verdict.relation == ("add-remove" if "hidden" in name or name == "four classes" else "replace-one")
    assert [check.name for check in verdict.checks] == [
        "shape of the file",
        "claim",
        "release",
        "epsilon at delta",
        "the whole plan",
        "figures and notes",
    ]
    assert str(verdict).startswith(
        f"OK: ({document['budget']['epsilon']:g}, 1e-06)-differentially private for"
    )


@pytest.mark.parametrize("name", NOT_PRIVATE)
def test_what_is_not_private_is_read_and_never_ok(name):
    verdict = verify(document_of(name))
    assert verdict.accepted
    assert verdict.guarantee is None
    assert "no guarantee is claimed" in str(verdict)
    assert ("not private and must not be published" in str(verdict)) is ("local" in name)


@pytest.mark.together
@pytest.mark.parametrize(
    ("path", "value", "check"),
    [
        (["budget", "epsilon"], -3.0, "claim"),
        (["relation"], "nobody", "claim"),
        (["rows"], 0, "claim"),
        (["release", "entropy"], "dice", "claim"),
        (["release", "sensitivity"], 1.0, "release"),
        (["release", "parts", 0, "weights"], [2.0], "release"),
        (["release", "numbers", 3], lambda number: number + 2.0**-30, "release"),
        (["budget", "epsilon"], 0.01, "epsilon at delta"),
        (["release", "noise_scale"], 1e-9, "epsilon at delta"),
        (["release", "noise_scale"], lambda scale: scale * (1 - 1e-6), "epsilon at delta"),
        (["release", "noise_scale"], lambda scale: scale * (1 + 1e-6), "the whole plan"),
        (["budget", "epsilon"], 1.1, "the whole plan"),
        (["release", "numbers", 3], lambda number: number + 2.0**6, "figures and notes"),
        (["notes"], [], "figures and notes"),
    ],
)
def test_every_check_refuses_what_it_is_there_for(path, value, check):
    verdict = verify(edited(document_of("two classes"), path, value))
    assert verdict.failures[0].startswith(f"{check}: ")
    assert verdict.claim is None


def other_values(old, rng):
    if isinstance(old, bool):
        return [not old, None, 0, 1.0]
    if isinstance(old, int | float):
        return [
            old / 2,
            old * 2,
            -old,
            old + 1,
            old - 1,
            0,
            1e-9,
            1e300,
            0.5,
            old * (1 + rng.normal() / 10),
            None,
        ]
    return list(LABELS)


@pytest.mark.together
@pytest.mark.parametrize("name", [*CASES, *NOT_PRIVATE])
def test_no_random_edit_lowers_a_claim(name):
    """Every field is edited, of long lists some; what is still accepted says nothing else that a claim rests on.

    Exact figures have nothing that they could follow from. They claim nothing, whatever is done to them.
    """
    document, rng = document_of(name), np.random.default_rng(7)
    honest = verify(document)
    paths = [path for path in leaves(document) if path != ("digest",)]
    short = [path for path in paths if len(path) == 1 or path[0] == "budget"]
    accepted = 0
    for path in [*short, *(paths[k] for k in rng.integers(0, len(paths), EDITS_OF_EACH - len(short)))]:
        old = document
        for key in path:
            old = old[key]
        values = [value for value in other_values(old, rng) if value != old or type(value) is not type(old)]
        value = values[rng.integers(len(values))]
        verdict = verify(edited(document, path, value))
        accepted += verdict.accepted
        if verdict.accepted:
            known = document.get("local") or HARMLESS & set(map(str, path)) or is_same_number(old, value)
            assert known, (path, old, value)
            assert verdict.guarantee == honest.guarantee, (path, old, value)
            assert (verdict.unit, verdict.relation) == (honest.unit, honest.relation), (path, old, value)
    assert document.get("local") or accepted < EDITS_OF_EACH / 2


def is_same_number(old, value):
    """0 is 0.0, and 1e-9 of a figure is lost in its last digits."""
    return isinstance(value, float | int) and isinstance(old, float | int) and abs(value - old) <= 1e-6


LESS = {
    "histograms": (Histogram, "two classes"),
    "moments": (Moments, "regression"),
    "means": (GroupSums, "means"),
}


@pytest.mark.together
@pytest.mark.parametrize("what", LESS)
def test_a_library_with_too_small_a_sensitivity_is_found_out(what, monkeypatch):
    """The file is planned again by the same wrong library, and the formulas of the proof do not follow it."""
    part, name = LESS[what]
    real = part.squared_gap
    monkeypatch.setattr(part, "squared_gap", lambda self, neighbours: real(self, neighbours) / 2)
    verdict = verify(json.loads(json.dumps(CASES[name]().to_dict())))
    assert verdict.failures[0].startswith("release: release, sensitivity is stated as")


def test_a_library_with_too_little_noise_is_found_out(monkeypatch):
    real = query.gaussian_mu
    monkeypatch.setattr(query, "gaussian_mu", lambda budget: 1.05 * real(budget))
    verdict = verify(json.loads(json.dumps(evaluated(2).to_dict())))
    assert verdict.failures[0].startswith("epsilon at delta: the noise costs delta =")


def saved(tmp_path, name, *change):
    path = tmp_path / "found.json"
    path.write_text(json.dumps(edited(document_of(name), *change) if change else document_of(name)))
    return str(path)


@pytest.fixture
def ran(capsys):
    """Runs the command, and gives its exit code and what it printed."""

    def command(*arguments):
        code = run(["verify", *arguments])
        return code, capsys.readouterr().out

    return command


@pytest.mark.parametrize("name", ["two classes", "means"])
def test_the_command_says_ok_in_its_first_line(ran, tmp_path, name):
    code, output = ran(saved(tmp_path, name))
    assert (code, output.splitlines()[0]) == (
        0,
        "OK: (1, 1e-06)-differentially private for one row, replace-one; recomputed independently",
    )
    assert "figures and notes" in output


@pytest.mark.parametrize(
    ("asked", "objection"),
    [
        (["--max-epsilon", "0.5"], "epsilon = 1 is above the 0.5 allowed"),
        (["--max-delta", "1e-9"], "delta = 1e-06 is above the 1e-09 allowed"),
        (["--unit", "person"], "it protects one row, and one person was asked for"),
    ],
)
def test_the_command_asks_for_more(ran, tmp_path, asked, objection):
    code, output = ran(saved(tmp_path, "two classes"), *asked)
    assert (code, output.splitlines()[0]) == (1, f"NOT OK: {objection}")
    assert ran(saved(tmp_path, "two classes, persons"), "--unit", "person")[0] == 0


@pytest.mark.parametrize("name", ["two classes", "means", "local", "seeded"])
def test_the_command_prints_json(ran, tmp_path, name):
    code, output = ran(saved(tmp_path, name), "--json")
    told = json.loads(output)
    assert told["ok"] is (code == 0) is (name in ("two classes", "means"))
    assert told["format"] == document_of(name)["format"]
    assert told["guarantee"] == ({"epsilon": 1.0, "delta": 1e-6} if told["ok"] else None)


@pytest.mark.parametrize("name", ["two classes", "means"])
def test_the_command_refuses_a_forgery(ran, tmp_path, name):
    code, output = ran(saved(tmp_path, name, ["budget", "epsilon"], 0.01), "--max-epsilon", "0.1")
    assert code == 1
    assert output.splitlines()[0].startswith("NOT OK: epsilon at delta: the noise costs")


@pytest.mark.parametrize(
    "content", ["{}", "[]", '{"format": "dperm ledger"}', '{"format": ["dperm model"]}', "no"]
)
def test_the_command_refuses_what_it_does_not_know(ran, tmp_path, content):
    path = tmp_path / "strange.json"
    path.write_text(content)
    code, output = ran(str(path))
    assert code == 1
    assert output.startswith("NOT OK: strange.json is not a usable file to verify: ")


def test_the_page_refuses_a_forged_evaluation(tmp_path):
    model = PrivateLogisticRegression(classes=[0, 1], **EASY).fit(X, labelled(2))
    dperm.save_model(model, tmp_path / "model.json")
    document = json.loads(json.dumps(dperm.evaluate(model, X, labelled(2), BUDGET).to_dict()))
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps(document))
    assert read_release(tmp_path / "model.json", evaluation=path).evaluation.private
    path.write_text(json.dumps(edited(document, ["budget", "epsilon"], 0.01)))
    with pytest.raises(InvalidInput, match="the noise costs"):
        read_release(tmp_path / "model.json", evaluation=path)
    path.write_text(json.dumps(edited(document, ["classes"], [1, 0])))
    with pytest.raises(InvalidInput, match=r"says of model\.json what is not true of it \(classes\)"):
        read_release(tmp_path / "model.json", evaluation=path)


def test_the_page_refuses_an_evaluation_at_another_threshold(tmp_path):
    model = PrivateLogisticRegression(classes=[0, 1], **EASY).fit(X, labelled(2))
    dperm.evaluate(model, X, labelled(2), BUDGET).save(tmp_path / "before.json")
    model.tune_threshold(X, labelled(2), epsilon=1.0, random_state=0)
    assert not math.isclose(model.threshold_.margin, 0.0)
    dperm.evaluate(model, X, labelled(2), BUDGET).save(tmp_path / "after.json")
    dperm.save_model(model, tmp_path / "model.json")
    assert verify(tmp_path / "after.json").ok
    assert read_release(tmp_path / "model.json", evaluation=tmp_path / "after.json").evaluation.private
    with pytest.raises(InvalidInput, match=r"not true of it \(scales\). If the threshold was tuned since"):
        read_release(tmp_path / "model.json", evaluation=tmp_path / "before.json")


def test_a_charge_is_cited_and_a_bare_head_is_no_citation(tmp_path):
    ledger = dperm.Ledger.create(tmp_path / "budget.db", epsilon=3.0, delta=1e-5)
    found = json.loads(json.dumps(evaluated(2, ledger=ledger).to_dict()))
    assert found["ledger_entry"].startswith("ledger ")
    assert verify(found).ok
    head = found["ledger_entry"].split(" head ")[1]
    for text in (head, found["ledger_entry"] + " ", "", "ledger 1, charge 1, head 1"):
        assert verify(edited(found, ["ledger_entry"], text)).failures[0].startswith("claim: ")
