"""The linear loss attains every sensitivity, so no bound is loose and none is too small.

Rows differ in one position: a row against its negative (replace-one) or against nothing (add-remove).
The distance of the two trained points must be the recurrence's, batch by batch, to rounding. Mechanisms
store rows as float32 and shorten the longest by a ten-millionth for that; so their own training is held
to the recurrence with a shorter row, and float64 rows to the bound itself.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from output_cases import BUDGET, FixedOrder, descents, positions_of_batches, short, train

from dperm.engine import Table, open_rows
from dperm.losses import Linear
from dperm.mechanisms import NSGD, RSGDAR, Output
from dperm.mechanisms.output.family import DescentMechanism, descend
from dperm.planning.schedule import branch_sensitivities
from dperm.privacy import Gate
from dperm.problem import Problem
from dperm.unit import Neighbours

N, P = 103, 3
PROBLEM = Problem(loss=Linear(), l2=0.3, x_norm=1.0, n_rows=N, n_features=P, intercept=0.5)
MECHANISMS = descents(N, step=0.37 / PROBLEM.smoothness)
RNG = np.random.default_rng(7)
ORDER = RNG.permutation(N)
# Rows with few binary digits, so that float32 storage holds them exactly.
X = np.round(RNG.uniform(-0.5, 0.5, size=(N, P)) * 64) / 64
Y = np.where(RNG.random(N) < 0.5, 1.0, -1.0)
LONGEST = np.array([0.0, 1.0, 0.0])
SHORTER = np.array([0.0, 0.5, 0.0])
SHARE = math.hypot(0.5, 0.5) / PROBLEM.row_norm  # of the bound on a row, the intercept inside it


def placed(mechanism: DescentMechanism, position: int) -> int:
    """Which row of the table comes to lie at this position of the training order."""
    return int(ORDER[position]) if mechanism.permuted else position


def neighbours(
    row: int, features: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """A row with label +1, and with label -1: gradients z and -z, intercept included."""
    here, there = Y.copy(), Y.copy()
    here[row], there[row] = 1.0, -1.0
    rows = X.copy()
    rows[row] = features
    return (rows, here), (rows, there)


@pytest.mark.together
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=short)
def test_training_attains_the_recurrence_in_every_batch(mechanism: DescentMechanism) -> None:
    exact = branch_sensitivities(mechanism.schedule(PROBLEM), PROBLEM, rounding=False)
    declared = mechanism.plan(PROBLEM, BUDGET).sensitivities
    assert declared is not None
    for j, position in enumerate(positions_of_batches(mechanism, PROBLEM)):
        for features, share, gap in ((SHORTER, SHARE, 1e-12), (LONGEST, 1.0, 2e-7)):
            one, other = neighbours(placed(mechanism, position), features)
            distance = np.linalg.norm(
                train(mechanism, PROBLEM, *one, ORDER) - train(mechanism, PROBLEM, *other, ORDER)
            )
            assert distance == pytest.approx(share * exact[j], rel=gap)
            assert distance <= declared[j]


@pytest.mark.cover(1)
@pytest.mark.parametrize("engine", ["dense", "reference"])
@pytest.mark.parametrize("mechanism", MECHANISMS[::3], ids=short)
def test_descent_on_float64_rows_attains_it_too(mechanism: DescentMechanism, engine: str) -> None:
    plan = mechanism.plan(PROBLEM, BUDGET)
    exact = branch_sensitivities(plan.schedule, PROBLEM, rounding=False)

    def point(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        table = Table(rows, labels, row_map=PROBLEM.row_map, n_rows=N)
        order = Gate(FixedOrder(ORDER)).order() if mechanism.permuted else None
        opened = table.open(order, precise=True, engine=engine)
        return descend(opened, [plan])[:, 0]

    for j, position in enumerate(positions_of_batches(mechanism, PROBLEM)):
        one, other = neighbours(placed(mechanism, position), LONGEST)
        assert np.linalg.norm(point(*one) - point(*other)) == pytest.approx(exact[j], rel=1e-12)


@pytest.mark.together
@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if not isinstance(m, NSGD)][::2], ids=short)
def test_adding_a_row_attains_half_of_it(mechanism: DescentMechanism) -> None:
    """The table holds one row less than its capacity; the row comes to lie in batch j."""
    facts = replace(PROBLEM, neighbours=Neighbours.ADD_REMOVE)
    exact = branch_sensitivities(mechanism.schedule(facts), facts, rounding=False)
    np.testing.assert_allclose(
        2 * exact, branch_sensitivities(mechanism.schedule(PROBLEM), PROBLEM, rounding=False), rtol=1e-12
    )
    for j, position in enumerate(positions_of_batches(mechanism, facts)):
        order = ORDER.copy()
        last = int(np.flatnonzero(order == N - 1)[0])
        order[[last, position]] = order[[position, last]]
        with_row = np.vstack([X[: N - 1], SHORTER]), np.append(Y[: N - 1], 1.0)
        without = X[: N - 1], Y[: N - 1]
        distance = np.linalg.norm(
            train(mechanism, facts, *with_row, order) - train(mechanism, facts, *without, order)
        )
        assert distance == pytest.approx(SHARE * exact[j], rel=1e-12)


def test_a_row_removed_from_the_middle_is_covered_by_the_secret_order() -> None:
    """Rows close up after a removal, and a matching order puts every other row back where it was."""
    facts = replace(PROBLEM, neighbours=Neighbours.ADD_REMOVE)
    mechanism = RSGDAR(epochs=7, average_every=3, batch_size=11, step_size=1.0, standardise=False)
    exact = branch_sensitivities(mechanism.schedule(facts), facts, rounding=False)
    rows = X.copy()
    rows[40] = SHORTER
    fewer, labels = np.delete(rows, 40, axis=0), np.delete(Y, 40)
    name_after = np.array([i - (i > 40) for i in range(N)])
    name_after[40] = N - 1  # the empty row
    distance = np.linalg.norm(
        train(mechanism, facts, rows, Y, ORDER) - train(mechanism, facts, fewer, labels, name_after[ORDER])
    )
    position = int(np.flatnonzero(ORDER == 40)[0])
    batch = int(np.searchsorted(np.cumsum(mechanism.schedule(facts).batch_sizes), position, side="right"))
    assert distance == pytest.approx(SHARE * exact[batch], rel=1e-12)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_the_minimiser_attains_its_sensitivity(relation: Neighbours) -> None:
    facts = replace(PROBLEM, neighbours=relation)
    mechanism = Output(tolerance=1e-9, standardise=False)
    exact = facts.gradient_gap / (N * facts.l2)
    if relation is Neighbours.REPLACE_ONE:
        one, other = neighbours(17, LONGEST)
    else:
        one, other = (np.vstack([X[: N - 1], LONGEST]), np.append(Y[: N - 1], 1.0)), (X[: N - 1], Y[: N - 1])
    distance = np.linalg.norm(
        train(mechanism, facts, *one, ORDER, np.float64) - train(mechanism, facts, *other, ORDER, np.float64)
    )
    assert distance == pytest.approx(exact, rel=1e-12)
    assert distance <= mechanism.minimiser_sensitivity(facts)


def test_a_halved_gap_would_be_caught() -> None:
    """The control: a recurrence that forgets that the row is replaced, not removed, fails by half."""
    mechanism = MECHANISMS[0]
    wrong = replace(PROBLEM, neighbours=Neighbours.ADD_REMOVE)
    claimed = branch_sensitivities(mechanism.schedule(wrong), wrong)
    one, other = neighbours(placed(mechanism, 0), LONGEST)
    distance = np.linalg.norm(
        train(mechanism, PROBLEM, *one, ORDER) - train(mechanism, PROBLEM, *other, ORDER)
    )
    assert distance > 1.9 * claimed[0]


def test_the_order_given_is_the_order_used() -> None:
    entropy = FixedOrder(ORDER)
    rows = open_rows(X, Y, PROBLEM)
    public = NSGD(epochs=2, batch_size=11, step_size=1.0, standardise=False)
    for mechanism in (MECHANISMS[0], public):
        mechanism._train([mechanism.plan(PROBLEM, BUDGET)], rows, Gate(entropy))
    assert entropy.asked == [N]  # asked once, by the permuted mechanism alone
