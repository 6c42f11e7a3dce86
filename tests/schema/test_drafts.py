"""Drafts of schemas: names and storage types only, refused until they are finished, complete where a code book is."""

import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm.errors import InvalidInput
from dperm.schema import Schema
from dperm.schema.drafts import draft_schema, looks_like_identifier, read_codebook
from dperm.schema.readers import column_types

SECRET = "SECRET4711"


def _loaded(folder, text):
    path = folder / "draft.toml"
    path.write_text(text, encoding="utf-8")
    return Schema.from_toml(path)


def test_a_draft_of_a_text_file_holds_names_and_no_values(tmp_path):
    (tmp_path / "a.csv").write_text(f"age;patient_id;hours per week;y\n{SECRET};1;2;3\n")
    columns = column_types(tmp_path / "a.csv")
    assert columns == dict.fromkeys(["age", "patient_id", "hours per week", "y"])
    text = draft_schema(columns, "y")
    assert SECRET not in text
    assert "\n# [features.patient_id]\n" in text
    assert '\n[features."hours per week"]\nrange = "TODO"' in text
    assert 'name = "y"\nclasses = "TODO"' in text


def test_a_draft_depends_on_the_header_alone(tmp_path):
    texts = []
    for rows in ("", "1,2\n", f"{SECRET},{SECRET}\n" * 9):
        (tmp_path / "a.csv").write_text("age,sex\n" + rows)
        texts.append(draft_schema(column_types(tmp_path / "a.csv")))
    assert len(set(texts)) == 1


def test_a_draft_of_parquet_follows_the_declared_types(tmp_path):
    table = pa.table(
        {
            "age": pa.array([1], pa.int8()),
            "gain": pa.array([1.5]),
            "town": pa.array([SECRET]),
            "job": pa.array([SECRET]).dictionary_encode(),
            "member": pa.array([True]),
            "admitted": pa.array([datetime.date(1987, 6, 15)]),
            "seen": pa.array([datetime.datetime(1987, 6, 15)]),
            "picture": pa.array([b"x"]),
            "y": pa.array([True]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    text = draft_schema(column_types(tmp_path / "a.parquet"), "y")
    for part in (
        '[features.age]\nrange = "TODO"',
        '[features.gain]\nrange = "TODO"',
        '[features.town]\ncategories = "TODO"',
        '[features.job]\ncategories = "TODO"',
        "[features.member]\ncategories = [false, true]",
        '[features.admitted]\ndate = "TODO"',
        '[features.seen]\ndate = "TODO"',
        "# [features.picture]",
        'name = "y"\nclasses = [false, true]',
    ):
        assert part in text
    assert SECRET not in text


@pytest.mark.together
@pytest.mark.parametrize(
    "name", ["id", "patient_id", "PatientID", "customerId", "name", "last name", "e-mail", "Phone2"]
)
def test_identifiers_are_known_by_their_names(name):
    assert looks_like_identifier(name)


@pytest.mark.parametrize("name", ["age", "valid", "idle", "kidney", "rename", "covid", "enamel"])
def test_other_names_are_not(name):
    assert not looks_like_identifier(name)


@pytest.mark.together
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[target]\nname = "TODO"\nclasses = "TODO"\n[features.age]\nrange = "TODO"\n',
            "[target]: name is still TODO",
        ),
        (
            '[target]\nname = "y"\nclasses = ["no", "yes"]\n[features.age]\nrange = "TODO"\n',
            "range is still TODO; give",
        ),
        (
            '[target]\nname = "y"\nclasses = ["no", "yes"]\n[features.age]\ncategories = "TODO"\n',
            "categories is still",
        ),
        (
            '[target]\nname = "y"\nclasses = ["no", "yes"]\n[features.age]\ndate = ["TODO", "TODO"]\n',
            "date is still",
        ),
        (
            '[target]\nname = "y"\nclasses = ["no", "yes"]\n[features.age]\nhashed = "TODO"\n',
            "hashed is still",
        ),
    ],
)
def test_what_is_left_to_say_is_named(tmp_path, text, words):
    with pytest.raises(InvalidInput, match="draft.toml, ") as caught:
        _loaded(tmp_path, text)
    assert words in str(caught.value)


def test_a_draft_is_refused_and_says_where(tmp_path):
    text = draft_schema({"age": None, "y": None}, "y")
    with pytest.raises(InvalidInput, match=r"\[target\]: classes is still TODO"):
        _loaded(tmp_path, text)
    finished = text.replace('classes = "TODO"', 'classes = ["no", "yes"]')
    with pytest.raises(InvalidInput, match=r"\[features.age\]: range is still TODO"):
        _loaded(tmp_path, finished)
    assert _loaded(tmp_path, finished.replace('range = "TODO"', "range = [18, 90]")).features[0].range == (
        18,
        90,
    )


