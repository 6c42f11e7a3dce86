"""Evaluations and mean predictions as text for a terminal of 80 columns, as parts of a web page, and as a plot.

A part has inline drawings, takes the styles of its page, and every word in it is escaped. A drawing is inline SVG: its
colours are those of the page, and it loads and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dperm.counting.estimates import UNIT, UNKNOWN, Estimate
from dperm.counting.metrics import registered_metrics
from dperm.evaluation.curves import CalibrationGroup, RocPoint
from dperm.evaluation.groups import ALL, Mean
from dperm.evaluation.results import EvaluationResult, MeansResult
from dperm.render import svg
from dperm.render import text as render
from dperm.render.html import Cell, Html, code, figure, joined, paragraph, safe, section, tag
from dperm.render.html import table as html_table
from dperm.render.numbers import TOO_NOISY, written

WIDE_LABEL = 14
MOST_CLASSES = 12


def evaluation_text(found: EvaluationResult) -> str:
    """The guarantee, the table of metrics, and the confusion matrix."""
    parts = [head(found), table(_metric_rows(found))]
    if found.confusion:
        parts.append(_confusion(found))
    if found.notes:
        parts.append("\n".join(found.notes))
    return "\n\n".join(parts)


def head(found: EvaluationResult) -> str:
    """One line or two: how private this is, and on how many rows."""
    rows = rows_in_words(found)
    if found.local:
        return f"NOT PRIVATE, not to be published: exact figures on {rows}"
    return f"{_guarantee(found)}: figures on {rows}"


def _guarantee(found: EvaluationResult | MeansResult) -> str:
    assert found.budget is not None
    stated = f"({found.budget['epsilon']:g}, {found.budget['delta']:g})-differentially private"
    sure = stated if found.private else f"NOT PRIVATE (seeded noise), else {stated}"
    return f"{sure} for {found.protected},\n{found.neighbours} neighbours"


def rows_in_words(found: EvaluationResult) -> str:
    """How many rows or persons were counted. Only exact values say how many rows persons have."""
    units = f"{found.unit}s"
    if found.rows is not None:
        persons = found.unit == "person" and found.table_rows is not None
        return (
            f"{found.table_rows:,} rows of {found.rows:,} persons" if persons else f"{found.rows:,} {units}"
        )
    count = found.row_count
    if count is None or count.estimate is None or count.noise is None:
        return f"a private number of {units}"
    return f"about {round(count.estimate, -1):,.0f} {units} (their number is private, ±{count.noise:,.0f})"


def shown(estimate: Estimate) -> str:
    return TOO_NOISY if estimate.estimate is None else number(estimate.estimate, estimate)


def interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{number(estimate.low, estimate)} to {number(estimate.high, estimate)}"


def noise_part(estimate: Estimate) -> str:
    return "" if not estimate.noise else f"±{number(estimate.noise, estimate)}"


def number(value: float, estimate: Estimate) -> str:
    """As many digits as the interval leaves a meaning to, two at least of its width."""
    width = (estimate.high or 0.0) - (estimate.low or 0.0)
    digits = 4
    if width > 0:
        digits = min(max(next((d for d in range(8) if width * 10**d >= 10), 7), 0), 6)
    return f"{value:,.{digits}f}"


def _metric_rows(found: EvaluationResult) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [
        ("metric", "estimate", "95 % interval", "" if found.local else "of which noise")
    ]
    rows += [
        (found.title(name), shown(estimate), interval(estimate), noise_part(estimate))
        for name, estimate in found.metrics.items()
    ]
    return rows


def _confusion(found: EvaluationResult) -> str:
    labels = [cut(str(label)) for label in found.classes]
    head = (f"true, % of {found.unit}s", *(f"predicted {label}" for label in labels))
    cells = ((label, *map(_share, line)) for label, line in zip(labels, found.confusion, strict=True))
    shares = table([head, *cells])
    if len(shares.partition("\n")[0]) > render.WIDTH:
        lines: list[Sequence[str]] = [("class", "recall", "95 % interval", "precision", "95 % interval")]
        for label, line in zip(labels, found.rates, strict=True):
            recall, precision = line["recall"], line["precision"]
            lines.append((label, shown(recall), interval(recall), shown(precision), interval(precision)))
        return table(lines)
    return shares


def _share(estimate: Estimate) -> str:
    if estimate.estimate is None or estimate.low is None or estimate.high is None:
        return TOO_NOISY
    return f"{100 * estimate.estimate:.1f} ({100 * estimate.low:.1f}-{100 * estimate.high:.1f})"


def cut(label: str) -> str:
    return render.cut(label, WIDE_LABEL)


def table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(render.aligned(rows))


def evaluation_html(found: EvaluationResult) -> Html:
    """The whole fragment."""
    return section(
        "How good the model is",
        _head_html(found),
        _metrics_html(found),
        _curves_html(found),
        _confusion_html(found),
        *(paragraph(note, "dim") for note in found.notes if not found.local),
    )


def _head_html(found: EvaluationResult) -> Html:
    rows = rows_in_words(found)
    if found.local:
        return paragraph(
            f"NOT PRIVATE: exact figures on {rows}, for the owner of the data alone. This page must not be published.",
            "alarm",
        )
    return _guarantee_html(
        found,
        f"Measured on {rows}. ",
        "Every interval is meant to hold the true value for people like these in 95 of 100 evaluations; it counts both "
        f"the choice of the {found.unit}s and the noise.",
    )


def _guarantee_html(found: EvaluationResult | MeansResult, measured: str, intervals: str) -> Html:
    """The guarantee, what was ``measured`` by it, and what the ``intervals`` are for."""
    assert found.budget is not None
    stated = f"ε\u00a0=\u00a0{found.budget['epsilon']:g}, δ\u00a0=\u00a0{written(found.budget['delta'])}"
    stated += f", {found.neighbours} neighbours"
    sure = f"Differentially private for {found.protected}: {stated}"
    if not found.private:
        sure = f"NOT PRIVATE: the noise was seeded. Else {stated}"
    charge = () if found.ledger_entry is None else (Html("<br>Paid by "), code(found.ledger_entry), ".")
    return tag("p", f"{sure}. {measured}{intervals}", *charge, style="dim" if found.private else "alarm")


def _metrics_html(found: EvaluationResult) -> Html:
    known, (head, *rows) = registered_metrics(), _metric_rows(found)
    shares = (estimate if known[name].share else UNKNOWN for name, estimate in found.metrics.items())
    return _estimates_html(head[: 3 if found.local else 4], rows, shares)


def _estimates_html(head: Sequence[str], rows: Iterable[Sequence[str]], drawn: Iterable[Estimate]) -> Html:
    """A line for each estimate: as many cells as ``head`` has, and the interval of what is ``drawn``."""
    lines = (
        (
            name,
            *(Cell(cell, "l") for cell in cells[: len(head) - 1]),
            Cell(interval_drawing(estimate), "drawn"),
        )
        for (name, *cells), estimate in zip(rows, drawn, strict=True)
    )
    return html_table((*head, Cell("", "drawn")), lines)


def _curves_html(found: EvaluationResult) -> Html:
    drawn = []
    if found.roc:
        drawn.append(figure("ROC curve, with 95 % band", roc_drawing(found.roc)))
    if found.calibration:
        of = f"of {found.classes[1]}" if found.task == "binary" else "of the predicted class"
        drawn.append(figure(f"Calibration {of}, with 95 % intervals", calibration_drawing(found.calibration)))
    return tag("div", *drawn, style="plots curves") if drawn else Html("")


def _confusion_html(found: EvaluationResult) -> Html:
    if not found.confusion:
        return Html("")
    rates = (
        (label, *(Cell(_rate(line[name]), "l") for name in ("recall", "precision")))
        for label, line in zip(found.classes, found.rates, strict=True)
    )
    by_class = (tag("h3", "By class, in %"), html_table(("class", "recall", "precision"), rates))
    if len(found.classes) > MOST_CLASSES:
        return joined(by_class)
    largest = max(cell.estimate or 0.0 for line in found.confusion for cell in line)
    lines = (
        (label, *(_cell(cell, largest) for cell in line))
        for label, line in zip(found.classes, found.confusion, strict=True)
    )
    return joined(
        (
            tag("h3", f"Confusion matrix, in % of the {found.unit}s"),
            html_table(("true", *(f"predicted {label}" for label in found.classes)), lines, style="cells"),
            *by_class,
        )
    )


def _cell(estimate: Estimate, largest: float) -> Cell:
    share = (estimate.estimate or 0.0) / (largest or 1.0)
    return Cell(Html(f'<i style="opacity:{0.3 * share:.3f}"></i><span>{safe(_rate(estimate))}</span>'), "l")


def _rate(estimate: Estimate) -> str:
    if estimate.estimate is None or estimate.low is None or estimate.high is None:
        return TOO_NOISY
    low, high = 100 * estimate.low, 100 * estimate.high
    return Html(f'{100 * estimate.estimate:.1f} <span class="dim">({low:.1f} to {high:.1f})</span>')


def means_text(found: MeansResult) -> str:
    """The guarantee, the table of groups, and what the intervals know."""
    return "\n\n".join(
        [
            f"{_guarantee(found)}: {found.title}",
            table([(cut(name), *cells) for name, *cells in _lines(found)]),
            "\n".join(found.notes),
        ]
    )


def named(found: MeansResult) -> Iterator[tuple[str, Mean]]:
    """The groups by their names, and all rows at last."""
    yield from ((str(value), mean) for value, mean in found.groups.items())
    yield f"{ALL} {found.unit}s", found.overall


def rows_in_group(estimate: Estimate) -> str:
    """A number of rows with the reach of its noise."""
    if estimate.estimate is None or not estimate.noise:
        return f"{estimate.estimate or 0:,.0f}"
    return f"{estimate.estimate:,.0f} ±{estimate.noise:,.0f}"


def _lines(found: MeansResult) -> Iterator[Sequence[str]]:
    units = f"{found.unit}s"
    yield (found.by if found.groups else "", units, "mean", "95 % interval", f"of these {units}")
    for name, one in named(found):
        yield name, rows_in_group(one.rows), shown(one.mean), interval(one.mean), interval(one.here)


def means_html(found: MeansResult) -> Html:
    """The whole fragment."""
    head, *rows = _lines(found)
    drawn = (one.mean if found.range == UNIT else UNKNOWN for _, one in named(found))
    return section(
        found.title[0].upper() + found.title[1:],
        _guarantee_html(
            found,
            "",
            "The 95 % interval is for people like these, and counts both the choice of the "
            f"{found.unit}s and the noise; that of these {found.unit}s alone counts the noise.",
        ),
        _estimates_html(head, rows, drawn),
        *(paragraph(note, "dim") for note in found.notes),
    )


BAR = 120.0
SQUARE = svg.Square(side=240.0, left=40.0, right=14.0, below=42.0)
TICKS = [(share, f"{share:g}") for share in (0.0, 0.5, 1.0)]


def roc_drawing(points: list[RocPoint]) -> str:
    """The curve with a band: the intervals of both rates, joined from point to point."""
    rates = [(point.false_positive_rate, point.true_positive_rate) for point in points]
    known = [tuple(map(_ends, pair)) for pair in rates if all(rate.known for rate in pair)]
    # Low end, estimate and high end of both rates, which do not fall from one point to the next, as the true ones.
    corners = np.array([((0.0,) * 3,) * 2, *known, ((1.0,) * 3,) * 2])
    across, up = np.maximum.accumulate(corners).transpose(1, 2, 0).tolist()
    lower, middle, upper = (zip(across[k], up[2 - k], strict=True) for k in (2, 1, 0))
    return SQUARE.drawing(
        svg.polygon("band", SQUARE.path([(0.0, 0.0), *upper, *reversed([*lower])])),
        svg.polyline("guess", SQUARE.path([(0, 0), (1, 1)])),
        svg.polyline("own", SQUARE.path(middle)),
        ticks=TICKS,
        across="false positive rate",
        up="true positive rate",
        label="ROC curve with its 95 % band",
    )


def calibration_drawing(groups: list[CalibrationGroup]) -> str:
    """Each group as a level line over its range of chances, with the interval of what came true."""
    parts = [svg.polyline("guess", SQUARE.path([(0, 0), (1, 1)]))]
    for group in groups:
        if not group.observed.known:
            continue
        across, (low, up, high) = group.predicted, _ends(group.observed)
        parts += [
            svg.line("reach", SQUARE.at(across, low), SQUARE.at(across, high)),
            svg.line("own", SQUARE.at(group.low, up), SQUARE.at(group.high, up)),
            svg.dot("dot", SQUARE.at(across, up), 3),
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

    low, middle, high = _ends(estimate)

    def along(share: float) -> tuple[float, float]:
        return 4 + (BAR - 8) * share, 7.0

    return svg.drawing(
        BAR,
        14,
        svg.line("grid", (2, 7), (BAR - 2, 7)),
        svg.line("reach", along(low), along(high)),
        svg.dot("dot", along(middle), 2),
        label="interval from 0 to 1",
        style="small",
    )


def _ends(estimate: Estimate) -> tuple[float, float, float]:
    """Low end, estimate and high end of a share."""
    return estimate.low or 0.0, estimate.estimate or 0.0, 1.0 if estimate.high is None else estimate.high


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
    shown = {found.title(name): estimate for name, estimate in found.metrics.items() if estimate.known}
    for place, estimate in enumerate(shown.values()):
        ax.plot([estimate.low, estimate.high], [place, place], linewidth=3, alpha=0.4, color="C0")
        ax.plot([estimate.estimate], [place], marker="o", color="C0")
    ax.set_yticks(range(len(shown)), list(shown))
    ax.invert_yaxis()
    ax.set_xlabel("estimate and 95 % interval")
    return ax
