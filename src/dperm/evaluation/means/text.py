"""Mean predictions as text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dperm.evaluation.intervals import Figure
from dperm.evaluation.means.declared import ALL
from dperm.evaluation.means.figures import Mean
from dperm.evaluation.means.found import FoundMeans
from dperm.evaluation.text import cut, interval, shown, table


def text(found: FoundMeans) -> str:
    """What was promised, the table of groups, and what the intervals know."""
    return "\n\n".join([_head(found), table([*_lines(found)]), "\n".join(found.notes)])


def named(found: FoundMeans) -> Iterator[tuple[str, Mean]]:
    """The groups by their names, and all rows at last."""
    yield from ((str(value), mean) for value, mean in found.groups.items())
    yield f"{ALL} {found.unit}s", found.overall


def heads(found: FoundMeans) -> Sequence[str]:
    """Over the columns of figures."""
    units = f"{found.unit}s"
    return units, "mean", "95 % interval", f"of these {units}"


def rows_in_group(figure: Figure) -> str:
    """A number of rows with the reach of its noise."""
    if figure.estimate is None or not figure.noise:
        return f"{figure.estimate or 0:,.0f}"
    return f"{figure.estimate:,.0f} ±{figure.noise:,.0f}"


def _head(found: FoundMeans) -> str:
    promise = f"({found.budget['epsilon']:g}, {found.budget['delta']:g})-differentially private"
    sure = promise if found.private else f"NOT PRIVATE (seeded noise), else {promise}"
    return f"{sure} for these {found.unit}s,\n{found.neighbours} neighbours: {found.title}"


def _lines(found: FoundMeans) -> Iterator[Sequence[str]]:
    yield (cut(found.by) if found.groups else "", *heads(found))
    for name, one in named(found):
        yield cut(name), rows_in_group(one.rows), shown(one.mean), interval(one.mean), interval(one.here)
