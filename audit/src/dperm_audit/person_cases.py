"""Persons with many rows: neighbours that differ in one of them, the settings to try, and broken ways to count them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.engine.base.draws import KnownRows
from dperm.estimators.persons import GroupedRows, declared_persons, loss_of_persons, of_persons
from dperm.losses import Linear, Loss, Weighted, example_losses
from dperm.losses.base import weighted_targets
from dperm.mechanisms import Job, Mechanism, Plan
from dperm.mechanisms.gradient.dp_gd import DPGD
from dperm.mechanisms.gradient.dp_sgd import DPSGD
from dperm.mechanisms.output.family import DescentPlan, descend
from dperm.mechanisms.output.output_gd import OutputGD
from dperm.mechanisms.output.rsgd import NSGD
from dperm.privacy import Budget, Gate
from dperm.problem import Problem
from dperm.unit import Neighbours, PersonLoss
from dperm_audit.controls import Control
from dperm_audit.neighbours import Pair, PersonRows, Rows, Side, background, changes
from dperm_audit.replay_cases import BUDGET, FACTS, HEAVIEST, other_settings, plans_for

if TYPE_CHECKING:
    from dperm.engine import Engine
    from dperm.engine import Rows as EngineRows
    from dperm.engine.base.draws import Batches, Members

SIZES = (1, 3, 50)
GROWN = ((1, 50), (50, 1))  # a person is replaced by one with more rows, or fewer: all later rows move
OTHERS = (1, 2, 4)  # how many rows the other persons have, in turn

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Person = tuple[Side, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class PersonPair(Pair):
    """``n_rows`` is how many rows the differing person has, on the side where they are more."""

    n_rows: int


def person_pairs(problem: Problem) -> list[PersonPair]:
    """Every kind of change, by persons of every size whose rows are all alike, and by some whose rows are not."""
    sizes = [(size, size) for size in SIZES]
    if problem.neighbours is Neighbours.REPLACE_ONE:
        sizes += GROWN
    middle, last = problem.n_rows // 2, problem.n_rows - 1
    (first, change), *_ = changes(problem).items()
    tried = [(name, "crowded", middle, *sides) for name, sides in changes(problem).items()]
    tried += [(first, "cancelling", middle, *change)]
    tried += [(f"{first}, {place}", "crowded", at, *change) for place, at in (("first", 0), ("last", last))]
    found = [
        person_pair(problem, name, kind, at, (here,) * left, (there,) * right, apart=k % 2 == 1)
        for k, (name, kind, at, here, there) in enumerate(tried)
        for left, right in sizes
    ]
    return [*found, *_mixed(problem, middle)]


def _mixed(problem: Problem, at: int) -> Iterator[PersonPair]:
    """Persons whose rows differ, so that what each row adds is divided among many directions."""
    left, right = zip(*changes(problem).values(), strict=True)
    for size in SIZES[1:]:
        here, there = (tuple(sides[k % len(sides)] for k in range(size)) for sides in (left, right))
        yield person_pair(problem, "rows of all kinds", "crowded", at, here, there)


def person_pair(
    problem: Problem, name: str, kind: str, at: int, here: Person, there: Person, *, apart: bool = True
) -> PersonPair:
    """A table in which one person differs, or under add-remove is not there; ``apart`` lays their rows apart."""
    persons = other_persons(problem, kind)
    left, right = list(persons), list(persons)
    left[at], right[at] = here, there
    removed = problem.neighbours is Neighbours.ADD_REMOVE
    if removed:
        del right[at]
    size = len(here) if removed else max(len(here), len(there))
    counts = (
        f"{len(here)} rows" if removed or len(here) == len(there) else f"{len(here)} to {len(there)} rows"
    )
    return PersonPair(
        name=f"{name}, {kind}, {counts}",
        left=table_of_persons(problem, left, apart),
        right=table_of_persons(problem, right, apart),
        row=at,
        n_rows=size,
    )


def table_of_persons(problem: Problem, persons: Sequence[Person], apart: bool = False) -> Rows:
    """Rows and ids as ``fit`` would get them, with weights where rows have some, and what it makes of them."""
    X, y, ids, number = laid_out(problem, persons, apart)
    bound = own_weights(problem)
    if bound != 1:
        y = weighted_targets(y, bound / (1 + number % 2))
    grouped = GroupedRows.of(ids)
    rows, targets, members = of_persons(X, y, grouped, problem)
    return (rows, targets) if members is None else PersonRows(rows, targets, members, grouped.n_persons)


def laid_out(
    problem: Problem, persons: Sequence[Person], apart: bool = False
) -> tuple[Vector, Vector, NDArray[np.str_], NDArray[np.int64]]:
    """Rows, labels, ids, and how many rows of the same person come before each.

    Rows of one person follow each other, or, ``apart``, the first rows of all come first, then the second ones.
    """
    places = [(k, i) for i, person in enumerate(persons) for k in range(len(person))]
    if apart:
        places.sort()
    X = np.array([persons[i][k][0] for k, i in places]).reshape(-1, problem.n_features)
    y = np.array([persons[i][k][1] for k, i in places])
    ids = np.array([f"person {7 * i % 1009}" for _, i in places])  # their order is not that of the rows
    return X, y, ids, np.array([k for k, _ in places], np.int64)


def own_weights(problem: Problem) -> float:
    """The bound on weights that a user gave; 1 where they gave none."""
    persons = problem.persons
    assert persons is not None
    many = problem.many_rows and persons.loss is PersonLoss.SUM
    return problem.loss.heaviest / (persons.rows_per_person if many else 1)


def other_persons(problem: Problem, kind: str) -> list[Person]:
    """Persons with one row and with several, no two rows of one alike."""
    X, y = background(replace(problem, loss=problem.loss.unweighted), kind, 0)
    shorter = np.linspace(1.0, 0.5, max(OTHERS))
    return [
        tuple((row * shorter[k], float(label)) for k in range(OTHERS[i % len(OTHERS)]))
        for i, (row, label) in enumerate(zip(X, y, strict=True))
    ]


Kind = tuple[PersonLoss, int | None]
KINDS: tuple[Kind, ...] = ((PersonLoss.MEAN, None), (PersonLoss.SUM, 3))
OTHER_KINDS: tuple[Kind, ...] = ((PersonLoss.MEAN, 3), (PersonLoss.SUM, 50), (PersonLoss.MEAN, 1))


def person_cases(mechanism: Mechanism, budget: Budget = BUDGET) -> Iterator[Plan]:
    """Plans for tables of persons, as estimators make them: every loss and relation, and every other setting once."""

    def plans(losses: Iterable[Loss], relation: Neighbours, kind: Kind, **settings: Any) -> Iterator[Plan]:
        problems = (person_problem(loss, relation, kind) for loss in losses)
        return plans_for(mechanism, problems, budget, settings)

    losses = example_losses()
    weighted = [Weighted(loss, HEAVIEST) for loss in losses if loss.is_model]
    for loss, relation, kind in product(losses, Neighbours, KINDS):
        yield from plans([loss], relation, kind)
    for relation, kind in product(Neighbours, KINDS):
        for settings in other_settings(mechanism):
            yield from islice(plans(losses, relation, kind, **settings), 1)
    for relation, kind in product(Neighbours, OTHER_KINDS):
        yield from islice(plans(losses, relation, kind), 1)
    for relation, kind in product(Neighbours, KINDS):
        yield from islice(plans(weighted, relation, kind), 1)


def person_problem(loss: Loss, relation: Neighbours, kind: Kind, **facts: Any) -> Problem:
    """A problem as an estimator states it for persons. The heavier a person may be, the more l2."""
    public = {**FACTS, **facts}
    persons = declared_persons(True, kind[0].value, kind[1], public["n_rows"])
    weighted = loss_of_persons(loss, persons)
    l2 = public["l2"] * max(1.0, weighted.heaviest)
    return Problem(loss=weighted, neighbours=relation, persons=persons, **{**public, "l2": l2})


def refused_settings(mechanism: Mechanism) -> Iterator[tuple[str, str]]:
    """Settings that a mechanism refuses for persons with several rows alone, and why."""
    for setting in other_settings(mechanism):
        changed = replace(mechanism, **setting)
        for loss, relation in product(example_losses(), Neighbours):
            problem = person_problem(loss, relation, KINDS[0])
            reason = changed.misfit(problem)
            if reason is not None and mechanism.misfit(problem) is None:
                yield " ".join(f"{name}={value}" for name, value in setting.items()), reason
                break


class DrawsRows(DPSGD):
    """Draws single rows into its batches, and pays for persons."""

    name: ClassVar[str] = "broken: draws rows, not persons"

    def _batch(self, engine: Engine, members: Members | None, plans: Sequence[Any], gate: Gate) -> Engine:
        return super()._batch(engine, None, plans, gate)


class BatchesOfRows(NSGD):
    """Cuts the rows into equally many for each batch: one who has more of them moves others to other batches."""

    name: ClassVar[str] = "broken: batches of rows, not of persons"

    def _train(self, plans: Sequence[DescentPlan], rows: EngineRows, gate: Gate) -> Matrix:
        return descend(rows.open(precise=True), plans, _OrderOfRows())  # type: ignore[arg-type]


class _OrderOfRows:
    def batches(self, engine: Engine, sizes: NDArray[np.int64]) -> Batches:
        cut = np.diff(np.linspace(0, engine.n_rows, len(sizes) + 1).astype(np.int64))
        return engine.batches(cut[:, None]).counted_as(sizes)


class ClipsEachRow(DPGD):
    """Clips the gradient of every row of a person as if it were the person's."""

    name: ClassVar[str] = "broken: the clip is not shared out among a person's rows"

    def _run(self, jobs: Sequence[Job[Any]], rows: EngineRows, gate: Gate) -> list[Vector]:
        return super()._run(jobs, rows.sharing_clips(None), gate)  # type: ignore[attr-defined]


