"""Rows that weigh more than the declared bounds allow."""

import numpy as np

from dperm.mechanisms import resolve
from dperm_audit.neighbours import table_of
from dperm_audit.self_test import EXAMPLE, Mutation, every_private

UNBOUNDED = 1e300
# noisy-sgd and descent with noise on the result go through fixed batches; solvers sum values and gradients at once.
GRADIENTS = tuple(
    name for name in every_private() if resolve(name).family == "gradient" and name != "noisy-sgd"
)


def any_length(bound_rows):
    def broken(block, position, centre, spread, bounds, *stored):
        return bound_rows(block, position, centre, spread, (UNBOUNDED, *bounds[1:]), *stored)

    return broken


def last_row_twice(sums):
    """Adds the gradient of the last row once more to a sum over all rows."""

    def broken(self, loss, W, *, clip=None, batch=None):
        total = sums(self, loss, W, clip=clip, batch=batch)
        if batch is not None:
            return total
        return total + sums(self.sample([LastRow()] * W.shape[1]), loss, W, clip=clip)

    return broken


class LastRow:
    def positions(self, n_rows):
        return np.arange(n_rows)[-1:]


def opened():
    rows = 5 * np.eye(EXAMPLE.n_rows, EXAMPLE.n_features), np.ones(EXAMPLE.n_rows)
    return table_of(EXAMPLE, rows).open(precise=True)


MUTATIONS = (
    Mutation(
        name="rows not bounded",
        what_is_wrong="Rows longer than x_norm are stored as they are.",
        touches=every_private(),
        changes={"dperm.engine.dense.kernels.bound_rows": any_length},
        probe=lambda: opened().row_sum().tolist(),
    ),
    Mutation(
        name="last row counts twice",
        what_is_wrong="The last row is added twice to every sum of gradients over all rows, or over a random batch.",
        touches=(*GRADIENTS, "ssp", "adassp", "auto"),
        changes={"dperm.engine.base.engine.Engine.gradient_sum": last_row_twice},
        probe=lambda: opened().gradient_sum(EXAMPLE.loss, np.zeros((4, 1))).tolist(),
    ),
)
