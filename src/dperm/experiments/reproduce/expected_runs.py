"""What the default loses to the model without noise, on parts of the development sets: the runs behind a plan's bands.

A part is so many random rows to train on; all models of a repeat are judged on the same held-out rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dperm.datasets.numeric import Numeric
from dperm.datasets.target import Target
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.experiments.quiet import measured_only
from dperm.experiments.reproduce.cached import cached
from dperm.experiments.reproduce.development import DevelopmentSet
from dperm.experiments.reproduce.item import Bench
from dperm.experiments.scores import accuracy, area
from dperm.experiments.spec import digest_rows
from dperm.experiments.splits import text_code
from dperm.planning.rules import AUTO

DELTA = 1e-8
HELD_OUT = 0.2
MOST_HELD_OUT = 20_000

NUMBERS: Mapping[str, str] = {
    "adult": "age",
    "bank": "age",
    "body_performance": "broad jump",
    "brfss_diabetes": "BMI",
    "cardio": "weight",
    "crash_deaths": "ageOFocc",
    "credit_delinquency": "age",
    "credit_risk": "loan_amnt",
    "hotel_bookings": "adr",
    "hr_attrition": "satisfaction_level",
    "law_school": "lsat",
    "online_shoppers": "ExitRates",
    "vote_2016": "age",
}
"""Tables with classes of which a number is predicted as well, from all features but itself: more regressions."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """Which parts are trained on: rows to train on, budgets, and how often each."""

    sizes: tuple[int, ...]
    epsilons: tuple[float, ...]
    repeats: int
    most_rows: int
    most_work: float

    def parts(self, n_rows: int) -> list[int]:
        """The sizes that leave enough rows to judge on, and the largest such number itself."""
        most = n_rows - _held_out(n_rows)
        smaller = [size for size in self.sizes if size < 0.8 * most]
        return [*smaller, most]


def _held_out(n_rows: int) -> int:
    return min(int(HELD_OUT * n_rows), MOST_HELD_OUT)


def number_instead(some: DevelopmentSet, column: str) -> DevelopmentSet:
    """The same table with one of its numbers as the target; the label is left out."""
    (number,) = (one for one in some.schema.features if one.name == column)
    assert isinstance(number, Numeric)
    schema = replace(
        some.schema,
        target=Target(name=column, range=number.range),
        features=tuple(one for one in some.schema.features if one.name != column),
        cross=(),
    )
    base, comma, rest = some.name.partition(",")
    return DevelopmentSet(name=f"{base}: {column}{comma}{rest}", schema=schema, table=some.table)


def run(some: DevelopmentSet, design: Design, bench: Bench) -> pa.Table:
    """One row for each model: the set, its size and budget, and what it reached.

    ``label`` is "default", or "none" for a model without noise, with ``l2`` the rule's (almost none) or 1 / n.
    """
    records = some.records()
    bounds = some.schema.target.range
    y = records.y.astype(np.float64) if bounds is not None else np.unique(records.y, return_inverse=True)[1]
    key = {
        "rows": digest_rows(records.X, y.astype(np.float64), None),
        "dataset": some.name,
        "range": bounds,
        "sizes": design.parts(len(y)),
        "epsilons": list(design.epsilons),
        "repeats": design.repeats,
        "delta": DELTA,
        "seed": bench.seed,
    }
    report = bench.progress(some.name)

    def make() -> list[dict[str, Any]]:
        rows = []
        sizes = design.parts(len(y))
        for repeat in range(design.repeats):
            order = np.random.default_rng([text_code(some.name), repeat]).permutation(len(y))
            held_out, rest = np.split(order, [_held_out(len(y))])
            for place, size in enumerate(sizes):
                report(repeat * len(sizes) + place, design.repeats * len(sizes))
                task = _Task(X=records.X, y=y, train=rest[:size], held_out=held_out, range=bounds)
                about = {"dataset": some.name, "kind": some.kind, "n": size, "features": records.X.shape[1]}
                about |= {"outputs": task.outputs, "delta": DELTA, "repeat": repeat}
                rows += [about | one for one in task.runs(design.epsilons, [bench.seed, repeat, size])]
        report(1, 1)
        return rows

    return cached(bench.parts, "expected", key, make, bench.fresh)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Task:
    """Rows to train on and rows to judge on; with a range the target is a number."""

    X: NDArray[Any]
    y: NDArray[Any]
    train: NDArray[np.int64]
    held_out: NDArray[np.int64]
    range: tuple[float, float] | None

    @property
    def outputs(self) -> int:
        classes = 0 if self.range is not None else len(np.unique(self.y))
        return classes if classes > 2 else 1

    def runs(self, epsilons: Sequence[float], seed: Sequence[int]) -> Iterator[dict[str, Any]]:
        for epsilon in epsilons:
            found = self._reached(epsilon, "auto", AUTO, [*seed, round(1000 * epsilon)])
            yield {"label": "default", "epsilon": epsilon, "l2": AUTO, **found}
        for l2, named in ((AUTO, AUTO), (1 / len(self.train), "1/n")):
            yield {"label": "none", "epsilon": None, "l2": named, **self._reached(1.0, "none", l2, seed)}

    def _reached(
        self, epsilon: float, mechanism: str, l2: float | str, seed: Sequence[int]
    ) -> dict[str, float | None]:
        common: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": DELTA,
            "mechanism": mechanism,
            "l2": l2,
            "random_state": np.random.default_rng(seed),
        }
        X, y = self.X[self.train], self.y[self.train]
        judged, truth = self.X[self.held_out], self.y[self.held_out]
        with measured_only():
            if self.range is not None:
                regression = PrivateLinearRegression(**common, y_range=self.range).fit(X, y)
                return {"accuracy": None, "auc": None, "r2": float(regression.score(judged, truth))}
            model = PrivateLogisticRegression(**common, classes=list(range(int(self.y.max()) + 1))).fit(X, y)
            margins = model.decision_function(judged)
        targets = 2 * truth - 1 if margins.ndim == 1 else truth
        return {"accuracy": accuracy(margins, targets), "auc": area(margins, targets), "r2": None}