class MomentsOfAllRows(OutputGD):
    """Takes the mean and the moments over all rows, with noise for one row of each person."""

    name: ClassVar[str] = "broken: mean and moments of all rows of a person"

    def _run_standardised(self, job: Job[Any], rows: EngineRows, gate: Gate) -> Any:
        everyone = copy(rows)
        assert rows.members is not None
        everyone.members = copy(rows.members)
        every = KnownRows(np.arange(rows.n_rows))
        everyone.members.first_rows = lambda: every  # type: ignore[method-assign]
        return super()._run_standardised(job, everyone, gate)


def person_controls() -> tuple[Control, ...]:
    """Every broken mechanism with what it was broken from and a pair that shows the fault."""
    replaced = person_problem(Linear(), Neighbours.REPLACE_ONE, KINDS[0])
    most = max(SIZES)

    def control(kind: Any, healthy: Mechanism, rows: int, change: str = "label") -> Control:
        """The first person, who has so many rows, among others who cancel as long as they stay where they are."""
        here, there = changes(replaced)[change]
        tables = (here,) * rows, (there,) * most
        pair = person_pair(replaced, change, "cancelling", 0, *tables, apart=False)
        return Control.of(kind, healthy, replaced, "distance", pair=pair)

    return (
        control(DrawsRows, DPSGD(steps=4, rate=0.5), 1),
        control(BatchesOfRows, NSGD(epochs=3, batch_size=6), 1),
        control(ClipsEachRow, DPGD(steps=4, clip=0.2), most),
        control(MomentsOfAllRows, OutputGD(iterations=4, standardise=True), most, "opposite rows"),
    )
