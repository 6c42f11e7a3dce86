"""L-BFGS around a Hessian that is only roughly right."""

from collections.abc import Sequence

import numpy as np
import pytest
from test_solvers import Array, Batch, assert_solved, table

from dperm.losses import HuberHinge, Logistic, Loss
from dperm.solvers import newton, steered
from dperm.solvers.base import Objective


def one(loss: Loss, scales: Array | None = None) -> Batch:
    return Batch([table(3, n=2000, p=12, scales=scales)], [1e-4], loss)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.3)], ids=repr)
def test_few_passes_are_enough_from_the_minimiser_of_a_few_rows(loss: Loss) -> None:
    batch = one(loss)
    X, y = batch.rows[0]
    few = Batch([(X[::8], y[::8])], batch.l2, loss)
    near = newton(few, few.hessian, few.start, 1e-4).points[:, 0]
    solution = steered(lambda _: batch, [few.hessian(0, near)], near[:, None], 1e-10)
    assert batch.calls <= 25
    assert_solved(solution, batch, 1e-10)


def test_what_the_hessian_misses_is_learnt_on_the_way() -> None:
    """Columns that the few rows hardly have: with the guess alone steps would be far too long, for ever."""
    batch = one(Logistic(), np.array([1.0] * 10 + [1e-3, 1e-3]))
    guess = batch.hessian(0, batch.start[:, 0])
    guess[10:] *= 1e-3
    guess[:, 10:] *= 1e-3
    guess[range(12), range(12)] += 1e-4
    solution = steered(lambda _: batch, [guess], batch.start[:, :1], 1e-10)
    assert_solved(solution, batch, 1e-10)


def test_it_reports_the_norm_it_stopped_at() -> None:
    batch = one(Logistic())
    start = batch.start[:, 0]
    for guess, most in ((np.eye(12), 2), (np.zeros((12, 12)), 30), (-np.eye(12), 30)):
        solution = steered(lambda _: batch, [guess], start[:, None], 1e-12, most)
        norm = np.linalg.norm(batch.one(0, solution.points[:, 0])[1])
        assert solution.reached == pytest.approx(norm)
        assert solution.reached > 1e-12


def test_it_gives_up_on_a_lying_objective() -> None:
    batch = one(Logistic())

    def lying(W: Array) -> tuple[Array, Array]:
        values, gradients = batch(W)
        return values, -gradients

    start = batch.start[:, 0]
    solution = steered(lambda _: lying, [np.eye(12)], start[:, None], 1e-9)
    assert solution.reached > 1e-3
    np.testing.assert_array_equal(solution.points[:, 0], start)


def test_several_models_arrive_each_by_its_own_hessian_and_are_left_alone_then() -> None:
    rows = [table(seed, n=600, p=6) for seed in range(4)]
    batch = Batch(rows, [1e-3, 1e-2, 1e-3, 1e-1], Logistic())
    asked: list[int] = []

    def some(models: Sequence[int]) -> Objective:
        asked.append(len(models))
        return Batch([rows[k] for k in models], [batch.l2[k] for k in models], Logistic())

    guess = batch.hessian(0, batch.start[:, 0])
    guesses = [guess + (l2 - 1e-3) * np.eye(6) for l2 in batch.l2]
    solution = steered(some, guesses, batch.start, 1e-10)
    assert_solved(solution, batch, 1e-10)
    assert asked[0] == 4
    assert asked[-1] < 4
