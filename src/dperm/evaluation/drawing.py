"""Curves as inline SVG, whose colours are those of the page and which loads and runs nothing; or by matplotlib."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dperm.counting.estimates import Estimate
from dperm.evaluation.curves import CalibrationGroup, RocPoint
from dperm.evaluation.results import EvaluationResult

SIDE, LEFT, TOP, BELOW = 240.0, 40.0, 10.0, 40.0
BAR = 120.0


def roc_drawing(points: list[RocPoint]) -> str:
    """The curve with a band: the intervals of both rates, joined from point to point."""
    known = [
        (point.false_positive_rate, point.true_positive_rate)
        for point in points
        if point.false_positive_rate.known and point.true_positive_rate.known
    ]
    middle = [(0.0, 0.0), *((_at(across), _at(up)) for across, up in known), (1.0, 1.0)]
    middle = _rising(middle)
    upper = _rising([(0.0, 0.0), *((_low(across), _high(up)) for across, up in known), (1.0, 1.0)])
    lower = _rising([(0.0, 0.0), *((_high(across), _low(up)) for across, up in known), (1.0, 1.0)])
    band = [(0.0, 0.0), *upper, *reversed(lower)]
    inside = (
        f'<polygon class="band" points="{_path(band)}"/>'
        f'<polyline class="guess" points="{_path([(0, 0), (1, 1)])}"/>'
        f'<polyline class="own" points="{_path(middle)}"/>'
    )
    return _frame(inside, "false positive rate", "true positive rate", "ROC curve with its 95 % band")


def calibration_drawing(groups: list[CalibrationGroup]) -> str:
    """Each group as a level line over its range of chances, with the interval of what came true."""
    parts = [f'<polyline class="guess" points="{_path([(0, 0), (1, 1)])}"/>']
    for group in groups:
        if not group.observed.known:
            continue
        across, up = group.predicted, _at(group.observed)
        parts.append(
            f'<line class="bar" {_ends((across, _low(group.observed)), (across, _high(group.observed)))}/>'
            f'<line class="own" {_ends((group.low, up), (group.high, up))}/>'
            f'<circle class="dot" cx="{_x(across):.1f}" cy="{_y(up):.1f}" r="3"/>'
        )
    return _frame(
        "".join(parts), "predicted chance", "share that came true", "Calibration curve with 95 % intervals"
    )


def interval_drawing(estimate: Estimate) -> str:
    """An estimate from 0 to 1 as a dot on a bar, its interval thick."""
    if not estimate.known:
        return ""
    return (
        f'<svg class="line" viewBox="0 0 {BAR:.0f} 14" role="img" aria-label="interval from 0 to 1">'
        f'<line class="grid" x1="2" x2="{BAR - 2:.0f}" y1="7" y2="7"/>'
        f'<line class="bar" x1="{_along(_low(estimate))}" x2="{_along(_high(estimate))}" y1="7" y2="7"/>'
        f'<circle class="dot" cx="{_along(_at(estimate))}" cy="7" r="2"/></svg>'
    )


def _frame(inside: str, across: str, up: str, name: str) -> str:
    """Axes from 0 to 1 around a drawing."""
    ticks = "".join(
        f'<line class="grid" {_ends((share, 0), (share, 1))}/><line class="grid" {_ends((0, share), (1, share))}/>'
        f'<text x="{_x(share):.1f}" y="{TOP + SIDE + 15:.0f}" text-anchor="middle">{share:g}</text>'
        f'<text x="{LEFT - 6:.0f}" y="{_y(share) + 4:.1f}" text-anchor="end">{share:g}</text>'
        for share in (0.0, 0.5, 1.0)
    )
    middle = TOP + SIDE / 2
    return (
        f'<svg viewBox="0 0 {LEFT + SIDE + 14:.0f} {TOP + SIDE + BELOW:.0f}" role="img" aria-label="{name}">{ticks}'
        f'<text class="axis" x="{LEFT + SIDE / 2:.0f}" y="{TOP + SIDE + 33:.0f}" text-anchor="middle">{across}</text>'
        f'<text class="axis" transform="translate(12 {middle:.0f}) rotate(-90)" text-anchor="middle">{up}</text>'
        f"{inside}</svg>"
    )


def _rising(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same points with rates that do not fall from one to the next, as the true ones do not."""
    kept, across, up = [], 0.0, 0.0
    for here, there in points:
        across, up = max(across, here), max(up, there)
        kept.append((across, up))
    return kept


def _path(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{_x(across):.1f},{_y(up):.1f}" for across, up in points)


def _ends(first: tuple[float, float], last: tuple[float, float]) -> str:
    return f'x1="{_x(first[0]):.1f}" y1="{_y(first[1]):.1f}" x2="{_x(last[0]):.1f}" y2="{_y(last[1]):.1f}"'


def _x(share: float) -> float:
    return LEFT + SIDE * share


def _y(share: float) -> float:
    return TOP + SIDE * (1 - share)


def _along(share: float) -> str:
    return f"{4 + (BAR - 8) * share:.1f}"


def _at(estimate: Estimate) -> float:
    return estimate.estimate or 0.0


def _low(estimate: Estimate) -> float:
    return estimate.low or 0.0


def _high(estimate: Estimate) -> float:
    return 1.0 if estimate.high is None else estimate.high


def plot(found: EvaluationResult, ax: Any = None) -> Any:
    """The ROC curve with its band; without one, the metrics with their intervals."""
    if ax is None:
        from matplotlib.figure import Figure as Canvas

        ax = Canvas(figsize=(4.2, 4.0), layout="constrained").add_subplot()
    return _roc(found, ax) if found.roc else _bars(found, ax)


def _roc(found: EvaluationResult, ax: Any) -> Any:
    known = [
        (point.false_positive_rate.estimate, *point.true_positive_rate.to_dict().values())
        for point in found.roc
        if point.false_positive_rate.known and point.true_positive_rate.known
    ]
    across, middle, low, high, _ = zip((0.0,) * 5, *known, (1.0,) * 5, strict=True)
    ax.fill_between(across, low, high, alpha=0.25, linewidth=0)
    ax.plot(across, middle)
    ax.plot([0, 1], [0, 1], linestyle=":", color="grey")
    ax.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1))
    return ax


def _bars(found: EvaluationResult, ax: Any) -> Any:
    shown = {found.title(name): figure for name, figure in found.metrics.items() if figure.known}
    for place, figure in enumerate(shown.values()):
        ax.plot([figure.low, figure.high], [place, place], linewidth=3, alpha=0.4, color="C0")
        ax.plot([figure.estimate], [place], marker="o", color="C0")
    ax.set_yticks(range(len(shown)), list(shown))
    ax.invert_yaxis()
    ax.set_xlabel("estimate and 95 % interval")
    return ax
