"""Ledgers of format version 1, which kept tables instead of a history."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dperm.ledger.book import OPEN, VOID, Book
from dperm.ledger.chain import Damaged
from dperm.ledger.pages import chained
from dperm.ledger.store import SCHEMA, SCHEMA_VERSION, append, transaction
from dperm.strict_json import parse

OLD_VERSION = 1
OLD_SCHEMA = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE datasets (name TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL)",
    "CREATE TABLE partitions (dataset TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (dataset, name))",
    "CREATE TABLE charges (id INTEGER PRIMARY KEY, time TEXT NOT NULL, dataset TEXT NOT NULL, partition TEXT, "
    "label TEXT NOT NULL, mechanism TEXT NOT NULL, cost TEXT NOT NULL, status TEXT NOT NULL)",
)


def upgrade_file(path: Path) -> int:
    """Replace the tables of a ledger by the history that they stand for, in one transaction; the number of charges.

    The ledger keeps its identity, and every charge its number and what it counts. When caps were lowered and parts
    declared was not kept, so they stand before the first charge.
    """
    path = path.resolve()
    with transaction(path, OLD_VERSION, OLD_SCHEMA) as connection:
        try:
            links = chained(_events(connection))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Damaged("its tables hold what no ledger writes") from None
        book = Book(links)
        for table in ("facts", "datasets", "partitions", "charges"):
            connection.execute(f"DROP TABLE {table}")
        for statement in SCHEMA:
            connection.execute(statement)
        for link in links:
            append(connection, *link)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return len(book.entries)


def _events(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
    made = facts["created"]
    yield {
        "event": "create",
        "time": made,
        "id": facts["id"],
        "neighbours": facts["neighbours"],
        "adaptive_costs": parse(facts["adaptive_costs"].encode()),
        "strict": False,
    }
    datasets = connection.execute("SELECT name, epsilon, delta FROM datasets ORDER BY rowid").fetchall()
    for name, epsilon, delta in datasets:
        yield {"event": "cap", "time": made, "dataset": name, "epsilon": epsilon, "delta": delta}
    fixed = parse(facts["fixed_membership"].encode())
    for dataset, _, _ in datasets:
        rows = connection.execute("SELECT name FROM partitions WHERE dataset = ? ORDER BY rowid", (dataset,))
        names = [name for (name,) in rows]
        if names:
            membership = {"fixed_membership": dataset in fixed}
            yield {"event": "partitions", "time": made, "dataset": dataset, "names": names, **membership}
    keys = ("time", "dataset", "partition", "label", "mechanism", "cost", "status")
    charges = connection.execute(f"SELECT id, {', '.join(keys)} FROM charges ORDER BY id").fetchall()
    for place, (number, *values) in enumerate(charges, 1):
        if number != place:
            raise Damaged("a charge is missing")
        charge = {**dict(zip(keys, values, strict=True)), "event": "charge"}
        charge["cost"] = parse(charge["cost"].encode())
        if charge["status"] != VOID:
            yield charge
            continue
        yield {**charge, "status": OPEN}
        yield {"event": "settle", "time": charge["time"], "charge": number, "status": VOID}
