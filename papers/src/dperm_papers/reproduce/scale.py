"""The study of scale: time and memory of one fit over the number of rows and of columns, beside scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm.data.folder import MAPPED_BYTES
from dperm.experiments.figures import MARKERS, save
from dperm.models.atomic import atomic_path
from dperm.processors import available_processors
from dperm.render.style import GREY, PALETTE
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section
from dperm_papers.scale.cells import (
    CODED,
    DENSE,
    FULL,
    LOGISTIC,
    QUICK,
    SCIKIT_LEARN,
    SHARDS,
    SPARSE,
    Cell,
    Method,
    Sweep,
)
from dperm_papers.scale.child import DELTA, EPSILON, SHORT
from dperm_papers.scale.measuring import LIMIT, Outcome, measure_all
from dperm_papers.scale.memory import SHARE, expected

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How time and memory grow: the exponent b of a power law size^b, by least squares on logarithms.

LAST = 3
"""Sizes that count, from the largest on: below them fixed costs have a share."""

LEAST_RANGE = 10.0
"""Between the smallest and the largest size that count."""

RULE = (
    f"exponents b of size^b, by least squares on logarithms over the last {LAST} sizes that were measured, if these "
    f"span a factor of {LEAST_RANGE:g} at least; fixed costs have a share in smaller ones"
)


@dataclass(frozen=True, kw_only=True)
class Slope:
    """``exponent`` over the sizes from ``first`` to ``last``."""

    exponent: float
    first: int
    last: int


def slope(values: Mapping[int, float]) -> Slope | None:
    """Of positive values by size; None where there are too few, or too close to one another."""
    sizes = sorted(values)[-LAST:]
    if len(sizes) < LAST or sizes[-1] < LEAST_RANGE * sizes[0] or min(values[size] for size in sizes) <= 0:
        return None
    exponent = np.polyfit(np.log(sizes), np.log([values[size] for size in sizes]), 1)[0]
    return Slope(exponent=float(exponent), first=sizes[0], last=sizes[-1])


# The tables of the study of scale.

NOT_COUNTED, NOT_RUN, TOO_FEW = "not counted", "not run", "too few sizes"


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Something that was measured of a cell: its name, its unit and how it is read."""

    name: str
    unit: str
    read: Callable[[Outcome], float | None]


CLOCK = Quantity(
    name="Clock seconds", unit="of one fit, on a machine that others may use", read=lambda one: one.seconds
)
BUSY = Quantity(
    name="Processor seconds", unit="of all threads and processes of one fit", read=lambda one: one.cpu_seconds
)
MEMORY = Quantity(
    name="Memory",
    unit="MB at the peak, the rows included",
    read=lambda one: None if one.memory is None else one.memory / 1e6,
)
QUANTITIES = (BUSY, CLOCK, MEMORY)


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured:
    """A sweep with the outcomes of its cells."""

    sweep: Sweep
    outcomes: Mapping[Cell, Outcome]

    def outcome(self, method: Method, size: int) -> Outcome:
        cell = Cell(shape=self.sweep.shape(size), method=method)
        return self.outcomes.get(cell, Outcome(cell=cell, word=NOT_RUN))

    def values(self, method: Method, quantity: Quantity) -> dict[int, float]:
        """By size, where it was measured."""
        found = {size: quantity.read(self.outcome(method, size)) for size in self.sweep.all_sizes}
        return {size: value for size, value in found.items() if value is not None}

    def slope(self, method: Method, quantity: Quantity) -> Slope | None:
        return slope(self.values(method, quantity))


def sections(measured: Sequence[Measured]) -> Iterator[Section]:
    yield slopes_table(measured)
    yield largest_table(measured)
    for one in measured:
        for quantity in QUANTITIES:
            yield _by_size(one, quantity)
        yield _ratios(one)


def _by_size(one: Measured, quantity: Quantity) -> Section:
    def shown(method: Method, size: int) -> str:
        outcome = one.outcome(method, size)
        return outcome.word or number(quantity.read(outcome))

    return _grid(one, quantity.name, quantity.unit, one.sweep.methods, shown)


