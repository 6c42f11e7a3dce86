"""A name that is nearly right is answered with the one that is."""

import pytest

from dperm.cli.app import run
from dperm.cli.output import did_you_mean

FIT = [
    "fit",
    "people.csv",
    "--schema",
    "people.toml",
    "--epsilon",
    "1",
    "--delta",
    "1e-6",
    "--output",
    "m.json",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(
        '[target]\nname = "bought"\nclasses = ["no", "yes"]\n\n[features.age]\nrange = [18, 90]\n'
    )
    (tmp_path / "people.csv").write_text("age,bought\n" + "30,no\n70,yes\n" * 50)


@pytest.mark.parametrize(
    ("words", "code", "meant"),
    [
        (["fti"], 2, "fit"),
        (["account", "--mechansim", "rsgd"], 2, "--mechanism"),
        (["ledger", "chek"], 2, "check"),
        ([*FIT, "--mechanism", "rsgd-at"], 1, "rsgd-ar"),
        ([*FIT, "--mechanism", "rsgd epoch=3"], 1, "epochs"),
        ([*FIT, "--loss", "logistc"], 2, "logistic"),
        ([*FIT, "--neighbours", "add-remov"], 2, "add-remove"),
        ([*FIT, "--target", "boght"], 1, "bought"),
        (["fit", "adlut", *FIT[2:]], 1, "adult"),
        (["compare", "people.csv", "--schema", "people.toml", "--target", "boght"], 1, "bought"),
        (["compare", "cpss"], 1, "cps"),
        (["compare", "--loss", "smv"], 2, "svm"),
        (["compare", "--mechanism", "dpgd"], 1, "dp-gd"),
        (["compare", "--oracle", "rsgd step_siz=1,2"], 1, "step_size"),
        (["account", "--n", "9", "--epsilon", "1", "--delta", "1e-6", "--loss", "square"], 2, "squared"),
        (["audit", "ouput"], 1, "output"),
        (["audit", "--self-test", "ouput"], 1, "output"),
        (["mechanisms", "bolton"], 1, "bolt-on"),
        (["ledger", "create", "b.db", "--neighbours", "addremove"], 2, "add-remove"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_a_near_miss_is_asked_about(words, code, meant, capsys):
    assert run(words) == code
    said = " ".join(capsys.readouterr().err.split())
    assert "Did you mean" in said
    assert repr(meant) in said.partition("Did you mean")[2].partition("?")[0]


@pytest.mark.usefixtures("folder")
def test_what_may_be_a_record_is_not_suggested(tmp_path, capsys):
    """Without a line of names the first record stands where they should."""
    (tmp_path / "people.csv").write_text("zyxwv,bought\n" + "abc,yes\n" * 50)
    assert run([*FIT, "--target", "zyxw"]) == 1
    err = capsys.readouterr().err
    assert "no column named 'zyxw'" in err
    assert "zyxwv" not in err


def test_the_question():
    known = ["rsgd", "rsgd-ar", "nsgd", "objective"]
    assert did_you_mean("objectiv", known) == " Did you mean 'objective'?"
    assert did_you_mean("RSGD-AR", known).startswith(" Did you mean 'rsgd-ar'")
    assert did_you_mean("ob", known) == " Did you mean 'objective'?"  # the beginning of a name
    assert did_you_mean("rsg", known) == " Did you mean 'rsgd' or 'rsgd-ar'?"
    assert did_you_mean("zebra", known) == did_you_mean("", known) == ""
