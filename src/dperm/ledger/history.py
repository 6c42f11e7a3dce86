"""The history of a ledger: a chain of hashes, and what its events add up to: caps, partitions, charges, what is left.

Every event is stored as text beside its head, the hash of the head before it and of that text. Whoever knows one head
therefore knows all that happened up to it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from dperm.errors import InvalidInput
from dperm.privacy.budget import EPSILON_RANGE, Budget
from dperm.privacy.cost import Cost, compose
from dperm.strict_json import CITATION, matches, parse
from dperm.unit import PERSON, ROW, Neighbours, PrivacyUnit

START = "0" * 64
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ROW_FOR_PERSONS = (
    "is kept for one person, and this release protects one row, so a person with several rows less. Fit with groups=, "
    "the id of the person of each row, or keep a second ledger for rows."
)
_PERSON_REMOVED = (
    "is kept for one row under add-remove, and this release protects one person. To take away one row of a person "
    "with several changes that person and removes nobody, which the release does not promise to hide. Keep a ledger "
    "with unit='person' for it, or one under replace-one."
)
OPEN, SPENT, VOID = "open", "spent", "void"
FIT, SEARCH, EVALUATE, OTHER = "fit", "search", "evaluate", "other"
_KEYS = {  # of each kind of event, beside "event" and "time"
    "create": {"id", "neighbours", "adaptive_costs", "strict"},
    "cap": {"dataset", "epsilon", "delta", "unit"},
    "partitions": {"dataset", "names", "fixed_membership"},
    "charge": {"dataset", "partition", "kind", "label", "mechanism", "cost", "status", "unit"},
    "settle": {"charge", "status"},
    "note": {"charge", "file", "sha256"},
}


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
        if isinstance(text, str) and _SHA256.fullmatch(text):
            return cls(head=text)
        found = CITATION.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidInput(
                "a head of 64 hexadecimal digits (dperm ledger show prints it), the text 'ledger ..., charge ..., "
                "head ...' or a model that was fitted with a ledger was expected; got "
                f"{f'text of {len(text)} characters' if isinstance(text, str) else type(source).__name__}."
            )
        return cls(ledger=found[1], charge=int(found[2]), head=found[3])


def kind_by_words(label: str, mechanism: str) -> str:
    """What a charge pays for, where nobody says it."""
    if "SearchCV" in label:
        return SEARCH
    if mechanism == "evaluation":
        return EVALUATE
    return FIT if mechanism and label.startswith("Private") else OTHER


def refusal(release: PrivacyUnit, kept_for: str) -> str | None:
    """Why a release that protects this unit does not count where the other is protected; None where it does."""
    if release.protects(kept_for):
        return None
    return _ROW_FOR_PERSONS if kept_for == PERSON else _PERSON_REMOVED


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One charge. ``open`` and ``spent`` both count; ``void`` was refused before training and does not.

    ``kind`` says what was paid for, such as "fit", and ``unit`` what the release protects. ``head`` is the head of the
    ledger right after the charge was made, which the model that it paid for cites. ``files`` and ``sha256`` are known
    if somebody noted them: the names of the files that hold what was released, and its digest.
    """

    id: int
    time: str
    dataset: str
    partition: str | None
    kind: str
    label: str
    mechanism: str
    cost: Cost
    status: str
    head: str
    unit: str = ROW
    files: tuple[str, ...] = ()
    sha256: str | None = None

    @property
    def counts(self) -> bool:
        return self.status != VOID

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "files": list(self.files), "cost": self.cost.to_dict()}


