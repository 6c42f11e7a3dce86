"""How far sums move between neighbours, understated."""

from dataclasses import replace

from dperm.losses import Softmax
from dperm.mechanisms import Objective, OutputGD, resolve
from dperm.mechanisms.objective.profile import vertex_profile
from dperm.unit import Neighbours
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation, every_private

SOFTMAX = replace(EXAMPLE, loss=Softmax(3))
# auto clips the gradients of several classes at less than their bound.
CLASSES = tuple(name for name in every_private(but=("auto",)) if resolve(name).misfit(SOFTMAX) is None)


def priced_as_removal(plan):
    """Plans for a row that is removed, whatever the relation."""

    def broken(self, problem, budget, mu_spent):
        removing = replace(problem, neighbours=Neighbours.ADD_REMOVE)
        return replace(plan(self, removing, budget, mu_spent), problem=problem)

    return broken


def vertices_of_removal(vertices):
    return lambda problem: vertices(replace(problem, neighbours=Neighbours.ADD_REMOVE))


def features_alone(row_norm):
    return property(lambda self: self.x_norm)


def one_row(rows_changed):
    return property(lambda self: 1)


def slope_of_one(lipschitz):
    return property(lambda self: 1.0)


def scale(mechanism, problem=EXAMPLE):
    return lambda: mechanism.plan(problem, EXAMPLE_BUDGET).noise.scale


MUTATIONS = (
    Mutation(
        name="half gap, output-gd",
        what_is_wrong="output-gd takes the gap of a removed row where a row is replaced: half of the true one.",
        touches=("output-gd",),
        changes={"dperm.mechanisms.output.output_gd.OutputGD._plan": priced_as_removal},
        probe=scale(OutputGD()),
    ),
    Mutation(
        name="half gap, objective",
        what_is_wrong="objective takes the gap of a removed row where a row is replaced: half of the true one.",
        touches=("objective", "auto"),
        changes={"dperm.mechanisms.objective.objective.Objective._plan": priced_as_removal},
        probe=scale(Objective()),
    ),
    Mutation(
        name="half gap, vertices",
        what_is_wrong="The profile of a perturbed objective is for the gradients of a removed row, not a replaced one.",
        touches=("objective", "objective-kst", "amp", "auto"),
        changes={"dperm.mechanisms.objective.profile.gradient_vertices": vertices_of_removal},
        probe=lambda: vertex_profile(EXAMPLE, 1.0).delta(1.0),
    ),
    Mutation(
        name="one row changed",
        what_is_wrong="Replacing a row counts as one changed row in every gradient gap.",
        touches=every_private(but=("psgd", "dp-sgd-adv", "ssp")),  # their prices go by the relation itself
        changes={"dperm.unit.Neighbours.rows_changed": one_row},
        probe=lambda: EXAMPLE.gradient_gap,
    ),
    Mutation(
        name="intercept outside the norm",
        what_is_wrong="The norm of a row counts its features alone, though rows carry an intercept column.",
        touches=every_private(but=("frank-wolfe", "dp-cd")),  # they bound every coordinate by itself
        changes={"dperm.problem.Problem.row_norm": features_alone},
        probe=lambda: EXAMPLE.gradient_bound,
    ),
    Mutation(
        name="softmax slope of one",
        what_is_wrong="The gradient of softmax is taken to have norm 1 at most, which is the root of two.",
        touches=CLASSES,
        changes={"dperm.losses.logistic.Softmax.lipschitz": slope_of_one},
        probe=lambda: SOFTMAX.gradient_bound,
    ),
)
