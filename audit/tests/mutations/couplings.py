"""How curvature and slope of a loss are coupled, overstated."""

from dataclasses import replace

from dperm.losses import HardClippedLogistic, SoftClippedLogistic
from dperm.mechanisms import Objective
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation

SOFT, HARD = (replace(EXAMPLE, loss=loss) for loss in (SoftClippedLogistic(), HardClippedLogistic()))


def also_for_the_hard_clip(coupling):
    return property(lambda self: 0.9 if isinstance(self, HardClippedLogistic) else coupling.fget(self))


MUTATIONS = (
    Mutation(
        name="half the coupling",
        what_is_wrong="The curvature of the soft clip is taken to vanish twice as fast where its slope is largest.",
        touches=("objective", "objective-kst", "auto"),
        changes={
            "dperm.losses.logistic.SoftClippedLogistic.coupling": lambda coupling: property(
                lambda self: coupling.fget(self) / 2
            )
        },
        probe=lambda: Objective(standardise=False).plan(SOFT, EXAMPLE_BUDGET).noise.scale,
    ),
    Mutation(
        name="hard clip at the price of a soft one",
        what_is_wrong="A slope that is cut is priced as if the curvature vanished there.",
        touches=("objective", "objective-kst", "auto"),
        changes={"dperm.losses.base.Loss.coupling": also_for_the_hard_clip},
        probe=lambda: Objective(standardise=False).plan(HARD, EXAMPLE_BUDGET).noise.scale,
    ),
)