def _ratios(one: Measured) -> Section:
    theirs = one.sweep.reference
    against = one.values(theirs, BUSY)

    def shown(method: Method, size: int) -> str:
        outcome, other = one.outcome(method, size), against.get(size)
        value = BUSY.read(outcome)
        return outcome.word or number(value / other if value is not None and other else None)

    others = [method for method in one.sweep.methods if method != theirs]
    return _grid(one, "Ratio", f"processor seconds over those of scikit-learn's {theirs.name}", others, shown)


def _grid(
    one: Measured, name: str, unit: str, methods: Sequence[Method], shown: Callable[[Method, int], str]
) -> Section:
    sweep = one.sweep
    return Section(
        title=f"{name} by {sweep.over} ({sweep.kind}): {unit}; {sweep.setting}",
        columns=("method", *(f"{sweep.over} = {size:,}" for size in sweep.all_sizes)),
        rows=tuple((method.label, *(shown(method, size) for size in sweep.all_sizes)) for method in methods),
    )


def slopes_table(measured: Sequence[Measured]) -> Section:
    rows = []
    for one in measured:
        for method in one.sweep.methods:
            found = [one.slope(method, quantity) for quantity in QUANTITIES]
            exponents = (TOO_FEW if some is None else f"{some.exponent:.2f}" for some in found)
            range_of = next((f"{some.first:,} to {some.last:,}" for some in found if some is not None), "")
            rows.append((row_name(one.sweep, method), *exponents, range_of))
    return Section(
        title=f"Slopes: {RULE}",
        columns=("sweep and method", *(quantity.name.lower() for quantity in QUANTITIES), "sizes"),
        rows=tuple(rows),
    )


def largest_table(measured: Sequence[Measured]) -> Section:
    """For every method the largest size that it was measured at."""
    rows = []
    for one in measured:
        for method in one.sweep.methods:
            sizes = one.values(method, CLOCK)
            if sizes:
                outcome = one.outcome(method, max(sizes))
                rows.append((row_name(one.sweep, method), *_in_full(outcome)))
    return Section(
        title="Largest size: of every sweep and method, with the memory at its peak",
        columns=(
            "sweep and method",
            "n",
            "p",
            "clock seconds",
            "processor seconds",
            "MB",
            "bytes per row",
            "bytes per entry",
            "over the rows as given",
        ),
        rows=tuple(rows),
    )


def _in_full(outcome: Outcome) -> Iterator[str]:
    shape, memory = outcome.cell.shape, outcome.memory
    yield f"{shape.n:,}"
    yield f"{shape.p:,}"
    yield number(outcome.seconds)
    yield number(outcome.cpu_seconds)
    for size in (1e6, shape.n, outcome.entries, outcome.row_bytes):
        yield number(None if memory is None else memory / size)


def row_name(sweep: Sweep, method: Method) -> str:
    return f"{sweep.kind} by {sweep.over}: {method.label}"


def number(value: float | None) -> str:
    """Three digits, without exponents."""
    if value is None:
        return NOT_COUNTED
    return f"{value:.{3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0}f}"


# The figure: time and memory over n, and time over p, on logarithmic axes; a column for each kind of rows.

COLUMNS = ((DENSE,), (CODED, SHARDS), (SPARSE,))
ROWS = (("n", BUSY, "processor seconds"), ("n", MEMORY, "peak memory, MB"), ("p", BUSY, "processor seconds"))
_MECHANISMS = ("auto", "objective", "output", "ssp", "rsgd-ar", "dp-gd", "dp-sgd")
_DASHES = {SCIKIT_LEARN[0]: "--", SCIKIT_LEARN[1]: ":"}
_BELOW = 1.0  # inches, for the legend and the note
_NOTE = (
    "Each point is one fit in a process of its own; processor seconds are those of all its threads and processes. "
    "Memory counts the rows."
)


