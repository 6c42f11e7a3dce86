"""The Hessian of a perturbed objective is not paid for."""

from dperm.mechanisms import Objective
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation

MUTATIONS = (
    Mutation(
        name="no log-determinant",
        what_is_wrong="The profile of a perturbed objective leaves out what one row adds to the Hessian.",
        # amp and objective-pure pay for it by formulas of their own.
        touches=("objective", "objective-kst", "auto"),
        changes={
            "dperm.mechanisms.objective.profile.log_determinant_bound": lambda bound: lambda problem: 0.0
        },
        probe=lambda: Objective().plan(EXAMPLE, EXAMPLE_BUDGET).noise.scale,
    ),
)
