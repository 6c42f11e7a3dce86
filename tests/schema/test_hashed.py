"""The schema's hashed features: text, and categories that nobody listed."""

import numpy as np
import pyarrow as pa
import pytest

from dperm import PublicEncoder
from dperm.errors import InvalidInput
from dperm.schema import Schema, encode
from dperm.schema.encoding import effects
from dperm.schema.readers import read_table

SCHEMA = {
    "target": {"name": "late", "classes": ["no", "yes"]},
    "features": {
        "age": {"range": [18, 90], "spline": 0},
        "city": {"hashed": 16, "missing": ["?"]},
        "note": {"hashed": 32, "words": True},
    },
}
TABLE = {
    "age": [20, 40, 60, 80],
    "city": ["Rome", "Oslo", "?", None],
    "note": ["paid late again", "", None, "late late late"],
}


def test_rows_are_bounded_and_each_stands_alone():
    schema = Schema.from_dict(SCHEMA)
    rows = encode(TABLE, schema)
    assert rows.shape == (4, schema.n_columns) == (4, 1 + 16 + 32)
    assert np.linalg.norm(rows, axis=1).max() <= 1
    city, note = rows[:, 1:17], rows[:, 17:]
    assert (np.count_nonzero(city, axis=1) == [1, 1, 0, 0]).all()
    assert (np.count_nonzero(note, axis=1) == [3, 0, 0, 1]).all()
    np.testing.assert_allclose(np.linalg.norm(note, axis=1), np.array([1, 0, 0, 1]) * schema.scale)
    one = encode({name: values[3:] for name, values in TABLE.items()}, schema)
    np.testing.assert_array_equal(one[0], rows[3])


def test_whole_numbers_are_categories_as_their_text_is(tmp_path):
    schema = Schema.from_dict({**SCHEMA, "features": {"city": {"hashed": 64}}})
    np.testing.assert_array_equal(
        encode({"city": [101, 7, None]}, schema), encode({"city": ["101", "7", None]}, schema)
    )
    file = tmp_path / "rows.csv"
    file.write_text("city,late\n007,no\n7,yes\n")
    assert read_table(file, schema)["city"].to_pylist() == ["007", "7"]
    for values in ([1.5, 2.0], [True, False]):
        with pytest.raises(InvalidInput, match="text or whole numbers"):
            encode({"city": values}, schema)
    with pytest.raises(InvalidInput, match="needs text"):
        encode({**TABLE, "note": [1, 2, 3, 4]}, Schema.from_dict(SCHEMA))


def test_a_schema_with_hashed_features_comes_back_from_its_text(tmp_path):
    schema = Schema.from_dict(SCHEMA)
    assert Schema.from_dict(schema.to_dict()) == schema
    file = tmp_path / "loans.toml"
    file.write_text(schema.to_toml())
    assert Schema.from_toml(file) == schema
    assert schema.settled().features[1:] == schema.features[1:]
    assert schema.plain().n_columns == schema.n_columns


def test_names_and_effects():
    schema = Schema.from_dict(SCHEMA)
    names = PublicEncoder(schema).get_feature_names_out()
    assert names[1] == "city#0"
    assert names[-1] == "note#31"
    found = effects(schema, np.arange(schema.n_columns))
    assert [effect.name for effect in found] == ["age", "city", "note"]
    assert found[1].added.shape == (1, 16)


@pytest.mark.together
@pytest.mark.parametrize(
    ("feature", "said"),
    [
        ({"hashed": 1}, "from 2 to"),
        ({"hashed": 2**20}, "from 2 to"),
        ({"hashed": True}, "from 2 to"),
        ({"hashed": 16, "words": 1}, "true or false"),
        ({"hashed": 16, "missing": [3]}, "text"),
        ({"hashed": 16, "categories": ["a", "b"]}, "exactly one"),
        ({"hashed": 16, "spline": 8}, "unknown key"),
    ],
)
def test_wrong_declarations_are_refused(feature, said):
    with pytest.raises(InvalidInput, match=said):
        Schema.from_dict({**SCHEMA, "features": {"city": feature}})


def test_what_is_hashed_cannot_be_crossed():
    with pytest.raises(InvalidInput, match="'city' does not have"):
        Schema.from_dict({**SCHEMA, "rows": {"cross": [["city", "note"]]}})


def test_arrow_text_of_any_kind():
    schema = Schema.from_dict({**SCHEMA, "features": {"note": {"hashed": 64, "words": True}}})
    expected = encode({"note": TABLE["note"]}, schema)
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        table = pa.table({"note": pa.array(TABLE["note"]).cast(kind)})
        np.testing.assert_array_equal(encode(table, schema), expected)