def draw(measured: Sequence[Measured], path: Path) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = 12.6, 11.4
    figure = Figure(figsize=(width, height), dpi=160)
    FigureCanvasAgg(figure)
    handles: dict[str, Any] = {}
    for axes, (over, quantity, label) in zip(figure.subplots(3, 3), ROWS, strict=True):
        for place, kinds in zip(axes, COLUMNS, strict=True):
            mine = [one for one in measured if one.sweep.kind in kinds and one.sweep.over == over]
            handles |= _panel(place, mine, quantity)
            fixed = ", ".join(dict.fromkeys(one.sweep.setting for one in mine))
            title = " and ".join(one.sweep.kind for one in mine)
            place.set_title(f"{title}; {fixed}" if mine else kinds[0], loc="left", fontsize=10.5)
            place.set_xlabel(over)
            place.set_ylabel(label)
    figure.suptitle(
        "Time and memory of one fit over rows (n) and columns (p)",
        x=0.12 / width,
        y=1 - 0.12 / height,
        ha="left",
        va="top",
        fontsize=13,
        fontweight="bold",
    )
    figure.legend(
        handles.values(),
        handles.keys(),
        fontsize=8.5,
        frameon=False,
        ncols=6,
        loc="upper left",
        bbox_to_anchor=(0.05 / width, _BELOW / height),
    )
    figure.text(0.12 / width, 0.08 / height, _NOTE, fontsize=8.5, color=GREY)
    figure.tight_layout(rect=(0, _BELOW / height, 1, 1 - 0.35 / height))
    with atomic_path(path) as unfinished:
        save(figure, unfinished)
    return path


def _panel(axes: Axes, measured: Sequence[Measured], quantity: Quantity) -> dict[str, Any]:
    """Draw what was measured; what stands for each line in the legend."""
    handles: dict[str, Any] = {}
    for one in measured:
        for method in one.sweep.methods:
            values = {size: value for size, value in one.values(method, quantity).items() if value > 0}
            if values:
                label = f"{method.label}, {SHARDS}" if one.sweep.kind == SHARDS else method.label
                (handles[label],) = axes.plot(
                    list(values), list(values.values()), **_look(method, one.sweep.kind == SHARDS)
                )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)
    axes.set_axisbelow(True)
    return handles


def _look(method: Method, on_disk: bool) -> dict[str, Any]:
    """A colour for each mechanism, hollow markers for another engine or the disk; scikit-learn is grey and broken."""
    if not method.is_private:
        return {"color": GREY, "linestyle": _DASHES[method.name], "linewidth": 1.6}
    place = _MECHANISMS.index(method.name) % len(PALETTE) if method.name in _MECHANISMS else -1
    look = {"color": PALETTE[place], "linewidth": 2.4 if method == Method("auto") and not on_disk else 1.4}
    look |= {"marker": MARKERS[place], "markersize": 4.8}
    if method.engine:
        look |= {"linestyle": "-.", "marker": {"Dask": "v", "Spark": "*", "torch": "P"}[method.engine]}
    return look | ({"markerfacecolor": "white"} if on_disk or method.engine else {})


# What must be so at any scale, and what was not measured.

DEFAULT = Method("auto")
LARGE = 1_000_000
MOST_EXPONENT = 1.1
MOST_OF_SHARDS = 2 * MAPPED_BYTES / 1e6  # MB: what a fit may keep of rows, and leave mapped


def checks(measured: Sequence[Measured]) -> Iterator[Check]:
    for one in measured:
        if one.sweep.over == "n":
            yield from _over_n(one)
    outcomes = [outcome for one in measured for outcome in one.outcomes.values()]
    yield Check(
        claim="no fit takes more memory than was expected of it from the numbers of rows and columns",
        holds=all(
            outcome.memory <= expected(outcome.cell) for outcome in outcomes if outcome.memory is not None
        ),
    )


def _over_n(one: Measured) -> Iterator[Check]:
    rows = SHARDS if one.sweep.kind == SHARDS else f"{one.sweep.kind} rows"
    grows = one.slope(DEFAULT, BUSY)
    if grows is not None:
        yield Check(
            claim=f"{rows}: processor seconds of auto grow as n^{MOST_EXPONENT:g} at most",
            holds=grows.exponent <= MOST_EXPONENT,
        )
    ours = one.values(DEFAULT, BUSY)
    if one.sweep.kind == SHARDS and len(ours) > 1:
        yield from _of_shards(one)
    theirs = one.values(Method(LOGISTIC), BUSY) if Method(LOGISTIC) in one.sweep.methods else {}
    large = sorted(size for size in ours.keys() & theirs.keys() if size >= LARGE)
    if large:
        yield Check(
            claim=f"{rows}: from n = {LARGE:,} on auto takes fewer processor seconds than {LOGISTIC}",
            holds=all(ours[size] < theirs[size] for size in large),
        )


