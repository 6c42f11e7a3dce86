"""A schema says exactly what it was told, or says what is wrong with it."""

import copy
import dataclasses
import math
import pickle
import re

import pytest

from dperm.errors import InvalidInput
from dperm.schema import schema as schema_module
from dperm.schema import toml
from dperm.schema.features import Categorical, Numeric, Target
from dperm.schema.schema import Schema

FULL = """
[target]
name = "income"
classes = ["<=50K", ">50K"]

[features.age]
range = [17, 90]
missing = [-1, "?"]
indicator = true

[features."capital gain, net"]
range = [0, 2e4]
log = true
centre = 0

[features.workclass]
categories = ["Private", "Self \\"emp\\"", "café\\u007f\\n"]
missing = ["?"]
missing_as = "Private"

[features.children]
categories = [0, 1, 2]
missing = [-9]

[features.citizen]
categories = [false, true]
"""


def _write(folder, text):
    path = folder / "people.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _error(folder, text):
    with pytest.raises(InvalidInput) as caught:
        Schema.from_toml(_write(folder, text))
    return str(caught.value)


def _with_feature(body):
    return f'[target]\nname = "y"\nclasses = ["no", "yes"]\n[features.age]\n{body}\n'


def _with_target(body):
    return f"[target]\n{body}\n[features.age]\nrange = [0, 1]\n"


def test_a_file_is_read_as_declared(tmp_path):
    schema = Schema.from_toml(_write(tmp_path, FULL))
    assert schema.target == Target(name="income", classes=("<=50K", ">50K"))
    assert schema.features == (
        Numeric(name="age", range=(17.0, 90.0), missing=(-1.0, "?"), indicator=True),
        Numeric(name="capital gain, net", range=(0.0, 20000.0), log=True, centre=0.0),
        Categorical(
            name="workclass",
            categories=("Private", 'Self "emp"', "café\x7f\n"),
            missing=("?",),
            missing_as="Private",
        ),
        Categorical(name="children", categories=(0, 1, 2), missing=(-9.0,)),
        Categorical(name="citizen", categories=(False, True)),
    )
    assert schema.classes == ("<=50K", ">50K")
    assert schema.n_columns == (2 + 8) + (1 + 8) + 3 + 3 + 2
    assert schema.plain().n_columns == 2 + 1 + 3 + 3 + 2


@pytest.mark.together
@pytest.mark.parametrize(
    "target",
    [
        'name = "income"\nclasses = ["<=50K", ">50K"]',
        'name = "label"\nclasses = ["normal.", "other"]\nrest = true',
        'name = "digit"\nclasses = [0, 1, 2]',
        'name = "earnings"\nthreshold = 16.5',
        'name = "earnings"\nrange = [-1, 1e300]',
    ],
)
def test_writing_and_reading_back_changes_nothing(tmp_path, target):
    features = FULL[FULL.index("[features.age]") :]
    schema = Schema.from_toml(_write(tmp_path, f"[target]\n{target}\n{features}"))
    again = Schema.from_toml(_write(tmp_path, schema.to_toml()))
    assert again == schema
    assert repr(again) == repr(schema)  # tells 0 from false, which == does not
    assert again.to_toml() == schema.to_toml()
    assert repr(Schema.from_dict(schema.to_dict())) == repr(schema)


def test_a_schema_is_frozen_and_survives_copies(tmp_path):
    schema = Schema.from_toml(_write(tmp_path, FULL))
    with pytest.raises(dataclasses.FrozenInstanceError):
        schema.features = ()
    assert copy.deepcopy(schema) == schema == pickle.loads(pickle.dumps(schema))
    assert hash(schema) == hash(copy.deepcopy(schema))


def test_parse_takes_a_schema_a_path_or_a_dictionary(tmp_path):
    path = _write(tmp_path, FULL)
    schema = Schema.from_toml(path)
    assert Schema.parse(schema) is schema
    assert Schema.parse(str(path)) == Schema.parse(path) == Schema.parse(schema.to_dict()) == schema
    with pytest.raises(InvalidInput):
        Schema.parse(3)


def test_threshold_labels_are_public_and_sort_in_their_order():
    for threshold, labels in [(16.0, ("<=16", ">16")), (-0.25, ("<=-0.25", ">-0.25"))]:
        target = Target(name="earnings", threshold=threshold)
        assert target.labels == labels
        assert tuple(sorted(labels)) == labels


