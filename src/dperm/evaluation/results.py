"""What releases about rows to be predicted give: estimates with intervals, what they cost, and of which model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dperm.counting.estimates import Estimate
from dperm.counting.metrics import registered_metrics
from dperm.evaluation.curves import CalibrationGroup, RocPoint
from dperm.evaluation.groups import Mean

LOCAL_NOTE = "Exact figures, for the owner of the data alone: they are not private and must not be published."
SEEDED_NOTE = "NOT PRIVATE: random_state makes the noise predictable."
ONCE = "Every person counts once, each of k rows as 1/k."
BY_PERSON = "Every person counts once, each of k rows as 1/k: the guarantee is for a person with all rows."


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """What every such release states."""

    model: str
    unit: str = "row"
    rows: int | None = None
    max_rows: int | None = None
    budget: Mapping[str, float] | None = None
    neighbours: str | None = None
    ledger_entry: str | None = None
    release: Mapping[str, Any] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    library: str = ""

    @property
    def private(self) -> bool:
        return self.release is not None and bool(self.release["secure"])


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluationResult(Result):
    """The content of an :class:`dperm.Evaluation`, whose attributes are described there."""

    task: str
    metrics: Mapping[str, Estimate]
    confusion: list[list[Estimate]] = field(default_factory=list)
    rates: list[dict[str, Estimate]] = field(default_factory=list)
    roc: list[RocPoint] = field(default_factory=list)
    calibration: list[CalibrationGroup] = field(default_factory=list)
    classes: list[Any] = field(default_factory=list)
    y_range: tuple[float, float] | None = None
    table_rows: int | None = None
    row_count: Estimate | None = None
    local: bool = False

    @property
    def protected(self) -> str:
        """Whom the guarantee is for."""
        return "the persons in the test rows" if self.unit == "person" else "the test rows"

    @property
    def private(self) -> bool:
        return not self.local and super().private

    def title(self, name: str) -> str:
        """How a metric is called, with the class that it is about."""
        return registered_metrics()[name].titled(self.classes)


@dataclass(frozen=True, eq=False, kw_only=True)
class MeansResult(Result):
    """The content of a :class:`dperm.MeanPredictions`, whose attributes are described there."""

    label: Any
    range: tuple[float, float]
    by: str
    groups: Mapping[Any, Mean]
    overall: Mean
    other: str | None = None

    @property
    def protected(self) -> str:
        """Whom the guarantee is for."""
        return f"these {self.unit}s"

    @property
    def title(self) -> str:
        """What was averaged."""
        return "mean prediction" if self.label is None else f"mean probability of {self.label}"
