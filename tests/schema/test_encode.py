"""Encoded rows: computed by hand, bounded whatever comes, and learned from nothing."""

import dataclasses
import datetime
import decimal
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dperm.errors import InvalidInput
from dperm.schema import Schema, encode, encode_target, feature_names
from dperm.schema.features import Numeric, Target

MARKER = "SECRET-4711"


def _schema(target=None, **features):
    return Schema.from_dict(
        {
            "target": target or {"name": "label", "classes": ["no", "yes"]},
            "rows": {"spline": 0},
            "features": features,
        }
    )


def _unscaled(values, **declaration):
    schema = _schema(x=declaration)
    return (encode({"x": values}, schema) / schema.scale).tolist()


def _assert_rows(values, expected, **declaration):
    assert np.allclose(_unscaled(values, **declaration), expected, rtol=0, atol=1e-12)


def test_numbers_are_clipped_and_centred_by_the_public_middle():
    values = [17.0, 53.5, 90.0, 35.25, -1000.0, 1e300, math.inf, -math.inf]
    expected = [-0.5, 0.0, 0.5, -0.25, -0.5, 0.5, 0.5, -0.5]
    _assert_rows(values, [[v] for v in expected], range=[17, 90])


def test_missing_numbers_go_to_the_centre():
    _assert_rows([None, math.nan, 0.0], [[0], [0], [-0.5]], range=[0, 1])


def test_an_indicator_tells_missing_from_present():
    _assert_rows([None, math.nan, 0.0, 1.0], [[0, 0.5], [0, 0.5], [-0.5, -0.5], [0.5, -0.5]],
                 range=[0, 1], indicator=True)  # fmt: skip


def test_marks_are_missing_even_within_the_range():
    _assert_rows([-1, 5, 9], [[0, 0.5], [0, -0.5], [0, 0.5]], range=[0, 10], missing=[-1, 9], indicator=True)


def test_text_marks_let_numbers_come_as_text():
    _assert_rows(["0", "?", "10", None], [[-0.5], [0], [0.5], [0]], range=[0, 10], missing=["?"])


def test_the_centre_is_moved_to_zero_and_the_far_end_to_one_half():
    _assert_rows([0, 5, 10, -3], [[0], [0.25], [0.5], [0]], range=[0, 10], centre=0)
    _assert_rows([0, 2, 10], [[-0.125], [0], [0.5]], range=[0, 10], centre=2)


def test_log_is_taken_after_clipping():
    e = math.e
    _assert_rows([0, e - 1, e**2 - 1, -7, 1e9], [[-0.5], [0], [0.5], [-0.5], [0.5]],
                 range=[0, e**2 - 1], log=True)  # fmt: skip
    _assert_rows([0, e - 1, None], [[0], [0.25], [0]], range=[0, e**2 - 1], log=True, centre=0)


def test_categories_are_one_hot_less_their_public_mean():
    third = 1 / 3
    _assert_rows(
        ["b", "c", "a"],
        [[-third, 1 - third, -third], [-third, -third, 1 - third], [1 - third, -third, -third]],
        categories=["a", "b", "c"],
    )


def test_unknown_and_missing_categories_are_zeros():
    _assert_rows(["z", None, "?", "A", " a", "a"], [[0, 0]] * 5 + [[0.5, -0.5]],
                 categories=["a", "b"], missing=["?"])  # fmt: skip


def test_missing_may_count_as_a_category_but_unknown_does_not():
    _assert_rows([None, "?", "z"], [[-0.5, 0.5], [-0.5, 0.5], [0, 0]],
                 categories=["a", "b"], missing=["?"], missing_as="b")  # fmt: skip
    _assert_rows([None, 9, 5], [[-0.5, 0.5], [-0.5, 0.5], [0, 0]],
                 categories=[0, 1], missing=[9], missing_as=1)  # fmt: skip
    _assert_rows([None, True], [[0.5, -0.5], [-0.5, 0.5]], categories=[False, True], missing_as=False)


