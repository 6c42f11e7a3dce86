"""The file of a ledger: created whole, opened with suspicion, locked for every transaction."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dperm.errors import InvalidInput
from dperm.ledger.history import START, Anchor, Book, Damaged, check_chain, next_head
from dperm.neighbours import Neighbours
from dperm.privacy.budget import Budget
from dperm.strict_json import FORMATS

FORMAT = "dperm ledger"
APPLICATION_ID = 0x6450524D
LOCK_SECONDS = 120.0

SCHEMA = ("CREATE TABLE events (id INTEGER PRIMARY KEY, event TEXT NOT NULL, head TEXT NOT NULL)",)
DEFAULT = "default"
LONGEST_TEXT = 200


def create(path: Path, links: Iterable[tuple[str, str]]) -> None:
    """Write a new ledger that begins with these events and heads, in one step.

    Raises
    ------
    InvalidInput
        If the file exists by then, or pages of an earlier ledger lie beside its name.
    """
    if path.with_name(path.name + "-wal").exists() and not path.exists():
        raise InvalidInput(
            f"{path.name} is missing but its -wal file is there: a ledger was lost. Restore it, or choose another name."
        )
    descriptor, name = tempfile.mkstemp(prefix=path.name, suffix=".new", dir=path.parent)
    os.close(descriptor)
    try:
        with closing(_connect(Path(name))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMATS[FORMAT]}")
            for event, head in links:
                append(connection, event, head)
            connection.execute("COMMIT")
        try:
            os.link(name, path)  # unlike a rename, it never replaces a file
        except FileExistsError:
            raise InvalidInput(
                f"{path.name} exists already. Open it with Ledger(path), or choose another name for a new ledger."
            ) from None
        _sync_folder(path.parent)
    finally:
        os.unlink(name)


def append(connection: sqlite3.Connection, event: str, head: str) -> None:
    connection.execute("INSERT INTO events (event, head) VALUES (?, ?)", (event, head))


def history(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """All events with their heads, in order, once it is known that the chain holds."""
    links = connection.execute("SELECT event, head FROM events ORDER BY id").fetchall()
    if not all(isinstance(text, str) for link in links for text in link):
        raise Damaged("its history is not text")
    check_chain(links)
    return links


@contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """The whole file, locked against every other process; committed to disk at the end, or not at all.

    A connection lives for one transaction, so that it is never shared by threads or inherited by a fork, and never
    goes on writing to a file that has been deleted.
    """
    if not path.exists():
        raise InvalidInput(
            f"The ledger {path} is gone. What it counted is still spent, so it is not started anew: restore the file, "
            "or create a ledger under another name for other data."
        )
    try:
        with closing(_connect(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            _check_schema(connection)
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise InvalidInput(f"The ledger {path} cannot be used now: {error}.") from error
    except (sqlite3.Error, UnicodeError, Damaged) as error:
        raise InvalidInput(f"{path} is not a usable ledger: {error}.") from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=LOCK_SECONDS, isolation_level=None
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()  # left open it would keep its locks, and spoil the file for the next one
        raise
    return connection


def _check_schema(connection: sqlite3.Connection) -> None:
    """Exactly our tables and no trigger, view or index beside them: the file may come from anyone."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise Damaged("it was not written by dperm")
    if version != FORMATS[FORMAT]:
        raise Damaged(f"it has version {version} of the format, and version {FORMATS[FORMAT]} is needed here")
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    if sorted(str(sql) for (sql,) in found) != sorted(SCHEMA):
        raise Damaged("its tables are not those of a ledger")
    if connection.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
        raise Damaged("its pages are damaged")


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a loss of power, where folders can be synchronised."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Pages:
    """What the file adds up to, and the one way to add to it."""

    path: Path
    connection: sqlite3.Connection
    book: Book

    def write(self, event: Mapping[str, Any]) -> None:
        text = _text(event)
        head = next_head(self.book.head, text)
        self.book.take(text, head)
        append(self.connection, text, head)

    def check(self, anchor: Anchor) -> None:
        problem = self.book.why_not(anchor)
        if problem is not None:
            raise InvalidInput(f"{self.path} does not match: {problem} What was spent stays spent.")


@contextmanager
def opened(path: Path) -> Iterator[Pages]:
    """The whole ledger, locked, with its history checked; what is written is on disk when the block ends."""
    with transaction(path) as connection:
        yield Pages(path, connection, Book(history(connection)))


def begin(
    path: Path, cap: Budget, neighbours: Neighbours, adaptive_costs: bool, strict: bool, unit: str
) -> None:
    """Write a new ledger with an identity of its own."""
    made = {
        "event": "create",
        "time": now(),
        "id": secrets.token_hex(16),
        "neighbours": neighbours.value,
        "adaptive_costs": adaptive_costs,
        "strict": strict,
    }
    links, head = [], START
    for event in (made, cap_event(DEFAULT, cap, unit)):
        text = _text(event)
        head = next_head(head, text)
        links.append((text, head))
    create(path, links)


def cap_event(dataset: str, cap: Budget, unit: str) -> dict[str, Any]:
    return {"event": "cap", "time": now(), "dataset": dataset, **asdict(cap), "unit": unit}


def check_text(name: str, text: object, empty: bool = False) -> None:
    """Refuse a name or label that an event cannot hold."""
    if not isinstance(text, str) or len(text) > LONGEST_TEXT or not (text or empty):
        raise InvalidInput(f"{name} must be text of at most {LONGEST_TEXT} characters; got {text!r}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} holds half a character, which no file can keep.") from None


def now() -> str:
    """To the microsecond: copies of a ledger that are charged alike then part ways in their hashes."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _text(event: Mapping[str, Any]) -> str:
    """An event as it is stored and hashed."""
    return json.dumps(event, sort_keys=True, allow_nan=False)
