"""Budgets kept for one person: which releases count there, how it is stored, and what people read."""

import json

import numpy as np
import pytest
from test_anchors import gaussian, links, rewrite

from dperm import Budget, Ledger, PrivateLogisticRegression, PrivateSearchCV
from dperm.cli.app import run
from dperm.errors import InvalidInput, Unsupported
from dperm.evaluation import evaluate
from dperm.ledger.overview import spending_figure
from dperm.losses import Logistic
from dperm.problem import Problem
from dperm.unit import Neighbours, PersonLoss, Persons, PrivacyUnit

rng = np.random.default_rng(5)
X = rng.normal(size=(90, 2)) / 2
Y = (X[:, 0] > 0).astype(int)
PATIENT = np.arange(90) // 3
MODEL = {"epsilon": 0.3, "mechanism": "output", "classes": [0, 1]}


@pytest.fixture
def of_persons(path):
    return Ledger.create(path, epsilon=1.0, delta=1e-6, unit="person")


def test_a_ledger_for_persons_takes_fits_on_persons_and_no_others(of_persons):
    model = PrivateLogisticRegression(**MODEL, ledger=of_persons)
    with pytest.raises(
        Unsupported, match=r"kept for one person, and this release protects one row.*Fit with groups="
    ):
        model.fit(X, Y)
    assert of_persons.entries() == []
    model.fit(X, Y, groups=PATIENT)
    (entry,) = of_persons.entries()
    assert (entry.unit, entry.status) == ("person", "spent")
    assert of_persons.spent() == pytest.approx(0.3, abs=1e-6)
    of_persons.check(model)


def test_whatever_protects_rows_is_refused_there(of_persons):
    fitted = PrivateLogisticRegression(**MODEL).fit(X, Y)
    search = PrivateSearchCV(
        PrivateLogisticRegression(mechanism="output", classes=[0, 1]),
        {"l2": [0.1]},
        epsilon=0.5,
        delta=1e-7,
        ledger=of_persons,
    )
    for release in (
        lambda: of_persons.charge(gaussian(0.1)),
        lambda: of_persons.pay(gaussian(0.1), list, list),
        lambda: search.fit(X, Y),
        lambda: fitted.tune_threshold(X, Y, epsilon=0.1, delta=1e-7, ledger=of_persons),
        lambda: evaluate(fitted, X, Y, Budget(0.1, 1e-7), ledger=of_persons),
    ):
        with pytest.raises(Unsupported, match="protects one row"):
            release()
    assert of_persons.entries() == []
    assert of_persons.charge(gaussian(0.1), unit="person") == 1


def test_a_ledger_for_rows_takes_persons_under_replace_one_only(ledger, tmp_path):
    model = PrivateLogisticRegression(**MODEL, ledger=ledger)
    model.fit(X, Y).fit(X, Y, groups=PATIENT)
    assert [entry.unit for entry in ledger.entries()] == ["row", "person"]
    removable = Ledger.create(tmp_path / "other.db", 1.0, 1e-6, neighbours="add-remove")
    model.set_params(ledger=removable, neighbours="add-remove", max_rows=100)
    with pytest.raises(Unsupported, match=r"changes that person and removes nobody.*unit='person'"):
        model.fit(X, Y, groups=PATIENT)
    assert removable.entries() == []
    of_persons = Ledger.create(tmp_path / "persons.db", 1.0, 1e-6, neighbours="add-remove", unit="person")
    model.set_params(ledger=of_persons).fit(X, Y, groups=PATIENT)
    assert of_persons.spent() == pytest.approx(0.3, abs=1e-6)


def test_datasets_have_units_of_their_own_that_never_change(of_persons):
    of_persons.set_cap("later", 0.5, 1e-7)
    of_persons.set_cap("rows", 0.5, 1e-7, unit="row")
    assert [of_persons.unit(name) for name in (None, "later", "rows")] == ["person", "person", "row"]
    of_persons.set_cap("later", 0.4, 1e-7, unit="person")
    for name, other in (("later", "row"), ("rows", "person")):
        with pytest.raises(InvalidInput, match="fixed when its first cap is set"):
            of_persons.set_cap(name, 0.3, 1e-7, unit=other)
    with pytest.raises(Unsupported):
        of_persons.charge(gaussian(0.1), dataset="later")
    of_persons.charge(gaussian(0.1), dataset="rows")


@pytest.mark.parametrize("unit", ["Person", "household", 1, None])
def test_other_words_are_refused(path, unit):
    if unit is not None:
        with pytest.raises(InvalidInput, match="unit must be 'row' or 'person'"):
            Ledger.create(path, 1.0, 1e-6, unit=unit)
        assert not path.exists()
    ledger = Ledger.create(path, 1.0, 1e-6)
    with pytest.raises(InvalidInput, match="unit must be 'row' or 'person'"):
        ledger.charge(gaussian(0.1), unit=unit)
    assert ledger.entries() == []


def test_opening_with_another_unit_is_refused(of_persons):
    assert Ledger(of_persons.path, unit="person").unit() == "person"
    with pytest.raises(InvalidInput, match="with unit = person, and row was asked for"):
        Ledger(of_persons.path, unit="row")


