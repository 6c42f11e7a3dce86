"""Models fitted on encoded tables know their columns by name: in the file and in predictions."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from dperm import PrivateLogisticRegression, PublicEncoder, load_model, save_model, verify
from dperm.cli.app import run
from dperm.errors import InvalidInput
from dperm.schema import CodedTable, Schema, encode, encode_rows, feature_names

SCHEMA = Schema.from_dict(
    {
        "target": {"name": "late", "classes": ["no", "yes"]},
        "features": {"age": {"range": [18, 90], "spline": 3}, "home": {"categories": ["rent", "own"]}},
    }
)
NAMES = ["age", "age@18", "age@54", "age@90", "home=rent", "home=own"]
TABLE = pd.DataFrame({"age": np.arange(300.0) % 72 + 18, "home": ["rent", "own", "own"] * 100})
LABELS = np.where(TABLE["age"] > 50, "yes", "no")


def fitted(schema=SCHEMA):
    return PrivateLogisticRegression(classes=["no", "yes"], epsilon=5.0).fit(
        encode_rows(TABLE, schema), LABELS
    )


def test_coded_rows_carry_the_names_of_their_columns():
    rows = encode_rows(TABLE, SCHEMA)
    assert list(rows.feature_names) == NAMES == feature_names(SCHEMA)
    parts = train_test_split(rows, random_state=0)
    for part in (*parts, rows[:64], rows[5:9], rows[np.arange(3)], CodedTable.concatenate(parts)):
        assert list(part.feature_names) == NAMES


def test_the_names_are_in_the_file_and_under_the_certificate(tmp_path):
    model = fitted()
    assert model.feature_names_in_.tolist() == NAMES
    assert PublicEncoder(SCHEMA).get_feature_names_out().tolist() == NAMES
    model.save(tmp_path / "model.json", schema=SCHEMA)
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["feature_names"] == NAMES
    assert verify(tmp_path / "model.json").ok
    document["feature_names"][0] = "weight"
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="not those that the certificate is about"):
        load_model(tmp_path / "model.json")


@pytest.mark.parametrize("through_a_file", [False, True])
def test_rows_are_predicted_for_in_every_form(through_a_file, tmp_path):
    model = fitted()
    if through_a_file:
        model.save(tmp_path / "model.json", schema=SCHEMA)
        model = load_model(tmp_path / "model.json")
    X = encode(TABLE, SCHEMA)
    expected = model.decision_function(encode_rows(TABLE, SCHEMA))
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.decision_function(pd.DataFrame(X, columns=NAMES)), expected, atol=1e-5)
    with pytest.raises(InvalidInput, match="feature names should match"):
        model.predict(pd.DataFrame(X, columns=NAMES[::-1]))
    other = Schema.from_dict(
        {
            "target": {"name": "late", "classes": ["no", "yes"]},
            "features": {"size": {"range": [18, 90], "spline": 3}, "home": {"categories": ["rent", "own"]}},
        }
    )
    renamed = encode_rows(TABLE.rename(columns={"age": "size"}), other)
    with pytest.raises(InvalidInput, match="other columns than those of the fit"):
        model.predict(renamed)


def test_fitting_again_forgets_the_names():
    model = fitted()
    X = encode(TABLE, SCHEMA)
    model.fit(X, LABELS)
    assert not hasattr(model, "feature_names_in_")
    model.fit(pd.DataFrame(X, columns=NAMES), LABELS)
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(X)


def test_pipelines_keep_them(tmp_path):
    pipeline = make_pipeline(PublicEncoder(SCHEMA), PrivateLogisticRegression(classes=["no", "yes"]))
    save_model(pipeline.fit(TABLE, LABELS), tmp_path / "pipeline.json")
    again = load_model(tmp_path / "pipeline.json")
    assert again[-1].feature_names_in_.tolist() == NAMES
    assert (again.predict(TABLE) == pipeline.predict(TABLE)).all()


HASHED = Schema.from_dict(
    {
        "target": {"name": "late", "classes": ["no", "yes"]},
        "features": {"age": {"range": [18, 90], "spline": 0}, "home": {"hashed": 4}},
    }
)


@pytest.mark.parametrize("schema", [SCHEMA, HASHED], ids=["coded", "hashed"])
def test_the_command_line_writes_names_and_predicts(schema, tmp_path, capsys):
    (tmp_path / "people.toml").write_text(schema.to_toml())
    TABLE.assign(late=LABELS).to_csv(tmp_path / "people.csv", index=False)
    model, people = str(tmp_path / "model.json"), str(tmp_path / "people.csv")
    options = ["--schema", str(tmp_path / "people.toml"), "--epsilon", "5", "--delta", "1e-6"]
    assert run(["fit", people, *options, "--output", model]) == 0
    assert json.loads((tmp_path / "model.json").read_text())["feature_names"] == feature_names(schema)
    capsys.readouterr()
    assert run(["predict", model, people]) == 0
    assert "feature names" not in capsys.readouterr().err
    assert run(["verify", model]) == 0
    assert run(["show", model]) == 0
