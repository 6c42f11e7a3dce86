import pytest

from dperm.errors import InvalidInput
from dperm.schema import Schema
from dperm.schema.schema import predicting

SCHEMA = Schema.from_dict(
    {
        "target": {"name": "again", "classes": ["no", "yes"]},
        "rows": {"cross": [["ward", "sex"]], "spline": 0},
        "features": {
            "age": {"range": [18, 90]},
            "ward": {"categories": ["a", "b", "c"]},
            "sex": {"categories": ["f", "m"]},
            "note": {"hashed": 8},
        },
    }
)


def test_a_feature_with_categories_becomes_the_target():
    schema = predicting(SCHEMA, "ward")
    assert schema.target.labels == ("a", "b", "c")
    assert [feature.name for feature in schema.features] == ["age", "sex", "note"]
    assert schema.cross == ()


def test_a_number_becomes_the_target():
    schema = predicting(SCHEMA, "age")
    assert schema.target.range == (18.0, 90.0)
    assert [feature.name for feature in schema.features] == ["ward", "sex", "note"]
    assert schema.cross == (("ward", "sex"),)


def test_any_other_name_is_another_name_of_the_target():
    schema = predicting(SCHEMA, "came_back")
    assert (schema.target.name, schema.target.classes) == ("came_back", ("no", "yes"))
    assert schema.features == SCHEMA.features
    assert predicting(SCHEMA, "again") == SCHEMA


def test_hashed_text_cannot_be_predicted():
    with pytest.raises(InvalidInput, match="categories or a range"):
        predicting(SCHEMA, "note")
