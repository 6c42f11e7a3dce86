"""The batch of the differing row is hidden: its price is that of a kinder place than rows can have."""

from dataclasses import replace

import numpy as np

from dperm.mechanisms import RSGD, Job, NoisySGD
from dperm.privacy import Gate, GaussianProfile, SeededEntropy, add_noise
from dperm_audit.neighbours import table_of
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation

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


def without_hidden_noise(hide):
    """Adds nothing to any iterate but the last."""
    return lambda self, values, noises: values


def hidden_by_itself(hide):
    """Adds noise that is the same in every run."""

    def broken(self, values, noises):
        return np.column_stack([add_noise(values[:, k], n, SeededEntropy(0)) for k, n in enumerate(noises)])

    return broken


def last_iterate(radius=None):
    mechanism = NoisySGD(epochs=2, batch_size=6, radius=radius)
    rows = np.eye(UNEQUAL.n_rows, UNEQUAL.n_features), np.ones(UNEQUAL.n_rows)
    job = Job(plan=mechanism.plan(UNEQUAL, EXAMPLE_BUDGET))
    return mechanism.run([job], table_of(UNEQUAL, rows), Gate.seeded(0))[0].weights.tolist()


def scale(mechanism):
    return mechanism.plan(UNEQUAL, EXAMPLE_BUDGET).noise.scale


MUTATIONS = (
    Mutation(
        name="hidden batches at the smallest sensitivity",
        what_is_wrong="Every hidden batch is priced, and noised, as the one in which a row moves the weights least.",
        touches=PERMUTED,
        changes={"dperm.planning.pricing.price_branches": smallest_branch},
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
    Mutation(
        name="hidden noise left out",
        what_is_wrong="noisy-sgd adds noise to its last iterate alone, priced as if every iterate had some.",
        touches=("noisy-sgd",),
        changes={"dperm.privacy.gate.Gate.hide": without_hidden_noise},
        probe=last_iterate,
    ),
    Mutation(
        name="hidden noise forgotten by the gate",
        what_is_wrong="The gate gives values back as they came where their noise stays hidden.",
        touches=("noisy-sgd",),
        changes={"dperm.privacy.gate.Gate._hidden": lambda hidden: lambda self, columns, noises: columns},
        probe=last_iterate,
    ),
    Mutation(
        name="hidden noise from a seed",
        what_is_wrong="The noise of hidden iterates comes from a seed in the source, not from the gate's source.",
        touches=("noisy-sgd",),
        changes={"dperm.privacy.gate.Gate.hide": hidden_by_itself},
        probe=last_iterate,
    ),
    Mutation(
        name="iterates not projected",
        what_is_wrong="noisy-sgd does not project its iterates on the ball whose diameter its price rests on.",
        touches=("noisy-sgd",),
        changes={
            "dperm.mechanisms.gradient.noisy_sgd._project": lambda project: lambda points, radius: points
        },
        probe=lambda: last_iterate(radius=0.1),
    ),
)
