"""The ledger as a file: caps, datasets, partitions, copies, and files that are not what they seem."""

import copy
import json
import pickle
import sqlite3
import threading
import traceback
import warnings

import numpy as np
import pytest

from dperm import Budget, Ledger
from dperm.errors import BudgetExceeded, DpermError, InvalidInput, NotCertified, Unsupported
from dperm.ledger.ledger import REDACTED
from dperm.privacy import gaussian_mu
from dperm.privacy.cost import Cost, compose

DELTA = 1e-6


def gaussian(epsilon):
    return Cost.gaussian(gaussian_mu(Budget(epsilon, DELTA)))


# Charging.


def test_charges_add_up_as_their_composition_and_stop_at_the_cap(ledger):
    assert ledger.spent() == 0.0
    costs = [gaussian(0.4), gaussian(0.3), gaussian(0.5)]
    for cost in costs:
        ledger.charge(cost, label="test", mechanism="by hand")
    assert ledger.spent() == pytest.approx(compose(costs).epsilon(DELTA), rel=1e-12)
    before = ledger.entries()
    with pytest.raises(BudgetExceeded, match="PrivateSearchCV"):
        ledger.charge(gaussian(0.9))
    assert ledger.entries() == before
    assert [entry.cost for entry in before] == costs
    assert {entry.status for entry in before} == {"spent"}


def test_the_whole_cap_can_be_spent_and_then_nothing(ledger):
    assert ledger.remaining() == pytest.approx(1.0, rel=1e-6)
    ledger.charge(gaussian(1.0))
    assert ledger.spent() == pytest.approx(1.0, rel=1e-9)
    assert ledger.remaining() == 0.0
    with pytest.raises(BudgetExceeded):
        ledger.charge(gaussian(0.05))


@pytest.mark.parametrize("first", [gaussian(0.6), Cost.point(0.4, 1e-8), Cost.concentrated(0.01)])
def test_what_remains_is_accepted_and_little_more_is_not(ledger, first):
    ledger.charge(first)
    left = ledger.remaining()
    assert 0.3 < left < 1.0
    with pytest.raises(BudgetExceeded):
        ledger.charge(gaussian(left * 1.01))
    ledger.charge(gaussian(left))


def test_a_cap_without_delta_takes_pure_charges(path):
    ledger = Ledger.create(path, epsilon=0.3, delta=0.0)
    for _ in range(3):
        ledger.charge(Cost.point(0.1, 0.0))
    assert ledger.remaining() == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(BudgetExceeded):
        ledger.charge(Cost.point(0.001, 0.0))


def test_what_has_no_price_is_refused(ledger):
    with pytest.raises(NotCertified, match="not private"):
        ledger.charge(Cost.unbounded("it is not private."))
    assert ledger.entries() == []


def test_a_refusal_is_no_ordinary_exception():
    """Scikit-learn catches every Exception of a fit and goes on."""
    assert not issubclass(BudgetExceeded, Exception)
    assert not issubclass(BudgetExceeded, DpermError)
    assert str(pickle.loads(pickle.dumps(BudgetExceeded("why")))) == "why"


def test_another_relation_is_refused_with_a_way_out(ledger):
    with pytest.raises(Unsupported, match="neighbours='replace-one'"):
        ledger.charge(gaussian(0.1), neighbours="add-remove")
    ledger.charge(gaussian(0.1), neighbours="replace-one")
    assert len(ledger.entries()) == 1


def test_prices_chosen_from_results_need_gaussian_charges(path):
    ledger = Ledger.create(path, epsilon=1.0, delta=DELTA, adaptive_costs=True)
    ledger.charge(gaussian(0.3))
    with pytest.raises(Unsupported, match="Gaussian charges only"):
        ledger.charge(Cost.point(0.1, 0.0))
    with pytest.raises(InvalidInput, match="adaptive_costs"):
        Ledger(path, adaptive_costs=False)


# Caps and datasets.


def test_opening_again_keeps_the_caps(path, ledger):
    ledger.charge(gaussian(0.5))
    assert Ledger(path).cap() == Budget(1.0, DELTA)
    assert Ledger(path, epsilon=1.0, delta=DELTA).spent() == ledger.spent()
    with pytest.raises(InvalidInput, match="exists already with cap"):
        Ledger(path, epsilon=2.0, delta=DELTA)
    with pytest.raises(InvalidInput, match="exists already with neighbours"):
        Ledger(path, neighbours="add-remove")
    with pytest.raises(InvalidInput, match="both"):
        Ledger(path, epsilon=1.0)


