"""The trade-off of an attacker as inline SVG: true against false positives, on plain and on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dperm.certificate.verdict import Verdict
from dperm.certificate.words import attack_rates
from dperm.privacy import Budget
from dperm.privacy.risk import tradeoff
from dperm.render.html import Html, figure, joined
from dperm.render.svg import Square, polyline

Vector = NDArray[np.float64]

LEAST = 1e-4


def attack_figures(verdict: Verdict) -> Html:
    """Both plots, or nothing where there is no verified guarantee."""
    if verdict.guarantee is None or verdict.price is None:
        return Html("")
    budget = Budget(**verdict.guarantee)
    plain = np.unique(np.concatenate([np.linspace(0, 1, 81), np.geomspace(1e-4, 0.1, 30)]))
    small = np.geomspace(LEAST, 1, 61)
    parts = []
    for title, rates, scale, ticks in (
        ("All attacks", plain, _linear, (0, 0.25, 0.5, 0.75, 1)),
        ("Careful attacks, on logarithmic axes", small, _logarithmic, (1e-4, 1e-3, 1e-2, 1e-1, 1)),
    ):
        claim = np.array([tradeoff(budget, float(rate)) for rate in rates])
        own = attack_rates(verdict, rates.tolist())
        axes = Square(side=300.0, left=58.0, right=26.0, below=47.0, scale=scale)
        marks = [(tick, f"{100 * tick:g} %" if tick else "0") for tick in ticks]
        parts.append(_plot(title, axes, marks, rates, {"claim": claim, "own": own, "guess": rates}))
    return joined(parts)


def _plot(
    title: str, axes: Square, ticks: Sequence[tuple[float, str]], rates: Vector, curves: dict[str, Vector]
) -> Html:
    lines = (
        polyline(name, axes.path(zip(rates.tolist(), values.tolist(), strict=True)))
        for name, values in curves.items()
    )
    drawn = axes.drawing(
        *lines,
        ticks=ticks,
        across="wrong accusations",
        up="right accusations, at most",
        label=f"{title}: right against wrong accusations",
    )
    return figure(title, drawn)


def _linear(rate: float) -> float:
    return min(max(rate, 0.0), 1.0)


def _logarithmic(rate: float) -> float:
    return 1 - math.log(min(max(rate, LEAST), 1.0)) / math.log(LEAST)
