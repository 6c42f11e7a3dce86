"""From losses on the development sets to curves with bands, and whether a band holds for a set that it never saw.

A set has many cells (sizes and epsilons) that resemble each other, so sets count alike and are left out whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import expit

from dperm.planning.expectation import FORMS, LossCurve

Vector = NDArray[np.float64]

SCALES: Mapping[str, float] = {"accuracy": 0.003, "auc": 0.002, "r2": 0.01}
"""By metric: losses below this count as they are, larger ones by their logarithm.

These and ``MOST_NOISE`` were chosen on all sets, so leaving a set out does not test them (docs/planning.md).
"""

OUTSIDE = 0.2
"""Share of sets that may lie outside of a band."""

MOST_NOISE = 0.3
"""Cells with a larger noise level are left out: hardly anything can be learned there."""

FACTS = ("level", "n", "features", "outputs")


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells:
    """The mean loss of one metric on each set at each size and epsilon, with the public facts of that fit."""

    metric: str
    dataset: NDArray[np.str_]
    n: Vector
    features: Vector
    outputs: Vector
    epsilon: Vector
    level: Vector
    loss: Vector

    @classmethod
    def of(cls, metric: str, rows: Sequence[Mapping[str, str]]) -> Cells:
        """From the rows of the study that have this metric."""
        mine = [row for row in rows if row[metric] and float(row["level"]) <= MOST_NOISE]
        names = ("n", "features", "outputs", "epsilon", "level")
        columns = {name: np.array([float(row[name]) for row in mine]) for name in names}
        loss = np.array([float(row[metric]) for row in mine])
        return cls(metric=metric, dataset=np.array([row["dataset"] for row in mine]), loss=loss, **columns)

    def where(self, chosen: NDArray[np.bool_]) -> Cells:
        names = ("dataset", "n", "features", "outputs", "epsilon", "level", "loss")
        return Cells(metric=self.metric, **{name: getattr(self, name)[chosen] for name in names})

    def left_out(self) -> list[tuple[str, Cells, Cells]]:
        """For every set its name, its cells, and those of all others."""
        return [
            (name, self.where(self.dataset == name), self.where(self.dataset != name)) for name in self.names
        ]

    @cached_property
    def names(self) -> list[str]:
        return list(dict.fromkeys(self.dataset.tolist()))

    @cached_property
    def weights(self) -> Vector:
        """Of each cell, so that every set weighs the same."""
        count = dict(zip(*np.unique(self.dataset, return_counts=True), strict=True))
        return np.array([1 / (len(count) * count[name]) for name in self.dataset])

    @cached_property
    def heights(self) -> Vector:
        return np.asarray(np.arcsinh(self.loss / SCALES[self.metric]))

    def design(self, form: str) -> Vector:
        x, k = np.log2(self.level), np.log2(self.outputs)
        terms = {"1": np.ones_like(x), "x": x, "xx": x * x, "k": k}
        return np.stack([terms[name] for name in FORMS[form]], axis=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Coverage:
    """How many of the sets lay in the bands that were made without them.

    ``cells`` is by set the share of its cells inside; ``full`` by epsilon the share of sets that were inside at their
    largest size.
    """

    cells: Mapping[str, float]
    full: Mapping[float, float]

    @property
    def mean(self) -> float:
        """The share of cells inside, every set counting once."""
        return float(np.mean(list(self.cells.values())))

    @property
    def sets(self) -> float:
        """The share of sets with most of their cells inside."""
        return float(np.mean([share > 0.5 for share in self.cells.values()]))


def fit_curve(cells: Cells) -> LossCurve:
    """The curve of the form with the least error on sets left out, with its band and what held of the band."""
    share = round(coverage(cells).mean, 3)
    return replace(_banded(cells), share=share)


def coverage(cells: Cells, width: float = 1.0) -> Coverage:
    """Every set against the curve and band of all others, form and band chosen without it.

    ``width`` multiplies the bands; 0.5 is a control that must fail.
    """
    shares: dict[str, float] = {}
    full: dict[float, list[bool]] = {}
    for name, mine, others in cells.left_out():
        made = _banded(others)
        away = mine.heights - _heights(made, mine)
        inside = (width * made.low <= away) & (away <= width * made.high)
        shares[name] = float(inside.mean())
        for epsilon, held in zip(
            mine.epsilon[mine.n == mine.n.max()], inside[mine.n == mine.n.max()], strict=True
        ):
            full.setdefault(float(epsilon), []).append(bool(held))
    return Coverage(cells=shares, full={e: float(np.mean(held)) for e, held in sorted(full.items())})


def errors_left_out(cells: Cells) -> dict[str, float]:
    """By form, the mean absolute error on sets left out, on the scale of the curve; only forms that rise with noise."""
    return {
        form: float(cells.weights @ np.abs(_residuals_left_out(cells, form)))
        for form, terms in FORMS.items()
        if ("k" not in terms or np.ptp(cells.outputs) > 0) and _rises(_curve(cells, form))
    }


def _banded(cells: Cells) -> LossCurve:
    errors = errors_left_out(cells)
    form = min(errors, key=errors.__getitem__)
    residuals = _residuals_left_out(cells, form)
    outside = OUTSIDE / 2 - (1 - OUTSIDE / 2) / len(
        cells.names
    )  # as in conformal prediction: a new set is one more
    order = np.argsort(residuals)
    reached = np.cumsum(cells.weights[order])
    low, high = (
        float(residuals[order][min(int(np.searchsorted(reached, share)), len(order) - 1)])
        for share in (max(outside, 0.0), min(1 - outside, 1.0))
    )
    return replace(_curve(cells, form), low=low, high=high)


def _curve(cells: Cells, form: str) -> LossCurve:
    """Least squares on the scale of the curve; no band yet."""
    design, heights, root = cells.design(form), cells.heights, np.sqrt(cells.weights)
    start = np.linalg.lstsq(design * root[:, None], heights * root, rcond=None)[0]
    found = least_squares(
        lambda c: root * (np.logaddexp(0.0, design @ c) - heights),
        start,
        jac=lambda c: (root * expit(design @ c))[:, None] * design,
        method="lm",
    )
    ends = {name: (float(getattr(cells, name).min()), float(getattr(cells, name).max())) for name in FACTS}
    return LossCurve(
        metric=cells.metric,
        form=form,
        scale=SCALES[cells.metric],
        coefficients=tuple(found.x.tolist()),
        low=0.0,
        high=0.0,
        share=0.0,
        sets=len(cells.names),
        studied=ends,
    )


def _heights(curve: LossCurve, cells: Cells) -> Vector:
    return np.asarray(np.logaddexp(0.0, cells.design(curve.form) @ np.array(curve.coefficients)))


def _residuals_left_out(cells: Cells, form: str) -> Vector:
    found = np.empty(len(cells.loss))
    for name, mine, others in cells.left_out():
        found[cells.dataset == name] = mine.heights - _heights(_curve(others, form), mine)
    return found


def _rises(curve: LossCurve) -> bool:
    """Whether more noise costs more over the whole studied range."""
    levels = np.geomspace(*curve.studied["level"], 50)
    return bool(np.all(np.diff([curve(float(level)).expected for level in levels]) > 0))
