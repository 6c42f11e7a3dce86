"""Random batches: priced too low, or averaged over a number that tells of the rows."""

import numpy as np

from dperm.mechanisms import DPSGD, DPSVRG, PSGD, Job
from dperm.planning.sampling import PoissonSampling
from dperm.privacy import Gate
from dperm.unit import Neighbours
from dperm_audit.neighbours import table_of
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation


def as_add_remove(price):
    """Puts add-remove in the place of any relation among the arguments."""

    def removed(fact):
        return Neighbours.ADD_REMOVE if fact in list(Neighbours) else fact

    def broken(*facts, **named):
        return price(*map(removed, facts), **{name: removed(fact) for name, fact in named.items()})

    return broken


def one_step_less(place):
    """What makes a price whose number of steps, the argument at ``place``, is one less."""

    def make(price):
        def broken(self, *facts):
            return price(self, *facts[:place], max(1, facts[place] - 1), *facts[place + 1 :])

        return broken

    return make


def by_own_size(draw):
    """Sums are stretched from the number of rows in the batch to the number expected: a mean over the batch."""

    def broken(self, engine, members, plans, gate):
        batch = draw(self, engine, members, plans, gate)
        sampling = plans[0].sampling
        if not isinstance(sampling, PoissonSampling):
            return batch
        counts = np.maximum(1, batch._own_counts(len(plans)))
        stretch = sampling.expected_rows(plans[0].problem.n_rows) / counts
        sound = batch.gradient_sum

        def gradient_sum(loss, weights, **more):
            sums = sound(loss, weights, **more)
            return sums * stretch.reshape(-1, *[1] * (sums.ndim - 2))

        batch.gradient_sum = gradient_sum
        return batch

    return broken


def multiplier(mechanism):
    return mechanism.plan(EXAMPLE, EXAMPLE_BUDGET).settings["noise_multiplier"]


def trained():
    mechanism = DPSGD(steps=1, rate=0.5)
    table = table_of(EXAMPLE, (np.ones((24, 3)), np.ones(24)))
    job = Job(plan=mechanism.plan(EXAMPLE, EXAMPLE_BUDGET))
    return mechanism.run([job], table, Gate.seeded(1))[0].weights.tolist()


MUTATIONS = (
    Mutation(
        name="Poisson priced as add-remove",
        what_is_wrong="Poisson batches are priced for a removed row where a row is replaced.",
        touches=("dp-sgd", "sgd-ma", "dp-svrg"),
        changes={
            "dperm.privacy.subsampled.poisson_noise_multiplier": as_add_remove,
            "dperm.privacy.subsampled.poisson_noise_beside_gaussian": as_add_remove,
        },
        probe=lambda: (multiplier(DPSGD(steps=1, rate=0.5)), multiplier(DPSVRG(outer=1, inner=2, rate=0.5))),
    ),
    Mutation(
        name="accountant without the relation",
        what_is_wrong="Whatever prices Poisson batches, the ledger's cost too, takes every relation for add-remove.",
        touches=("dp-sgd", "sgd-ma", "dp-svrg"),
        changes={
            "dperm.privacy.subsampled.poisson_epsilon": as_add_remove,
            "dperm.privacy.subsampled.poisson_losses": as_add_remove,
            "dperm.privacy.subsampled.compose_gaussian_and_poisson": as_add_remove,
        },
        probe=lambda: PoissonSampling(0.5).epsilon(2.0, 1, 1e-6, Neighbours.REPLACE_ONE),
    ),
    Mutation(
        name="one step not priced",
        what_is_wrong="Random batches are priced for one step less than is taken.",
        touches=("dp-sgd", "sgd-ma", "psgd"),
        changes={
            "dperm.planning.sampling.PoissonSampling.noise_multiplier": one_step_less(0),
            "dperm.planning.sampling.FixedSizeSampling.noise_multiplier": one_step_less(1),
        },
        probe=lambda: (multiplier(DPSGD(steps=2, rate=0.5)), multiplier(PSGD(steps=2, batch_size=12))),
    ),
    Mutation(
        name="mean over the own batch",
        what_is_wrong="The sum of a Poisson batch is divided by its own size instead of the expected one.",
        touches=("dp-sgd", "sgd-ma"),
        changes={"dperm.mechanisms.gradient.family.SampledGradientMechanism._batch": by_own_size},
        probe=trained,
    ),
)
