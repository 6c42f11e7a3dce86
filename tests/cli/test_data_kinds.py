"""Every command that takes DATA takes every kind of file and standard input, which leaves nothing behind."""

import csv
import gzip
import io
import json
import stat
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm.cli import options as stdin_module
from dperm.cli.app import run
from dperm.ledger import Ledger

SECRET = "zyxwv"
SCHEMA = """
[target]
name = "bought"
classes = ["no", "yes"]

[features.age]
range = [18, 90]

[features.admitted]
date = ["2015-01-01", "2025-12-31"]
cycles = ["month"]
"""
FIT = "--schema people.toml --epsilon 2 --delta 1e-5 --output model.json"


def _records(n=200):
    rng = np.random.default_rng(0)
    days = np.datetime64("2015-01-01") + rng.integers(0, 4000, n).astype("m8[D]")
    age = rng.integers(18, 90, n)
    bought = np.where(age + rng.normal(size=n) > 50, "yes", "no")
    return {"age": age.tolist(), "admitted": [str(day) for day in days], "bought": bought.tolist()}


def _text(delimiter=","):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    records = _records()
    writer.writerow(records)
    writer.writerows(zip(*records.values(), strict=True))
    return text.getvalue().encode()


def _sheet():
    openpyxl = pytest.importorskip("openpyxl", reason="needs dperm[excel]")
    book, records, out = openpyxl.Workbook(), _records(), io.BytesIO()
    for row in ([*records], *zip(*records.values(), strict=True)):
        book.active.append(row)
    book.save(out)
    return out.getvalue()


def _parquet():
    out = io.BytesIO()
    pq.write_table(pa.table(_records()), out)
    return out.getvalue()


KINDS = {
    "people.csv": lambda: _text(";"),
    "people.tsv": lambda: _text("\t"),
    "people.csv.gz": lambda: gzip.compress(_text()),
    "people.tsv.gz": lambda: gzip.compress(_text("\t")),
    "people.xlsx": _sheet,
    "people.parquet": _parquet,
}


@pytest.fixture
def dperm(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "spool").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spool"))

    def call(line, piped=None):
        if piped is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
        code = run(line.split())
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert SECRET not in out + err
        assert list((tmp_path / "spool").iterdir()) == [], "something was left behind"
        return code, out, err

    return call


@pytest.mark.parametrize("name", KINDS)
def test_fit_and_predict_take_every_kind(dperm, tmp_path, name):
    content = KINDS[name]()
    (tmp_path / name).write_bytes(content)
    code, _, err = dperm(f"fit {name} {FIT}")
    assert (code, "200 rows, 30 features" in err) == (0, True)
    code, out, _ = dperm(f"predict model.json {name}")
    assert (code, len(out.splitlines())) == (0, 201)
    code, piped, _ = dperm("predict model.json -", content)
    assert (code, piped) == (0, out)


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.parquet"])
def test_standard_input_is_fitted_converted_checked_and_compared(dperm, tmp_path, name):
    content = KINDS[name]()
    code, _, err = dperm(f"fit - {FIT}", content)
    assert (code, "Training on stdin" in err) == (0, True)
    code, out, _ = dperm("convert - --schema people.toml --out shards --json", content)
    assert (code, json.loads(out)["rows"]) == (0, 200)
    assert dperm("schema check - --schema people.toml --strict", content)[0] == 0
    assert dperm("schema init - --target bought", content)[0] == 0
    line = (
        "compare - --schema people.toml --mechanism output --loss logistic --epsilon 1 --folds 2 --repeats 1"
    )
    assert dperm(f"{line} --out results", content)[0] == 0


def test_the_spooled_file_is_for_its_owner_alone(dperm, tmp_path, monkeypatch):
    seen = []

    def look(path, schema=None):
        file = Path(path)
        seen.append((stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)))
        raise KeyboardInterrupt

    monkeypatch.setattr("dperm.cli.data.look_at", look)
    assert dperm(f"fit - {FIT}", _text())[0] == 130
    assert seen == [(0o600, 0o700)]


def test_a_terminal_or_nothing_is_no_table(dperm, monkeypatch):
    code, _, err = dperm(f"fit - {FIT}", b"")
    assert (code, "stdin.csv: the file is empty" in err) == (1, True)
    monkeypatch.setattr(stdin_module.sys, "stdin", None)
    code, _, err = dperm(f"fit - {FIT}")
    assert (code, "nothing is piped" in err) == (2, True)


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.xlsx", "-"])
def test_names_and_rows_are_looked_at_before_a_charge_and_cells_after(dperm, tmp_path, name):
    """A missing column costs nothing; a cell that cannot be read is found after the charge."""
    content = KINDS["people.csv" if name == "-" else name]()
    piped = content if name == "-" else None
    (tmp_path / "people.csv").write_bytes(b"")
    (tmp_path / name.replace("-", "unused")).write_bytes(content)
    Ledger.create(tmp_path / "budget.db", epsilon=100, delta=0.5)
    line = f"fit {name} {FIT} --ledger budget.db"
    (tmp_path / "people.toml").write_text(SCHEMA + "[features.height]\nrange = [0, 1]\n")
    assert dperm(line, piped)[0] == 1
    assert Ledger(tmp_path / "budget.db").entries() == []
    (tmp_path / "people.toml").write_text(SCHEMA.replace('["no", "yes"]', '["No", "yes"]'))
    code, _, err = dperm(line, piped)
    assert (code, "fold = true" in err) == (1, True)
    assert len(Ledger(tmp_path / "budget.db").entries()) == 1


@pytest.mark.parametrize(
    ("declared", "cell", "way_out"),
    [
        ("range = [18, 90]", SECRET, "column 'age' is declared as numbers"),
        ("range = [18, 90]", "2020-01-01", "declare date = [first, last]"),
        ("range = [18, 90]", "1.5.2020", "declare date = [first, last]"),
        ('range = [18, 90]\nmissing = ["?"]', SECRET, "Column 'age': the schema declares numbers"),
        ("categories = [false, true]", SECRET, "column 'age' is declared as truth values"),
        ("categories = [1, 2]", SECRET, "column 'age' is declared as numbers"),
        ('date = ["2015-01-01", "2025-01-01"]', SECRET, "Column 'age': it holds text that is neither a date"),
    ],
)
def test_a_column_of_another_kind_is_named_with_a_way_out(dperm, tmp_path, declared, cell, way_out):
    (tmp_path / "people.toml").write_text(SCHEMA.replace("range = [18, 90]", declared))
    (tmp_path / "people.csv").write_bytes(_text() + f"{cell},2020-01-01,no\n".encode())
    code, _, err = dperm(f"fit people.csv {FIT}")
    assert code == 1
    assert way_out in err.splitlines()[-1]
    assert "separated by" not in err