@pytest.mark.parametrize("caps", [{}, {"epsilon": 1.0, "delta": DELTA}])
def test_opening_never_creates(path, caps):
    for opens in (Ledger, lambda path, **caps: Ledger.open(path)):
        with pytest.raises(InvalidInput, match="Ledger.create"):
            opens(path, **caps)
    assert not path.exists()


def test_a_new_ledger_is_asked_for_and_never_replaces_one(path):
    with pytest.raises(InvalidInput, match="needs epsilon and delta"):
        Ledger(path, create=True)
    with pytest.raises(InvalidInput, match="no history"):
        Ledger(path, epsilon=1.0, delta=DELTA, create=True, expect="0" * 64)
    made = Ledger(path, epsilon=1.0, delta=DELTA, create=True)
    made.charge(gaussian(0.5))
    for create in (
        lambda: Ledger(path, epsilon=1.0, delta=DELTA, create=True),
        lambda: Ledger.create(path, epsilon=1.0, delta=DELTA),
    ):
        with pytest.raises(InvalidInput, match="exists already"):
            create()
    assert len(Ledger(path).entries()) == 1
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_caps_go_down_only(ledger):
    ledger.charge(gaussian(0.5))
    with pytest.raises(InvalidInput, match="only be lowered"):
        ledger.set_cap("default", 1.5, DELTA)
    with pytest.raises(InvalidInput, match="has been spent"):
        ledger.set_cap("default", 0.4, DELTA)
    ledger.set_cap("default", 0.6, DELTA)
    with pytest.raises(BudgetExceeded):
        ledger.charge(gaussian(0.5))


def test_each_dataset_has_its_own_budget_and_none_appears_by_itself(ledger):
    with pytest.raises(InvalidInput, match="set_cap"):
        ledger.charge(gaussian(0.5), dataset="survey")
    ledger.set_cap("survey", 0.7, DELTA)
    ledger.charge(gaussian(0.5), dataset="survey")
    with pytest.raises(BudgetExceeded):
        ledger.charge(gaussian(0.6), dataset="survey")
    assert ledger.spent() == 0.0
    assert ledger.spent("survey") == pytest.approx(0.5, rel=1e-6)
    assert [entry.dataset for entry in ledger.entries("survey")] == ["survey"]
    assert ledger.datasets() == ["default", "survey"]


# Partitions.


def test_partitions_cost_their_largest_part_beside_the_shared_charges(path):
    ledger = Ledger.create(path, epsilon=1.0, delta=DELTA, neighbours="add-remove")
    ledger.declare_partitions(["north", "south"])
    ledger.charge(gaussian(0.4))
    ledger.charge(gaussian(0.7), partition="north")
    ledger.charge(gaussian(0.6), partition="south")
    largest = compose([gaussian(0.4), gaussian(0.7)]).epsilon(DELTA)
    assert ledger.spent() == pytest.approx(largest, rel=1e-12)
    assert (
        compose([gaussian(0.4), gaussian(0.7), gaussian(0.6)]).epsilon(DELTA) > 1.0
    )  # alone they would not fit
    south = ledger.partition("south")
    assert south.spent() < ledger.spent()
    assert south.remaining() > ledger.remaining()
    with pytest.raises(BudgetExceeded):
        ledger.charge(gaussian(0.6), partition="north")
    with pytest.raises(BudgetExceeded):  # a shared charge has to fit beside the largest part
        ledger.charge(gaussian(0.65))
    south.charge(gaussian(0.5))


def test_under_replace_one_membership_has_to_be_fixed(ledger):
    with pytest.raises(InvalidInput, match="fixed_membership=True"):
        ledger.declare_partitions(["north", "south"])
    with pytest.raises(InvalidInput, match="not a declared partition"):
        ledger.charge(gaussian(0.1), partition="north")
    ledger.declare_partitions(["north", "south"], fixed_membership=True)
    for name in ("north", "south"):
        ledger.partition(name).charge(gaussian(0.9))
    assert ledger.spent() == pytest.approx(0.9, rel=1e-6)
    assert ledger.to_dict()["partitions"] == {
        "default": {"names": ["north", "south"], "fixed_membership": True}
    }


def test_rows_are_cut_one_way_only(ledger):
    ledger.declare_partitions(["a", "b"], fixed_membership=True)
    with pytest.raises(InvalidInput, match="already"):
        ledger.declare_partitions(["c"], fixed_membership=True)
    with pytest.raises(InvalidInput, match="not a declared"):
        ledger.partition("c")
    with pytest.raises(InvalidInput, match="'a', not 'b'"):
        ledger.partition("a").charge(gaussian(0.1), partition="b")


@pytest.mark.parametrize("names", ["ab", ["a", "a"], [], [""], [3]])
def test_partition_names_are_checked(ledger, names):
    with pytest.raises(InvalidInput):
        ledger.declare_partitions(names, fixed_membership=True)


