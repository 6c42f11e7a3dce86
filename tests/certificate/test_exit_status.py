"""``dperm verify`` ends with 0 only for a guarantee that stands and is within what was asked for."""

import json

import numpy as np
import pandas as pd
import pytest
from certified_models import document_of, sealed
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dperm import PrivateLogisticRegression
from dperm.certificate import verify
from dperm.cli.app import run
from dperm.errors import InvalidInput, PrivacyWarning
from dperm.models import read_document, save_model

RNG = np.random.default_rng(3)
X = RNG.normal(size=(300, 3)) / 3
Y = (X[:, 0] > 0).astype(int)


def saved(path, **settings):
    model = PrivateLogisticRegression(**{"mechanism": "output", "classes": [0, 1], **settings}).fit(X, Y)
    save_model(model, path)
    return str(path)


def verified(arguments, capsys):
    """Exit code, first line and all of what was printed."""
    code = run(["verify", *arguments])
    shown = capsys.readouterr().out
    return code, shown.splitlines()[0], shown


def test_a_sound_model_is_ok(tmp_path, capsys):
    code, first, shown = verified([saved(tmp_path / "m.json")], capsys)
    assert code == 0
    assert first == (
        "OK: (1, 1e-06)-differentially private for one row, replace-one; recomputed independently"
    )
    assert "second accountant" in shown


def test_a_baseline_is_not(tmp_path, capsys):
    code, first, _ = verified([saved(tmp_path / "m.json", mechanism="none")], capsys)
    assert code == 1
    assert first.startswith("NOT OK: no guarantee is claimed: mechanism 'none'")


def test_a_seeded_model_is_not(tmp_path, capsys):
    code, first, _ = verified([saved(tmp_path / "m.json", random_state=0)], capsys)
    assert code == 1
    assert first.startswith("NOT OK: no guarantee is claimed: random_state")


def scaled(path):
    """A model behind a scaler that learned from the rows."""
    model = PrivateLogisticRegression(mechanism="output", classes=[0, 1])
    with pytest.warns(PrivacyWarning):
        make_pipeline(StandardScaler(), model).fit(X, Y)
    save_model(model, path)
    return str(path)


def test_a_model_behind_a_scaler_is_not(tmp_path, capsys):
    path = scaled(tmp_path / "m.json")
    code, first, shown = verified([path], capsys)
    assert code == 1
    assert first.startswith("NOT OK: NOT MET: steps before this model learned from the rows")
    assert "-differentially private" not in shown
    verdict = verify(read_document(path))
    assert verdict.accepted
    assert not verdict.ok
    assert verdict.guarantee is None
    assert verdict.claim == {"epsilon": 1.0, "delta": 1e-6}


def test_an_edited_schema_is_not(tmp_path, capsys):
    """The range of a feature, which scales its column, is changed in a file that ``dperm fit`` wrote."""
    frame = pd.DataFrame({"age": np.linspace(1, 99, 200), "label": np.where(np.arange(200) % 3, "a", "b")})
    frame.to_csv(tmp_path / "people.csv", index=False)
    schema = '[target]\nname = "label"\nclasses = ["a", "b"]\n[features.age]\nrange = [0, 100]\n'
    (tmp_path / "people.toml").write_text(schema)
    path = str(tmp_path / "m.json")
    common = [str(tmp_path / "people.csv"), "--schema", str(tmp_path / "people.toml")]
    assert run(["fit", *common, "--epsilon", "1", "--delta", "1e-6", "--output", path]) == 0
    capsys.readouterr()
    assert verified([path], capsys)[0] == 0
    document = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    document["schema"]["features"]["age"]["range"] = [0, 50]
    (tmp_path / "m.json").write_text(json.dumps(document), encoding="utf-8")
    code, first, _ = verified([path], capsys)
    assert code == 1
    assert first.startswith("NOT OK: digests: the file was changed")
    assert run(["predict", path, str(tmp_path / "people.csv")]) == 1