@pytest.mark.together
@pytest.mark.parametrize(
    "column",
    [
        [2, 10, 1],
        [2.0, 10.0, 1.0],
        np.array([2, 10, 1], dtype=np.uint8),
        pa.array([2, 10, 1], type=pa.int16()),
        [decimal.Decimal("2.0"), decimal.Decimal(10), decimal.Decimal("1.00")],
        pd.Series([2, 10, 1], dtype="category"),
    ],
    ids=["int", "float", "uint8", "int16", "decimal", "category"],
)
def test_integer_categories_are_compared_by_value(column):
    _assert_rows(column, [[-0.5, 0.5], [0.5, -0.5], [0, 0]], categories=[10, 2])


def test_integer_categories_do_not_match_by_rounding():
    top = 2**53 - 1
    _assert_rows(
        [top, top + 2, 2**63 - 1, top - 1], [[-0.5, 0.5], [0, 0], [0, 0], [0, 0]], categories=[0, top]
    )
    _assert_rows([0.0, -0.0, 0.5, math.nan, math.inf], [[0.5, -0.5]] * 2 + [[0, 0]] * 3, categories=[0, top])


def test_integer_categories_with_a_text_mark():
    _assert_rows(["2", "?", "3"], [[-0.5, 0.5], [0, 0], [0, 0]], categories=[10, 2], missing=["?"])


def test_truth_values():
    _assert_rows([True, False, None], [[-0.5, 0.5], [0.5, -0.5], [0, 0]], categories=[False, True])


def test_a_column_of_nulls_fits_every_declaration():
    for declaration in (
        {"range": [0, 1]},
        {"categories": ["a", "b"]},
        {"categories": [0, 1]},
        {"categories": [False, True]},
    ):
        assert not np.any(_unscaled([None, None], **declaration))


MIXED = _schema(
    age={"range": [18, 98], "indicator": True},
    job={"categories": ["nurse", "clerk", "smith"]},
    children={"categories": [0, 1, 2]},
    member={"categories": [False, True]},
)
COLUMNS = {
    "age": [18.0, None, 98.0, 40.0, 200.0],
    "job": ["nurse", "smith", None, "spy", "clerk"],
    "children": [0, 1, 2, 3, None],
    "member": [True, False, None, True, True],
    "note": [MARKER] * 5,
    "label": ["no", "yes", "no", "no", "yes"],
}


def _tables():
    plain = pa.table(COLUMNS)
    return {
        "dict": COLUMNS,
        "arrow": plain,
        "batch": plain.to_batches()[0],
        "chunks": pa.concat_tables([plain.slice(0, 2), plain.slice(2)]),
        "reader": plain.to_reader(),
        "dictionary": plain.set_column(1, "job", plain["job"].dictionary_encode()),
        "pandas": plain.to_pandas(),
        "pandas, odd index": plain.to_pandas().set_index(pd.Index(["q", 2, None, 3.5, "r"])),
        "pandas, extension types": plain.to_pandas().convert_dtypes(),
        "pandas, category": plain.to_pandas().astype({"job": "category"}),
        "pandas, objects": plain.to_pandas().astype(object),
        "polars": pl.from_arrow(plain),
        "polars, categorical": pl.from_arrow(plain).with_columns(pl.col("job").cast(pl.Categorical)),
        "numpy": {name: np.array(values, dtype=object) for name, values in COLUMNS.items()},
        "other order": plain.select(["label", "member", "note", "job", "age", "children"]),
    }


def test_every_kind_of_table_gives_the_same_rows():
    expected = encode(COLUMNS, MIXED)
    assert expected.shape == (5, 10)
    assert expected.dtype == np.float64
    for kind, table in _tables().items():
        if kind != "reader":  # a stream is read once, so it has no second use for the labels
            assert encode_target(table, MIXED).tolist() == COLUMNS["label"], kind
        assert np.array_equal(encode(table, MIXED), expected), kind


