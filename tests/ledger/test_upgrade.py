"""Ledgers of format version 1: refused with a way out, and brought over with all that they count."""

import json
import sqlite3
from contextlib import closing

import pytest

from dperm import Budget, Ledger
from dperm.cli.app import run
from dperm.errors import InvalidInput
from dperm.ledger.store import APPLICATION_ID
from dperm.ledger.upgrade import OLD_SCHEMA, upgrade_file
from dperm.privacy.cost import Cost, compose

COSTS = [Cost.gaussian(0.05), Cost.gaussian(0.1), Cost.gaussian(0.02), Cost.gaussian(0.03)]
STATUS = ["spent", "void", "open", "spent"]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "budget.db"
    with closing(sqlite3.connect(path)) as connection:
        for statement in OLD_SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        facts = {
            "id": "ab" * 16,
            "created": "2026-01-02T03:04:05+00:00",
            "neighbours": "replace-one",
            "adaptive_costs": "true",
            "fixed_membership": '["default"]',
        }
        connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
        connection.executemany(
            "INSERT INTO datasets VALUES (?, ?, ?)", [("default", 1.0, 1e-6), ("survey", 0.5, 1e-7)]
        )
        connection.executemany("INSERT INTO partitions VALUES ('default', ?)", [("north",), ("south",)])
        for number, (cost, status) in enumerate(zip(COSTS, STATUS, strict=True), 1):
            values = (number, "2026-01-03T00:00:00+00:00", "default", None, "fit", "dp-gd")
            connection.execute(
                "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, json.dumps(cost.to_dict()), status),
            )
        connection.commit()
    return path


def test_an_old_ledger_is_refused_with_a_way_out_and_left_alone(path):
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="version 1 of the format.*dperm ledger upgrade"):
        Ledger(path)
    assert path.read_bytes() == before


def test_an_upgrade_keeps_everything_that_counts(path, capsys):
    assert run(["ledger", "upgrade", str(path)]) == 0
    assert "with its 4 charges" in capsys.readouterr().out
    ledger = Ledger(path)
    assert ledger.id == "ab" * 16
    assert [entry.status for entry in ledger.entries()] == STATUS
    assert [entry.cost for entry in ledger.entries()] == COSTS
    counted = [cost for cost, status in zip(COSTS, STATUS, strict=True) if status != "void"]
    assert ledger.spent() == compose(counted).epsilon(1e-6)
    assert (ledger.cap(), ledger.cap("survey")) == (Budget(1.0, 1e-6), Budget(0.5, 1e-7))
    assert ledger.adaptive_costs
    assert not ledger.strict
    assert ledger.to_dict()["partitions"] == {
        "default": {"names": ["north", "south"], "fixed_membership": True}
    }
    ledger.charge(Cost.gaussian(0.01))
    with pytest.raises(InvalidInput, match="version 2 of the format"):
        upgrade_file(path)
    assert len(ledger.entries()) == 5


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM charges WHERE id = 2",
        "UPDATE charges SET cost = '{}'",
        "UPDATE charges SET status = 'forgiven'",
        "DELETE FROM facts WHERE name = 'neighbours'",
        "UPDATE datasets SET epsilon = 'much'",
        "CREATE TRIGGER forget AFTER INSERT ON charges BEGIN DELETE FROM charges; END",
    ],
)
def test_a_damaged_old_ledger_is_not_upgraded(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="not a usable ledger"):
        upgrade_file(path)
    assert path.read_bytes() == before
