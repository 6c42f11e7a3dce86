"""Rows that are seen otherwise than their map says."""

import numpy as np

from dperm.engine.dense import kernels
from dperm.row_map import RowMap, bounded
from dperm_audit.neighbours import table_of
from dperm_audit.self_test import EXAMPLE, Mutation, every_private

STANDARDISED = every_private(but=("objective-pure",))
UNBOUNDED, NONE = 1e300, np.empty(0)


def not_mapped(mapped):
    return lambda self, row_map: self


def without_centre(moves):
    def broken(self):
        centre, spread = moves(self)
        return np.zeros_like(centre), spread

    return broken


def moved_by(move):
    """Rows that a map moves are moved so, and stored."""

    def change(bound_rows):
        def broken(block, position, centre, spread, bounds, *stored):
            if centre.size > 0:
                block, bounds = move(block, centre, spread, bounds)
                block.flags.writeable = False
            return bound_rows(block, position, NONE, NONE, bounds, *stored)

        return broken

    return change


def without_first_bound(block, centre, spread, bounds):
    return (block - centre) / spread, bounds


def without_second_bound(block, centre, spread, bounds):
    return (bounded(block, bounds[0]) - centre) / spread, (UNBOUNDED, *bounds[1:])


def linear_without_bound(make_rows):
    """What a linear map is in prediction is taken for what it is in training."""

    def broken(self, *more):
        sound = kernels.bound_rows
        if self._map.linear:
            kernels.bound_rows = moved_by(without_second_bound)(sound)
        try:
            return make_rows(self, *more)
        finally:
            kernels.bound_rows = sound

    return broken


def held(length, linear=False):
    """A row of this length as an engine holds it, seen through a map with a centre."""
    X = np.zeros((EXAMPLE.n_rows, EXAMPLE.n_features))
    X[0] = length
    row_map = RowMap(
        x_norm=1.0, intercept=0.5, centre=np.array([0.3, -0.2, 0.1]), scale=np.full(3, 0.6), linear=linear
    )
    engine = table_of(EXAMPLE, (X, np.ones(EXAMPLE.n_rows))).mapped(row_map).open(precise=True)
    return engine.margins(np.eye(4))[0].tolist()


MUTATIONS = (
    Mutation(
        name="rows not mapped",
        what_is_wrong="Rows are trained on as they came, though they are told to be standardised.",
        touches=STANDARDISED,
        changes={"dperm.engine.dense.rows.Table.mapped": not_mapped},
        probe=lambda: held(0.1),
    ),
    Mutation(
        name="centre left out",
        what_is_wrong="Rows are scaled, but nothing is subtracted from them.",
        touches=STANDARDISED,
        changes={"dperm.engine.base.rows.InMemoryRows._moves": without_centre},
        probe=lambda: held(0.1),
    ),
    Mutation(
        name="rows moved before they are bounded",
        what_is_wrong="The centre is subtracted from rows of any length.",
        touches=STANDARDISED,
        changes={"dperm.engine.dense.kernels.bound_rows": moved_by(without_first_bound)},
        probe=lambda: held(50.0),
    ),
    Mutation(
        name="moved rows not bounded again",
        what_is_wrong="Rows are bounded before they are moved and scaled, and not after.",
        touches=STANDARDISED,
        changes={"dperm.engine.dense.kernels.bound_rows": moved_by(without_second_bound)},
        probe=lambda: held(1.0),
    ),
    Mutation(
        name="linear rows not bounded in training",
        what_is_wrong="A map that is linear in prediction leaves rows unbounded in training too.",
        touches=STANDARDISED,
        changes={
            "dperm.engine.dense.rows.Table._bounded": linear_without_bound,
        },
        probe=lambda: held(1.0, linear=True),
    ),
)
