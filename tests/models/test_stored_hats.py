"""Model files state their hats, and the report shows what they do."""

import json

import numpy as np
import pandas as pd
import pytest

from dperm import PrivateLinearRegression, PrivateLogisticRegression, PublicEncoder
from dperm.certificate.statement import file_digest
from dperm.cli.app import run
from dperm.models import load_model, read_document, read_model, save_model
from dperm.models.effects import effects_section, effects_text
from dperm.schema import Schema
from dperm.schema import schema as schema_module

SCHEMA = Schema.from_dict(
    {
        "target": {"name": "retired", "classes": ["no", "yes"]},
        "rows": {"cross": [["job", "sex<b>"]]},
        "features": {
            "age": {"range": [18, 90]},
            "pay": {"range": [0, 9], "spline": 0},
            "job": {"categories": ["a", "b"]},
            "sex<b>": {"categories": ["f", "m"]},
        },
    }
)
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {"age": RNG.integers(18, 90, 400), "pay": 3.0, "job": RNG.choice(["a", "b"], 400), "sex<b>": "f"}
)
RETIRED = np.where(np.abs(PEOPLE["age"] - 54) < 18, "yes", "no")  # which no straight effect tells


def _fitted(labels=RETIRED, kind=PrivateLogisticRegression, **settings):
    settings = {"mechanism": "none", "l2": 1e-6, **settings}
    return kind(**settings).fit(PublicEncoder(SCHEMA).transform(PEOPLE), labels)


@pytest.fixture
def path(tmp_path):
    save_model(_fitted(), tmp_path / "m.json", schema=SCHEMA)
    return tmp_path / "m.json"


def test_a_file_states_its_hats_and_keeps_them_when_the_default_changes(path, monkeypatch):
    stored = read_document(path)["schema"]
    assert stored["features"]["age"]["spline"] == 8
    assert "spline" not in stored["features"]["pay"]
    monkeypatch.setattr(schema_module, "DEFAULT_SPLINES", 5)
    model, schema = read_model(path)
    assert schema.n_columns == model.n_features_in_ == 9 + 1 + 2 + 2 + 4
    assert Schema.from_dict(SCHEMA.to_dict()).n_columns == 6 + 1 + 2 + 2 + 4


def test_a_file_that_states_none_has_none(tmp_path):
    plain = SCHEMA.plain()
    model = PrivateLogisticRegression(mechanism="none").fit(PublicEncoder(plain).transform(PEOPLE), RETIRED)
    save_model(model, tmp_path / "plain.json", schema=plain)
    model, schema = read_model(tmp_path / "plain.json")
    stored = read_document(tmp_path / "plain.json")["schema"]
    assert "spline" not in json.dumps(stored)
    assert any("range" in table for table in stored["features"].values())
    assert schema == schema.plain()
    assert schema.n_columns == model.n_features_in_


def test_hats_cannot_be_edited(path):
    document = read_document(path)
    document["schema"]["features"]["age"]["spline"] = 9
    path.write_text(json.dumps({**document, "digest": file_digest(document)}))
    with pytest.raises(Exception, match="columns and the model"):
        load_model(path)


def test_hats_learn_what_a_straight_effect_cannot():
    assert _fitted().score(PublicEncoder(SCHEMA).transform(PEOPLE), RETIRED) > 0.9
    plain = PublicEncoder(SCHEMA.plain())
    model = PrivateLogisticRegression(mechanism="none", l2=1e-6).fit(plain.transform(PEOPLE), RETIRED)
    assert model.score(plain.transform(PEOPLE), RETIRED) < 0.6


def test_the_text_shows_curves_and_levels(path, capsys):
    assert run(["report", str(path)]) == 0
    told = capsys.readouterr().out
    first = next(line for line in told.splitlines() if line.startswith("  age "))
    assert first.split()[1] == "18"
    assert first.split()[3] == "90"
    curve = first.split()[2]
    assert len(curve) == 16
    assert curve[0] < curve[7] > curve[-1]
    assert "What each feature adds to the score of 'yes'" in told
    assert "a & f" in told


def test_the_page_draws_them_and_escapes_names(path, tmp_path):
    assert run(["report", str(path), "--html", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.count('<polyline class="own"') == 2  # of the two numbers; no guarantee, so no attacks
    assert "sex&lt;b&gt;" in page
    assert "<b>" not in page
    assert "<script" not in page


def test_several_classes_and_numbers_have_their_effects_too():
    three = np.digitize(PEOPLE["age"], [40, 60])
    text = effects_text(_fitted(three, classes=[0, 1, 2]), SCHEMA)
    assert "age → 2" in text
    assert "of a class" in text
    assert "and " not in text.splitlines()[-1]
    line = effects_text(_fitted(PEOPLE["age"] / 90, PrivateLinearRegression, y_range=(0, 1)), SCHEMA)
    assert "adds to the predicted 'retired', in its units" in line
    assert effects_section(_fitted(), SCHEMA).count("<figure>") == 5


def test_a_model_without_a_schema_is_reported_without_effects(tmp_path, capsys):
    save_model(_fitted(), tmp_path / "m.json")
    assert run(["report", str(tmp_path / "m.json")]) == 0
    assert "What each feature" not in capsys.readouterr().out
