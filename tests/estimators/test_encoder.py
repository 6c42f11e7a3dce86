"""PublicEncoder behaves as scikit-learn expects of a stateless transformer, and learns nothing."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.validation import check_is_fitted

from dperm.datasets import load_cps
from dperm.errors import InvalidInput
from dperm.estimators.encoder import PublicEncoder
from dperm.schema import Schema, encode

SCHEMA = Schema.from_dict(
    {
        "target": {"name": "y", "classes": ["no", "yes"]},
        "features": {
            "age": {"range": [0, 100], "indicator": True, "spline": 0},
            "job": {"categories": ["nurse", "clerk"]},
        },
    }
)
FRAME = pd.DataFrame(
    {"job": ["clerk", None, "spy"], "note": ["x", "y", "z"], "age": [0.0, np.nan, 250.0]}, index=[7, 3, 5]
)
NAMES = ["age", "age=missing", "job=nurse", "job=clerk"]
ROWS = np.array([[-0.5, -0.5, -0.5, 0.5], [0, 0.5, 0, 0], [0.5, -0.5, 0, 0]]) * SCHEMA.scale


def same(found, expected):
    """To the rounding of float32, in which coded rows keep their numbers."""
    return np.shape(found) == np.shape(expected) and np.allclose(found, expected, rtol=0, atol=1e-7)


def test_it_encodes_with_and_without_fit():
    encoder = PublicEncoder(SCHEMA)
    assert np.allclose(encoder.transform(FRAME), ROWS, rtol=0, atol=1e-15)
    assert same(encoder.fit_transform(FRAME), encode(FRAME, SCHEMA))
    assert same(encoder.fit(FRAME, ["no", "yes", "no"]).transform(FRAME), encode(FRAME, SCHEMA))


def test_fit_learns_the_names_of_the_columns_and_nothing_else():
    one, other = PublicEncoder(SCHEMA).fit(FRAME), PublicEncoder(SCHEMA).fit(FRAME.iloc[:1] * 2)
    assert pickle.dumps(one) == pickle.dumps(other)
    assert one.feature_names_in_.tolist() == ["age", "job"]
    assert one.n_features_in_ == 2
    assert (
        one.get_feature_names_out().tolist()
        == PublicEncoder(SCHEMA).get_feature_names_out().tolist()
        == NAMES
    )


@pytest.mark.together
@pytest.mark.parametrize(
    "table",
    [FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME), FRAME.to_dict("list")],
    ids=["pandas", "polars", "pyarrow", "dict"],
)
def test_every_kind_of_table(table):
    assert same(PublicEncoder(SCHEMA).fit(table).transform(table), encode(FRAME, SCHEMA))


def test_a_schema_may_be_a_path_or_a_dictionary(tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(SCHEMA.to_toml(), encoding="utf-8")
    fitted = PublicEncoder(str(path)).fit(FRAME)
    for encoder in (fitted, PublicEncoder(path), PublicEncoder(SCHEMA.to_dict())):
        assert same(encoder.transform(FRAME), encode(FRAME, SCHEMA))
    path.unlink()
    moved = pickle.loads(pickle.dumps(fitted))  # a fitted encoder carries the schema with it
    assert same(moved.transform(FRAME), encode(FRAME, SCHEMA))
    with pytest.raises(InvalidInput, match="no such file"):
        PublicEncoder(path).fit(FRAME)


def test_clone_keeps_the_schema_and_drops_the_fit():
    encoder = clone(PublicEncoder(SCHEMA).fit(FRAME))
    assert encoder.schema == SCHEMA
    assert not hasattr(encoder, "schema_")


def test_set_output_gives_frames():
    frame = PublicEncoder(SCHEMA).set_output(transform="pandas").fit_transform(FRAME)
    assert frame.columns.tolist() == NAMES
    assert frame.index.tolist() == [7, 3, 5]
    assert same(frame.to_numpy(), encode(FRAME, SCHEMA))
    frame = PublicEncoder(SCHEMA).set_output(transform="polars").transform(pl.from_pandas(FRAME))
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == NAMES


def test_it_works_in_pipelines_and_column_transformers():
    data = load_cps()
    table, labels = data.table.slice(0, 3000), data.y[:3000]
    pipeline = make_pipeline(PublicEncoder(data.schema), LogisticRegression(C=1e3))
    frame = table.to_pandas()
    scores = cross_val_score(pipeline, frame, labels, cv=3)
    assert scores.mean() > 0.62  # the majority class has about 0.51
    shuffled = np.random.default_rng(0).permutation(labels)
    assert cross_val_score(pipeline, frame, shuffled, cv=3).mean() < 0.56
    pipeline.fit(frame, labels)
    assert pipeline[:-1].get_feature_names_out().tolist()[:3] == ["age", "age@21", "age@27.1"]
    both = ColumnTransformer([("public", PublicEncoder(SCHEMA), ["age", "job"])])
    assert same(both.fit_transform(FRAME), encode(FRAME, SCHEMA))


def test_wrong_tables_are_refused_at_fit_and_at_transform():
    encoder = PublicEncoder(SCHEMA).fit(FRAME)
    for method in (encoder.fit, encoder.transform):
        with pytest.raises(InvalidInput, match="no column named 'job'"):
            method(FRAME[["age"]])
        with pytest.raises(InvalidInput, match="named columns"):
            method(np.zeros((3, 2)))


def test_tags_and_fitted_state():
    tags = get_tags(PublicEncoder(SCHEMA))
    assert not tags.requires_fit
    assert tags.input_tags.string
    assert tags.input_tags.categorical
    assert tags.input_tags.allow_nan
    assert not tags.input_tags.two_d_array
    check_is_fitted(PublicEncoder(SCHEMA))


def test_scikit_learn_knows_that_arrays_are_not_taken():
    """Its full suite feeds arrays without column names, so it skips this estimator by its tags."""
    with pytest.warns(SkipTestWarning, match="PublicEncoder"):
        results = estimator_checks.check_estimator(PublicEncoder(SCHEMA), on_fail=None)
    assert [result["check_name"] for result in results] == ["check_estimator_cloneable"]
    assert results[0]["status"] == "passed"


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_estimator_repr",
        "check_no_attributes_set_in_init",
        "check_mixin_order",
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_get_params_invariance",
        "check_set_params",
    ],
)
def test_the_checks_that_need_no_array(check):
    getattr(estimator_checks, check)("PublicEncoder", PublicEncoder(SCHEMA))
