"""Every family trains to the same weights on every kind of rows, under a gate with a seed and a given order."""

import dataclasses

import numpy as np
import pytest
from engine_tables import FixedOrder, FixedSample
from kinds import features_of, kinds_marked

from dperm.engine import Table
from dperm.losses import ClippedSquared, Logistic, Softmax
from dperm.mechanisms import DPGD, DPSGD, RSGDAR, SSP, Job, Objective, OutputGD
from dperm.privacy import Budget, Gate, SeededEntropy
from dperm.problem import Problem
from dperm.unit import Neighbours

N, CAPACITY = 400, 420
BUDGET = Budget(2.0, 1e-6)


class GivenRows(Gate):
    """Noise from a seed; orders and batches that do not depend on how rows lie."""

    def order(self):
        return FixedOrder(np.random.default_rng(3).permutation(CAPACITY))

    def poisson(self, rate):
        return FixedSample(np.random.default_rng(4).permutation(CAPACITY)[: round(rate * CAPACITY)])


MECHANISMS = {
    "dp-gd": DPGD(steps=4),
    "dp-sgd": DPSGD(steps=3),
    "objective": Objective(),
    "rsgd-ar": RSGDAR(epochs=3, batch_size=60),
    "output-gd": OutputGD(iterations=4),
    "ssp": SSP(),
}


def trained(rows_of, X, y, mechanism, loss, **asked):
    problem = Problem(
        loss=loss,
        l2=0.05,
        x_norm=1.0,
        intercept=0.5,
        n_rows=CAPACITY,
        n_features=X.shape[1],
        neighbours=Neighbours.ADD_REMOVE,
    )
    rows = rows_of(X, y, row_map=problem.row_map, n_rows=CAPACITY, mask=None)
    plan = mechanism.plan(problem, BUDGET, **asked)
    (outcome,) = mechanism.run([Job(plan=plan)], rows, GivenRows(SeededEntropy(1)))
    return outcome


@pytest.mark.cover(1)
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("kind", kinds_marked())
def test_weights_do_not_depend_on_the_kind_of_rows(kind, name):
    X = features_of(kind, N)
    y = np.where(X[:, 0] + 0.2 * np.random.default_rng(0).standard_normal(N) > 0, 1.0, -1.0)
    mine, dense = (trained(of, X, y, MECHANISMS[name], Logistic()) for of in (kind.rows, Table.of))
    size = np.linalg.norm(dense.weights)
    assert size > 0.1
    np.testing.assert_allclose(mine.weights, dense.weights, rtol=0, atol=2e-5 * size)
    assert mine.certified == dense.certified
    assert [dataclasses.astuple(a) for a in mine.records] == [dataclasses.astuple(a) for a in dense.records]


@pytest.mark.parametrize("kind", kinds_marked())
def test_several_classes_do_not_depend_on_the_kind_of_rows(kind):
    X = features_of(kind, N)
    y = np.random.default_rng(0).integers(3, size=N).astype(float)
    mine, dense = (trained(of, X, y, MECHANISMS["dp-gd"], Softmax(3)) for of in (kind.rows, Table.of))
    np.testing.assert_allclose(mine.weights, dense.weights, rtol=0, atol=2e-5 * np.linalg.norm(dense.weights))


@pytest.mark.cover(1)
@pytest.mark.parametrize("loss", [Logistic(), ClippedSquared(0.7)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("kind", kinds_marked())
def test_what_intervals_are_made_of_does_not_depend_on_the_kind_of_rows(kind, loss):
    X = features_of(kind, N)
    score = X[:, 0] + 0.2 * np.random.default_rng(0).standard_normal(N)
    y = np.where(score > 0, 1.0, -1.0) if loss.labels == "binary" else np.clip(score, -1, 1)
    mine, dense = (
        trained(of, X, y, MECHANISMS["objective"], loss, inference=True) for of in (kind.rows, Table.of)
    )
    assert mine.certified
    np.testing.assert_allclose(
        mine.curvature_release,
        dense.curvature_release,
        rtol=0,
        atol=2e-5 * np.linalg.norm(dense.curvature_release),
    )
