"""Splines, bins and crossed features: computed by hand, public, and only where they are wanted."""

import math
import re

import numpy as np
import pytest

from dperm.datasets import dataset_names, dataset_schema, load_dataset
from dperm.errors import InvalidInput
from dperm.schema import Schema, encode, feature_names
from dperm.schema import schema as schema_module
from dperm.schema.values import MOST_SPLINES


def _schema(rows=None, **features):
    target = {"name": "label", "classes": ["no", "yes"]}
    return Schema.from_dict({"target": target, "features": features, **({"rows": rows} if rows else {})})


def _columns(values, **declaration):
    """The columns after the linear one and the indicator, with their public mean put back and unscaled."""
    schema = _schema(x=declaration)
    block = (encode({"x": values}, schema) / schema.scale)[:, 1 + declaration.get("indicator", False) :]
    return block + 1 / block.shape[1]


def test_hats_are_one_at_their_knot_and_shared_between_two():
    found = _columns([0, 2, 3, 4, 8, 7.5, -9, math.inf], range=[0, 8], spline=5)
    expected = [
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0.5, 0.5, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 0, 0.25, 0.75],
        [1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1],
    ]
    assert np.allclose(found, expected, rtol=0, atol=1e-9)


def test_hats_make_any_piecewise_linear_curve():
    """Of the values at the knots, np.interp makes the same curve as coefficients of the splines do."""
    rng = np.random.default_rng(0)
    values, heights = rng.uniform(-3, 40, 500), rng.normal(size=7)
    curve = np.interp(values, np.linspace(0, 30, 7), heights)
    assert np.allclose(_columns(values, range=[0, 30], spline=7) @ heights, curve, rtol=0, atol=1e-9)


def test_knots_stand_evenly_on_the_logarithm():
    values = np.expm1(np.linspace(0, math.log1p(999), 4))
    found = _columns(values, range=[0, 999], log=True, spline=4)
    assert np.allclose(found, np.eye(4), rtol=0, atol=1e-9)
    assert feature_names(_schema(x={"range": [0, 999], "log": True, "spline": 4}))[1:] == [
        "x@0", "x@9", "x@99", "x@999",
    ]  # fmt: skip


def test_the_centre_moves_the_linear_column_and_not_the_hats():
    for centre in (0, 1, 8):
        found = _columns([0, 3, 8], range=[0, 8], centre=centre, spline=3)
        assert np.allclose(found, [[1, 0, 0], [0.25, 0.75, 0], [0, 0, 1]], rtol=0, atol=1e-9)


def test_bins_take_their_lower_cut_and_not_their_upper_one():
    found = _columns([17, 19.99, 20, 29, 30, 90, 200, -5, math.inf], range=[17, 90], bins=[20, 30])
    assert np.allclose(found, np.eye(3)[[0, 0, 1, 1, 2, 2, 2, 0, 2]], rtol=0, atol=1e-9)
    assert feature_names(_schema(x={"range": [17, 90], "bins": [20, 30.5]})) == [
        "x", "x=[17, 20)", "x=[20, 30.5)", "x=[30.5, 90]",
    ]  # fmt: skip


@pytest.mark.parametrize("more", [{"spline": 4}, {"bins": [3]}])
def test_a_missing_number_has_zeros_in_all_but_its_indicator(more):
    schema = _schema(x={"range": [0, 9], "missing": [-1], "indicator": True, **more})
    rows = encode({"x": [None, math.nan, -1.0]}, schema) / schema.scale
    assert np.array_equal(np.flatnonzero(rows.any(axis=0)), [1])


PAIRS = {"sex": {"categories": ["f", "m"]}, "age": {"range": [0, 90], "bins": [30]}}


def test_crossed_features_have_a_column_for_each_pair():
    schema = _schema({"cross": [["sex", "age"]]}, **PAIRS)
    assert feature_names(schema)[-4:] == [
        "sex=f & age=[0, 30)", "sex=f & age=[30, 90]", "sex=m & age=[0, 30)", "sex=m & age=[30, 90]",
    ]  # fmt: skip
    table = {"sex": ["f", "m", "m", "x", "f", None], "age": [80.0, 3, 99, 40, None, None]}
    rows = encode(table, schema)[:, -4:] / schema.scale
    expected = np.vstack([np.eye(4)[[1, 2, 3]] - 0.25, np.zeros((3, 4))])
    assert np.allclose(rows, expected, rtol=0, atol=1e-9)


