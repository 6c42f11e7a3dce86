"""A ledger as people read it: each charge in a line, with what was spent before it and after it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from dperm.ledger.book import Book, Entry
from dperm.ledger.chain import Anchor
from dperm.ledger.store import FORMAT
from dperm.strict_json import header


@dataclass(frozen=True, kw_only=True)
class Line:
    """A charge with its own epsilon, and all charges together before and after it, at the delta of the cap.

    ``alone`` is None for a void charge whose price has no epsilon at a delta that was lowered since. ``citation`` is
    what the model that the charge paid for says of it.
    """

    entry: Entry
    alone: float | None
    before: float
    after: float
    citation: str

    def to_dict(self, full: bool) -> dict[str, Any]:
        told = self.entry.to_dict()
        cost = told.pop("cost")
        numbers = {"epsilon": self.alone, "spent_before": self.before, "spent_after": self.after}
        return told | numbers | {"citation": self.citation} | ({"cost": cost} if full else {})


def lines(book: Book) -> Iterator[Line]:
    """All charges in their order."""
    spent = dict.fromkeys(book.caps, 0.0)
    for entry in book.entries:
        before, name = spent[entry.dataset], entry.dataset
        if entry.counts:
            spent[name] = book.spent(name, upto=entry.id)
        alone = entry.cost.epsilon(book.cap(name).delta)
        yield Line(
            entry=entry,
            alone=alone if math.isfinite(alone) else None,
            before=before,
            after=spent[name],
            citation=str(Anchor(ledger=book.id, charge=entry.id, head=entry.head)),
        )


def document(book: Book, full: bool) -> dict[str, Any]:
    """Everything, ready for JSON; ``full`` adds the price of each charge as the ledger keeps it, which may be long."""
    return {
        **header(FORMAT),
        "id": book.id,
        "head": book.head,
        "neighbours": book.neighbours.value,
        "adaptive_costs": book.adaptive_costs,
        "strict": book.strict,
        "partitions": {
            name: {"names": parts, "fixed_membership": name in book.fixed_membership}
            for name, parts in book.parts.items()
        },
        "datasets": [
            {
                "dataset": name,
                "unit": book.unit(name),
                **asdict(cap),
                "spent": book.spent(name),
                "remaining": book.remaining(name),
            }
            for name, cap in book.caps.items()
        ],
        "charges": [line.to_dict(full) for line in lines(book)],
    }
