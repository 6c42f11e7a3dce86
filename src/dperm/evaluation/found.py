"""What an evaluation found: every figure with its interval, what it cost, and which model it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dperm.evaluation.curves import Group, RocPoint
from dperm.evaluation.intervals import Figure

TITLES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1 score",
    "auc": "AUC",
    "log_loss": "log loss",
    "brier": "Brier score",
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "MAE",
}
LOCAL_NOTE = "Exact figures, for the owner of the data alone: they are not private and must not be published."
SEEDED_NOTE = "NOT PRIVATE: random_state makes the noise predictable."


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """The content of an :class:`dperm.Evaluation`, whose attributes are described there."""

    task: str
    model: str
    metrics: Mapping[str, Figure]
    confusion: list[list[Figure]] = field(default_factory=list)
    rates: list[dict[str, Figure]] = field(default_factory=list)
    roc: list[RocPoint] = field(default_factory=list)
    calibration: list[Group] = field(default_factory=list)
    classes: list[Any] = field(default_factory=list)
    y_range: tuple[float, float] | None = None
    unit: str = "row"
    rows: int | None = None
    table_rows: int | None = None
    row_count: Figure | None = None
    max_rows: int | None = None
    local: bool = False
    budget: Mapping[str, float] | None = None
    neighbours: str | None = None
    ledger_entry: str | None = None
    release: Mapping[str, Any] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    library: str = ""

    @property
    def whom(self) -> str:
        """Whom the guarantee is for."""
        return "the persons in the test rows" if self.unit == "person" else "the test rows"

    @property
    def private(self) -> bool:
        return not self.local and self.release is not None and bool(self.release["secure"])

    def title(self, name: str) -> str:
        """How a figure is called, with the class that it is about."""
        about = f" of {self.classes[1]}" if name in ("precision", "recall", "f1") else ""
        mean = ", mean over classes" if name == "auc" and self.task == "classes" else ""
        return TITLES[name] + about + mean
