"""The file of a ledger, and what is written to it: created whole, opened with suspicion, locked for a transaction."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dperm.errors import BudgetExceeded, InvalidInput, NotCertified, Unsupported
from dperm.ledger.history import (
    START,
    Anchor,
    Book,
    Damaged,
    Entry,
    check_chain,
    next_head,
    refusal,
)
from dperm.privacy.budget import Budget
from dperm.privacy.cost import Cost
from dperm.strict_json import FORMATS
from dperm.unit import Neighbours, PrivacyUnit, parse_unit

FORMAT = "dperm ledger"
APPLICATION_ID = 0x6450524D
LOCK_SECONDS = 120.0

SCHEMA = "CREATE TABLE events (id INTEGER PRIMARY KEY, event TEXT NOT NULL, head TEXT NOT NULL)"
DEFAULT = "default"
LONGEST_TEXT = 200


def create_file(
    path: Path, cap: Budget, neighbours: Neighbours, adaptive_costs: bool, strict: bool, unit: str
) -> None:
    """Write a new ledger with an identity of its own, in one step.

    Raises
    ------
    InvalidInput
        If the file exists by then, or pages of an earlier ledger lie beside its name.
    """
    made = {
        "event": "create",
        "time": now(),
        "id": secrets.token_hex(16),
        "neighbours": neighbours.value,
        "adaptive_costs": adaptive_costs,
        "strict": strict,
    }
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
            connection.execute(SCHEMA)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMATS[FORMAT]}")
            head = START
            for event in (made, cap_event(DEFAULT, cap, unit)):
                text = _text(event)
                head = next_head(head, text)
                append(connection, text, head)
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
    if found != [(SCHEMA,)]:
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


_WAY_OUT = (
    "Every fit is a release, those inside GridSearchCV or cross_val_score too. To tune, use PrivateSearchCV, which "
    "pays for a whole search at once; otherwise fit once, or ask for a smaller epsilon."
)


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A charge that is asked for, for a release that protects this unit."""

    cost: Cost
    protects: PrivacyUnit
    dataset: str
    partition: str | None
    kind: str
    label: str
    mechanism: str
    status: str

    def _check_terms(self, pages: Pages) -> None:
        """Refuse what a ledger with the terms of this one cannot count, whatever is left."""
        relation = pages.book.neighbours
        for name in ("kind", "label", "mechanism"):
            check_text(name, getattr(self, name), empty=True)
        if self.protects.relation is not relation:
            raise Unsupported(
                f"{pages.path.name} counts under {relation.value}, and this release is private under "
                f"{self.protects.relation.value}. Fit with neighbours={relation.value!r}, or keep a second ledger for "
                "the other relation."
            )
        if self.cost.why_unbounded is not None:
            raise NotCertified(
                f"A ledger takes no release without a price: {self.cost.why_unbounded} Leave ledger=None for an "
                "experiment on public data."
            )
        if pages.book.adaptive_costs and not self.cost.only_gaussian:
            raise Unsupported(
                "This ledger lets prices depend on earlier results, which is proved for Gaussian charges only. Use a "
                "mechanism with such a price, for example dp-gd, ssp or output, or a ledger with adaptive_costs=False."
            )

    def write(self, pages: Pages) -> Entry:
        """Write the charge beside all earlier ones, or refuse it and write nothing."""
        self._check_terms(pages)
        why = refusal(self.protects, pages.book.unit(self.dataset))
        if why is not None:
            raise Unsupported(
                f"Refused, and nothing was released: {self.dataset!r} in {pages.path.name} {why}"
            )
        self._check_budget(pages)
        words = ("dataset", "partition", "kind", "label", "mechanism", "status")
        about = {name: getattr(self, name) for name in words}
        price = {"cost": self.cost.to_dict(), "unit": self.protects.unit}
        pages.write({"event": "charge", "time": now(), **about, **price})
        return pages.book.entries[-1]

    def _check_budget(self, pages: Pages) -> None:
        book = pages.book
        if self.partition is not None:
            book.check_partition(self.dataset, self.partition)
        cap, total = book.cap(self.dataset), book.in_the_way(self.cost, self.dataset, self.partition)
        if total is not None:
            raise BudgetExceeded(
                "Refused, and nothing was released: this would cost epsilon = "
                f"{self.cost.epsilon(cap.delta):.4g}, and of the cap of {cap.epsilon:g} for {self.dataset!r} in "
                f"{pages.path.name}, "
                f"{total.epsilon(cap.delta):.4g} is spent (all at delta = {cap.delta:g}). {_WAY_OUT}"
            )


def note(pages: Pages, number: int, file: str, sha256: str) -> None:
    """Write down where what a charge paid for was put, unless that is known already."""
    check_text("file", file)
    entry = pages.book.entries[number - 1]
    if entry.sha256 not in (None, sha256):
        raise InvalidInput(
            f"charge {number} paid for the model with the digest {entry.sha256}, and {file} has {sha256}: a charge "
            "pays for one model."
        )
    if file not in entry.files:
        pages.write({"event": "note", "time": now(), "charge": number, "file": file, "sha256": sha256})


def declare_cap(pages: Pages, dataset: str, cap: Budget, unit: str | None = None) -> None:
    """The first cap of a dataset and whom it protects, or a lower cap that is not spent already."""
    new = dataset not in pages.book.caps
    kept = pages.book.unit(DEFAULT if new else dataset)
    chosen = kept if unit is None else parse_unit(unit)
    if not new:
        if chosen != kept:
            raise InvalidInput(
                f"{dataset!r} is kept for one {kept}, which is fixed when its first cap is set; one {chosen} was asked "
                "for."
            )
        old = pages.book.cap(dataset)
        if cap.epsilon > old.epsilon or cap.delta > old.delta:
            raise InvalidInput(
                f"The cap of {dataset!r} is {old} and can only be lowered; {cap} was asked for."
            )
        if not all(total.fits(cap) for total in pages.book.totals(dataset)):
            raise InvalidInput(f"More than {cap} has been spent on {dataset!r} already.")
    pages.write(cap_event(dataset, cap, chosen))


def declare_partitions(pages: Pages, dataset: str, names: Sequence[str], fixed_membership: bool) -> None:
    """Cut a dataset, once, into parts that can be charged side by side."""
    book = pages.book
    unit = book.unit(dataset)
    if book.neighbours is Neighbours.REPLACE_ONE and not fixed_membership:
        raise InvalidInput(
            f"Under replace-one a new {unit} may belong to another part than the old one, so parts cannot be charged "
            "side by side. Say fixed_membership=True if membership is public and fixed, use a ledger with "
            "neighbours='add-remove', or charge the dataset as a whole."
        )
    if isinstance(names, str) or len(set(names)) < max(len(names), 1):
        raise InvalidInput("names must be a list of different names, at least one.")
    for name in names:
        check_text("partition", name)
    if dataset in book.parts:
        raise InvalidInput(
            f"{dataset!r} has its partitions already: {book.parts[dataset]}. A second way to cut "
            "the same rows would not be disjoint from the first."
        )
    fixed = {"fixed_membership": bool(fixed_membership)}
    pages.write({"event": "partitions", "time": now(), "dataset": dataset, "names": list(names), **fixed})
