"""``person`` in a schema: a column with ids that is no feature, read as it is written, with no id missing."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm import PrivateLogisticRegression, PublicEncoder, load_model, save_model
from dperm.errors import InvalidInput
from dperm.schema import Schema, check_schema, encode, feature_names, person_ids, read_table, stream_table
from dperm.schema.drafts import draft_schema

SECRET = "S3CR3T"
TEXT = """person = "patient id"

[target]
name = "back"
classes = ["no", "yes"]

[features.age]
range = [18, 98]
"""
DECLARED = {
    "person": "patient id",
    "target": {"name": "back", "classes": ["no", "yes"]},
    "features": {"age": {"range": [18, 98]}},
}
SCHEMA = Schema.from_dict(DECLARED)


def test_the_file_and_the_dictionary_say_the_same_and_come_back_equal(tmp_path):
    (tmp_path / "visits.toml").write_text(TEXT)
    assert Schema.from_toml(tmp_path / "visits.toml") == SCHEMA
    (tmp_path / "again.toml").write_text(SCHEMA.to_toml())
    assert Schema.from_toml(tmp_path / "again.toml") == SCHEMA
    assert Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))) == SCHEMA
    assert SCHEMA.settled().person == SCHEMA.plain().person == SCHEMA.with_spline(0).person == "patient id"
    assert "person" not in Schema.from_dict({k: v for k, v in DECLARED.items() if k != "person"}).to_dict()


def test_it_is_no_feature():
    assert SCHEMA.column_names == ("age", "back", "patient id")
    assert not any("patient" in name for name in feature_names(SCHEMA))
    assert encode({"age": [20]}, SCHEMA).shape == (1, SCHEMA.n_columns)


@pytest.mark.parametrize("name", ["age", "back"])
def test_a_column_with_two_parts_to_play_is_refused(name):
    with pytest.raises(InvalidInput, match="declared as a feature or the target too"):
        Schema.from_dict({**DECLARED, "person": name})


@pytest.mark.together
@pytest.mark.parametrize("value", ["", 7, ["a"], {"name": "a"}, None, True])
def test_what_names_no_column_is_refused(value):
    with pytest.raises(InvalidInput, match="person must"):
        Schema.from_dict({**DECLARED, "person": value})


@pytest.mark.together
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_ids_come_along_as_they_are_written(tmp_path, ending):
    path = tmp_path / f"visits.{ending}"
    frame = pd.DataFrame(
        {"age": [20, 30, 40, 50], "patient id": ["007", "7", "007", "1e2"], "back": ["no", "yes"] * 2}
    )
    if ending == "parquet":
        pq.write_table(pa.Table.from_pandas(frame), path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    assert person_ids(read_table(path, SCHEMA), SCHEMA).tolist() == [0, 1, 0, 2]
    alone = read_table(path, SCHEMA, only="patient id")
    assert alone.column_names == ["patient id"]
    assert person_ids(alone, SCHEMA).tolist() == [0, 1, 0, 2]
    (batch,) = stream_table(path, SCHEMA)
    assert batch.column("patient id").to_pylist() == ["007", "7", "007", "1e2"]


def test_a_table_to_predict_for_needs_no_ids(tmp_path):
    (tmp_path / "new.csv").write_text("age\n20\n30\n")
    assert encode(read_table(tmp_path / "new.csv", SCHEMA), SCHEMA).shape[0] == 2


@pytest.mark.together
@pytest.mark.parametrize(
    ("ids", "numbers"),
    [
        (["b", "a", "b"], [0, 1, 0]),
        ([9, 9, 2**60], [0, 0, 1]),
        (pd.Categorical(["x", "y", "x"]), [0, 1, 0]),
        ([1.0, 2.0, 1.0], [0, 1, 0]),
        ([], []),
    ],
)
def test_persons_are_numbered_by_their_first_rows(ids, numbers):
    table = pd.DataFrame({"patient id": ids})
    found = person_ids(pa.Table.from_pandas(table) if len(ids) else table.astype(str), SCHEMA)
    assert found.tolist() == numbers
    assert found.dtype == np.int64


@pytest.mark.together
@pytest.mark.parametrize(
    "ids", [[SECRET, None], [SECRET, ""], [SECRET, "  "], [SECRET, "NA"], [1.0, float("nan")], [3, None]]
)
def test_a_missing_id_is_refused_and_no_other_is_quoted(ids):
    with pytest.raises(InvalidInput, match="rows without the id of a person") as caught:
        person_ids({"patient id": ids}, SCHEMA)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


def test_ids_that_are_neither_text_nor_numbers_are_refused():
    for ids in ([True, False], [[1], [2]], [pd.Timestamp("2020-01-01")] * 2):
        with pytest.raises(InvalidInput, match="text or whole numbers|neither text nor a whole number"):
            person_ids({"patient id": ids}, SCHEMA)
    with pytest.raises(InvalidInput, match="no column named 'patient id'"):
        person_ids({"age": [1]}, SCHEMA)


def _found(ids, n=40):
    table = {"age": list(range(20, 20 + n)), "back": ["no", "yes"] * (n // 2)}
    return check_schema(table if ids is None else {**table, "patient id": ids}, SCHEMA)


def test_a_check_counts_persons_and_never_tells_an_id():
    found = _found([SECRET] * 3 + [f"p{k}" for k in range(37)])
    assert (found.persons.n_persons, found.persons.most_rows, found.persons.missing) == (38, 3, 0)
    assert found.undeclared == ()
    assert not found.looks_wrong
    assert "Persons, by patient id: 38; the most rows of one: 3; rows without an id: 0 %." in str(found)
    assert SECRET not in str(found) + json.dumps(found.to_dict())
    assert found.to_dict()["persons"]["most_rows"] == 3


@pytest.mark.together
@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([""] + ["a"] * 39, "have no id of a person, which fit refuses"),
        (["a", "A", "a "] + ["b"] * 37, "2 ids differ from others by case or blanks alone"),
        ([True] * 40, "have no id of a person"),
        (None, "the table has no such column, which should hold the ids of persons"),
    ],
)
def test_a_check_finds_what_is_wrong_with_ids(ids, said):
    found = _found(ids)
    (finding,) = [one for one in found.findings if one.column == "patient id"]
    assert said in finding.text
    assert finding.wrong
    assert str(found)


def test_one_row_each_is_worth_a_remark():
    found = _found([str(k) for k in range(40)])
    (finding,) = [one for one in found.findings if one.column == "patient id"]
    assert "--max-rows-per-person 1" in finding.text
    assert not finding.wrong


def test_a_draft_says_how_and_offers_no_column():
    text = draft_schema({"patient_id": None, "age": None, "back": None}, "back")
    lines = text.splitlines()
    assert any(line.startswith("#") and 'person = "patient_id"' in line for line in lines)
    assert not any(line.startswith("person") for line in lines)


def test_a_pipeline_takes_the_ids_for_its_last_step():
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    ids = rng.integers(0, 200, 800)
    frame = pd.DataFrame({"age": rng.integers(18, 99, 800), "patient id": ids})
    y = np.where(frame["age"] > 60, "yes", "no")
    model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=["no", "yes"])
    pipe = make_pipeline(PublicEncoder(DECLARED), model)
    pipe.fit(frame, y, privatelogisticregression__groups=frame["patient id"])
    statement = pipe[-1].privacy_.statement
    assert statement["unit"] == "one person"
    assert statement["problem"]["n_units"] == len(set(ids))
    assert pipe.predict(frame.drop(columns="patient id")).shape == (800,)
    with pytest.raises(InvalidInput, match="the schema of step publicencoder names a column with the ids"):
        pipe.fit(frame, y)


def test_a_model_file_keeps_the_name_of_the_column(tmp_path):
    model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=["no", "yes"])
    rows = encode({"age": np.arange(20, 60)}, SCHEMA)
    model.fit(rows, ["no", "yes"] * 20, groups=np.arange(40) // 2)
    save_model(model, tmp_path / "m.json", schema=SCHEMA)
    assert json.loads((tmp_path / "m.json").read_text())["schema"]["person"] == "patient id"
    from dperm.models import read_model

    assert read_model(tmp_path / "m.json")[1].person == "patient id"
    assert load_model(tmp_path / "m.json") is not None


def test_decimal_commas_are_for_numbers_and_leave_ids_alone(tmp_path):
    schema = Schema.from_dict({**DECLARED, "file": {"delimiter": ";", "decimal": ","}})
    (tmp_path / "visits.csv").write_text("age;patient id;back\n20,5;1,5;no\n30;1.5;yes\n")
    table = read_table(tmp_path / "visits.csv", schema)
    assert table["patient id"].to_pylist() == ["1,5", "1.5"]
    assert table["age"].to_pylist() == [20.5, 30.0]
    assert person_ids(table, schema).tolist() == [0, 1]
