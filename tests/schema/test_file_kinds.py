"""The same table in every kind of file gives the same rows, and what cannot be read is told without a cell."""

import datetime
import gzip
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm.data import write_shards
from dperm.errors import InvalidInput, Unsupported
from dperm.schema import Schema, check_schema, encode, encode_target, look_at, read_table, stream_table
from dperm.schema.readers import reader_of

SECRET = "SECRET4711"
NAMES = ["age", "income", "town", "admitted", "member", "repaid"]
ROWS = [
    [50, 1.5, "Köln", datetime.date(2020, 3, 1), True, "yes"],
    [61.25, None, "Bonn", None, False, "no"],
    [40, 99.75, "Mainz", datetime.date(2016, 1, 31), None, "no"],
]


def _schema(**file):
    return Schema.from_dict(
        {
            "target": {"name": "repaid", "classes": ["no", "yes"]},
            "rows": {"spline": 0},
            **({"file": file} if file else {}),
            "features": {
                "age": {"range": [0, 100]},
                "income": {"range": [0, 100], "missing": ["?", "n,a"], "indicator": True},
                "town": {"categories": ["Köln", "Bonn"]},
                "admitted": {"date": ["2015-01-01", "2025-01-01"]},
                "member": {"categories": [False, True]},
            },
        }
    )


def _text(delimiter=",", decimal=".", encoding="utf-8"):
    def cell(value):
        if value is None:
            return ""
        return str(value).replace(".", decimal) if isinstance(value, float) else str(value)

    lines = [delimiter.join(map(cell, line)) for line in [NAMES, *ROWS]]
    return ("\n".join(lines) + "\n").encode(encoding)


def _workbook(path, rows, title="Sheet", before=()):
    openpyxl = pytest.importorskip("openpyxl", reason="needs dperm[excel]")
    book = openpyxl.Workbook()
    book.active.title = title
    for other in before:
        book.create_sheet(other, 0)
    for row in rows:
        book[title].append(row)
    book.save(path)


def _expected():
    columns = {name: [row[place] for row in ROWS] for place, name in enumerate(NAMES)}
    return encode(columns, _schema())


KINDS = {
    "comma.csv": (_text(), {}),
    "semicolon.csv": (_text(";"), {}),
    "bar.csv": (_text("|"), {}),
    "tab.csv": (_text("\t"), {}),
    "tab.tsv": (_text("\t"), {}),
    "TAB.TSV.GZ": (gzip.compress(_text("\t")), {}),
    "packed.csv.gz": (gzip.compress(_text()), {}),
    "declared.tsv": (_text(";"), {"delimiter": ";"}),
    "european.csv": (_text(";", ",", "cp1252"), {"decimal": ",", "encoding": "cp1252"}),
    "old.csv.gz": (gzip.compress(_text(";", ",", "latin-1")), {"decimal": ",", "encoding": "latin-1"}),
    "bom.csv": (b"\xef\xbb\xbf" + _text(";"), {}),
}


@pytest.mark.parametrize("name", [*KINDS, "sheet.xlsx", "second.xlsx", "comma.xlsx"])
def test_every_kind_of_file_gives_the_same_rows(tmp_path, name):
    path = tmp_path / name
    if name.endswith(".xlsx"):
        file = (
            {"sheet": "people"} if name == "second.xlsx" else {"decimal": ","} if name == "comma.xlsx" else {}
        )
        others = ["notes"] if name == "second.xlsx" else []
        _workbook(path, [NAMES, *ROWS, [None] * 6], title="people", before=others)
    else:
        content, file = KINDS[name]
        path.write_bytes(content)
    schema = _schema(**file)
    assert look_at(path, schema) == (NAMES, 3)
    table = read_table(path, schema)
    assert np.array_equal(encode(table, schema), _expected())
    assert encode_target(table, schema).tolist() == ["yes", "no", "no"]
    streamed = pa.Table.from_batches(stream_table(path, schema, 1))
    assert np.array_equal(encode(streamed, schema), _expected()[1:])
    rows, _ = write_shards(path, schema, tmp_path / "shards").load(0)
    assert np.allclose(np.asarray(rows), _expected(), atol=1e-6)
    assert Schema.from_dict(schema.to_dict()) == schema


