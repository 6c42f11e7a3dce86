"""Curves as inline SVG, whose colours are those of the page and which loads and runs nothing; or by matplotlib."""

from __future__ import annotations

from typing import Any

from dperm.counting.estimates import Estimate
from dperm.evaluation.curves import CalibrationGroup, RocPoint
from dperm.evaluation.results import EvaluationResult
from dperm.render.svg import Square, dot, drawing, line, polygon, polyline

BAR = 120.0
SQUARE = Square(side=240.0, left=40.0, right=14.0, below=42.0)
TICKS = [(share, f"{share:g}") for share in (0.0, 0.5, 1.0)]


def roc_drawing(points: list[RocPoint]) -> str:
    """The curve with a band: the intervals of both rates, joined from point to point."""
    known = [
        (point.false_positive_rate, point.true_positive_rate)
        for point in points
        if point.false_positive_rate.known and point.true_positive_rate.known
    ]
    middle = _rising([(0.0, 0.0), *((_at(across), _at(up)) for across, up in known), (1.0, 1.0)])
    upper = _rising([(0.0, 0.0), *((_low(across), _high(up)) for across, up in known), (1.0, 1.0)])
    lower = _rising([(0.0, 0.0), *((_high(across), _low(up)) for across, up in known), (1.0, 1.0)])
    return SQUARE.drawing(
        polygon("band", SQUARE.path([(0.0, 0.0), *upper, *reversed(lower)])),
        polyline("guess", SQUARE.path([(0, 0), (1, 1)])),
        polyline("own", SQUARE.path(middle)),
        ticks=TICKS,
        across="false positive rate",
        up="true positive rate",
        label="ROC curve with its 95 % band",
    )


def calibration_drawing(groups: list[CalibrationGroup]) -> str:
    """Each group as a level line over its range of chances, with the interval of what came true."""
    parts = [polyline("guess", SQUARE.path([(0, 0), (1, 1)]))]
    for group in groups:
        if not group.observed.known:
            continue
        across, up = group.predicted, _at(group.observed)
        parts += [
            line("reach", SQUARE.at(across, _low(group.observed)), SQUARE.at(across, _high(group.observed))),
            line("own", SQUARE.at(group.low, up), SQUARE.at(group.high, up)),
            dot("dot", SQUARE.at(across, up), 3),
        ]
    return SQUARE.drawing(
        *parts,
        ticks=TICKS,
        across="predicted chance",
        up="share that came true",
        label="Calibration curve with 95 % intervals",
    )


def interval_drawing(estimate: Estimate) -> str:
    """An estimate from 0 to 1 as a dot on a bar, its interval thick."""
    if not estimate.known:
        return ""

    def along(share: float) -> tuple[float, float]:
        return 4 + (BAR - 8) * share, 7.0

    return drawing(
        BAR,
        14,
        line("grid", (2, 7), (BAR - 2, 7)),
        line("reach", along(_low(estimate)), along(_high(estimate))),
        dot("dot", along(_at(estimate)), 2),
        label="interval from 0 to 1",
        style="small",
    )


def _rising(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same points with rates that do not fall from one to the next, as the true ones do not."""
    kept, across, up = [], 0.0, 0.0
    for here, there in points:
        across, up = max(across, here), max(up, there)
        kept.append((across, up))
    return kept


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
