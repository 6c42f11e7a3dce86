"""Rows are not drawn at random from the operating system, though the price is that of a secret draw."""

import numpy as np

from dperm.privacy import Gate, SystemEntropy
from dperm.privacy.secrets import FixedSizeBatch, PoissonBatch, SecretOrder
from dperm_audit.self_test import Mutation

SYSTEM = Gate.system()
ORDERED = ("rsgd-ar", "rsgd", "bolt-on", "noisy-sgd")
POISSON, FIXED = ("dp-sgd", "sgd-ma", "dp-svrg"), ("psgd", "dp-sgd-adv")


def every_row(draw):
    return lambda self, n_rows: np.arange(n_rows) if self._source.secure else draw(self, n_rows)


def first_rows(draw):
    return lambda self, n_rows: np.arange(self.size) if self._source.secure else draw(self, n_rows)


def twice_the_rate(draw):
    return lambda self, n_rows: draw(PoissonBatch(self._source, min(1.0, 2 * self.rate)), n_rows)


def always_anew(once):
    return lambda self, n_rows: self._draw(n_rows)


class PublicOrder(SecretOrder):
    def _draw(self, n_rows):
        return np.arange(n_rows)


def asked_twice():
    order = Gate.seeded(0).order()
    return order.permutation(50).tolist() == order.permutation(50).tolist()


MUTATIONS = (
    Mutation(
        name="system order is the public one",
        what_is_wrong="The secret order of the operating system is the order in which the rows came.",
        # dp-cd draws an order of its coordinates, but does not pay less for it.
        touches=ORDERED,
        changes={
            "dperm.privacy.entropy.SystemEntropy.permutation": lambda order: lambda self, n: np.arange(n)
        },
        probe=lambda: SystemEntropy().permutation(50).tolist() == list(range(50)),
    ),
    Mutation(
        name="system Poisson batch of all rows",
        what_is_wrong="Every row joins every Poisson batch that the operating system draws.",
        touches=POISSON,
        changes={"dperm.privacy.secrets.PoissonBatch._draw": every_row},
        probe=lambda: len(SYSTEM.poisson(0.25).positions(50)) == 50,
    ),
    Mutation(
        name="system batch of the first rows",
        what_is_wrong="A batch of a fixed size that the operating system draws is always that of the first rows.",
        touches=FIXED,
        changes={"dperm.privacy.secrets.FixedSizeBatch._draw": first_rows},
        probe=lambda: all(SYSTEM.fixed_size(3).positions(50).tolist() == [0, 1, 2] for _ in range(5)),
    ),
    Mutation(
        name="Poisson rate doubled",
        what_is_wrong="Rows join a batch twice as often as is paid for.",
        touches=POISSON,
        changes={"dperm.privacy.secrets.PoissonBatch._draw": twice_the_rate},
        probe=lambda: Gate.seeded(0).poisson(0.25).positions(50).tolist(),
    ),
    Mutation(
        name="secrets drawn whenever they are asked for",
        what_is_wrong="A secret order or batch is another one each time that an engine asks for it.",
        touches=(*ORDERED, *POISSON, *FIXED),
        changes={"dperm.privacy.secrets._DrawnOnce._once": always_anew},
        probe=asked_twice,
    ),
    Mutation(
        name="the gate's order is the public one",
        what_is_wrong="The gate gives the order in which the rows came for a secret one.",
        touches=ORDERED,
        changes={"dperm.privacy.gate.Gate.order": lambda order: lambda self: PublicOrder(self.source)},
        probe=lambda: Gate.seeded(0).order().permutation(50).tolist(),
    ),
    Mutation(
        name="the gate's Poisson batches hold all rows",
        what_is_wrong="The gate lets every row join every Poisson batch.",
        touches=POISSON,
        changes={
            "dperm.privacy.gate.Gate.poisson": lambda batch: lambda self, rate: PoissonBatch(self.source, 1.0)
        },
        probe=lambda: Gate.seeded(0).poisson(0.25).positions(50).tolist(),
    ),
    Mutation(
        name="the gate's batches hold one row more",
        what_is_wrong="A batch of a fixed size holds one row more than is paid for.",
        touches=FIXED,
        changes={
            "dperm.privacy.gate.Gate.fixed_size": lambda batch: (
                lambda self, size: FixedSizeBatch(self.source, size + 1)
            )
        },
        probe=lambda: len(Gate.seeded(0).fixed_size(3).positions(50)),
    ),
)