def test_the_names_of_the_columns():
    assert feature_names(MIXED) == [
        "age", "age=missing", "job=nurse", "job=clerk", "job=smith", "children=0", "children=1", "children=2",
        "member=false", "member=true",
    ]  # fmt: skip


def test_a_row_depends_on_its_own_record_only():
    n = 40_000
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "age": rng.normal(50, 40, n),
            "job": rng.choice(["nurse", "clerk", "smith", "spy"], n),
            "children": rng.integers(0, 5, n),
            "member": rng.integers(0, 2, n).astype(bool),
        }
    )
    whole = encode(table, MIXED)
    for row in (0, 16_383, 16_384, n - 1):
        assert np.array_equal(encode(table.slice(row, 1), MIXED)[0], whole[row])
    order = rng.permutation(n)
    assert np.array_equal(encode(table.take(order), MIXED), whole[order])
    assert len(np.unique(whole, axis=0)) > 10_000


def test_an_empty_table_keeps_its_columns():
    empty = {name: pa.array(values)[:0] for name, values in COLUMNS.items()}
    assert encode(empty, MIXED).shape == (0, 10)
    with pytest.raises(InvalidInput, match="'age'"):
        encode({**empty, "age": pa.array([], type=pa.string())}, MIXED)


@pytest.mark.together
@pytest.mark.parametrize(
    ("column", "values", "declared"),
    [
        ("age", [MARKER] * 5, "numbers"),
        ("age", [1.0, 2.0, MARKER, 3.0, 4.0], "one kind"),
        ("age", [True] * 5, "numbers"),
        ("age", [datetime.date(2020, 1, 1)] * 5, "numbers"),
        ("age", [[4711.0]] * 5, "numbers"),
        ("age", [b"4711"] * 5, "numbers"),
        ("age", MARKER, "one kind"),
        ("age", np.full((5, 2), 4711.0), "one kind"),
        ("job", [4711] * 5, "text"),
        ("job", [True] * 5, "text"),
        ("children", [MARKER] * 5, "numbers"),
        ("children", [True] * 5, "numbers"),
        ("member", [4711] * 5, "truth values"),
        ("member", [MARKER] * 5, "truth values"),
        ("age", [4711.0] * 4, "same length"),
    ],
)
def test_a_wrong_column_is_named_and_never_quoted(column, values, declared):
    with pytest.raises(InvalidInput) as caught:
        encode({**COLUMNS, column: values}, MIXED)
    message = str(caught.value)
    assert declared in message
    assert repr(column) in message or "same length" in message
    assert "4711" not in message
    assert caught.value.__context__ is None


def test_text_that_is_no_number_is_not_quoted():
    schema = _schema(x={"range": [0, 1], "missing": ["?"]})
    with pytest.raises(InvalidInput, match="'x'") as caught:
        encode({"x": ["0.5", "?", MARKER]}, schema)
    assert MARKER not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_missing_or_double_column_is_named_and_others_are_not():
    with pytest.raises(InvalidInput, match="no column named 'age'") as caught:
        encode({MARKER: [1.0], "job": ["nurse"]}, MIXED)
    assert MARKER not in str(caught.value)
    columns = [pa.array(COLUMNS["age"])] * 2
    frame = pd.DataFrame([[1.0, 2.0]], columns=["age", "age"])
    for table in (pa.table(columns, names=["age", "age"]), frame):
        with pytest.raises(InvalidInput, match="more than one column named 'age'"):
            encode(table, _schema(age={"range": [0, 1]}))


@pytest.mark.together
@pytest.mark.parametrize("table", [np.zeros((3, 4)), [[1, 2]], None, "people.csv", 3])
def test_a_table_needs_named_columns(table):
    with pytest.raises(InvalidInput, match="named columns"):
        encode(table, MIXED)


