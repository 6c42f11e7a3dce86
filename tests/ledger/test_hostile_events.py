"""Histories that no ledger writes, with all their hashes right."""

import json
import sqlite3
from contextlib import closing

import pytest

from dperm import Ledger
from dperm.errors import InvalidInput
from dperm.ledger.history import START, next_head
from dperm.privacy.cost import Cost


def history(path):
    with closing(sqlite3.connect(path)) as connection:
        return [json.loads(text) for (text,) in connection.execute("SELECT event FROM events ORDER BY id")]


def write(path, texts):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM events")
        head = START
        for text in texts:
            head = next_head(head, text)
            connection.execute("INSERT INTO events (event, head) VALUES (?, ?)", (text, head))


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "budget.db", epsilon=1.0, delta=1e-6, adaptive_costs=True)
    made.pay(Cost.gaussian(0.1), lambda: None, lambda rows: None)
    return made


def changed(events, place, **fields):
    return [{**event, **fields} if number == place else event for number, event in enumerate(events)]


CHANGES = {
    "an unknown key": lambda events: changed(events, 1, note="x"),
    "no time": lambda events: [{k: v for k, v in event.items() if k != "time"} for event in events],
    "a truth value for a number": lambda events: changed(events, 3, charge=True),
    "no creation": lambda events: [event for event in events if event["event"] != "create"],
    "a charge first": lambda events: [events[2], *events],
    "created twice": lambda events: [*events, events[0]],
    "a price that the terms refuse": lambda events: changed(
        events, 2, cost={"parts": [{"kind": "point", "epsilon": 0.1, "delta": 0.0}]}
    ),
    "no price": lambda events: changed(events, 2, cost={"parts": [{"kind": "unbounded", "reason": "none"}]}),
    "a list": lambda events: [*events, []],
    "no event": lambda events: [*events, {"event": []}],
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_event_that_no_ledger_writes_is_refused(ledger, change):
    events = history(ledger.path)
    assert [event["event"] for event in events] == ["create", "cap", "charge", "settle"]
    write(ledger.path, [json.dumps(event, sort_keys=True) for event in events])
    Ledger(ledger.path)  # the hashes are right
    write(ledger.path, [json.dumps(event, sort_keys=True) for event in CHANGES[change](events)])
    with pytest.raises(InvalidInput, match="not a usable ledger"):
        Ledger(ledger.path)


def test_an_event_with_a_key_twice_is_refused(ledger):
    texts = [json.dumps(event, sort_keys=True) for event in history(ledger.path)]
    texts[1] = texts[1].replace('"epsilon": 1.0', '"epsilon": 1.0, "epsilon": 9.0')
    write(ledger.path, texts)
    with pytest.raises(InvalidInput, match="not a usable ledger"):
        Ledger(ledger.path)
