"""The release for intervals: too little noise, or noise that nobody pays for."""

import math
from dataclasses import replace

from dperm.losses import ClippedSquared
from dperm.mechanisms import DPGD, AdaSSP
from dperm.mechanisms.inference import Inference
from dperm.privacy import GaussianNoise
from dperm.unit import Neighbours
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation

REGRESSION = replace(EXAMPLE, loss=ClippedSquared())


def with_noise(plan, part):
    """A plan whose release moves, as is said, by a part of what it moves by."""
    noise = plan.noise
    return replace(plan, noise=GaussianNoise(part * noise.sensitivity, part * noise.scale, noise.dimension))


def as_one_row(plan):
    """Takes the curvature of two rows to be no further apart than that of one row and none."""

    def broken(problem, budget):
        replaced = problem.neighbours is Neighbours.REPLACE_ONE
        return with_noise(plan(problem, budget), 1 / math.sqrt(2) if replaced else 1.0)

    return broken


def halved(plan):
    return lambda *facts: with_noise(plan(*facts), 0.5)


def for_nothing(plan):
    """The training keeps the whole budget."""

    def broken(*facts):
        return _Free(**vars(plan(*facts)))

    return broken


class _Free(Inference):
    """Its parameter is 0 for whoever sets the budget aside."""

    def __getattribute__(self, name):
        return 0.0 if name == "mu" else super().__getattribute__(name)


def scale(mechanism, problem):
    return mechanism.plan(problem, EXAMPLE_BUDGET, inference=True).inference.noise.scale


def left_over():
    return DPGD(steps=3).plan(EXAMPLE, EXAMPLE_BUDGET, inference=True).noise.scale


CURVATURE = "dperm.mechanisms.inference.plan_inference"
MUTATIONS = (
    Mutation(
        name="curvature without root of two",
        what_is_wrong="A replaced row is taken to move the curvature as far as a removed one.",
        touches=("objective", "dp-gd"),
        changes={CURVATURE: as_one_row},
        probe=lambda: scale(DPGD(steps=3), EXAMPLE),
    ),
    Mutation(
        name="squared residuals with half the noise",
        what_is_wrong="A row is taken to move the squared residuals half as far as it does.",
        touches=("adassp",),
        changes={"dperm.mechanisms.inference.plan_squares": halved},
        probe=lambda: scale(AdaSSP(), REGRESSION),
    ),
    Mutation(
        name="curvature that nobody pays for",
        what_is_wrong="The training keeps the whole budget, and the release for intervals comes on top.",
        touches=("objective", "dp-gd"),
        changes={CURVATURE: for_nothing},
        probe=left_over,
    ),
)
