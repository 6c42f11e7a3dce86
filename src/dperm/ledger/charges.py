"""What a ledger is asked to write: charges, how they become final or void, and what is declared of its datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dperm.errors import BudgetExceeded, InvalidInput, NotCertified, Unsupported
from dperm.ledger.history import EVALUATE, FIT, OPEN, OTHER, SEARCH, Entry, refusal
from dperm.ledger.store import DEFAULT, Pages, cap_event, check_text, now
from dperm.neighbours import Neighbours
from dperm.privacy.budget import Budget
from dperm.privacy.cost import Cost
from dperm.unit import PrivacyUnit, parse_unit

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

    def check(self, file: str, relation: Neighbours, adaptive_costs: bool) -> None:
        """Refuse what a ledger with these terms, fixed when its file was made, cannot count, whatever is left."""
        for name in ("kind", "label", "mechanism"):
            check_text(name, getattr(self, name), empty=True)
        if self.protects.relation is not relation:
            raise Unsupported(
                f"{file} counts under {relation.value}, and this release is private under "
                f"{self.protects.relation.value}. Fit with neighbours={relation.value!r}, or keep a second ledger for "
                "the other relation."
            )
        if self.cost.why_unbounded is not None:
            raise NotCertified(
                f"A ledger takes no release without a price: {self.cost.why_unbounded} Leave ledger=None for an "
                "experiment on public data."
            )
        if adaptive_costs and not self.cost.only_gaussian:
            raise Unsupported(
                "This ledger lets prices depend on earlier results, which is proved for Gaussian charges only. Use a "
                "mechanism with such a price, for example dp-gd, ssp or output, or a ledger with adaptive_costs=False."
            )

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
                "unit": self.protects.unit,
            }
        )
        return pages.book.entries[-1]

    def _check_unit(self, pages: Pages) -> None:
        why = refusal(self.protects, pages.book.unit(self.dataset))
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


def kind_by_words(label: str, mechanism: str) -> str:
    """What a charge pays for, where nobody says it."""
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


def check_partitions(names: Sequence[str], neighbours: Neighbours, fixed_membership: bool, unit: str) -> None:
    """Refuse parts that cannot be charged side by side."""
    if neighbours is Neighbours.REPLACE_ONE and not fixed_membership:
        raise InvalidInput(
            f"Under replace-one a new {unit} may belong to another part than the old one, so parts cannot be charged "
            "side by side. Say fixed_membership=True if membership is public and fixed, use a ledger with "
            "neighbours='add-remove', or charge the dataset as a whole."
        )
    if isinstance(names, str) or len(set(names)) < max(len(names), 1):
        raise InvalidInput("names must be a list of different names, at least one.")
    for name in names:
        check_text("partition", name)


def declare_partitions(pages: Pages, dataset: str, names: Sequence[str], fixed_membership: bool) -> None:
    """Cut a dataset, once."""
    pages.book.cap(dataset)
    if dataset in pages.book.parts:
        raise InvalidInput(
            f"{dataset!r} has its partitions already: {pages.book.parts[dataset]}. A second way to cut "
            "the same rows would not be disjoint from the first."
        )
    fixed = {"fixed_membership": bool(fixed_membership)}
    pages.write({"event": "partitions", "time": now(), "dataset": dataset, "names": list(names), **fixed})