def _of_shards(one: Measured) -> Iterator[Check]:
    memory = one.values(DEFAULT, MEMORY)
    *_, before, last = sorted(memory)
    yield Check(
        claim=f"shards: the memory of auto at its peak stays below {MOST_OF_SHARDS:.0f} MB",
        holds=max(memory.values()) < MOST_OF_SHARDS,
    )
    if one.outcome(DEFAULT, last).row_bytes > MAPPED_BYTES:  # fewer may all stay mapped
        yield Check(
            claim=f"shards: from n = {before:,} to {last:,} memory grows less than half as much as n",
            holds=memory[last] / memory[before] < last / before / 2,
        )


def left_out(outcomes: Iterable[Outcome]) -> list[str]:
    """A line for every cell without a measurement."""
    return [
        f"{outcome.cell.method.label}, {outcome.cell.shape.n:,} x {outcome.cell.shape.p:,} {outcome.cell.shape.kind}: "
        f"{outcome.reason}"
        for outcome in outcomes
        if outcome.reason
    ]


def _scale(bench: Bench) -> Report:
    sweeps = QUICK if bench.quick else FULL
    outcomes = measure_all(sweeps, bench)
    measured = [
        Measured(sweep=sweep, outcomes={cell: outcomes[cell] for cell in sweep.cells()}) for sweep in sweeps
    ]
    return Report(
        sections=(*sections(measured), _machine(outcomes)),
        checks=tuple(checks(measured)),
        skipped=tuple(left_out(outcomes.values())),
        files=(_write(outcomes, bench.folder / "cells.parquet"), draw(measured, bench.folder / "figure.png")),
    )


def _machine(outcomes: Mapping[Cell, Outcome]) -> Section:
    """How busy the machine was with everything, these fits included, when a cell was begun."""
    loads = [outcome.load for outcome in outcomes.values() if outcome.seconds is not None]
    rows = [("processors", str(available_processors()))]
    if loads:
        rows += [("load, median", number(float(np.median(loads)))), ("load, most", number(max(loads)))]
    rows.append(("cells measured", str(len(loads))))
    return Section(title="Machine: when the cells were measured", columns=("what", "value"), rows=tuple(rows))


def _write(outcomes: Mapping[Cell, Outcome], path: Path) -> Path:
    """A row for every cell."""
    rows = [
        {**asdict(cell.shape), "method": cell.method.name, "engine": cell.method.engine, **_values(outcome)}
        for cell, outcome in outcomes.items()
    ]
    with atomic_path(path) as unfinished:
        pq.write_table(pa.Table.from_pylist(rows), unfinished)
    return path


def _values(outcome: Outcome) -> dict[str, object]:
    return {name: value for name, value in vars(outcome).items() if name != "cell"}


ITEMS = {
    "scale": Item(
        name="scale",
        title="Time and memory of one fit over 10,000 to 20,000,000 rows and 10 to 100,000 columns",
        paper="A study of this library",
        published="There is nothing published to put beside it.",
        run=_scale,
        differs=(
            f"Logistic regression, ε = {EPSILON:g}, δ = {DELTA:g}, every mechanism with its defaults; scikit-learn "
            "with its own, not private. Rows are drawn from a logistic model by the seed.",
            "Each cell is a process of its own. It fits a few rows first, so that no compilation is timed, and making "
            f"the rows does not count. Fits below {SHORT:g} s are timed three times and the median is taken.",
            "scikit-learn gets dense rows as the same float32 matrix, sparse rows as the same CSR matrix, and the "
            "records of coded rows one-hot in CSR. On shards SGDClassifier makes one epoch by partial_fit over pieces "
            "from the disk.",
            "Memory is the highest resident size during the fit less that before the rows were made: rows count, and "
            "so do files that are mapped.",
            f"A cell is not run if it is expected to take more than {SHARE:.0%} of the free memory, and is ended after "
            f"{LIMIT:.0f} s.",
        ),
    ),
}
