"""``fold``: categories and classes without regard to case and blanks, and never two that are then the same."""

import numpy as np
import pyarrow as pa
import pytest

from dperm.errors import InvalidInput
from dperm.schema import Schema, encode, encode_codes, encode_target, feature_names


def _schema(target=None, **feature):
    return Schema.from_dict(
        {
            "target": {"name": "y", "classes": ["No", "Yes"], **(target or {})},
            "features": {"housing": {"categories": ["Rent", "Own house", "straße"], **feature}},
        }
    )


SPELLED = ["RENT", " rent\t", "own  HOUSE", "own\u00a0house", "STRASSE", "n/a ", "ownhouse", None, ""]


def test_case_and_blanks_do_not_count():
    schema = _schema(fold=True, missing=["N/A"], missing_as="straße")
    rows = encode({"housing": SPELLED}, schema) / schema.scale
    third = 1 / 3
    place = {
        0: [2 / 3, -third, -third],
        1: [-third, 2 / 3, -third],
        2: [-third, -third, 2 / 3],
        None: [0, 0, 0],
    }
    expected = [place[code] for code in (0, 0, 1, 1, 2, 2, None, 2, None)]
    assert np.allclose(rows, expected, rtol=0, atol=1e-8)
    assert np.allclose(np.asarray(encode_codes({"housing": SPELLED}, schema)), rows * schema.scale, atol=1e-6)
    assert feature_names(schema)[0] == "housing=Rent", "the declared spelling is kept"


def test_without_fold_every_letter_counts():
    schema = _schema()
    assert not encode({"housing": SPELLED}, schema).any()


def test_columns_of_every_form_are_folded():
    schema = _schema(fold=True)
    expected = encode({"housing": SPELLED}, schema)
    chunks = pa.chunked_array([pa.array(SPELLED[:3]), pa.array(SPELLED[3:])])
    for column in (chunks, pa.array(SPELLED, pa.large_string()), pa.array(SPELLED).dictionary_encode()):
        assert np.array_equal(encode({"housing": column}, schema), expected)
    assert encode({"housing": pa.array([], pa.string())}, schema).shape == (0, 3)
    assert not encode({"housing": pa.nulls(2)}, schema).any()


def test_labels_are_folded_and_come_back_as_declared():
    labels = {"y": ["yes", " YES ", "no"]}
    assert encode_target(labels, _schema({"fold": True})).tolist() == ["Yes", "Yes", "No"]
    with pytest.raises(InvalidInput, match="fold = true"):
        encode_target(labels, _schema())
    rest = _schema({"fold": True, "rest": True})
    assert encode_target({"y": ["NO", "maybe"]}, rest).tolist() == ["No", "Yes"]


def test_the_declaration_comes_back():
    schema = _schema({"fold": True}, fold=True)
    assert Schema.from_dict(schema.to_dict()) == schema
    assert "case and blanks do not count" in schema.features[0].in_words()
    assert "case and blanks do not count" in schema.target.in_words()


@pytest.mark.parametrize(
    ("target", "feature", "words"),
    [
        ({}, {"categories": ["Own", "own "], "fold": True}, "differ by more than case"),
        ({"classes": ["yes", "YES"], "fold": True}, {}, "classes must differ by more than case"),
        ({}, {"categories": [0, 1], "fold": True}, "fold needs categories that are text"),
        ({"classes": [0, 1], "fold": True}, {}, "fold needs classes that are text"),
        ({}, {"fold": 1}, "fold must be true or false"),
        ({}, {"fold": True, "missing": ["RENT"]}, "missing must not hold a declared category"),
    ],
)
def test_a_wrong_fold_is_named(target, feature, words):
    with pytest.raises(InvalidInput, match=words):
        _schema(target, **feature)


def test_fold_of_a_target_that_has_no_classes_is_refused():
    with pytest.raises(InvalidInput, match="fold needs classes"):
        Schema.from_dict(
            {"target": {"name": "y", "range": [0, 1], "fold": True}, "features": {"a": {"range": [0, 1]}}}
        )
