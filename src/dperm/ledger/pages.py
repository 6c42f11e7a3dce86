"""A ledger's file during one transaction, and the first events of a new one."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from dperm.errors import InvalidInput
from dperm.ledger.book import Book
from dperm.ledger.chain import START, Anchor, next_head
from dperm.ledger.store import append, create, history, transaction
from dperm.neighbours import Neighbours
from dperm.privacy.budget import Budget

DEFAULT = "default"
LONGEST_TEXT = 200


@dataclass(frozen=True)
class Pages:
    """What the file adds up to, and the one way to add to it."""

    path: Path
    connection: Connection
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
    return datetime.now(UTC).isoformat(timespec="seconds")


def _text(event: Mapping[str, Any]) -> str:
    """An event as it is stored and hashed."""
    return json.dumps(event, sort_keys=True, allow_nan=False)
