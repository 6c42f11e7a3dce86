"""Files are read as declared, and a broken one is refused without quoting it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm.errors import InvalidInput
from dperm.schema import Schema, encode, encode_target, read_table

MARKER = "SECRET4711"
SCHEMA = Schema.from_dict(
    {
        "target": {"name": "repaid", "classes": ["0", "1"]},
        "rows": {"spline": 0},
        "features": {
            "age": {"range": [0, 100]},
            "income": {"range": [0, 100], "missing": ["?"]},
            "zip": {"categories": ["01", "1"]},
            "children": {"categories": [0, 1]},
            "member": {"categories": [False, True]},
        },
    }
)
CSV = "note,age,income,zip,children,member,repaid\nx,50,?,01,1,true,1\n,100,100,1,,false,0\n"


def _file(folder, content, name="loans.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_csv_columns_take_their_declared_kinds(tmp_path):
    table = read_table(_file(tmp_path, CSV), SCHEMA)
    assert sorted(table.column_names) == ["age", "children", "income", "member", "repaid", "zip"]
    expected = np.array([[0, 0, 0.5, -0.5, -0.5, 0.5, -0.5, 0.5], [0.5, 0.5, -0.5, 0.5, 0, 0, 0.5, -0.5]])
    assert np.allclose(encode(table, SCHEMA), expected * SCHEMA.scale, rtol=0, atol=1e-12)
    assert encode_target(table, SCHEMA).tolist() == ["1", "0"]


def test_a_declared_column_may_be_absent_from_the_file(tmp_path):
    table = read_table(_file(tmp_path, "age\n3\n"), SCHEMA)
    assert table.column_names == ["age"]
    with pytest.raises(InvalidInput, match="no column named 'income'"):
        encode(table, SCHEMA)


def test_csv_without_a_schema_guesses_kinds(tmp_path):
    table = read_table(str(_file(tmp_path, "﻿age,name\n3,x\n4,y\n", "A.CSV")))
    assert table.column_names == ["age", "name"]
    assert table["age"].to_pylist() == [3, 4]


def test_parquet_gives_the_table_back(tmp_path):
    table = pa.table({"age": [1.0, None], "name": ["a", "b"]})
    folder = tmp_path / "year=2020"  # a folder name that must not turn into a column
    folder.mkdir()
    pq.write_table(table, folder / "people.parquet")
    assert read_table(folder / "people.parquet").equals(table)
    assert read_table(folder / "people.parquet", SCHEMA).column_names == ["age"]


@pytest.mark.together
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["empty"]),
        (f"age,income\n1,2\n3,4,{MARKER}\n", ["2 values"]),
        (f"age,income\n1\n{MARKER}\n", ["2 values"]),
        (f"39,{MARKER}\n40,x\n", ["first line", "numbers"]),
        (f"{MARKER},{MARKER}\n1,2\n", ["name of its own"]),
        (f"{MARKER},\n1,2\n", ["name of its own"]),
        ("\n1,2\n", ["name of its own"]),
        (b"caf\xe9," + MARKER.encode() + b"\n1,2\n", ["UTF-8"]),
        ("a" * 200_000 + "\n1\n", ["CSV"]),
    ],
    ids=range(9),
)
def test_a_broken_csv_is_refused_and_never_quoted(tmp_path, content, words):
    with pytest.raises(InvalidInput) as caught:
        read_table(_file(tmp_path, content))
    message = str(caught.value)
    assert message.startswith("loans.csv: ")
    for word in words:
        assert word in message
    assert MARKER not in message
    assert caught.value.__context__ is None


@pytest.mark.together
@pytest.mark.parametrize(
    ("column", "row"),
    [
        ("age", f"x,{MARKER},1,01,1,true,1"),
        ("children", f"x,1,1,01,{MARKER},true,1"),
        ("member", f"x,1,1,01,1,{MARKER},1"),
        ("zip", "x,1,1,SECRET4711\xff,1,true,1"),
    ],
)
def test_a_value_that_is_not_of_the_declared_kind_is_not_quoted(tmp_path, column, row):
    path = _file(tmp_path, (CSV + row + "\n").encode("latin-1"))
    with pytest.raises(InvalidInput, match=f"column '{column}'") as caught:
        read_table(path, SCHEMA)
    assert MARKER not in str(caught.value)
    assert caught.value.__context__ is None


def test_one_text_among_numbers_makes_a_text_column_which_is_then_refused(tmp_path):
    table = read_table(_file(tmp_path, "age\n" + "1\n" * 1000 + f"{MARKER}\n"))
    with pytest.raises(InvalidInput, match="Column 'age': the schema declares numbers") as caught:
        encode(table, Schema.from_dict(SCHEMA.to_dict() | {"features": {"age": {"range": [0, 1]}}}))
    assert MARKER not in str(caught.value)


@pytest.mark.parametrize("content", [b"PAR1 " + MARKER.encode(), b"PAR1" + b"\0" * 64 + b"PAR1"])
def test_a_broken_parquet_file_is_refused(tmp_path, content):
    with pytest.raises(InvalidInput, match="not a readable Parquet file") as caught:
        read_table(_file(tmp_path, content, "loans.parquet"))
    assert MARKER not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_cell_cannot_name_the_column_that_is_wrong(tmp_path):
    with pytest.raises(InvalidInput, match="loans.csv: a row does not fit"):
        read_table(_file(tmp_path, "age,income\nIn CSV column #1: \n1,2\n"))


def test_parquet_names_must_be_unique(tmp_path):
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "twice.parquet")
    with pytest.raises(InvalidInput, match="name of its own"):
        read_table(tmp_path / "twice.parquet")


def test_a_file_may_hold_no_rows(tmp_path):
    """Under add-remove whether a row is there is hidden, so reading none must not fail."""
    names = [item.name for item in (SCHEMA.target, *SCHEMA.features)]
    pq.write_table(pa.table({"age": pa.array([], type=pa.int8())}), tmp_path / "none.parquet")
    assert read_table(tmp_path / "none.parquet").shape == (0, 1)
    table = read_table(_file(tmp_path, ",".join(names) + "\n"), SCHEMA)
    assert encode(table, SCHEMA).shape == (0, SCHEMA.n_columns)
    assert encode_target(table, SCHEMA).shape == (0,)


def test_only_known_existing_files_are_read(tmp_path):
    with pytest.raises(InvalidInput, match=r"\.csv, \.csv\.gz, .* or \.parquet"):
        read_table(_file(tmp_path, CSV, "loans.ods"))
    with pytest.raises(InvalidInput, match="no such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidInput, match="no such file"):
        read_table(tmp_path / "folder.csv")