# Void.


def test_a_charge_is_void_when_the_form_was_refused_and_only_then(ledger):
    seen = []

    def fail(error):
        def work(*rows):
            seen.append([(entry.status, round(ledger.spent(), 6)) for entry in ledger.entries()][-1])
            raise error

        return work

    with pytest.raises(ValueError, match="form"):
        ledger.pay(gaussian(0.5), fail(ValueError("form")), fail(AssertionError))
    assert seen == [("open", 0.5)]  # it counted already
    assert ledger.spent() == 0.0
    with pytest.raises(KeyboardInterrupt):
        ledger.pay(gaussian(0.3), fail(KeyboardInterrupt), fail(AssertionError))
    with pytest.raises(ValueError, match="training"):
        ledger.pay(gaussian(0.3), list, fail(ValueError("training")))
    assert seen[-1][0] == "spent"
    citation, result = ledger.pay(gaussian(0.1), lambda: 3, lambda rows: rows + 1)
    last = ledger.entries()[-1]
    assert (citation, result) == (f"ledger {ledger.id}, charge 4, head {last.head}", 4)
    assert [entry.status for entry in ledger.entries()] == ["void", "open", "spent", "spent"]
    assert ledger.spent() == pytest.approx(
        compose([gaussian(0.3), gaussian(0.3), gaussian(0.1)]).epsilon(DELTA)
    )


def test_no_charge_can_be_made_void_later(ledger):
    number = ledger.charge(gaussian(0.5))
    ledger._settle(number, "void")
    assert [entry.status for entry in ledger.entries()] == ["spent"]


# Strict.


def boom(*rows):
    raise KeyError("row 7")


def warn(*rows):
    warnings.warn("row 7", RuntimeWarning, stacklevel=1)
    return rows


