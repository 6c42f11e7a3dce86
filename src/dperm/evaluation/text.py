"""An evaluation as text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from dperm.evaluation.found import Found
from dperm.evaluation.intervals import Figure
from dperm.render import text as render
from dperm.render.numbers import TOO_NOISY

WIDE_LABEL = 14


def text(found: Found) -> str:
    """What was promised, the table of figures, and the confusion matrix."""
    parts = [head(found), table(_figure_rows(found))]
    if found.confusion:
        parts.append(_confusion(found))
    if found.notes:
        parts.append("\n".join(found.notes))
    return "\n\n".join(parts)


def head(found: Found) -> str:
    """One line or two: how private this is, and on how many rows."""
    rows = rows_in_words(found)
    if found.local:
        return f"NOT PRIVATE, not to be published: exact figures on {rows}"
    assert found.budget is not None
    promise = f"({found.budget['epsilon']:g}, {found.budget['delta']:g})-differentially private"
    sure = promise if found.private else f"NOT PRIVATE (seeded noise), else {promise}"
    return f"{sure} for {found.whom},\n{found.neighbours} neighbours: figures on {rows}"


def rows_in_words(found: Found) -> str:
    """How many rows or persons were counted. How many rows persons have is told of exact figures alone."""
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


def shown(figure: Figure) -> str:
    return TOO_NOISY if figure.estimate is None else number(figure.estimate, figure)


def interval(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f"{number(figure.low, figure)} to {number(figure.high, figure)}"


def noise_part(figure: Figure) -> str:
    return "" if not figure.noise else f"±{number(figure.noise, figure)}"


def number(value: float, figure: Figure) -> str:
    """As many digits as the interval leaves a meaning to, two at least of its width."""
    width = (figure.high or 0.0) - (figure.low or 0.0)
    digits = 4
    if width > 0:
        digits = min(max(next((d for d in range(8) if width * 10**d >= 10), 7), 0), 6)
    return f"{value:,.{digits}f}"


def _figure_rows(found: Found) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [
        ("metric", "estimate", "95 % interval", "" if found.local else "of which noise")
    ]
    rows += [
        (found.title(name), shown(figure), interval(figure), noise_part(figure))
        for name, figure in found.metrics.items()
    ]
    return rows


def _confusion(found: Found) -> str:
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


def _share(figure: Figure) -> str:
    if figure.estimate is None or figure.low is None or figure.high is None:
        return TOO_NOISY
    return f"{100 * figure.estimate:.1f} ({100 * figure.low:.1f}-{100 * figure.high:.1f})"


def cut(label: str) -> str:
    return render.cut(label, WIDE_LABEL)


def table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(render.aligned(rows))