def test_a_missing_value_that_counts_as_a_category_is_crossed_as_that():
    sex = {"categories": ["f", "m"], "missing_as": "m"}
    schema = _schema({"cross": [["sex", "kind"]]}, sex=sex, kind={"categories": [0, 1]})
    row = encode({"sex": [None], "kind": [1]}, schema)[0, -4:] / schema.scale
    assert np.allclose(row, [-0.25, -0.25, -0.25, 0.75], rtol=0, atol=1e-9)


@pytest.mark.together
@pytest.mark.parametrize(
    ("numbers", "splines"), [(0, 8), (1, 8), (20, 8), (21, 7), (32, 5), (40, 4), (41, 0), (54, 0), (784, 0)]
)
def test_the_default_rule(numbers, splines):
    assert schema_module.default_splines(numbers) == splines


def test_hats_count_once_for_every_class_of_more_than_two():
    assert [schema_module.default_splines(10, classes) for classes in (1, 2, 3, 4, 5)] == [8, 8, 5, 4, 0]
    digits = {
        "target": {"name": "y", "classes": list(range(10))},
        "features": {"x": {"range": [0, 1]}, "z": {"range": [0, 1]}},
    }
    assert Schema.from_dict(digits).n_columns == 2 + 2 * 8
    digits["features"] |= {f"x{i}": {"range": [0, 1]} for i in range(3)}
    assert Schema.from_dict(digits).n_columns == 5


@pytest.mark.together
@pytest.mark.parametrize("numbers", [1, 20, 21, 40, 53, 54, 60])
def test_hats_by_default_never_pass_the_limit(numbers):
    schema = _schema(**{f"x{i}": {"range": [0, 1]} for i in range(numbers)})
    assert schema.n_columns - numbers == numbers * schema_module.default_splines(numbers) <= 160


def test_only_numbers_that_declare_nothing_follow_the_rule():
    schema = _schema(
        a={"range": [0, 1]},
        b={"range": [0, 1], "spline": 0},
        c={"range": [0, 1], "spline": 4},
        d={"range": [0, 1], "bins": [0.5]},
        e={"categories": [0, 1]},
    )
    assert [block.n_columns for block in schema.blocks] == [9, 1, 5, 3, 2]
    assert [feature.spline for feature in schema.features[:4]] == [None, 0, 4, None]
    wide = Schema.from_dict({**schema.to_dict(), "rows": {"spline": 6}})
    assert [block.n_columns for block in wide.blocks] == [7, 1, 5, 3, 2]


def test_a_schema_can_be_made_plain_given_other_hats_and_settled():
    schema = _schema(
        {"cross": [["sex", "age"]]}, **PAIRS, pay={"range": [0, 1], "spline": 4}, tax={"range": [0, 1]}
    )
    assert schema.plain().n_columns == 2 + 1 + 1 + 1
    assert Schema.from_dict(schema.plain().to_dict()) == schema.plain()
    assert [block.n_columns for block in schema.with_spline(5).blocks] == [2, 3, 6, 6, 4]
    assert [block.n_columns for block in schema.with_spline(0).blocks] == [2, 3, 1, 1, 4]
    assert schema.with_spline(None) is schema
    settled = schema.settled()
    assert settled.blocks == schema.blocks
    assert settled.spline == 0
    assert settled.settled() == settled
    table = {"sex": ["f"], "age": [3.0], "pay": [0.3], "tax": [0.7]}
    assert np.array_equal(encode(table, settled), encode(table, schema))


def test_a_settled_schema_does_not_follow_the_default(monkeypatch):
    schema = _schema(x={"range": [0, 1]})
    settled = Schema.from_dict(schema.settled().to_dict())
    monkeypatch.setattr(schema_module, "DEFAULT_SPLINES", 5)
    assert Schema.from_dict(schema.to_dict()).n_columns == 6
    assert Schema.from_dict(settled.to_dict()).n_columns == 9


def test_the_file_keeps_what_was_declared_and_nothing_else():
    schema = _schema({"spline": 6, "cross": [["sex", "age"]]}, **PAIRS, pay={"range": [0, 1], "spline": 0})
    assert 'spline = 6\ncross = [["sex", "age"]]' in schema.to_toml()
    assert "bins = [30]" in schema.to_toml()
    assert "spline" not in _schema(x={"range": [0, 1]}).to_toml()


