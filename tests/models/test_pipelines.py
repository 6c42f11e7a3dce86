"""An encoder and a model behind it are saved and loaded as one, and read raw tables."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dperm
from dperm import PrivateLinearRegression, PrivateLogisticRegression, PrivateSearchCV, PublicEncoder
from dperm.certificate.statement import file_digest
from dperm.errors import InvalidInput
from dperm.models import load_model, read_document, read_model, save_model
from dperm.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "target": {"name": "retired", "classes": ["no", "yes"]},
        "features": {"age": {"range": [18, 90]}, "job": {"categories": ["a", "b"]}},
    }
)
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"age": RNG.integers(18, 90, 400), "job": RNG.choice(["a", "b"], 400)})
RETIRED = np.where(PEOPLE["age"] > 60, "yes", "no")
STRANGE = pd.DataFrame({"age": [200.0, np.nan, 30.0], "job": ["c", None, "b"]})


def pipeline(model=None, **settings):
    if model is None:
        model = PrivateLogisticRegression(classes=["no", "yes"], **{"mechanism": "output", **settings})
    return Pipeline([("encode", PublicEncoder(SCHEMA)), ("predict", model)])


def test_a_pipeline_comes_back_and_predicts_the_same_from_raw_tables(tmp_path):
    fitted = pipeline().fit(PEOPLE, RETIRED)
    dperm.save_model(fitted, tmp_path / "m.json")
    loaded = dperm.load_model(tmp_path / "m.json")
    assert isinstance(loaded, Pipeline)
    assert [name for name, _ in loaded.steps] == ["encode", "predict"]
    for table in (PEOPLE, PEOPLE[["job", "age"]], STRANGE):
        assert loaded.predict_proba(table).tobytes() == fitted.predict_proba(table).tobytes()
        assert loaded.predict(table).tolist() == fitted.predict(table).tolist()
    assert loaded[0].schema_ == SCHEMA.settled()
    assert loaded[0].feature_names_in_.tolist() == ["age", "job"]
    assert loaded[-1].certificate_ == fitted[-1].certificate_
    assert dperm.verify(tmp_path / "m.json").ok


def test_it_can_be_saved_again_and_fitted_again(tmp_path):
    save_model(pipeline().fit(PEOPLE, RETIRED), tmp_path / "one.json")
    loaded = load_model(tmp_path / "one.json")
    save_model(loaded, tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert loaded.fit(PEOPLE, RETIRED).score(PEOPLE, RETIRED) >= 0


def test_the_model_and_its_schema_can_be_read_apart(tmp_path):
    fitted = pipeline(PrivateLinearRegression(mechanism="output", y_range=(0, 100))).fit(
        PEOPLE, PEOPLE["age"]
    )
    save_model(fitted, tmp_path / "m.json")
    model, schema = read_model(tmp_path / "m.json")
    assert type(model) is PrivateLinearRegression
    assert schema == SCHEMA.settled()
    assert model.predict(fitted[0].transform(PEOPLE)).tobytes() == fitted.predict(PEOPLE).tobytes()


def test_a_model_saved_with_a_schema_comes_back_alone(tmp_path):
    fitted = pipeline().fit(PEOPLE, RETIRED)
    fitted[-1].save(tmp_path / "m.json", schema=SCHEMA)
    assert type(load_model(tmp_path / "m.json")) is PrivateLogisticRegression
    assert read_model(tmp_path / "m.json")[1] == SCHEMA.settled()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            make_pipeline(FunctionTransformer(), PrivateLogisticRegression()),
            "PublicEncoder and a private",
        ),
        (make_pipeline(PrivateLogisticRegression(classes=[0, 1])), "PublicEncoder and a private"),
        (
            make_pipeline(PublicEncoder(SCHEMA), FunctionTransformer(), PrivateLogisticRegression()),
            "nothing else",
        ),
        (make_pipeline(PublicEncoder(SCHEMA), FunctionTransformer()), "got a FunctionTransformer"),
    ],
)
def test_other_pipelines_are_refused_with_the_way_out(other, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        save_model(other, tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_a_search_at_the_end_is_refused_and_its_best_estimator_is_not(tmp_path):
    search = PrivateSearchCV(
        PrivateLogisticRegression(mechanism="output", classes=["no", "yes"]),
        {"l2": [0.1]},
        epsilon=1.0,
        delta=1e-6,
    )
    fitted = pipeline(search).fit(PEOPLE, RETIRED)
    with pytest.raises(InvalidInput, match="best_estimator_"):
        save_model(fitted, tmp_path / "m.json")
    save_model(pipeline(search.best_estimator_), tmp_path / "m.json")
    assert load_model(tmp_path / "m.json").predict(PEOPLE).tolist() == fitted.predict(PEOPLE).tolist()


def test_a_pipeline_takes_no_second_schema(tmp_path):
    with pytest.raises(InvalidInput, match="the schema of its encoder"):
        save_model(pipeline().fit(PEOPLE, RETIRED), tmp_path / "m.json", schema=SCHEMA)


@pytest.mark.parametrize(
    "steps", [["a"], ["a", "a"], ["a", "b__c"], ["a", 3], "ab", {"a": "b"}, ["a", "b", "c"]]
)
def test_hostile_steps_are_refused(steps, tmp_path):
    path = tmp_path / "m.json"
    save_model(pipeline().fit(PEOPLE, RETIRED), path)
    document = {**read_document(path), "pipeline": steps}
    path.write_text(json.dumps({**document, "digest": file_digest(document)}))
    with pytest.raises(InvalidInput, match="pipeline must be null"):
        load_model(path)


def test_steps_without_a_schema_are_refused(tmp_path):
    path = tmp_path / "m.json"
    save_model(pipeline().fit(PEOPLE, RETIRED), path)
    document = {**read_document(path), "schema": None}
    path.write_text(json.dumps({**document, "digest": file_digest(document)}))
    with pytest.raises(InvalidInput, match="pipeline must be null"):
        load_model(path)
