"""Batches whose models differ: groups with Hessians of their own, tolerances of their own, and last digits."""

import numpy as np
import pytest
from scipy.optimize import minimize
from test_solvers import Array, Batch, dissimilar, table

from dperm.losses import HuberHinge, Logistic
from dperm.solvers import lbfgs, newton


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.05)], ids=repr)
def test_groups_use_the_hessians_of_their_own_models_only(loss):
    batch = dissimilar(loss)
    asked = []

    def hessian(k: int, w: Array) -> Array:
        asked.append(k)
        return batch.hessian(k, w)

    solution = newton(batch, hessian, batch.start, 1e-11, groups=range(5))
    assert solution.reached <= 1e-11
    assert set(asked) == set(range(5))
    for k, rows in enumerate(batch.rows):
        alone = Batch([rows], [batch.l2[k]], loss)
        single = newton(alone, alone.hessian, alone.start, 1e-11)
        np.testing.assert_allclose(solution.points[:, k], single.points[:, 0], rtol=1e-6, atol=1e-9)


def test_every_model_has_its_own_tolerance():
    batch = dissimilar(Logistic())
    limits = np.array([1e-2, 1e-11, 1e-3, 1e-11, 1e-2])
    solution = newton(batch, batch.hessian, batch.start, limits, groups=range(5))
    assert (solution.gradient_norms <= limits).all()
    assert (solution.gradient_norms[[0, 2, 4]] > 1e-11).any()  # no work beyond what was asked for


def test_a_model_that_cannot_move_does_not_hold_up_the_others():
    batch = dissimilar(Logistic())

    def lying(W: Array) -> tuple[Array, Array]:
        values, gradients = batch(W)
        gradients[:, 2] *= -1
        return values, gradients

    solution = newton(lying, batch.hessian, batch.start, 1e-10, max_iterations=30, groups=range(5))
    others = [0, 1, 3, 4]
    assert (solution.gradient_norms[others] <= 1e-10).all()
    assert solution.gradient_norms[2] > 1e-3
    assert np.abs(solution.points[:, 2]).max() < 1e-12


def test_lbfgs_goes_on_where_values_are_level():
    """Plain L-BFGS-B stops where values differ by rounding alone, far above this tolerance."""
    batch = Batch([table(1, n=2000, p=20)], [1e-3], Logistic())
    start = batch.start[:, 0]
    options = {"maxiter": 5000, "maxfun": 10_000, "maxcor": 20, "ftol": 0.0, "gtol": 1e-14}
    plain = minimize(lambda w: batch.one(0, w), start, jac=True, method="L-BFGS-B", options=options).x
    assert np.linalg.norm(batch.one(0, plain)[1]) > 1e-12
    solution = lbfgs(batch, start, 1e-13)
    assert np.linalg.norm(batch.one(0, solution.points[:, 0])[1]) == solution.reached <= 1e-13


def test_lbfgs_stops_when_the_tolerance_is_below_rounding():
    batch = Batch([table(1)], [1e-3], Logistic())
    solution = lbfgs(batch, batch.start[:, 0], 1e-30)
    assert 1e-30 < solution.reached < 1e-12
