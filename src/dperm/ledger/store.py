"""The file of a ledger: created whole, opened with suspicion, locked for every transaction."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from dperm.errors import InvalidInput

APPLICATION_ID = 0x6450524D
SCHEMA_VERSION = 1
LOCK_SECONDS = 120.0

SCHEMA = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE datasets (name TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL)",
    "CREATE TABLE partitions (dataset TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (dataset, name))",
    "CREATE TABLE charges (id INTEGER PRIMARY KEY, time TEXT NOT NULL, dataset TEXT NOT NULL, partition TEXT, "
    "label TEXT NOT NULL, mechanism TEXT NOT NULL, cost TEXT NOT NULL, status TEXT NOT NULL)",
)


def create(path: Path, facts: Mapping[str, str], dataset: str, epsilon: float, delta: float) -> bool:
    """Write a new ledger in one step; False, and nothing done, if the file exists by then.

    Raises
    ------
    InvalidInput
        If pages of an earlier ledger lie beside the name.
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
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
            connection.execute("INSERT INTO datasets VALUES (?, ?, ?)", (dataset, epsilon, delta))
            connection.execute("COMMIT")
        try:
            os.link(name, path)  # unlike a rename, it never replaces a file
        except FileExistsError:
            return False
        _sync_folder(path.parent)
        return True
    finally:
        os.unlink(name)


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
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not a usable ledger: {error}.") from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=LOCK_SECONDS, isolation_level=None
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _check_schema(connection: sqlite3.Connection) -> None:
    """Exactly our tables and no trigger, view or index beside them: the file may come from anyone."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise sqlite3.DatabaseError("it was not written by dperm")
    if version != SCHEMA_VERSION:
        raise sqlite3.DatabaseError(
            f"it has version {version}, and this library reads version {SCHEMA_VERSION}"
        )
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    if sorted(str(sql) for (sql,) in found) != sorted(SCHEMA):
        raise sqlite3.DatabaseError("its tables are not those of a ledger")
    if connection.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
        raise sqlite3.DatabaseError("its pages are damaged")


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a loss of power, where folders can be synchronised."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
