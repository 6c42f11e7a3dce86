"""The history of a ledger as a chain of hashes, and points of it that are kept outside of the file.

Every event is stored as text beside its head, the hash of the head before it and of that text. Whoever knows one head
therefore knows all that happened up to it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from dperm.errors import InvalidInput

START = "0" * 64
_HEAD = re.compile(r"[0-9a-f]{64}")
_CITATION = re.compile(r"ledger ([0-9a-f]{32}), charge ([1-9][0-9]{0,17}), head ([0-9a-f]{64})")


class Damaged(Exception):
    """A ledger's file holds what no ledger writes."""


def next_head(head: str, event: str) -> str:
    """The head after one more event. Heads have one length, so no two histories are hashed as the same text."""
    return hashlib.sha256(f"{head}\n{event}".encode()).hexdigest()


def check_chain(links: Iterable[tuple[str, str]]) -> None:
    """Raise unless every head follows from the one before it and its event."""
    head = START
    for place, (event, found) in enumerate(links, 1):
        head = next_head(head, event)
        if found != head:
            raise Damaged(f"its history was edited: event {place} does not have the hash stored beside it")


@dataclass(frozen=True)
class Anchor:
    """A point in the history of a ledger, kept where whoever writes the ledger does not write.

    A model cites the ledger, its charge and the head right after that charge. A bare head says the same without
    naming a charge.
    """

    head: str
    ledger: str | None = None
    charge: int | None = None

    def __str__(self) -> str:
        return f"ledger {self.ledger}, charge {self.charge}, head {self.head}"

    @classmethod
    def of(cls, source: object) -> Anchor:
        """The anchor in a head, in the text of a citation, or in a model that cites its charge."""
        text = getattr(source, "ledger_entry_", source)
        if isinstance(text, str) and _HEAD.fullmatch(text):
            return cls(head=text)
        found = _CITATION.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidInput(
                "a head of 64 hexadecimal digits (dperm ledger show prints it), the text 'ledger ..., charge ..., "
                "head ...' or a model that was fitted with a ledger was expected; got "
                f"{f'text of {len(text)} characters' if isinstance(text, str) else type(source).__name__}."
            )
        return cls(ledger=found[1], charge=int(found[2]), head=found[3])
