"""A charge: what a ledger takes as one, whether it fits under the cap, and how it becomes final or void."""

from __future__ import annotations

from dataclasses import dataclass

from dperm.errors import BudgetExceeded, InvalidInput, NotCertified, Unsupported
from dperm.ledger.book import EVALUATE, FIT, OPEN, OTHER, SEARCH, Entry
from dperm.ledger.pages import Pages, check_text, now
from dperm.ledger.units import ROW, parse_unit, refusal
from dperm.neighbours import Neighbours
from dperm.privacy.cost import Cost

_WAY_OUT = (
    "Every fit is a release, those inside GridSearchCV or cross_val_score too. To tune, use PrivateSearchCV, which "
    "pays for a whole search at once; otherwise fit once, or ask for a smaller epsilon."
)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a ledger takes, fixed when it was made, and the name of its file."""

    file: str
    neighbours: Neighbours
    adaptive_costs: bool

    def check(self, charge: Charge, neighbours: str | None) -> None:
        """Refuse a charge that this ledger cannot count, whatever is left."""
        for name in ("kind", "label", "mechanism"):
            check_text(name, getattr(charge, name), empty=True)
        parse_unit(charge.unit)
        if neighbours is not None and Neighbours.parse(neighbours) is not self.neighbours:
            raise Unsupported(
                f"{self.file} counts under {self.neighbours.value}, and this release is private under "
                f"{neighbours}. Fit with neighbours={self.neighbours.value!r}, or keep a second ledger for the other "
                "relation."
            )
        if charge.cost.why_unbounded is not None:
            raise NotCertified(
                f"A ledger takes no release without a price: {charge.cost.why_unbounded} Leave ledger=None for an "
                "experiment on public data."
            )
        if self.adaptive_costs and not charge.cost.only_gaussian:
            raise Unsupported(
                "This ledger lets prices depend on earlier results, which is proved for Gaussian charges only. Use a "
                "mechanism with such a price, for example dp-gd, ssp or output, or a ledger with adaptive_costs=False."
            )


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A charge that is asked for."""

    cost: Cost
    dataset: str
    partition: str | None
    kind: str
    label: str
    mechanism: str
    status: str
    unit: str = ROW

    def write(self, pages: Pages) -> Entry:
        """Write the charge beside all earlier ones, or refuse it and write nothing."""
        self._check_unit(pages)
        self._check_budget(pages)
        pages.write(
            {
                "event": "charge",
                "time": now(),
                "dataset": self.dataset,
                "partition": self.partition,
                "kind": self.kind,
                "label": self.label,
                "mechanism": self.mechanism,
                "cost": self.cost.to_dict(),
                "status": self.status,
                "unit": self.unit,
            }
        )
        return pages.book.entries[-1]

    def _check_unit(self, pages: Pages) -> None:
        why = refusal(self.unit, pages.book.unit(self.dataset), pages.book.neighbours)
        if why is not None:
            raise Unsupported(
                f"Refused, and nothing was released: {self.dataset!r} in {pages.path.name} {why}"
            )

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


def told_of(kind: str | None, label: str, mechanism: str, unit: str) -> dict[str, str]:
    """What a charge says of its release; the kind by the other words, where none is given."""
    known = _kind_by_words(str(label), str(mechanism)) if kind is None else kind
    return {"kind": known, "label": label, "mechanism": mechanism, "unit": unit}


def _kind_by_words(label: str, mechanism: str) -> str:
    if "SearchCV" in label:
        return SEARCH
    if mechanism == "evaluation":
        return EVALUATE
    return FIT if mechanism and label.startswith("Private") else OTHER


def settle(pages: Pages, number: int, status: str) -> None:
    """An open charge becomes final or void; no other charge ever changes."""
    if pages.book.entries[number - 1].status == OPEN:
        pages.write({"event": "settle", "time": now(), "charge": number, "status": status})


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
