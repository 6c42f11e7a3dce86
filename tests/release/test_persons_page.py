"""A model that protects one person says so everywhere, and nothing that is true of rows only."""

import dataclasses
import re
from html import unescape

import numpy as np
import pytest
from release_models import ANSWERS, PERSONS, data, model_file

from dperm import Budget, Ledger, PrivateLogisticRegression
from dperm.cli.app import run
from dperm.evaluation import evaluate
from dperm.models import save_model
from dperm.release import Deployment, page, read_release, registry_entry, text

OF_ROWS = (  # what pages of models that protect one row say
    "one row",
    "every row but one",
    "all rows but one",
    "Every other row",
    "The number of rows",
    "largest number of rows",
    "person with several",
    "person with so many rows",
    "how many rows can one person have",
    "most_rows_per_person",
    "One person contributes one row",
    "over the rows",
    "--unit row",
)


TOLD = Deployment.from_dict(ANSWERS | {"dataset": ANSWERS["dataset"] | {"description": "Households."}})


def release_of(name):
    return dataclasses.replace(read_release(model_file(name)), deployment=TOLD, deployed=True)


def words(html):
    return " ".join(
        unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", html, flags=re.S))).split()
    )


def said(release):
    return {
        "page": words(page(release)),
        "text": " ".join(text(release).split()),
        "entry": registry_entry(release),
    }


@pytest.mark.parametrize("name", PERSONS)
def test_nothing_is_said_that_is_true_of_rows_only(name):
    for where, told in said(release_of(name)).items():
        assert [false for false in OF_ROWS if false.lower() in told.lower()] == [], where
        assert "one person" in told.lower(), where
        assert "persons" in told, where


def test_the_control_a_model_for_rows_says_all_of_it():
    told = " ".join([*said(release_of("logistic")).values(), *said(release_of("removable")).values()])
    blank = words(page(read_release(model_file("logistic"))))
    assert [line for line in OF_ROWS if line.lower() not in f"{told} {blank}".lower()] == []
    for of_persons in ("one person with all", "persons", "their id"):
        assert of_persons not in told


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "persons",
            (
                "Had all rows of any one person in the training data been replaced by those of any other person,",
                "The protection is for one person with all rows that carry their id, however many.",
                "The number of persons, 134.",
                "each counts by the mean over their rows, the first",
            ),
        ),
        (
            "removable persons",
            (
                "Had any one person, with all their rows, been left out of the training data or been added to it,",
                "That the table never has more than 200 persons. The number of persons itself is hidden.",
                "The largest number of persons, 200, was chosen without looking at the data, and no table has more",
                "each counts by the sum over their rows, the first 2 at most; rows beyond that were left out.",
            ),
        ),
    ],
)
def test_page_and_text_say_what_two_tables_differ_in_and_how_rows_count(name, lines):
    told = said(release_of(name))
    for line in lines:
        assert line in told["page"], line
        assert line in told["text"], line


def test_the_entry_of_the_registry_is_about_persons():
    told = registry_entry(release_of("persons"))
    assert "privacy_unit: One person, with all their rows\n" in told.replace('"', "")
    assert "Tables of 134 persons, each with rows" in told
    assert "For several persons together, epsilon at the same delta: 2 persons:" in told
    assert "replaced by any other person" in told


@pytest.mark.parametrize("name", PERSONS)
def test_verify_passes_for_a_person_and_refuses_rows(name, capsys):
    path = str(model_file(name))
    assert run(["verify", path, "--unit", "person"]) == 0
    assert "differentially private for one person" in capsys.readouterr().out
    implied = name == "persons"  # to change a row is to change a person; to take one away removes nobody
    assert run(["verify", path, "--unit", "row"]) == (0 if implied else 1)
    refused = "NOT OK: it protects one person under add-remove, and one row was asked for"
    assert (refused in capsys.readouterr().out) is not implied
    assert run(["verify", str(model_file("logistic")), "--unit", "person"]) == 1
    assert "NOT OK: it protects one row, and one person was asked for" in capsys.readouterr().out
    assert run(["report", path]) == 0
    command = re.search(r"dperm (verify .*--unit person)", capsys.readouterr().out)[1]
    assert run([path if word == "model.json" else word for word in command.split()]) == 0


def test_several_persons_together_pay_as_rows_of_a_person_do():
    shown = page(release_of("persons"))
    assert "persons together" in shown
    assert "(stated)" not in shown  # rows of a person are no part of this table
    assert words(shown).count("is k changes of one person") == 1


@pytest.mark.parametrize(
    ("unit", "kept"),
    [("person", "kept for one person"), ("row", "kept for one row that stays with its person")],
)
def test_the_budget_says_for_whom_it_is_kept(tmp_path, unit, kept):
    X, score = data()
    ledger = Ledger.create(tmp_path / "budget.db", 2.0, 1e-5, unit=unit)
    model = PrivateLogisticRegression(mechanism="output", classes=[0, 1], ledger=ledger)
    path = tmp_path / "model.json"
    save_model(model.fit(X, (score > 0).astype(int), groups=range(len(X))), path)
    release = read_release(path, ledger=ledger.path)
    assert kept in words(page(release))
    assert kept in text(release)
    told = dataclasses.replace(release, deployment=TOLD)
    assert f"in one ledger, {kept}, under the cap" in registry_entry(told)


def test_a_ledger_for_rows_that_paid_for_a_model_for_rows_is_described_as_before():
    path = model_file("paid")
    release = read_release(path, ledger=path.parent / "budget.db")
    assert "kept for" not in page(release) + text(release)


@pytest.mark.filterwarnings("ignore:The model was trained by person")
def test_an_evaluation_beside_it_is_said_to_protect_rows():
    X, score = data()
    labels = np.array(["no", "yes"])[(score > 0).astype(int)]
    told = {}
    for name in ("persons", "logistic"):
        release = read_release(model_file(name))
        made = evaluate(release.estimator, X, labels, Budget(0.5, 1e-7), unit="row")
        told[name] = words(page(dataclasses.replace(release, evaluation=made)))
    assert "It protects one of these rows, not one person." in told["persons"]
    by_person = evaluate(release.estimator, X, labels, Budget(0.5, 1e-7), groups=np.arange(len(X)))
    release = dataclasses.replace(read_release(model_file("persons")), evaluation=by_person)
    assert "not one person" not in words(page(release))
    assert "for the test rows. Whoever is in both tables pays for both." in told["logistic"]
