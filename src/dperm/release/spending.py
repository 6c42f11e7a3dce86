"""What a ledger says about one release, its thresholds included: the budget before it, after it and now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dperm.ledger import Ledger
from dperm.ledger.history import Anchor, Entry
from dperm.privacy import Budget
from dperm.privacy.cost import compose


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Epsilons at the delta of the cap, of all charges together up to a point of the history."""

    file: str
    ledger: str
    head: str
    dataset: str
    unit: str
    cited: tuple[int, ...]
    cap: Budget
    before: float
    alone: float
    after: float
    now: float
    remaining: float
    charges: tuple[tuple[Entry, float], ...]

    @property
    def later(self) -> int:
        """How many charges came after those of this release."""
        return sum(entry.id > self.cited[-1] for entry, _ in self.charges)


def spending_of(ledger: Ledger, citation: str, besides: Sequence[str] = ()) -> Spending:
    """Of the charge of a fit, and of those ``besides`` that were made to the same dataset.

    Raises if the ledger's history does not hold a charge that is cited of it.
    """
    own = [citation, *(other for other in besides if Anchor.of(other).ledger == ledger.id)]
    for anchor in own:
        ledger.check(anchor)
    ids = {Anchor.of(anchor).charge for anchor in own}
    paid = next(entry for entry in ledger.entries() if entry.id == Anchor.of(citation).charge)
    cap = ledger.cap(paid.dataset)
    counted = [entry for entry in ledger.entries(paid.dataset) if entry.counts]
    cited = [entry for entry in counted if entry.id in ids]
    parts = {entry.partition for entry in counted} - {None} if paid.partition is None else {paid.partition}

    def spent(last: int) -> float:
        """Of a row that is in the part where most was spent, or in that of the model."""
        told = [entry for entry in counted if entry.id <= last]
        totals = [
            compose(entry.cost for entry in told if entry.partition in (None, part))
            for part in parts or {None}
        ]
        found = max(total.epsilon(cap.delta) for total in totals)
        return min(found, cap.epsilon) if all(total.fits(cap) for total in totals) else found

    return Spending(
        file=ledger.path.name,
        ledger=ledger.id,
        head=ledger.head,
        dataset=paid.dataset,
        unit=ledger.unit(paid.dataset),
        cited=tuple(entry.id for entry in cited),
        cap=cap,
        before=spent(cited[0].id - 1),
        alone=compose(entry.cost for entry in cited).epsilon(cap.delta),
        after=spent(cited[-1].id),
        now=ledger.spent(paid.dataset),
        remaining=ledger.remaining(paid.dataset),
        charges=tuple((entry, entry.cost.epsilon(cap.delta)) for entry in counted),
    )
