"""Mechanisms that treat the rows of a person wrongly, on purpose, and the replays that must notice each."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.audit.controls import Control
from dperm.audit.neighbours import Side, changes
from dperm.engine.base.draws import KnownRows
from dperm.estimators.persons_audit.cases import KINDS, person_problem
from dperm.estimators.persons_audit.pairs import SIZES, PersonPair, person_pair
from dperm.losses import Linear
from dperm.mechanisms import DPGD, DPSGD, NSGD, Job, Mechanism, OutputGD
from dperm.mechanisms.output.descent import DescentPlan, descend
from dperm.neighbours import Neighbours
from dperm.privacy import Gate
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows
    from dperm.engine.base.draws import Batches, Members, Sample

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class DrawsRows(DPSGD):
    """Draws single rows into its batches, and pays for persons."""

    name: ClassVar[str] = "broken: draws rows, not persons"

    def _batch(self, engine: Engine, members: Members | None, plans: Sequence[Any], gate: Gate) -> Engine:
        return super()._batch(engine, None, plans, gate)


class BatchesOfRows(NSGD):
    """Cuts the rows into equally many for each batch: one who has more of them moves others to other batches."""

    name: ClassVar[str] = "broken: batches of rows, not of persons"

    def _train(self, plans: Sequence[DescentPlan], rows: Rows, gate: Gate) -> Matrix:
        return descend(rows.open(precise=True), plans, _OrderOfRows())  # type: ignore[arg-type]


class _OrderOfRows:
    def batches(self, engine: Engine, sizes: NDArray[np.int64]) -> Batches:
        cut = np.diff(np.linspace(0, engine.n_rows, len(sizes) + 1).astype(np.int64))
        return engine.batches(cut[:, None]).counted_as(sizes)


class ClipsEachRow(DPGD):
    """Clips the gradient of every row of a person as if it were the person's."""

    name: ClassVar[str] = "broken: the clip is not shared out among a person's rows"

    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Vector]:
        return super()._run(jobs, rows.sharing_clips(None), gate)  # type: ignore[attr-defined]


class MomentsOfAllRows(OutputGD):
    """Takes the mean and the moments over all rows, with noise for one row of each person."""

    name: ClassVar[str] = "broken: mean and moments of all rows of a person"

    def _run_standardised(self, job: Job[Any], rows: Rows, gate: Gate) -> Any:
        everyone = copy(rows)
        assert rows.members is not None
        everyone.members = copy(rows.members)
        everyone.members.first_rows = lambda: _all_rows(rows.n_rows)  # type: ignore[method-assign]
        return super()._run_standardised(job, everyone, gate)


def _all_rows(n_rows: int) -> Sample:
    return KnownRows(np.arange(n_rows))


def person_controls() -> tuple[Control, ...]:
    """Every broken mechanism with what it was broken from and a pair that shows the fault."""
    replaced = person_problem(Linear(), Neighbours.REPLACE_ONE, KINDS[0])
    grown, many = ((1, max(SIZES)), (max(SIZES), max(SIZES)))

    def control(kind: Any, healthy: Mechanism, pair: PersonPair) -> Control:
        return Control(
            name=kind.name.removeprefix("broken: "),
            what_is_wrong=(kind.__doc__ or "").strip(),
            mechanism=kind(**healthy.settings),
            healthy=healthy,
            problem=replaced,
            caught_by="replay",
            check="distance",
            pair=pair,
        )

    return (
        control(DrawsRows, DPSGD(steps=4, rate=0.5), _pair(replaced, *grown)),
        control(BatchesOfRows, NSGD(epochs=3, batch_size=6), _pair(replaced, *grown)),
        control(ClipsEachRow, DPGD(steps=4, clip=0.2), _pair(replaced, *many)),
        control(
            MomentsOfAllRows,
            OutputGD(iterations=4, standardise=True),
            _pair(replaced, *many, "opposite rows"),
        ),
    )


def _pair(problem: Problem, left: int, right: int, change: str = "label") -> PersonPair:
    """The first person, among others who cancel as long as they stay where they are."""
    sides: tuple[Side, Side] = changes(problem)[change]
    here, there = ((side,) * size for side, size in zip(sides, (left, right), strict=True))
    return person_pair(problem, change, "cancelling", 0, here, there, apart=False)