def test_names_of_knots_tell_them_apart():
    for low, width in [(0, 1), (1e6, 1), (1e15, 64), (-1e-300, 2e-300), (2.0**52, 2)]:
        names = feature_names(_schema(x={"range": [low, low + width], "spline": 8}))
        assert len(set(names)) == 9
    assert feature_names(_schema(x={"range": [17, 90], "spline": 8}))[1:4] == ["x@17", "x@27.4", "x@37.9"]
    assert feature_names(_schema(x={"range": [0, 99999], "spline": 3}))[1:] == ["x@0", "x@50000", "x@99999"]
    assert feature_names(_schema(x={"range": [2.0**52, 2.0**52 + 2], "spline": 8}))[1:3] == ["x@1", "x@2"]


def test_a_name_that_a_spline_has_already_is_refused():
    with pytest.raises(InvalidInput, match="same name"):
        _schema(**{"x": {"range": [0, 1], "spline": 3}, "x@0.5": {"range": [0, 1]}})


@pytest.mark.together
@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        ({"spline": 1}, "spline must be 0"),
        ({"spline": 2}, "spline must be 0"),
        ({"spline": -3}, "spline must be 0"),
        ({"spline": MOST_SPLINES + 1}, "spline must be 0"),
        ({"spline": 8.0}, "spline must be 0"),
        ({"spline": True}, "spline must be 0"),
        ({"spline": "8"}, "spline must be 0"),
        ({"bins": 3}, "bins must be a list"),
        ({"bins": ["3"]}, "bins must be a number"),
        ({"bins": [3, 3]}, "bins must be cut points"),
        ({"bins": [4, 3]}, "bins must be cut points"),
        ({"bins": [0]}, "bins must be cut points"),
        ({"bins": [9]}, "bins must be cut points"),
        ({"bins": [math.nan]}, "finite"),
        ({"bins": [3], "spline": 4}, "bins or spline, not both"),
    ],
)
def test_wrong_declarations_are_refused(declaration, words):
    with pytest.raises(InvalidInput, match=words):
        _schema(x={"range": [0, 9], **declaration})


@pytest.mark.together
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"spline": 2}, "[features] and [rows]: spline must be 0"),
        ({"splines": 8}, "the keys norm_share, spline, cross"),
        ({"cross": "sex"}, "cross must be a list"),
        ({"cross": ["sex", "age"]}, "cross must be a list"),
        ({"cross": [["sex"]]}, "pairs of two features"),
        ({"cross": [["sex", "sex"]]}, "pairs of two features"),
        ({"cross": [["sex", "age", "sex"]]}, "pairs of two features"),
        ({"cross": [["sex", 3]]}, "cross must be text"),
        ({"cross": [["sex", "age"], ["age", "sex"]]}, "twice"),
        ({"cross": [["sex", "town"]]}, "'town', which is not a feature"),
        ({"cross": [["sex", "pay"]]}, "'pay' does not have"),
    ],
)
def test_wrong_rows_are_refused(rows, words):
    with pytest.raises(InvalidInput, match=re.escape(words)):
        _schema(rows, **PAIRS, pay={"range": [0, 1]})


def test_too_many_crossed_columns_are_refused_by_name():
    features = {name: {"categories": list(range(60))} for name in "abc"}
    assert _schema({"cross": [["a", "b"]]}, **features).n_columns == 180 + 3600
    with pytest.raises(InvalidInput, match="more than 4096 columns with 'b & c', which has 3600"):
        _schema({"cross": [["a", "b"], ["b", "c"]]}, **features)


def test_the_named_data_sets_follow_the_rule():
    columns = {name: dataset_schema(name).n_columns for name in dataset_names()}
    plain = {name: dataset_schema(name).plain().n_columns for name in dataset_names()}
    assert columns == {"cps": 24, "adult": 144, "bank": 108, "ipums-br": 52, "kddcup99": 274, "mnist": 784}
    assert plain == {"cps": 8, "adult": 104, "bank": 52, "ipums-br": 52, "kddcup99": 122, "mnist": 784}
    assert load_dataset("cps", spline=0).X.shape[1] == 8
    assert load_dataset("cps", spline=4).X.shape[1] == 16