def test_only_the_header_says_what_parts_the_columns(tmp_path):
    """Rows with more semicolons than commas do not change what the first line says."""
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1;2;3;4;5,6\n" * 50)
    assert reader_of(path, _schema().file).delimiter == ","
    path.write_text('"a;b;c",d\n')
    assert reader_of(path, _schema().file).delimiter == ","


def test_a_mark_with_a_comma_survives_decimal_commas(tmp_path):
    (tmp_path / "a.csv").write_text(
        "income;age\n1,5;0\nn,a;0\n-,5e1;0\n?;0\n NA;0\n;0\n".replace(" NA", "NA")
    )
    schema = _schema(decimal=",")
    assert read_table(tmp_path / "a.csv", schema)["income"].to_pylist() == [
        "1.5",
        "n,a",
        "-.5e1",
        "?",
        "NA",
        "",
    ]


@pytest.mark.parametrize(
    ("column", "kind", "way_out"),
    [
        ("age", "numbers", "date = [first, last]"),
        ("age", "numbers", "list them under missing"),
        ("age", "numbers", 'decimal = ","'),
        ("member", "truth values", "as they are written"),
    ],
)
def test_a_column_of_another_kind_is_named_with_a_way_out(tmp_path, column, kind, way_out):
    values = {"age": "1", "income": "1", "town": "Bonn", "admitted": "", "member": "true", "repaid": "no"}
    path = tmp_path / "a.csv"
    path.write_text(",".join(NAMES) + "\n" + ",".join({**values, column: SECRET}.values()) + "\n")
    for read in (lambda: read_table(path, _schema()), lambda: list(stream_table(path, _schema()))):
        with pytest.raises(InvalidInput, match=f"a.csv: column '{column}' is declared as {kind}") as caught:
            read()
        assert way_out in str(caught.value)
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_parquet_column_of_dates_declared_as_a_number_says_so(tmp_path):
    pq.write_table(pa.table({"age": [datetime.date(1987, 6, 15)]}), tmp_path / "a.parquet")
    schema = Schema.from_dict(
        {"target": {"name": "y", "classes": [0, 1]}, "features": {"age": {"range": [0, 1]}}}
    )
    with pytest.raises(InvalidInput, match=r"holds dates. Declare date = \[first, last\]"):
        encode(read_table(tmp_path / "a.parquet", schema), schema)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", SECRET.encode()),
        ("a.csv.gz", gzip.compress(_text() * 50)[:-20]),
        ("a.xlsx", SECRET.encode()),
    ],
)
def test_a_broken_file_is_refused(tmp_path, name, content):
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl", reason="needs dperm[excel]")
    path = tmp_path / name
    path.write_bytes(content)
    for read in (look_at, read_table, lambda path: list(stream_table(path))):
        with pytest.raises(InvalidInput, match=name) as caught:
            read(path)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("name", "file"), [("a.csv", {"delimiter": "|"}), ("a.tsv", {})])
def test_what_parts_nothing_gives_way_to_what_does(tmp_path, name, file):
    """A model that knows the file it was trained on reads new rows in another."""
    (tmp_path / name).write_bytes(_text(";"))
    assert look_at(tmp_path / name, _schema(**file)) == (NAMES, 3)
    (tmp_path / name).write_text("income\n1\n")
    assert look_at(tmp_path / name, _schema(**file)) == (["income"], 1)