def test_classes_keep_their_type_and_order():
    text = _schema(x={"range": [0, 1]})
    assert encode_target({"label": ["yes", "no"]}, text).tolist() == ["yes", "no"]
    digits = _schema({"name": "d", "classes": [0, 1, 2]}, x={"range": [0, 1]})
    labels = encode_target({"d": np.array([2.0, 0.0])}, digits)
    assert labels.tolist() == [2, 0]
    assert labels.dtype == np.int64
    truths = _schema({"name": "t", "classes": [False, True]}, x={"range": [0, 1]})
    assert encode_target({"t": [True, False]}, truths).dtype == np.bool_


def test_the_rest_is_the_last_class():
    schema = _schema({"name": "label", "classes": ["normal", "other"], "rest": True}, x={"range": [0, 1]})
    labels = encode_target({"label": ["smurf", "normal", "other", ""]}, schema)
    assert labels.tolist() == ["other", "normal", "other", "other"]


def test_a_threshold_makes_two_classes():
    schema = _schema({"name": "pay", "threshold": 16.0}, x={"range": [0, 1]})
    assert encode_target({"pay": [16, 16.01, -math.inf, math.inf]}, schema).tolist() == [
        "<=16", ">16", "<=16", ">16",
    ]  # fmt: skip


def test_a_numeric_target_is_clipped():
    schema = _schema({"name": "pay", "range": [0, 100]}, x={"range": [0, 1]})
    assert schema.classes == ()
    assert encode_target({"pay": [-5, 50, math.inf]}, schema).tolist() == [0, 50, 100]


@pytest.mark.together
@pytest.mark.parametrize(
    ("target", "values"),
    [
        ({"name": "label", "classes": ["no", "yes"]}, ["no", MARKER]),
        ({"name": "label", "classes": ["no", "yes"]}, ["no", None]),
        ({"name": "label", "classes": ["no", "yes"]}, [4711, 0]),
        ({"name": "label", "classes": [0, 1]}, [0, 4711]),
        ({"name": "label", "classes": [0, 1]}, [0.0, math.nan]),
        ({"name": "label", "classes": ["no", "yes"], "rest": True}, ["no", None]),
        ({"name": "label", "threshold": 3}, [4711.0, math.nan]),
        ({"name": "label", "threshold": 3}, [MARKER, "4"]),
        ({"name": "label", "range": [0, 1]}, [4711.0, None]),
    ],
)
def test_a_label_that_was_not_declared_is_refused_without_quoting_it(target, values):
    with pytest.raises(InvalidInput, match="'label'") as caught:
        encode_target({"label": values}, _schema(target, x={"range": [0, 1]}))
    assert "4711" not in str(caught.value)


words = st.text(alphabet="abcé ", max_size=3)
widths = st.one_of(st.floats(1e-3, 1e300), st.sampled_from([0.1, 1.0, 100.0]))
wide = st.one_of(st.none(), st.floats(), st.sampled_from([-1e308, 1e308, 5e-324, -0.0]))


@st.composite
def numeric_features(draw):
    declaration = {"indicator": draw(st.booleans())}
    if draw(st.booleans()):
        low = draw(st.floats(0, 1e12))
        declaration |= {"log": True, "range": [low, low + draw(widths) + low * 1e-14]}
    else:
        low = draw(st.floats(-1e300, 1e300))
        declaration["range"] = [low, low + draw(widths) + abs(low) * 1e-14]
    low, high = declaration["range"]
    if draw(st.booleans()):
        declaration["centre"] = min(max(low + (high - low) * draw(st.floats(0, 1)), low), high)
    more = draw(st.sampled_from(["spline", "bins", "neither"]))
    if more == "spline":
        declaration["spline"] = draw(st.integers(3, 40))
    inner = sorted({low + (high - low) * share for share in draw(st.sets(st.floats(0, 1), max_size=5))})
    if more == "bins":
        declaration["bins"] = [cut for cut in inner if low < cut < high]
    edges = [low, high, *inner, math.nextafter(low, math.inf), math.nextafter(high, -math.inf)]
    return declaration, st.one_of(wide, st.sampled_from(edges))