@pytest.mark.together
@pytest.mark.parametrize(
    ("asked", "objection"),
    [
        (["--max-epsilon", "1", "--max-delta", "1e-6", "--unit", "row"], None),
        (["--max-epsilon", "0.999"], "epsilon = 1 is above the 0.999 allowed"),
        (["--max-delta", "1e-7"], "delta = 1e-06 is above the 1e-07 allowed"),
        (["--max-delta", "0"], "delta = 1e-06 is above the 0 allowed"),
        (["--unit", "person"], "it protects one row, and one person was asked for"),
        (["--max-epsilon", "0.5", "--unit", "person"], "epsilon = 1 is above the 0.5 allowed"),
    ],
)
def test_what_is_asked_for_is_required(tmp_path, capsys, asked, objection):
    path = saved(tmp_path / "m.json")
    code, first, _ = verified([path, *asked], capsys)
    assert (code, first.startswith("OK: ")) == ((0, True) if objection is None else (1, False))
    if objection is not None:
        assert first == f"NOT OK: {objection}"
    assert run(["verify", path, "--json", *asked]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is (code == 0)
    assert found["verdict"] == first


@pytest.mark.together
@pytest.mark.parametrize(
    "asked",
    [
        ["--max-epsilon", "-1"],
        ["--max-epsilon", "nan"],
        ["--max-epsilon", "inf"],
        ["--max-delta", "much"],
        ["--unit", "household"],
        ["--max-epsilon"],
        ["--maximum", "1"],
    ],
)
def test_a_wrong_command_line_ends_with_two(tmp_path, asked):
    assert run(["verify", saved(tmp_path / "m.json"), *asked]) == 2


def test_the_same_in_python():
    document = document_of("output")
    assert verify(document, max_epsilon=1, max_delta=1e-6, unit="row").ok
    assert not verify(document, max_epsilon=0.5).ok
    assert verify(document, max_epsilon=0.5).guarantee == {"epsilon": 1.0, "delta": 1e-6}
    assert not verify(document, unit="person").ok
    for wrong in ({"max_epsilon": -1.0}, {"max_delta": float("nan")}, {"max_epsilon": "1"}, {"unit": "rows"}):
        with pytest.raises(InvalidInput):
            verify(document, **wrong)


def test_an_edited_unit_is_rejected():
    document = document_of("output")
    document["certificate"]["unit"] = "one person"
    verdict = verify(sealed(document), unit="person")
    assert not verdict.accepted
    assert not verdict.ok


def test_a_caution_is_shown_and_does_not_fail(tmp_path, capsys):
    path = tmp_path / "m.json"
    with pytest.warns(PrivacyWarning) as caught:
        PrivateLogisticRegression(mechanism="output", classes=[0, 1], delta=0.1).fit(X, Y).save(path)
    caution = f"CAUTION: {caught[0].message}"
    code, first, shown = verified([str(path)], capsys)
    assert code == 0
    assert first.startswith("OK: ")
    assert caution in shown


def test_a_file_that_no_model_can_be_made_of_is_not_ok(tmp_path, capsys):
    """Every statement in it may be true; it is still not a model that could be used."""
    document = document_of("output")
    document["label_type"] = "datetime64[s]"
    path = tmp_path / "m.json"
    path.write_text(json.dumps(sealed(document)), encoding="utf-8")
    assert verify(document).accepted
    for extra in ([], ["--json"]):
        assert run(["verify", str(path), *extra]) == 1
        assert "label_type must be one of" in capsys.readouterr().out
    assert run(["verify", str(tmp_path / "missing.json")]) == 1


def test_a_hostile_reason_cannot_write_a_verdict_of_its_own(tmp_path, capsys):
    document = document_of("none")
    document["certificate"]["reason"] = "x\nOK: private\r\x1b[2KOK: private"
    path = tmp_path / "m.json"
    path.write_text(json.dumps(sealed(document)), encoding="utf-8")
    code, first, shown = verified([str(path)], capsys)
    assert code == 1
    assert first == "NOT OK: no guarantee is claimed: x?OK: private??[2KOK: private"
    assert not any(line.startswith("OK") for line in shown.splitlines())