@pytest.mark.parametrize(("read", "train"), [(boom, boom), (list, boom), (list, lambda rows: 1 // 0)])
def test_a_strict_ledger_keeps_the_charge_and_gives_one_message(path, read, train):
    strict = Ledger.create(path, epsilon=1.0, delta=DELTA, strict=True)
    with pytest.raises(InvalidInput) as caught:
        strict.pay(gaussian(0.5), read, train)
    error = caught.value
    assert (type(error), str(error)) == (InvalidInput, REDACTED)
    assert (error.__cause__, error.__context__) == (None, None)
    assert "row 7" not in "".join(traceback.format_exception(error))
    assert [entry.status for entry in strict.entries()] == ["spent"]
    with pytest.raises(KeyboardInterrupt):
        strict.pay(gaussian(0.1), raise_interrupt, boom)


def raise_interrupt():
    raise KeyboardInterrupt


def test_a_strict_ledger_lets_no_warning_through(path):
    strict = Ledger.create(path, epsilon=1.0, delta=DELTA, strict=True)
    ordinary = Ledger.create(path.with_name("other.db"), epsilon=1.0, delta=DELTA)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        strict.pay(gaussian(0.1), warn, warn)
        assert not seen
        ordinary.pay(gaussian(0.1), warn, warn)  # the control
        assert len(seen) == 2


def test_strict_is_for_ever(path):
    Ledger.create(path, epsilon=1.0, delta=DELTA, strict=True)
    assert Ledger(path).strict
    assert Ledger(path).to_dict()["strict"]
    with pytest.raises(InvalidInput, match="strict = True, and False"):
        Ledger(path, strict=False)


# One file, many handles.


def test_every_copy_means_the_same_file(path, ledger, monkeypatch, tmp_path):
    others = [copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger)), Ledger(path)]
    for other in others:
        other.charge(gaussian(0.1))
        assert other == ledger
        assert hash(other) == hash(ledger)
        assert other.id == ledger.id
    assert len(ledger.entries()) == 4
    ledger.declare_partitions(["a"], fixed_membership=True)
    assert copy.deepcopy(ledger.partition("a")) != ledger
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    relative = Ledger("budget.db")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(relative.entries()) == 4


def test_threads_share_the_budget(ledger):
    refused = []

    def spend():
        try:
            ledger.charge(gaussian(0.6))
        except BudgetExceeded:
            refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = compose([gaussian(0.6)] * len(ledger.entries()))
    assert len(ledger.entries()) + len(refused) == 6
    assert refused
    assert total.fits(Budget(1.0, DELTA))


def test_export_holds_everything(ledger, tmp_path):
    ledger.charge(gaussian(0.5), label="first")
    ledger.export(tmp_path / "ledger.json")
    document = json.loads((tmp_path / "ledger.json").read_text())
    assert document["id"] == ledger.id
    assert document["datasets"][0]["spent"] == pytest.approx(0.5, rel=1e-6)
    assert Cost.from_dict(document["charges"][0]["cost"]) == gaussian(0.5)
    assert document["charges"][0]["label"] == "first"


# Files that are not what they seem.


def test_a_file_deleted_under_a_handle_is_not_started_anew(path, ledger):
    ledger.charge(gaussian(0.9))
    path.unlink()
    for action in (
        ledger.spent,
        lambda: ledger.charge(gaussian(0.1)),
        lambda: pickle.loads(pickle.dumps(ledger)).spent(),
    ):
        with pytest.raises(InvalidInput, match="is gone"):
            action()
    assert not path.exists()


def test_another_ledger_in_its_place_is_noticed(path, ledger):
    ledger.charge(gaussian(0.9))
    path.unlink()
    Ledger.create(path, epsilon=1.0, delta=DELTA)
    with pytest.raises(InvalidInput, match="another ledger"):
        ledger.charge(gaussian(0.5))


def test_an_older_copy_in_its_place_is_noticed(path, ledger):
    ledger.charge(gaussian(0.2))
    old = path.read_bytes()
    ledger.charge(gaussian(0.7))
    path.write_bytes(old)
    with pytest.raises(InvalidInput, match="lost charges"):
        ledger.charge(gaussian(0.5))
    Ledger(path).charge(gaussian(0.1))  # as many charges as before, and another history
    with pytest.raises(InvalidInput, match="lost charges"):
        ledger.charge(gaussian(0.1))


def test_a_lost_ledger_is_not_replaced_beside_its_own_remains(path):
    path.with_name("budget.db-wal").write_bytes(b"pages")
    with pytest.raises(InvalidInput, match="lost"):
        Ledger.create(path, epsilon=1.0, delta=DELTA)


def spoil_header(data):
    return b"no database at all, but long enough to be one" * 30


def spoil_page(data):
    return data[:4096] + bytes(4096) + data[8192:]


@pytest.mark.parametrize("spoil", [spoil_header, spoil_page, lambda data: data[:5000], lambda data: b""])
def test_a_damaged_file_is_refused_and_left_alone(path, ledger, spoil):
    ledger.charge(gaussian(0.5))
    path.write_bytes(spoil(path.read_bytes()))
    before = path.read_bytes()
    for caps in ({}, {"epsilon": 1.0, "delta": DELTA}):
        with pytest.raises(InvalidInput):
            Ledger(path, **caps)
    with pytest.raises(InvalidInput):
        ledger.spent()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER forget AFTER INSERT ON events BEGIN DELETE FROM events; END",
        "CREATE VIEW events2 AS SELECT * FROM events",
        "CREATE TABLE extra (a)",
        "PRAGMA user_version = 3",
        "PRAGMA application_id = 5",
        "DELETE FROM events",
        "DELETE FROM events WHERE id = 2",
        "UPDATE events SET id = 10 WHERE id = 2",
        "UPDATE events SET event = replace(event, '1.0', '9.0')",
        "UPDATE events SET event = x'00ff' WHERE id = 3",
        "UPDATE events SET head = x'00ff' WHERE id = 3",
        "UPDATE events SET head = (SELECT head FROM events WHERE id = 1) WHERE id = 3",
    ],
)
def test_a_file_with_foreign_contents_is_refused(path, ledger, statement):
    ledger.charge(gaussian(0.5))
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(InvalidInput):
        Ledger(path).spent()


def test_a_refused_file_leaves_nothing_open(path, ledger):
    """A connection that stayed open would keep the log of the next charge beside the file, and in it the charge."""
    whole = path.read_bytes()
    path.write_bytes(whole[:3000] + bytes(7) + whole[3000:])
    with pytest.raises(InvalidInput, match="malformed") as refusal:
        ledger.spent()
    path.write_bytes(whole)
    ledger.charge(gaussian(0.5))
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert refusal.value.__cause__ is not None  # kept until here, with all that hangs on it


def test_any_other_file_is_refused(tmp_path):
    database = tmp_path / "other.db"
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE mine (a)")
    connection.close()
    folder = tmp_path / "folder"
    folder.mkdir()
    array = tmp_path / "array.npy"
    np.save(array, np.zeros(1000))
    for path in (database, folder, array):
        with pytest.raises(InvalidInput):
            Ledger(path)
        with pytest.raises(InvalidInput):
            Ledger(path, epsilon=1.0, delta=DELTA)
        with pytest.raises(InvalidInput, match="exists already"):
            Ledger.create(path, epsilon=1.0, delta=DELTA)