class Book:
    """The state of a ledger after its events, taken one by one.

    Guarantee
    ---------
    ``take`` refuses an event that no ledger would have written: a cap that rises, a second way to cut a dataset, parts
    that cannot be charged side by side, a unit that changes, a charge to what was never declared or for a unit that
    does not count there, a charge that is settled twice, or in a strict ledger made void, and a note that gives a
    charge two digests.
    """

    id: str
    neighbours: Neighbours
    adaptive_costs: bool
    strict: bool

    def __init__(self, links: Iterable[tuple[str, str]]) -> None:
        self.caps: dict[str, Budget] = {}
        self.parts: dict[str, list[str]] = {}
        self.units: dict[str, str] = {}
        self.fixed_membership: set[str] = set()
        self.entries: list[Entry] = []
        self.heads: dict[str, int | None] = {}  # and the charge that each belongs to
        self.head = ""
        for event, head in links:
            self.take(event, head)
        if not self.heads:
            raise Damaged("it has no history")

    def take(self, event: str, head: str) -> None:
        try:
            told = _with_its_keys(parse(event.encode()))
            _require((told["event"] == "create") is not bool(self.heads))  # first, and never again
            self._take(told, head)
        except ValueError:
            raise Damaged(f"event {len(self.heads) + 1} is none that a ledger writes") from None
        self.head = head
        self.heads.setdefault(head, None)

    def _take(self, event: Any, head: str) -> None:
        match event:
            case {
                "event": "create",
                "id": str(name),
                "neighbours": str(relation),
                "adaptive_costs": bool(adaptive),
                "strict": bool(strict),
            }:
                self.id, self.neighbours = name, Neighbours.parse(relation)
                self.adaptive_costs, self.strict = adaptive, strict
            case {
                "event": "cap",
                "dataset": str(name),
                "epsilon": float(epsilon),
                "delta": float(delta),
                "unit": "row" | "person" as unit,
            }:
                cap, old = Budget(epsilon, delta), self.caps.get(name)
                _require(old is None or (cap.epsilon <= old.epsilon and cap.delta <= old.delta))
                _require(self.units.setdefault(name, unit) == unit)
                self.caps[name] = cap
            case {
                "event": "partitions",
                "dataset": str(name),
                "names": [*names],
                "fixed_membership": bool(fixed),
            }:
                _require(name in self.caps and name not in self.parts and len(names) > 0)
                _require(all(isinstance(part, str) for part in names) and len(set(names)) == len(names))
                _require(fixed or self.neighbours is Neighbours.ADD_REMOVE)
                self.parts[name] = names
                self.fixed_membership |= {name} if fixed else set()
            case {
                "event": "charge",
                "time": str(),
                "dataset": str(name),
                "partition": None | str() as part,
                "kind": str(),
                "label": str(),
                "mechanism": str(),
                "cost": cost,
                "status": "open" | "spent",
                "unit": "row" | "person" as unit,
            }:
                _require(name in self.caps and (part is None or part in self.parts.get(name, ())))
                _require(refusal(PrivacyUnit(relation=self.neighbours, unit=unit), self.unit(name)) is None)
                price = Cost.from_dict(cost)
                _require(price.why_unbounded is None and (price.only_gaussian or not self.adaptive_costs))
                told = {key: value for key, value in event.items() if key != "event"} | {"cost": price}
                entry = Entry(**told, id=len(self.entries) + 1, head=head)
                self.entries.append(entry)
                self.heads[head] = entry.id
            case {"event": "settle", "charge": int(number), "status": "spent" | "void" as status}:
                _require(1 <= number <= len(self.entries) and self.entries[number - 1].status == OPEN)
                _require(status == SPENT or not self.strict)
                self.entries[number - 1] = replace(self.entries[number - 1], status=status)
            case {"event": "note", "charge": int(number), "file": str(file), "sha256": str(digest)}:
                _require(1 <= number <= len(self.entries) and _SHA256.fullmatch(digest) is not None)
                entry = self.entries[number - 1]
                _require(entry.counts and entry.sha256 in (None, digest) and file not in ("", *entry.files))
                self.entries[number - 1] = replace(entry, files=(*entry.files, file), sha256=digest)
            case _:
                raise ValueError

    def cap(self, dataset: str) -> Budget:
        if dataset not in self.caps:
            raise InvalidInput(
                f"The ledger knows the datasets {', '.join(self.caps)}; got {dataset!r}. Create one with "
                "set_cap(dataset, epsilon, delta) if nobody in it is in another one."
            )
        return self.caps[dataset]

    def unit(self, dataset: str) -> str:
        """Whom the cap of a dataset protects: ``row`` or ``person``."""
        self.cap(dataset)
        return self.units[dataset]

    def check_partition(self, dataset: str, name: str) -> None:
        self.cap(dataset)
        known = self.parts.get(dataset, [])
        if name not in known:
            raise InvalidInput(
                f"{name!r} is not a declared partition of {dataset!r} (there are {known}); declare all of them with "
                "declare_partitions."
            )

    def totals(self, dataset: str, partition: str | None = None, upto: int | None = None) -> list[Cost]:
        """What a row or a person has paid for: shared charges and those of one part. One total for each part, or one.

        ``upto`` leaves out the charges after that one.
        """
        self.cap(dataset)
        counted = [entry for entry in self.entries[:upto] if entry.dataset == dataset and entry.counts]
        parts: list[str | None] = [*self.parts.get(dataset, [])] or [None]
        if partition is not None:
            parts = [partition]
        return [compose(entry.cost for entry in counted if entry.partition in (None, part)) for part in parts]

    def in_the_way(self, cost: Cost, dataset: str, partition: str | None) -> Cost | None:
        """A total beside which the cost exceeds the cap; None if it fits beside all."""
        cap = self.cap(dataset)
        totals = self.totals(dataset, partition)
        return next((total for total in totals if not compose([total, cost]).fits(cap)), None)

    def spent(self, dataset: str, partition: str | None = None, upto: int | None = None) -> float:
        cap, totals = self.cap(dataset), self.totals(dataset, partition, upto)
        spent = max(total.epsilon(cap.delta) for total in totals)
        return min(spent, cap.epsilon) if all(total.fits(cap) for total in totals) else spent

    def remaining(self, dataset: str, partition: str | None = None) -> float:
        """Largest epsilon, at the delta of the cap, of one more Gaussian-type release; 0 if none fits."""
        cap, totals = self.cap(dataset), self.totals(dataset, partition)
        if cap.delta == 0:
            return max(0.0, cap.epsilon - max(total.epsilon(0.0) for total in totals))

        def fits(mu: float) -> bool:
            return all(compose([total, Cost.gaussian(mu)]).fits(cap) for total in totals)

        low, high = 0.0, 1.0
        while fits(high) and high < 1e3:
            low, high = high, 2 * high
        tolerance = 1e-11 if all(total.only_gaussian for total in totals) else 1e-3
        while high - low > tolerance * high and high > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        # A hair less, so that a fit that asks for it is accepted after its own roundings.
        left = min(Cost.gaussian(low).epsilon(cap.delta) * (1 - 1e-8), cap.epsilon, EPSILON_RANGE[1])
        return left if left >= EPSILON_RANGE[0] else 0.0

    def why_not(self, anchor: Anchor) -> str | None:
        """Why this is not the ledger that the anchor was taken from, or not all of it; None if it is."""
        if anchor.ledger not in (None, self.id):
            return f"this is another ledger: it has the id {self.id}, and {anchor.ledger} is cited."
        if anchor.head not in self.heads:
            return (
                f"the head {anchor.head} is not in its history. It has lost charges, because an older copy was put in "
                "its place or its end was cut off; or the head comes from a copy that was charged by itself."
            )
        if anchor.charge is None:
            return None
        if self.heads[anchor.head] != anchor.charge:
            return f"the head cited is not that of charge {anchor.charge}."
        if not self.entries[anchor.charge - 1].counts:
            return f"charge {anchor.charge} is void: it paid for no model."
        return None


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError


def _with_its_keys(event: Any) -> Any:
    """An event that has the keys of its kind, no others, and no truth value in place of a number."""
    _require(isinstance(event, dict) and isinstance(event.get("event"), str) and event["event"] in _KEYS)
    _require(set(event) == {"event", "time", *_KEYS[event["event"]]})
    _require(matches(event["time"], str) and not isinstance(event.get("charge"), bool))
    return event
