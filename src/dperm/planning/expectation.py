"""What the default is expected to lose to the model without noise, by its noise level: curves fitted to a study.

``dperm reproduce plan`` makes the study and writes the constants read here (docs/planning.md). They are a forecast for
a table that resembles the studied ones; no guarantee rests on them.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

CONSTANTS, STUDY = "expected.json", "study.csv"

FORMS: Mapping[str, tuple[str, ...]] = {
    "line": ("1", "x"),
    "line, classes": ("1", "x", "k"),
    "bend": ("1", "x", "xx"),
    "bend, classes": ("1", "x", "xx", "k"),
}
"""What a curve may be a sum of: x is the noise level and k the number of outputs, as binary logarithms."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """An expected loss, and the band around it."""

    expected: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class LossCurve:
    r"""Expected loss of a metric: :math:`\operatorname{asinh}(\text{loss}/s) = \log(1 + e^t)`, t a sum of terms.

    Below ``scale`` s a loss counts as it is, far above it by its logarithm. ``low`` and ``high`` are added on that
    scale and give the ends of the band. ``share`` of the runs on the ``sets`` tables, each table left out of the fit of
    its own band, lay inside, every table counting once. ``studied`` has the smallest and the largest noise level,
    number of rows, features and outputs in the study.
    """

    metric: str
    form: str
    scale: float
    coefficients: tuple[float, ...]
    low: float
    high: float
    share: float
    sets: int
    studied: Mapping[str, tuple[float, float]]

    def __call__(self, level: float, outputs: int = 1) -> Forecast:
        """The forecast at a noise level, with the number of outputs: 1, or the number of more than 2 classes."""
        x, k = math.log2(level), math.log2(outputs)
        terms = {"1": 1.0, "x": x, "xx": x * x, "k": k}
        t = math.fsum(c * terms[name] for c, name in zip(self.coefficients, FORMS[self.form], strict=True))
        height = max(t, 0.0) + math.log1p(math.exp(-abs(t)))
        most = math.inf if self.metric == "r2" else 1.0
        expected, low, high = (
            min(self.scale * math.sinh(height + shift), most) for shift in (0.0, self.low, self.high)
        )
        return Forecast(expected=expected, low=low, high=high)

    def level_for(self, loss: float, outputs: int = 1) -> float | None:
        """The noise level at which this loss is expected; None if it is below the studied ones."""
        low, high = (math.log2(end) for end in self.studied["level"])
        if self(2.0**low, outputs).expected > loss:
            return None
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (low, middle) if self(2.0**middle, outputs).expected > loss else (middle, high)
        return math.exp2(low)

    def beyond(self, **facts: float) -> dict[str, tuple[float, float]]:
        """Which of these facts lie outside of what was studied, with what was."""
        return {
            name: self.studied[name]
            for name, value in facts.items()
            if not self.studied[name][0] <= value <= self.studied[name][1]
        }

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> LossCurve:
        studied = {name: (low, high) for name, (low, high) in stored["studied"].items()}
        return cls(**{**stored, "coefficients": tuple(stored["coefficients"]), "studied": studied})


@lru_cache(maxsize=1)
def constants() -> dict[str, Any]:
    """The generated file: when and by which command it was made, from which tables, and the curves."""
    stored: dict[str, Any] = json.loads(_read(CONSTANTS))
    return stored


def loss_curve(metric: str) -> LossCurve:
    """The curve of "accuracy", "auc" or "r2"."""
    return next(LossCurve.from_dict(one) for one in constants()["curves"] if one["metric"] == metric)


def study_rows() -> list[dict[str, str]]:
    """The study behind the curves, as text: mean losses for each table, size and epsilon."""
    return list(csv.DictReader(_read(STUDY).splitlines()))


def _read(name: str) -> str:
    return (files("dperm.planning") / "data" / name).read_text(encoding="utf-8")
