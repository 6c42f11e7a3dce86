"""``dperm schema``: a draft, what is wrong with a schema, and that neither quotes a value nor spends anything."""

import json

import pytest

from dperm.cli.app import run
from dperm.schema import Schema

SECRET = "zyxwv"
TABLE = "patient_id;age;sex;bought\n" + f"1;30;F;no\n2;40;M;yes\n3;50;{SECRET};no\n4;60;F;yes\n" * 5
DECLARED = """
[target]
name = "bought"
classes = ["no", "yes"]

[features.age]
range = [18, 90]

[features.sex]
categories = ["f", "m"]
"""
BOOK = 'name,type,min,max,categories\nage,number,18,90,\nsex,category,,,"f,m"\nbought,,,,"no,yes"\npatient_id,id,,,\n'


@pytest.fixture
def dperm(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(TABLE)
    (tmp_path / "people.toml").write_text(DECLARED)
    (tmp_path / "book.csv").write_text(BOOK)

    def call(line):
        code = run(line.split())
        out, err = capsys.readouterr()
        assert SECRET not in out + err
        assert "Traceback" not in err
        return code, out, err

    return call


def test_a_draft_goes_to_standard_output_or_a_file(dperm, tmp_path):
    code, out, _ = dperm("schema init people.csv --target bought")
    assert code == 0
    assert '[features.age]\nrange = "TODO"' in out
    code, out, err = dperm("schema init people.csv --target bought --output draft.toml")
    assert (code, out) == (0, "")
    assert err == "Wrote draft.toml: 4 columns, 3 TODOs to fill in.\n"
    code, _, err = dperm("schema init people.csv --output draft.toml")
    assert (code, "--force" in err) == (1, True)
    assert dperm("schema init people.csv --output draft.toml --force")[0] == 0
    code, _, err = dperm("fit people.csv --schema draft.toml --epsilon 1 --delta 1e-5 --output m.json")
    assert code == 1
    assert err == "dperm: draft.toml, [target]: name is still TODO; name the column to predict.\n"


def test_a_code_book_finishes_the_draft(dperm, tmp_path):
    line = "schema init people.csv --target bought --from-codebook book.csv --output book.toml"
    code, _, err = dperm(line)
    assert (code, err) == (0, "Wrote book.toml: 4 columns, nothing is left to fill in.\n")
    assert Schema.from_toml("book.toml") == Schema.from_toml("people.toml")


def test_a_check_tells_counts_and_a_way_out(dperm):
    code, out, err = dperm("schema check people.csv --schema people.toml")
    assert (code, err) == (0, "")
    assert "NOT PRIVATE" in out
    assert "! sex: 100 % of the values are no declared category. fold = true would match 75 %" in out
    assert "Not declared, so not read: patient_id" in out
    assert dperm("schema check people.csv --schema people.toml --strict")[0] == 1


def test_a_check_as_json_holds_the_same(dperm):
    code, out, _ = dperm("schema check people.csv --schema people.toml --json")
    found = json.loads(out)
    assert code == 0
    assert found["private"] is False
    assert found["looks_wrong"] is True
    assert found["columns"][1]["unknown"] == 20
    assert found["classes"] == {"no": 10, "yes": 10}


def test_a_schema_that_fits_passes_a_strict_check(dperm, tmp_path):
    (tmp_path / "people.toml").write_text(DECLARED.replace('"m"]', '"m"]\nfold = true'))
    (tmp_path / "people.csv").write_text(TABLE.replace(SECRET, "m"))
    assert dperm("schema check people.csv --schema people.toml --strict")[0] == 0


def test_a_named_data_set_can_be_checked(dperm, tmp_path):
    from dperm.datasets import dataset_schema

    (tmp_path / "cps.toml").write_text(dataset_schema("cps").to_toml())
    assert dperm("schema check cps --schema cps.toml")[0] == 0


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("schema", 2, "Usage"),
        ("schema chekc people.csv", 2, "Did you mean 'check'"),
        ("schema check people.csv", 2, "--schema"),
        ("schema check none.csv --schema people.toml", 1, "no such file"),
        ("schema check people.ods --schema people.toml", 1, ".xlsx"),
        ("schema check people.csv --schema none.toml", 1, "no such file"),
        ("schema init none.csv", 1, "no such file"),
        ("schema init people.csv --target colour", 1, "no column named 'colour'"),
        ("schema init people.csv --from-codebook people.csv", 1, "needs a column called name"),
        ("schema init people.csv --output none/draft.toml", 1, "not a folder"),
    ],
)
def test_a_wrong_call_says_what_to_do(dperm, line, code, words):
    found, out, err = dperm(line)
    assert found == code
    assert words in out + err
