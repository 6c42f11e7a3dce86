"""The computed minimiser is not the one whose sensitivity was priced."""

from dataclasses import replace

import numpy as np

from dperm.mechanisms import Job, Objective, Output
from dperm.privacy import Gate
from dperm_audit.neighbours import table_of
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation

PERTURBED = ("objective", "objective-kst", "amp", "auto")


def exact(sensitivity):
    return lambda self, problem: problem.gradient_gap / (problem.n_rows * problem.l2)


def without_residual(sensitivity):
    return lambda problem, scale, residual: sensitivity(problem, scale, 0.0)


def weaker_ridge(minimise):
    def broken(engine, problems, *more):
        return minimise(engine, [replace(problem, l2=problem.l2 / 50) for problem in problems], *more)

    return broken


def minimiser():
    mechanism = Output()
    table = table_of(EXAMPLE, (np.ones((24, 3)), np.ones(24)))
    plan = mechanism.plan(EXAMPLE, EXAMPLE_BUDGET)
    return mechanism.run([Job(plan=plan)], table, Gate.seeded(0))[0].weights.tolist()


MUTATIONS = (
    Mutation(
        name="minimiser taken as exact, output",
        what_is_wrong="output takes the computed minimiser for the exact one, however early its solver may stop.",
        touches=("output",),
        changes={"dperm.mechanisms.output.output.Output.minimiser_sensitivity": exact},
        probe=lambda: Output().plan(EXAMPLE, EXAMPLE_BUDGET).noise.sensitivity,
    ),
    Mutation(
        name="minimiser taken as exact, objective",
        what_is_wrong="Noise on the minimiser of a perturbed objective covers no distance from the exact one.",
        touches=PERTURBED,
        changes={"dperm.mechanisms.objective.profile.output_sensitivity": without_residual},
        probe=lambda: Objective().plan(EXAMPLE, EXAMPLE_BUDGET).perturbation.output.sensitivity,
    ),
    Mutation(
        name="ridge weaker than priced",
        what_is_wrong="The solver minimises with a fiftieth of the l2 that the sensitivity rests on.",
        touches=("output", "objective-pure", *PERTURBED),
        changes={"dperm.mechanisms.minimiser.minimise": weaker_ridge},
        probe=minimiser,
    ),
)