def test_parts_of_a_ledger_for_persons_share_nobody(of_persons):
    with pytest.raises(InvalidInput, match="a new person may belong to another part"):
        of_persons.declare_partitions(["north", "south"])
    of_persons.declare_partitions(["north", "south"], fixed_membership=True)
    for name, part in (("north", slice(0, 45)), ("south", slice(45, 90))):
        model = PrivateLogisticRegression(**MODEL, ledger=of_persons.partition(name))
        model.fit(X[part], Y[part], groups=PATIENT[part])
    assert of_persons.spent() == pytest.approx(0.3, abs=1e-6)


@pytest.mark.parametrize("relation", Neighbours)
def test_a_guarantee_for_persons_is_one_for_rows_where_one_is_replaced(relation):
    row, person = (PrivacyUnit(relation=relation, unit=unit) for unit in ("row", "person"))
    assert (row.protects("row"), row.protects("person")) == (True, False)
    assert (person.protects("row"), person.protects("person")) == (relation is Neighbours.REPLACE_ONE, True)
    assert PrivacyUnit.in_words(person.words, relation.value) == person
    with pytest.raises(InvalidInput, match="one row or one person"):
        PrivacyUnit.in_words("two rows", relation.value)


def test_a_problem_knows_its_unit():
    facts = {"loss": Logistic(), "l2": 0.1, "x_norm": 1.0, "n_rows": 50, "n_features": 2}
    assert Problem(**facts).privacy_unit == PrivacyUnit()
    removable = Problem(**facts, neighbours=Neighbours.ADD_REMOVE, persons=Persons(rows_per_person=3))
    assert removable.privacy_unit == PrivacyUnit(
        relation=Neighbours.ADD_REMOVE, unit="person", max_units=50, max_rows=3, combine=PersonLoss.MEAN
    )
    assert removable.unit == "person"


# The file.


def test_caps_and_charges_name_their_unit(ledger):
    PrivateLogisticRegression(**MODEL, ledger=ledger).fit(X, Y)
    events = [json.loads(event) for event, _ in links(ledger.path)]
    assert [(event["event"], event.get("unit")) for event in events] == [
        ("create", None),
        ("cap", "row"),
        ("charge", "row"),
        ("settle", None),
    ]
    assert [entry.unit for entry in Ledger(ledger.path).entries()] == ["row"]


def _charge_for(unit):
    def change(events):
        return [event | ({"unit": unit} if event["event"] == "charge" else {}) for event in events]

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda events: [*events[:2], events[1] | {"unit": "row"}, *events[2:]],
        lambda events: [*events, events[1] | {"unit": "row"}],
        lambda events: [events[0], events[1] | {"unit": "household"}, *events[2:]],
        lambda events: [events[0], {k: v for k, v in events[1].items() if k != "unit"}, *events[2:]],
        _charge_for("row"),
        _charge_for("household"),
        _charge_for(["person"]),
    ],
)
def test_histories_that_no_ledger_writes_are_refused(of_persons, change):
    of_persons.charge(gaussian(0.1), unit="person")
    assert Ledger(of_persons.path).entries()[0].unit == "person"
    rewrite(of_persons.path, change)
    with pytest.raises(InvalidInput, match="is none that a ledger writes"):
        Ledger(of_persons.path)


def test_a_unit_that_is_changed_in_the_history_is_found(of_persons):
    head = of_persons.head
    rewrite(of_persons.path, lambda events: [events[0], events[1] | {"unit": "row"}])
    with pytest.raises(InvalidInput, match="is not in its history"):
        Ledger(of_persons.path, expect=head)


# What people read.


def test_the_commands_make_and_show_it(path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    cap = ["--epsilon", "1", "--delta", "1e-6"]
    assert run(["ledger", "create", str(path), *cap, "--unit", "person"]) == 0
    assert "at δ = 1e-06 for one person, replace-one neighbours." in capsys.readouterr().out
    assert run(["ledger", "cap", str(path), "rows", *cap, "--unit", "row"]) == 0
    assert run(["ledger", "cap", str(path), "later", *cap]) == 0
    assert "for one person for 'later'" in capsys.readouterr().out
    PrivateLogisticRegression(**MODEL, ledger=Ledger(path)).fit(X, Y, groups=PATIENT)
    assert run(["ledger", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[:2] for line in shown.splitlines() if line.strip()][:6:2] == [
        ["dataset", "unit"],
        ["default", "person"],
        ["later", "person"],
    ]
    assert "charge" in shown
    assert run(["ledger", "show", str(path), "--charge", "1"]) == 0
    assert "\nunit      person\n" in capsys.readouterr().out
    assert run(["ledger", "show", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["unit"] for one in document["datasets"]] == ["person", "row", "person"]
    assert [one["unit"] for one in document["charges"]] == ["person"]


def test_tables_for_rows_have_no_column_for_the_unit(ledger, capsys):
    ledger.charge(gaussian(0.1))
    assert run(["ledger", "show", str(ledger.path)]) == 0
    assert "unit" not in capsys.readouterr().out
    assert "unit" not in ledger._repr_html_()
    ledger.charge(gaussian(0.1), unit="person")
    page = ledger._repr_html_()
    assert page.count("<th>unit</th>") == 1
    assert "<td>person</td>" in page


def test_the_figure_says_whom_a_cap_protects(of_persons):
    of_persons.set_cap("rows", 1.0, 1e-6, unit="row")
    titles = [axes.get_title(loc="left") for axes in spending_figure(of_persons.to_dict()).axes]
    assert titles[0].startswith("default, for one person: 0 of 1 spent")
    assert titles[1].startswith("rows: 0 of 1 spent")
