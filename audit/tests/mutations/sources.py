"""Randomness that does not come from the gate that a mechanism was given."""

import numpy as np

from dperm.mechanisms import FrankWolfe, Job, OutputGD
from dperm.privacy import Gate, SeededEntropy
from dperm_audit.neighbours import table_of
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation, every_private


def gate_of_its_own(run):
    """Makes a new gate from the source of the given one."""
    return lambda self, jobs, rows, gate: run(self, jobs, rows, Gate(gate.source))


def gate_of_a_seed(run):
    """Releases through a gate that the mechanism made by itself."""
    return lambda self, jobs, rows, gate: run(self, jobs, rows, Gate.seeded(0))


def own_start(run):
    """Draws something from the gate's source, as a random start would."""

    def broken(self, jobs, rows, gate):
        gate.source.words(1)
        return run(self, jobs, rows, gate)

    return broken


def of_a_seed(add):
    """Adds what a seed gives, the number of which is in the source."""
    return lambda self, values, noise, name: add(Gate(SeededEntropy(0)), values, noise, name)


def released(mechanism, seed, given=Gate.seeded):
    gate = given(seed)
    job = Job(plan=mechanism.plan(EXAMPLE, EXAMPLE_BUDGET))
    table = table_of(EXAMPLE, (np.ones((24, 3)), np.ones(24)))
    return mechanism.run([job], table, gate)[0].weights.tolist()


class Counting(Gate):
    """A gate that counts what passed it."""

    passed = 0

    def _noisy(self, *facts):
        Counting.passed += 1
        return super()._noisy(*facts)


def passed_the_given_gate():
    before = Counting.passed
    released(OutputGD(iterations=2), 0, Counting.seeded)
    return Counting.passed - before


MUTATIONS = (
    Mutation(
        name="a gate of its own",
        what_is_wrong="Mechanisms release through a gate that they made from the source of the given one.",
        touches=every_private(),
        changes={"dperm.mechanisms.base.Mechanism.run": gate_of_its_own},
        probe=passed_the_given_gate,
    ),
    Mutation(
        name="a gate of a seed",
        what_is_wrong="Mechanisms release through a gate of a seed that is in the source.",
        touches=every_private(),
        changes={"dperm.mechanisms.base.Mechanism.run": gate_of_a_seed},
        probe=lambda: released(OutputGD(iterations=2), 1),
    ),
    Mutation(
        name="the source beside the gate",
        what_is_wrong="Mechanisms draw from the source of the gate without asking the gate.",
        touches=every_private(),
        changes={"dperm.mechanisms.base.Mechanism.run": own_start},
        probe=lambda: released(OutputGD(iterations=2), 0),
    ),
    Mutation(
        name="noise from another source",
        what_is_wrong="The gate adds the noise of a seed that is in the source, or chooses by it.",
        touches=every_private(),
        changes={
            "dperm.privacy.gate.Gate._noisy": of_a_seed,
            "dperm.privacy.gate.Gate._chosen": of_a_seed,
        },
        probe=lambda: (released(OutputGD(iterations=2), 1), released(FrankWolfe(steps=3), 1)),
    ),
)
