"""The tables of the study of scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dperm_papers.reproduce.item import Section
from dperm_papers.scale.cells import Cell, Method, Sweep
from dperm_papers.scale.measuring import Outcome
from dperm_papers.scale.slopes import RULE, Slope, slope

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
