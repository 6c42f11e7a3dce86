"""Curves as inline SVG: colours are those of the page, light or dark, and nothing is loaded or run."""

from __future__ import annotations

from dperm.evaluation.curves import Group, RocPoint
from dperm.evaluation.intervals import Figure
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


def calibration_drawing(groups: list[Group]) -> str:
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


def interval_drawing(figure: Figure) -> str:
    """A figure from 0 to 1 as a dot on a bar, its interval thick."""
    if not figure.known:
        return ""

    def along(share: float) -> tuple[float, float]:
        return 4 + (BAR - 8) * share, 7.0

    return drawing(
        BAR,
        14,
        line("grid", (2, 7), (BAR - 2, 7)),
        line("reach", along(_low(figure)), along(_high(figure))),
        dot("dot", along(_at(figure)), 2),
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


def _at(figure: Figure) -> float:
    return figure.estimate or 0.0


def _low(figure: Figure) -> float:
    return figure.low or 0.0


def _high(figure: Figure) -> float:
    return 1.0 if figure.high is None else figure.high
