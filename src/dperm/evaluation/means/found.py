"""What was found: the mean prediction of every declared group, what it cost, and which model it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dperm.evaluation.means.figures import Mean


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundMeans:
    """The content of a :class:`dperm.MeanPredictions`, whose attributes are described there."""

    model: str
    label: Any
    range: tuple[float, float]
    by: str
    groups: Mapping[Any, Mean]
    overall: Mean
    other: str | None = None
    unit: str = "row"
    rows: int | None = None
    max_rows: int | None = None
    budget: Mapping[str, float]
    neighbours: str
    ledger_entry: str | None = None
    release: Mapping[str, Any] = field(repr=False)
    notes: tuple[str, ...] = ()
    library: str = ""

    @property
    def private(self) -> bool:
        return bool(self.release["secure"])

    @property
    def title(self) -> str:
        """What was averaged."""
        return "mean prediction" if self.label is None else f"mean probability of {self.label}"
