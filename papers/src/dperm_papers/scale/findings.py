"""What must be so at any scale, and what was not measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dperm.data.folder import MAPPED_BYTES
from dperm_papers.reproduce.item import Check
from dperm_papers.scale.cells import LOGISTIC, SHARDS, Method
from dperm_papers.scale.measuring import Outcome
from dperm_papers.scale.memory import expected
from dperm_papers.scale.tables import BUSY, MEMORY, Measured

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
