"""Sensitivities of single mechanisms, understated."""

from dataclasses import replace

import numpy as np

from dperm.losses import ClippedSquared
from dperm.mechanisms import DPGD, SSP, AdaSSP, FrankWolfe
from dperm.mechanisms.gradient import dp_agd
from dperm.mechanisms.gradient.dp_svrg import correction_noise
from dperm.mechanisms.statistics.family import moment_error
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation

REGRESSION = replace(EXAMPLE, loss=ClippedSquared())


def divided(by):
    return lambda bound: lambda *facts: bound(*facts) / by


def without_root(sensitivities):
    def broken(self, problem):
        found = sensitivities(self, problem)
        found[1] = problem.row_norm**2 + 2 * moment_error(problem)
        return found

    return broken


def choice_divided(choice):
    def broken(*facts):
        sound = choice(*facts)
        return replace(sound, sensitivity=sound.sensitivity / 10)

    return broken


def at_zero_weights(gap):
    return lambda problem, weight_norm: gap(problem, 0.0)


def scale(mechanism, problem=EXAMPLE):
    return mechanism.plan(problem, EXAMPLE_BUDGET).noise.scale


def later_scale():
    mechanism = DPGD(steps=3, clip=None)
    return mechanism._noise(mechanism.plan(EXAMPLE, EXAMPLE_BUDGET), 5.0).scale


def step_scale():
    return dp_agd.step_choice(EXAMPLE, np.ones((4, 3)), 1.0, 1.0).scale


MUTATIONS = (
    Mutation(
        name="ssp joint sensitivity of one",
        what_is_wrong="First and second moments together are taken to move by 1 at most, whatever their weight.",
        touches=("ssp",),
        changes={
            "dperm.planning.sensitivity.joint_statistic_sensitivity": lambda joint: (
                lambda weight, neighbours: 1.0
            )
        },
        probe=lambda: scale(SSP()),
    ),
    Mutation(
        name="frank-wolfe sensitivity halved",
        what_is_wrong="The score of a corner is taken to move half as far as it does.",
        touches=("frank-wolfe",),
        changes={"dperm.mechanisms.gradient.frank_wolfe.vertex_sensitivity": divided(2)},
        probe=lambda: scale(FrankWolfe(steps=4)),
    ),
    Mutation(
        name="adassp without root of two",
        what_is_wrong="A replaced row is taken to move the second moments as far as a removed one.",
        touches=("adassp",),
        changes={"dperm.mechanisms.statistics.adassp.AdaSSP.sensitivities": without_root},
        probe=lambda: AdaSSP().plan(REGRESSION, EXAMPLE_BUDGET).noises[1].scale,
    ),
    Mutation(
        name="svrg correction divided by four",
        what_is_wrong="A row's difference of gradients at two points is taken to be a quarter of its bound.",
        touches=("dp-svrg",),
        changes={"dperm.mechanisms.gradient.dp_svrg.correction_bound": divided(4)},
        probe=lambda: correction_noise(EXAMPLE, np.ones(4), np.zeros(4), 1.0).scale,
    ),
    Mutation(
        name="dp-agd choice divided by ten",
        what_is_wrong="The scores of step sizes are taken to move a tenth as far as they do.",
        touches=("dp-agd",),
        changes={"dperm.mechanisms.gradient.dp_agd.step_choice": choice_divided},
        probe=step_scale,
    ),
    Mutation(
        name="adaptive dp-gd at zero weights",
        what_is_wrong="The distance of logistic gradients is always taken at zero weights, where it is smallest.",
        touches=("dp-gd",),
        changes={"dperm.planning.sensitivity.gradient_gap": at_zero_weights},
        probe=later_scale,
    ),
)
