"""What a ledger is told of its datasets: their caps, whom these protect, and parts that share no row and no person."""

from __future__ import annotations

from collections.abc import Sequence

from dperm.errors import InvalidInput
from dperm.ledger.pages import DEFAULT, Pages, cap_event, check_text, now
from dperm.ledger.units import parse_unit
from dperm.neighbours import Neighbours
from dperm.privacy.budget import Budget


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