def test_the_scale_fits_the_longest_possible_row():
    schema = Schema(
        target=Target(name="y", classes=(0, 1)),
        features=(
            Numeric(name="a", range=(0, 1)),  # at most 1/4
            Numeric(name="b", range=(0, 1), indicator=True),  # 1/4 + 1/4
            Categorical(name="c", categories=("x", "y", "z", "w")),  # 9/16 + 3/16
        ),
        spline=0,
    )
    assert schema.scale == pytest.approx(1 / math.sqrt(1.5), rel=1e-8)
    assert schema.scale < 1 / math.sqrt(1.5)


@pytest.mark.together
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("range = [17, 90]\nrnage = 3", ["unknown key 'rnage'"]),
        ("range = [90, 17]", ["range", "low < high"]),
        ("range = [5, 5]", ["range", "low < high"]),
        ("range = [nan, 5]", ["range", "finite"]),
        ("range = [0, inf]", ["range", "finite"]),
        ("range = [0, 1, 2]", ["range", "low < high"]),
        ("range = [0, true]", ["range", "number"]),
        ('range = ["0", "1"]', ["range", "number"]),
        ("range = [2015-01-01, 2025-01-01]", ["range", "give date in its place"]),
        ('catgories = ["a", "b"]', ["exactly one of range", "Did you mean 'categories'?"]),
        ("range = 3", ["range", "list"]),
        ("range = [-1.7e308, 1.7e308]", ["range", "too wide"]),
        ("range = [0, 1e-310]", ["range", "too narrow"]),
        (f"range = [0, {'9' * 400}]", ["range", "finite"]),
        ("range = [-1, 5]\nlog = true", ["log", "0 or above"]),
        ("range = [0, 5]\nlog = 1", ["log", "true or false"]),
        ('range = [0, 5]\nindicator = "yes"', ["indicator", "true or false"]),
        ("range = [0, 5]\ncentre = 6", ["centre", "within the range"]),
        ("range = [0, 5]\ncentre = nan", ["centre", "finite"]),
        ("range = [0, 5]\nmissing = '?'", ["missing", "list"]),
        ("range = [0, 5]\nunit = 3", ["unit", "text"]),
        ("range = [0, 5]\nmissing = [[1]]", ["missing", "number"]),
        ("range = [0, 5]\nmissing = [nan]", ["missing", "finite"]),
        ("range = [0, 5]\ncategories = [0, 1]", ["exactly one of range", "categories"]),
        ("missing = []", ["exactly one of range", "categories"]),
        ("categories = []", ["categories", "at least two"]),
        ('categories = ["a"]', ["categories", "at least two"]),
        ('categories = ["a", "b", "a"]', ["categories", "repeat"]),
        ('categories = ["1", 1]', ["categories", "one kind"]),
        ("categories = [0, true]", ["categories", "one kind"]),
        ("categories = [0.5, 1.5]", ["categories", "one kind"]),
        ("categories = [1979-05-27, 1980-05-27]", ["categories", "one kind"]),
        (f"categories = [0, {2**53}]", ["categories", "2**53"]),
        ("categories = [0, 1]\nindicator = true", ["unknown key 'indicator'"]),
        ('categories = ["a", "b"]\nmissing = ["a"]', ["missing", "declared category"]),
        ('categories = ["a", "b"]\nmissing = [0]', ["missing", "text"]),
        ('categories = [false, true]\nmissing = ["?"]', ["missing", "truth values"]),
        ("categories = [0, 1]\nmissing = [1.0]", ["missing", "declared category"]),
        ('categories = ["a", "b"]\nmissing_as = "c"', ["missing_as", "declared category"]),
        ("categories = [0, 1]\nmissing_as = true", ["missing_as", "declared category"]),
    ],
)
def test_a_wrong_feature_is_named_by_file_table_and_key(tmp_path, body, words):
    message = _error(tmp_path, _with_feature(body))
    assert message.startswith("people.toml, [features.age]: ")
    for word in words:
        assert word in message
    assert len(message) < 300


