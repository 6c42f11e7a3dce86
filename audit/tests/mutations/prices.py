"""Prices of whole families that come out too low."""

import math
from dataclasses import replace

from dperm.mechanisms import FrankWolfe, OutputGD
from dperm.privacy import Budget, gaussian_mu
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation, every_private


def half_delta(log_deltas):
    return lambda self, epsilons: log_deltas(self, epsilons) - math.log(2)


def for_twice_epsilon(plan):
    def broken(self, problem, budget, **asked):
        return replace(plan(self, problem, Budget(2 * budget.epsilon, budget.delta), **asked), budget=budget)

    return broken


def twice(price):
    return lambda *facts: 2 * price(*facts)


MUTATIONS = (
    Mutation(
        name="profile of half the delta",
        what_is_wrong="The exact profile of Gaussian releases gives half of the true delta.",
        touches=every_private(
            # They are priced by other accountants.
            but=(
                "objective-pure",
                "frank-wolfe",
                "dp-agd",
                "dp-sgd",
                "sgd-ma",
                "psgd",
                "dp-sgd-adv",
                "dp-svrg",
            )
        ),
        changes={"dperm.privacy.profile.GaussianProfile.log_deltas": half_delta},
        probe=lambda: gaussian_mu(EXAMPLE_BUDGET),
    ),
    Mutation(
        name="planned for twice the epsilon",
        what_is_wrong="Plans spend twice the epsilon that they state.",
        touches=every_private(but=("dp-sgd-adv",)),  # its theorem gives away more than that
        changes={
            "dperm.mechanisms.base.Mechanism.plan": for_twice_epsilon,
        },
        probe=lambda: OutputGD().plan(EXAMPLE, EXAMPLE_BUDGET).noise.scale,
    ),
    Mutation(
        name="concentrated budget doubled",
        what_is_wrong="A budget is taken to allow twice the concentrated privacy that it does.",
        touches=("frank-wolfe", "dp-agd"),
        changes={"dperm.privacy.renyi.budget_to_rho": twice},
        probe=lambda: FrankWolfe(steps=4).plan(EXAMPLE, EXAMPLE_BUDGET).noise.epsilon,
    ),
)
