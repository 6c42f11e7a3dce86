"""``check_schema`` finds the mistakes of newcomers, tells counts and never a value, and says that it is not private."""

import datetime
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dperm.errors import InvalidInput
from dperm.schema import Schema, check_schema, read_table

SECRET = "S3CR3T"
N = 100


def _schema(target=None, rows=None, **features):
    return Schema.from_dict(
        {
            "target": {"name": "y", "classes": ["no", "yes"], **(target or {})},
            "features": features,
            **({"rows": rows} if rows else {}),
        }
    )


def _checked(values, feature, y=None, **more):
    table = {"a": values, "y": y or (["no", "yes"] * len(values))[: len(values)]}
    found = check_schema(table, _schema(a=feature, **more))
    assert SECRET not in str(found) + json.dumps(found.to_dict())
    return found, found.columns[0], [str(finding) for finding in found.findings if finding.column == "a"]


def test_a_table_that_fits_has_no_findings():
    found, column, said = _checked(list(range(N)), {"range": [0, 99]})
    assert said == []
    assert not found.looks_wrong
    assert column.distinct == N
    assert "Nothing looks wrong." in str(found)
    assert found.classes == {"no": 50, "yes": 50}


def test_values_outside_a_range_are_counted_on_each_side():
    found, column, said = _checked([*range(90), *[-1] * 4, *[200] * 6], {"range": [0, 100]})
    assert (column.below, column.above) == (4, 6)
    assert said == ["- a: 6.0 % of the values are above the range and are moved to its end."]
    assert not found.looks_wrong


def test_wrong_units_are_asked_about():
    found, _, said = _checked(list(range(18, 18 + N)), {"range": [0, 1]})
    assert said == ["! a: 100 % of the values are above the range: are the units right?"]
    assert found.looks_wrong


def test_unknown_categories_are_counted_and_fold_is_proposed():
    _, column, said = _checked(["F", "M"] * 49 + [SECRET, "f"], {"categories": ["f", "m"]})
    assert column.unknown == 99
    assert (
        said[0]
        == "! a: 99 % of the values are no declared category. fold = true would match 98 %: only case or blanks differ."
    )
    _, column, said = _checked(["female", "male"] * 50, {"categories": ["f", "m"]})
    assert said == ["! a: 100 % of the values are no declared category: are they spelled as in the file?"]
    _, column, said = _checked(["F", "M"] * 50, {"categories": ["f", "m"], "fold": True})
    assert (column.unknown, said) == (0, [])


def test_missing_marks_and_empty_cells_are_counted():
    _, column, said = _checked(["?", "", None, "NA", *["3"] * 96], {"range": [0, 9], "missing": ["?"]})
    assert (column.missing, column.unread) == (4, 0)
    _, column, said = _checked(["?"] * 60 + ["f", "m"] * 20, {"categories": ["f", "m"], "missing": ["?"]})
    assert column.missing == 60
    assert said == ["- a: 60 % of the values are missing."]


@pytest.mark.together
@pytest.mark.parametrize(
    ("values", "feature", "hint"),
    [
        ([SECRET] * 3 + ["4"] * 97, {"range": [0, 9]}, "List marks of a missing value under missing"),
        (["1,5"] * N, {"range": [0, 9]}, 'decimal = ","'),
        (["2020-01-01"] * N, {"range": [0, 9]}, "Declare date"),
        ([datetime.date(2020, 1, 1)] * N, {"range": [0, 9]}, "Declare date"),
        (["01.02.2020"] * N, {"date": ["2015-01-01", "2025-01-01"]}, 'format = "%d.%m.%Y"'),
        ([3.0] * N, {"date": ["2015-01-01", "2025-01-01"]}, "Declare range"),
        ([1, 2] * 50, {"categories": ["1", "2"]}, "Declare range"),
        (["yes", "no"] * 50, {"categories": [False, True]}, "as they are written"),
        ([1.5] * N, {"hashed": 4}, "Declare range"),
    ],
)
def test_cells_of_another_kind_are_counted_with_a_way_out(values, feature, hint):
    found, column, said = _checked(values, feature)
    assert column.unread == (3 if SECRET in values else N)
    assert hint in said[0]
    assert found.looks_wrong


def test_constant_columns_and_identifiers_are_told():
    assert "every row has the same value" in _checked([3] * N, {"range": [0, 9]})[2][0]
    assert any("identifier" in line for line in _checked([f"p{i}" for i in range(N)], {"hashed": 8})[2])


def test_categories_that_never_occur_are_counted():
    assert _checked(["f", "m"] * 50, {"categories": ["f", "m", "x", "z"]})[2] == [
        "- a: 2 of 4 categories never occur."
    ]


