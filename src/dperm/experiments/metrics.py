"""What is measured of a model: how each quantity is called, which way is better, and how it is written."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Metric:
    """``better`` is 1 where more is better, -1 where less is, 0 where neither.

    ``factor`` brings values to what is shown, ``digits`` are the decimal places of a mean there, None where those
    follow from the values. A standard error has ``finer`` more.
    """

    name: str
    title: str
    better: int
    factor: float = 1.0
    digits: int | None = 3
    finer: int = 0

    def decimals(self, values: Iterable[float]) -> int:
        """The decimal places of these means; where none are fixed, three digits of the smallest."""
        if self.digits is not None:
            return self.digits
        sizes = [abs(value) for value in values if value != 0]
        return max(0, 2 - math.floor(math.log10(min(sizes)))) if sizes else 2


def with_error(mean: float, error: float, digits: int, finer: int = 0) -> str:
    """Mean ± standard error; a mean alone where one run has no error, nothing where there is no mean."""
    if not math.isfinite(mean):
        return ""
    return f"{mean:z.{digits}f}" + (f" ±{error:.{digits + finer}f}" if math.isfinite(error) else "")


METRICS = {
    "accuracy": Metric(
        name="Accuracy", title="Accuracy on held-out rows, %", better=1, factor=100.0, digits=1, finer=1
    ),
    "auc": Metric(name="AUC", title="Area under the ROC curve on held-out rows", better=1, finer=1),
    "log_loss": Metric(name="Log loss", title="Log loss on held-out rows", better=-1, finer=1),
    "r2": Metric(name="R²", title="R² on held-out rows", better=1),
    "rmse": Metric(
        name="RMSE", title="Root mean squared error, in the target's units", better=-1, digits=None
    ),
    "mae": Metric(name="MAE", title="Mean absolute error, in the target's units", better=-1, digits=None),
    "objective": Metric(name="Objective", title="Regularised mean loss on training rows", better=-1),
    "noise_scale": Metric(
        name="Noise scale", title="Noise scale (units differ by mechanism)", better=0, digits=4
    ),
}
"""The columns of results that tables and curves are made of."""

OF_CLASSES, OF_NUMBERS = ("accuracy", "auc", "log_loss"), ("r2", "rmse", "mae")
HELD_OUT = (*OF_CLASSES, *OF_NUMBERS)
"""Those of the held-out rows."""

SCORES = ("accuracy", "r2")
"""What configurations are ranked by: the one of them that there are values of."""
