"""The trade-off of an attacker as inline SVG: true against false positives, on plain and on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dperm.certificate.verdict import Verdict
from dperm.certificate.words import attack_rates
from dperm.privacy import Budget
from dperm.privacy.risk import tradeoff

Vector = NDArray[np.float64]

SIZE, LEFT, TOP, RIGHT, BOTTOM = 300.0, 58.0, 14.0, 26.0, 50.0
LEAST = 1e-4


def attack_figures(verdict: Verdict) -> str:
    """Both plots, or nothing where there is no verified guarantee."""
    if verdict.guarantee is None or verdict.price is None:
        return ""
    budget = Budget(**verdict.guarantee)
    plain = np.unique(np.concatenate([np.linspace(0, 1, 81), np.geomspace(1e-4, 0.1, 30)]))
    small = np.geomspace(LEAST, 1, 61)
    parts = []
    for title, rates, place, ticks, labels in (
        ("All attacks", plain, _linear, [0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"]),
        (
            "Careful attacks, on logarithmic axes",
            small,
            _logarithmic,
            [1e-4, 1e-3, 1e-2, 1e-1, 1],
            ["0.01 %", "0.1 %", "1 %", "10 %", "100 %"],
        ),
    ):
        claim = np.array([tradeoff(budget, float(rate)) for rate in rates])
        own = attack_rates(verdict, rates.tolist())
        parts.append(_plot(title, place, ticks, labels, rates, {"claim": claim, "own": own, "guess": rates}))
    return "\n".join(parts)


def _plot(
    title: str,
    place: Callable[[float], float],
    ticks: Sequence[float],
    labels: Sequence[str],
    rates: Vector,
    curves: dict[str, Vector],
) -> str:
    def x(rate: float) -> float:
        return LEFT + SIZE * place(rate)

    def y(rate: float) -> float:
        return TOP + SIZE * (1 - place(rate))

    lines = []
    for tick, label in zip(ticks, labels, strict=True):
        lines += [
            f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{TOP + SIZE}"/>',
            f'<line class="grid" x1="{LEFT}" x2="{LEFT + SIZE}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>',
            f'<text x="{x(tick):.1f}" y="{TOP + SIZE + 16}" text-anchor="middle">{label}</text>',
            f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{label}</text>',
        ]
    for name, values in curves.items():
        points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(rates, values, strict=True))
        lines.append(f'<polyline class="{name}" points="{points}"/>')
    middle = LEFT + SIZE / 2
    lines += [
        f'<text class="axis" x="{middle}" y="{TOP + SIZE + 38}" text-anchor="middle">wrong accusations</text>',
        f'<text class="axis" transform="translate(13 {TOP + SIZE / 2}) rotate(-90)" text-anchor="middle">'
        "right accusations, at most</text>",
    ]
    width, height = LEFT + SIZE + RIGHT, TOP + SIZE + BOTTOM
    body = "\n".join(lines)
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{title}: right against wrong accusations">{body}</svg></figure>'
    )


def _linear(rate: float) -> float:
    return min(max(rate, 0.0), 1.0)


def _logarithmic(rate: float) -> float:
    return 1 - math.log(min(max(rate, LEAST), 1.0)) / math.log(LEAST)