def test_columns_that_are_not_there_or_not_declared_are_named():
    table = {"Age": [1, 2], "y": ["no", "yes"], "note": ["x", "y"]}
    found = check_schema(table, _schema(age={"range": [0, 9]}))
    assert found.columns[0].absent
    assert found.undeclared == ("Age", "note")
    assert "! age: the table has no such column. Is 'Age' meant?" in str(found)
    with pytest.raises(InvalidInput, match="none of the columns"):
        check_schema({"b": [1]}, _schema(a={"range": [0, 1]}))


@pytest.mark.together
@pytest.mark.parametrize(
    ("target", "labels", "words"),
    [
        ({}, ["No", "Yes"] * 50, "100 % of the labels are no declared class. fold = true would match 100 %"),
        ({}, ["no", "yes"] * 49 + [SECRET, None], "1.0 % of the labels are missing"),
        ({}, ["no"] * N, "a declared class never occurs"),
        ({}, ["no"] * 97 + ["yes"] * 3, "rarest class has 3.0 %"),
        ({"classes": ["no", "rest"], "rest": True}, ["no", SECRET] * 50, ""),
    ],
)
def test_the_target_is_looked_at_too(target, labels, words):
    found = check_schema({"a": [1, 2] * 50, "y": labels}, _schema(target, a={"range": [0, 9]}))
    assert words in str(found)
    assert SECRET not in str(found)
    assert found.looks_wrong == (bool(words) and "rarest" not in words)


def test_numeric_targets_and_thresholds_are_counted():
    def schema(**target):
        return Schema.from_dict({"target": {"name": "y", **target}, "features": {"a": {"range": [0, 9]}}})

    table = {"a": [1, 2, 3, 4], "y": [1.0, 5.0, 20.0, -3.0]}
    found = check_schema(table, schema(range=[0, 10])).columns[-1]
    assert (found.below, found.above) == (1, 1)
    assert check_schema(table, schema(threshold=4)).classes == {"<=4": 2, ">4": 2}


def test_rows_are_measured_against_the_bound():
    values = np.linspace(0, 1, 101)
    found = check_schema(
        {"a": values, "y": ["no"] * 50 + ["yes"] * 51},
        _schema(rows={"spline": 0, "norm_share": 0.5}, a={"range": [0, 1]}),
    )
    assert found.typical_length == pytest.approx(0.5, abs=0.01)
    assert found.shortened == int((np.abs(values - 0.5) > 0.25).sum())


def test_the_report_says_what_it_is():
    found, *_ = _checked(list(range(N)), {"range": [0, 99]})
    assert str(found).startswith("NOT PRIVATE, NOT FOR PUBLICATION")
    assert found.to_dict()["private"] is False
    assert "NOT PRIVATE" in found.to_dict()["note"]
    assert max(map(len, str(found).splitlines())) <= 100


def test_frames_and_files_read_as_text_give_the_same_counts(tmp_path):
    schema = _schema(
        a={"range": [0, 50], "missing": [-9]},
        b={"categories": [0, 1]},
        c={"categories": [False, True]},
        d={"date": ["2015-01-01", "2025-01-01"], "cycles": ["month"]},
    )
    (tmp_path / "t.csv").write_text(
        "a,b,c,d,y\n1,0,true,2020-01-01,no\n-9,3,false,,yes\n60,1,,2030-01-01,no\n"
    )
    text = check_schema(read_table(tmp_path / "t.csv", schema, as_text=True), schema)
    frame = pd.DataFrame(
        {
            "a": [1, -9, 60],
            "b": [0, 3, 1],
            "c": pd.array([True, False, None], dtype="boolean"),
            "d": pd.to_datetime(["2020-01-01", None, "2030-01-01"]),
            "y": ["no", "yes", "no"],
        }
    )
    typed = check_schema(frame, schema)
    for left, right in zip(text.columns, typed.columns, strict=True):
        assert (left.missing, left.below, left.above, left.unknown, left.unread) == (
            right.missing,
            right.below,
            right.above,
            right.unknown,
            right.unread,
        )
    assert text.typical_length == pytest.approx(typed.typical_length)
    assert [(column.missing, column.above, column.unknown) for column in text.columns[:4]] == [
        (1, 1, 0),
        (0, 0, 1),
        (1, 0, 0),
        (1, 1, 0),
    ]


def test_a_table_without_rows_is_told():
    found = check_schema(
        {"a": pa.array([], pa.float64()), "y": pa.array([], pa.string())}, _schema(a={"range": [0, 1]})
    )
    assert "the table holds no rows" in str(found)