def test_a_target_that_is_not_there_is_named():
    with pytest.raises(InvalidInput, match="no column named 'z'"):
        draft_schema({"age": None}, "z")


def test_names_cannot_write_lines_of_their_own(tmp_path):
    names = {'a\n[rows]\nspline = 3 # "': None, "id\nx": None, 'pain "now"': None, "y": None}
    text = (
        draft_schema(names, "y").replace('classes = "TODO"', "classes = [0, 1]").replace('"TODO"', "[0, 1]")
    )
    assert [feature.name for feature in _loaded(tmp_path, text).features] == [
        'a\n[rows]\nspline = 3 # "',
        'pain "now"',
    ]


BOOK = """\
Variable;Kind;Minimum;Maximum;Values;NA;Units;Description
age;integer;18;98;;;years;Age at admission
SEX ;factor;;;f|m;;;
ward;code;;;1=surgery, 2=icu, 3=other;9;;Ward
zip;category;;;01,02,10;;;
income;numeric;0;5e4;;-1, ?;euro;
admitted;date;01.01.2015;31.12.2025;;9999-12-31;;
member;boolean;;;;;;
note;text;;;;;;
patient;id;;;;;;
gone;number;0;1;;;;
stay;number;0;60;;;days;length of stay
readmitted;;;;no, yes;;;
"""
COLUMNS = [
    "patient",
    "age",
    "sex",
    "ward",
    "zip",
    "income",
    "admitted",
    "member",
    "note",
    "stay",
    "readmitted",
]


def _book(folder, text=BOOK):
    path = folder / "book.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_codebook(path)


def test_a_complete_code_book_makes_a_complete_schema(tmp_path):
    book = BOOK.replace("NA;Units", "NA;Units;Format").replace("Description", "Description", 1)
    rows = book.splitlines()
    rows = [rows[0]] + [
        line.replace(";9999-12-31;;", ";9999-12-31;;%d.%m.%Y;")
        if "admitted" in line
        else ";".join([*line.split(";")[:7], "", *line.split(";")[7:]])
        for line in rows[1:]
    ]
    text = draft_schema(dict.fromkeys(COLUMNS), "readmitted", _book(tmp_path, "\n".join(rows)))
    schema = _loaded(tmp_path, text)
    assert schema.to_dict() == {
        "target": {"name": "readmitted", "classes": ["no", "yes"]},
        "features": {
            "age": {"range": [18, 98], "unit": "years"},
            "sex": {"categories": ["f", "m"]},
            "ward": {"categories": [1, 2, 3], "missing": [9]},
            "zip": {"categories": ["01", "02", "10"]},
            "income": {"range": [0, 50000], "missing": [-1, "?"], "unit": "euro"},
            "admitted": {
                "date": ["2015-01-01", "2025-12-31"],
                "format": "%d.%m.%Y",
                "missing": ["9999-12-31"],
            },
            "member": {"categories": [False, True]},
            "note": {"hashed": 64, "words": True},
            "stay": {"range": [0, 60], "unit": "days"},
        },
    }
    assert "# Age at admission\n[features.age]" in text
    assert "not in the table: gone" in text
    assert "# [features.patient]" in text


def test_a_number_may_be_the_target(tmp_path):
    text = draft_schema({"age": None, "stay": None}, "stay", _book(tmp_path))
    assert _loaded(tmp_path, text).target.in_words().startswith("number from 0 to 60 days")


def test_what_the_book_does_not_say_is_left_to_say(tmp_path):
    book = _book(tmp_path, "name,type,min\nage,number,18\nsex,category,\n")
    text = draft_schema({"age": None, "sex": None, "new": None}, book=book)
    assert '[features.age]\nrange = "TODO"' in text
    assert '[features.sex]\ncategories = "TODO"' in text
    assert '# not in the code book\n[features.new]\nrange = "TODO"' in text


def test_categories_of_a_column_of_text_are_text(tmp_path):
    book = _book(tmp_path, "name,categories\nward,1;2\n")
    assert "categories = [1, 2]" in draft_schema({"ward": None}, book=book)
    assert 'categories = ["1", "2"]' in draft_schema({"ward": pa.string()}, book=book)


@pytest.mark.together
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour,type\nage,number\n", "needs a column called name"),
        ("name,type\nage,number\nage,number\n", "line 3 names 'age' a second time"),
        ("name,type\n,number\n", "line 2 has no name"),
        ("name,type\nage,complex\n", "'age' has the type 'complex'; known are number"),
        ("", "empty"),
        ("name,type,format\nseen,date,%m%m\n", "'seen': format must say day"),
        (b"name\nstra\xdfe\n", "UTF-8"),
    ],
)
def test_a_wrong_code_book_is_named(tmp_path, text, words):
    with pytest.raises(InvalidInput, match=r"book\.csv") as caught:
        _book(tmp_path, text)
    assert words in str(caught.value)