@pytest.mark.together
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("classes = [0, 1]", "name"),
        ("name = 3\nclasses = [0, 1]", "name"),
        ('name = "y"', "exactly one"),
        ('name = "y"\nclasses = [0, 1]\nthreshold = 1', "exactly one"),
        ('name = "y"\nclasses = [0]', "classes"),
        ('name = "y"\nclasses = [0, 0]', "classes"),
        ('name = "y"\nclass = [0, 1]', "unknown key 'class'"),
        ('name = "y"\nthreshold = nan', "threshold"),
        ('name = "y"\nthreshold = true', "threshold"),
        ('name = "y"\nthreshold = 1\nrest = true', "rest"),
        ('name = "y"\nrange = [1, 0]', "range"),
        ('name = "y"\nclasses = [0, 1]\nunit = "days"', "unit needs range"),
    ],
)
def test_a_wrong_target_is_named(tmp_path, body, word):
    message = _error(tmp_path, _with_target(body))
    assert message.startswith("people.toml, [target]: ")
    assert word in message


@pytest.mark.together
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "[target] is missing"),
        ("target = 3\n[features.age]\nrange = [0, 1]", "[target] is missing"),
        (_with_target('name = "y"\nclasses = [0, 1]') + "[extra]\n", "unknown table 'extra'"),
        ('[target]\nname = "y"\nclasses = [0, 1]\n', "[features] is missing"),
        ('[target]\nname = "y"\nclasses = [0, 1]\n[features]\n', "at least one feature"),
        ('[target]\nname = "y"\nclasses = [0, 1]\n[features]\nage = 3\n', "[features.age]: a table"),
        (_with_target('name = "age"\nclasses = [0, 1]'), "target 'age'"),
        (_with_feature("range = [0, 1]") + '[features.""]\nrange = [0, 1]', "must not be empty"),
        (
            _with_feature("range = [0, 1]\nindicator = true") + '[features."age=missing"]\nrange = [0, 1]',
            "same name",
        ),
        ("[target\n", "not a TOML file"),
        (b"\xff\xfe", "not a TOML file"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, text, word):
    message = _error(tmp_path, text)
    assert message.startswith("people.toml")
    assert word in message


def test_a_missing_file_or_a_folder_is_refused(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InvalidInput, match="no such file"):
            Schema.from_toml(path)


@pytest.mark.together
@pytest.mark.parametrize(
    "text",
    [
        "x" * (toml.MAX_BYTES + 1),
        "a = " + "[" * 100_000,
        "a = " + "{a = " * 100_000,
        "a = " + "1" * 100_000,
        '"""' + '\\"""' * 200_000,
        '"' + '\\"' * 400_000,
        "'" * 800_001,
        '"' * 800_001,
        "a" + " " * 900_000 + ".",
    ],
    ids=range(9),
)
def test_a_hostile_file_is_refused_quickly(tmp_path, text):
    message = _error(tmp_path, text)
    assert message.startswith("people.toml")
    assert len(message) < 300


@pytest.mark.together
@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 200_000) + " = 1",
        " . ".join("a" * 200_000) + " = 1",
        "[" + ".".join("a" * 200_000) + "]",
        "b = {" + '."q".'.join("a" * 100_000) + " = 1}",
        'c = """\n""" # "\n' + ".".join("a" * 200_000) + " = 1",
        "d = ''''a'''''\n" + ".".join("a" * 200_000) + " = 1",
        'e = """"a""\\""""" # """\n' + ".".join("a" * 200_000) + " = 1",
    ],
    ids=range(7),
)
def test_a_key_of_many_dots_never_reaches_the_parser(tmp_path, text):
    """The parser would need memory quadratic in the number of dots."""
    assert "too many dots" in _error(tmp_path, text)


def test_dots_inside_text_and_comments_are_no_keys(tmp_path):
    dots = "a.b.c.d.e.f.g.h"
    text = _with_feature(f'categories = ["{dots}", \'1{dots}\', """2{dots}"{dots}"""] # {dots}')
    schema = Schema.from_toml(_write(tmp_path, text))
    assert schema.features[0].categories == (dots, f"1{dots}", f'2{dots}"{dots}')


def test_too_many_columns_are_refused(monkeypatch):
    data = {
        "target": {"name": "y", "classes": [0, 1]},
        "features": {"a": {"categories": list(range(60))}, "b": {"categories": list(range(60))}},
    }
    monkeypatch.setattr(schema_module, "MAX_COLUMNS", 120)
    assert Schema.from_dict(data).n_columns == 120
    monkeypatch.setattr(schema_module, "MAX_COLUMNS", 119)
    with pytest.raises(InvalidInput, match=re.escape("120 columns, more than the limit of 119")):
        Schema.from_dict(data)