@st.composite
def categorical_features(draw):
    categories = draw(st.lists(words, min_size=2, max_size=40, unique=True))
    return {"categories": categories}, st.one_of(st.none(), words, st.sampled_from(categories))


@st.composite
def schemas_with_tables(draw):
    kinds = draw(st.lists(st.one_of(numeric_features(), categorical_features()), min_size=1, max_size=6))
    features = {f"f{i}": declaration for i, (declaration, _) in enumerate(kinds)}
    rows = draw(st.integers(1, 4))
    table = {
        f"f{i}": pa.array(
            draw(st.lists(values, min_size=rows, max_size=rows)),
            type=pa.float64() if "range" in declaration else pa.string(),
        )
        for i, (declaration, values) in enumerate(kinds)
    }
    schema = _schema(**features)
    levels = [feature.name for feature in schema.features if feature.levels]
    cross = [draw(st.permutations(levels))[:2]] if len(levels) > 1 and draw(st.booleans()) else ()
    spline = draw(st.sampled_from([None, 0, 5]))
    return dataclasses.replace(schema, cross=cross, spline=spline), table


@given(schemas_with_tables())
def test_no_row_passes_norm_one_whatever_it_holds(schema_and_table):
    schema, table = schema_and_table
    rows = encode(table, schema)
    assert np.isfinite(rows).all()
    assert all(math.fsum(value * value for value in row) <= 1 for row in rows)
    assert (np.linalg.norm(rows, axis=1) <= 1).all()


@pytest.mark.together
@pytest.mark.parametrize(("spline", "cross"), [(0, ()), (None, ()), (5, [("d", "a")])])
def test_the_bound_is_reached(spline, cross):
    """The scale is no smaller than it must be: the worst record almost has norm 1."""
    schema = _schema(
        a={"range": [0, 7], "indicator": True, "bins": [3]},
        b={"range": [0, 7], "centre": 7},
        c={"range": [0, 100], "log": True},
        d={"categories": list("xyz")},
    )
    schema = dataclasses.replace(schema, spline=spline, cross=cross)
    worst = encode({"a": [7], "b": [0], "c": [100], "d": ["y"]}, schema)
    assert 1 - 1e-8 < np.linalg.norm(worst) <= 1


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_norm_share_lengthens_rows_and_shortens_those_beyond(share):
    features = tuple(Numeric(name=f"x{i}", range=(0, 1), centre=0) for i in range(16))
    schema = Schema(target=Target(name="y", classes=(0, 1)), features=features, norm_share=share, spline=0)
    whole = dataclasses.replace(schema, norm_share=1.0)
    table = {f"x{i}": [0.0, 0.05, 1.0] for i in range(16)}
    rows, plain = encode(table, schema), encode(table, whole)
    norms = np.linalg.norm(rows, axis=1)
    assert np.array_equal(rows[0], np.zeros(16))
    np.testing.assert_allclose(rows[1], plain[1] / share, rtol=1e-12)
    assert (norms <= 1).all()
    assert norms[2] == pytest.approx(1, rel=1e-8)
    assert Schema.from_dict(schema.to_dict()) == schema


@pytest.mark.parametrize("share", [0, -1, 1.5, 1e-6, math.nan, "half", True])
def test_norm_share_is_checked(share):
    features = (Numeric(name="x", range=(0, 1)),)
    with pytest.raises(InvalidInput, match="norm_share"):
        Schema(target=Target(name="y", classes=(0, 1)), features=features, norm_share=share)


class Stream:
    """Someone's own table, which fails in words of its own."""

    def __arrow_c_stream__(self, requested_schema=None):
        raise RuntimeError(MARKER)


def test_a_table_that_fails_in_words_of_its_own_is_not_quoted():
    schema = _schema(x={"range": [0, 1]})
    for table in (Stream(), {"x": Stream()}):
        with pytest.raises(InvalidInput, match="Arrow interface|'x' does not hold") as caught:
            encode(table, schema)
        assert MARKER not in str(caught.value)
        assert caught.value.__context__ is None
