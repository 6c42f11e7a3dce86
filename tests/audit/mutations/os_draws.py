"""Rows are not drawn at random from the operating system, though the price is that of a secret draw."""

import numpy as np

from dperm.audit.mutation import Mutation
from dperm.planning.sampling import FixedSizeSampling, PoissonSampling
from dperm.privacy import SeededEntropy, SystemEntropy

SYSTEM = SystemEntropy()
POISSON, FIXED = PoissonSampling(0.25), FixedSizeSampling(3)


def every_row(draw):
    return lambda self, n_rows, entropy: np.arange(n_rows) if entropy.secure else draw(self, n_rows, entropy)


def first_rows(draw):
    return lambda self, n_rows, entropy: (
        np.arange(self.size) if entropy.secure else draw(self, n_rows, entropy)
    )


def twice_the_rate(draw):
    return lambda self, n_rows, entropy: draw(PoissonSampling(min(1.0, 2 * self.rate)), n_rows, entropy)


MUTATIONS = (
    Mutation(
        name="system order is the public one",
        what_is_wrong="The secret order of the operating system is the order in which the rows came.",
        # dp-cd draws an order of its coordinates, but does not pay less for it.
        touches=("rsgd-ar", "rsgd", "bolt-on", "noisy-sgd"),
        changes={
            "dperm.privacy.entropy.SystemEntropy.permutation": lambda order: lambda self, n: np.arange(n)
        },
        probe=lambda: SYSTEM.permutation(50).tolist() == list(range(50)),
    ),
    Mutation(
        name="system Poisson batch of all rows",
        what_is_wrong="Every row joins every Poisson batch that the operating system draws.",
        touches=("dp-sgd", "sgd-ma", "dp-svrg"),
        changes={"dperm.planning.sampling.PoissonSampling.draw": every_row},
        probe=lambda: len(POISSON.draw(50, SYSTEM)) == 50,
    ),
    Mutation(
        name="system batch of the first rows",
        what_is_wrong="A batch of a fixed size that the operating system draws is always that of the first rows.",
        touches=("psgd", "dp-sgd-adv"),
        changes={"dperm.planning.sampling.FixedSizeSampling.draw": first_rows},
        probe=lambda: all(FIXED.draw(50, SYSTEM).tolist() == [0, 1, 2] for _ in range(5)),
    ),
    Mutation(
        name="Poisson rate doubled",
        what_is_wrong="Rows join a batch twice as often as is paid for.",
        touches=("dp-sgd", "sgd-ma", "dp-svrg"),
        changes={"dperm.planning.sampling.PoissonSampling.draw": twice_the_rate},
        probe=lambda: POISSON.draw(50, SeededEntropy(0)).tolist(),
    ),
)