def test_another_encoding_is_told_with_a_way_out(tmp_path):
    (tmp_path / "a.csv").write_bytes(_text(encoding="cp1252"))
    with pytest.raises(InvalidInput, match=r"column 'town' is not text in .* Give \[file\] encoding"):
        read_table(tmp_path / "a.csv", _schema())
    (tmp_path / "b.csv").write_bytes("Größe,y\n1,2\n".encode("cp1252"))
    with pytest.raises(InvalidInput, match=r"in UTF-8. Give \[file\] encoding"):
        look_at(tmp_path / "b.csv", _schema())


def test_a_sheet_that_is_not_there_is_named(tmp_path):
    _workbook(tmp_path / "a.xlsx", [["a"], [1]])
    with pytest.raises(InvalidInput, match="with a sheet named 'people'"):
        look_at(tmp_path / "a.xlsx", _schema(sheet="people"))


def test_cells_of_every_kind_have_a_text(tmp_path):
    row = [
        3.0,
        0.5,
        True,
        datetime.datetime(2020, 1, 2, 3, 4),
        datetime.time(5, 6),
        "=1+1",
        " x ",
        None,
        1e300,
    ]
    _workbook(tmp_path / "a.xlsx", [[None] * 9, [f"c{place}" for place in range(9)], row, [None] * 9, row])
    names, count = look_at(tmp_path / "a.xlsx")
    assert (names, count) == ([f"c{place}" for place in range(9)], 2)
    kinds = {
        "target": {"name": "c6", "classes": ["a", "b"]},
        "features": {n: {"hashed": 2} for n in names if n != "c6"},
    }
    first = read_table(tmp_path / "a.xlsx", Schema.from_dict(kinds)).slice(0, 1).to_pylist()[0]
    assert list(first.values()) == [
        "3",
        "0.5",
        "true",
        "2020-01-02T03:04:00",
        "05:06:00",
        "",
        " x ",
        "",
        "1e+300",
    ]


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.xlsx").write_bytes(b"x")
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(Unsupported, match=r"dperm\[excel\]"):
        look_at(tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ({"delimiter": "x"}, "delimiter must be one of"),
        ({"delimiter": 3}, "delimiter must be one of"),
        ({"delimiter": ",", "decimal": ","}, "must differ"),
        ({"decimal": "·"}, "decimal must be one of"),
        ({"encoding": "utf-7"}, "encoding must be one of"),
        ({"sheet": "x" * 32}, "sheet must be"),
        ({"sheet": ["x"]}, "sheet must be text"),
        ({"name": "x"}, "unknown key 'name'"),
    ],
)
def test_a_wrong_layout_is_named(file, words):
    with pytest.raises(InvalidInput, match=r"^schema, \[file\]: ") as caught:
        _schema(**file)
    assert words in str(caught.value)


def test_a_file_that_is_no_table_is_refused():
    with pytest.raises(InvalidInput, match=r"\[file\]: a table of keys"):
        Schema.from_dict({**_schema().to_dict(), "file": 3})


def test_shards_of_packed_files_are_for_their_owner_alone(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(_text()))
    write_shards(tmp_path / "a.csv.gz", _schema(), tmp_path / "shards")
    assert stat.S_IMODE((tmp_path / "shards").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "target", [{"range": [0, 1]}, {"threshold": 3}, {"classes": [0, 1]}, {"classes": [False, True]}]
)
def test_a_target_of_another_kind_is_named_with_a_way_out(tmp_path, target):
    schema = Schema.from_dict({"target": {"name": "y", **target}, "features": {"a": {"range": [0, 1]}}})
    (tmp_path / "a.csv").write_text(f"a,y\n1,{SECRET}\n")
    pq.write_table(pa.table({"a": [1], "y": [SECRET]}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(
            InvalidInput, match=r"olumn 'y'.*Declare classes = \[...\] as they are written"
        ) as caught:
            encode_target(read_table(tmp_path / name, schema), schema)
        assert SECRET not in str(caught.value)
    assert check_schema({"a": [1], "y": [SECRET]}, schema).columns[-1].unread == 1
