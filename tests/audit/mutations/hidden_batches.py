"""The batch of the differing row is hidden: its price is that of a kinder place than rows can have."""

from dataclasses import replace

import numpy as np

from dperm.audit.mutation import EXAMPLE, EXAMPLE_BUDGET, Mutation
from dperm.mechanisms import RSGD, NoisySGD
from dperm.privacy import GaussianProfile

PERMUTED = ("rsgd-ar", "rsgd", "bolt-on")
UNEQUAL = replace(EXAMPLE, l2=0.3)


def smallest_branch(price):
    def broken(problem, budget, probability, sensitivities, *more):
        return price(problem, budget, probability, np.full_like(sensitivities, sensitivities.min()), *more)

    return broken


def smallest_mixture(mixture):
    def broken(cls, probability, mu):
        return mixture.__func__(cls, probability, np.full_like(mu, np.min(mu)))

    return classmethod(broken)


def first_batch(cyclic):
    def broken(*steps):
        found = cyclic(*steps)
        return np.full_like(found, found[0])

    return broken


def scale(mechanism):
    return mechanism.plan(UNEQUAL, EXAMPLE_BUDGET).noise.scale


MUTATIONS = (
    Mutation(
        name="hidden batches at the smallest sensitivity",
        what_is_wrong="Every hidden batch is priced, and noised, as the one in which a row moves the weights least.",
        touches=PERMUTED,
        changes={"dperm.mechanisms.pricing.price_branches": smallest_branch},
        probe=lambda: scale(RSGD(epochs=3, batch_size=6)),
    ),
    Mutation(
        name="mixtures at the smallest branch",
        what_is_wrong="The profile of hidden branches charges each of them as little as the cheapest.",
        touches=(*PERMUTED, "noisy-sgd"),
        changes={"dperm.privacy.profile.GaussianProfile.mixture": smallest_mixture},
        probe=lambda: GaussianProfile.mixture([0.5, 0.5], [0.1, 1.0]).delta(1.0),
    ),
    Mutation(
        name="noisy-sgd row in the first batch",
        what_is_wrong="noisy-sgd is priced as if the row always lay in the first batch, before all other noise.",
        touches=("noisy-sgd",),
        changes={"dperm.privacy.hidden_state.noisy_cyclic_mu": first_batch},
        probe=lambda: scale(NoisySGD(epochs=2, batch_size=6)),
    ),
)
