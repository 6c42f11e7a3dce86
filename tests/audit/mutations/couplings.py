"""How curvature and slope of a loss are coupled, overstated."""

from dataclasses import replace

from dperm.audit.mutation import EXAMPLE, EXAMPLE_BUDGET, Mutation
from dperm.losses import SoftClippedLogistic
from dperm.mechanisms import Objective

CLIPPED = replace(EXAMPLE, loss=SoftClippedLogistic())

MUTATIONS = (
    Mutation(
        name="half the coupling",
        what_is_wrong="The curvature of the soft clip is taken to vanish twice as fast where its slope is largest.",
        touches=("objective", "objective-kst", "auto"),
        changes={
            "dperm.losses.soft_clipped_logistic.SoftClippedLogistic.coupling": lambda coupling: property(
                lambda self: coupling.fget(self) / 2
            )
        },
        probe=lambda: Objective().plan(CLIPPED, EXAMPLE_BUDGET).noise.scale,
    ),
)
