"""Passes over rows that are less precise than they are said to be."""

import numpy as np

from dperm.arithmetic import FLOAT32, FLOAT64
from dperm.mechanisms import OutputGD, base
from dperm_audit.neighbours import table_of
from dperm_audit.self_test import EXAMPLE, EXAMPLE_BUDGET, Mutation, every_private

# They train several models side by side in float32, which their plans do not allow for.
COARSE = ("rsgd-ar", "rsgd", "nsgd", "output-gd", "bolt-on", "noisy-sgd")
# Their plans allow for float32: only the bits of untouched blocks tell (tests/engine/test_rounded_alike.py).
ALIKE = ("dp-gd", "dp-cd", "frank-wolfe")


def whatever_the_passes(decide):
    return lambda plan, used: plan.private and plan.not_certified is None


def called_float64(arithmetic):
    return lambda self, n_models: FLOAT64


def rounded(sums):
    """Gives what a pass in float32 might."""

    def broken(self, *facts):
        return tuple(part.astype(np.float32).astype(np.float64) for part in sums(self, *facts))

    return broken


def opened(precise=False):
    rows = np.random.default_rng(0).normal(size=(24, 3)), np.ones(24)
    return table_of(EXAMPLE, rows).open(precise=precise)


MUTATIONS = (
    Mutation(
        name="certified whatever the passes",
        what_is_wrong="An outcome is certified though its passes over the rows were in float32.",
        touches=COARSE,
        changes={"dperm.mechanisms.base.certified": whatever_the_passes},
        probe=lambda: base.certified(OutputGD().plan(EXAMPLE, EXAMPLE_BUDGET), {FLOAT32}),
    ),
    Mutation(
        name="float32 noted as float64",
        what_is_wrong="The engine computes several models in float32 and says that it was float64.",
        touches=COARSE,
        changes={"dperm.engine.dense.engine.DenseEngine.arithmetic": called_float64},
        probe=lambda: opened().arithmetic(2).name,
    ),
    Mutation(
        name="one model in float32",
        what_is_wrong="The engine rounds the sums of a single model to float32 and says that it was float64.",
        touches=every_private(but=ALIKE),
        changes={"dperm.engine.base.blocked.BlockedEngine._range_sums": rounded},
        probe=lambda: opened(precise=True).gradient_sum(EXAMPLE.loss, np.ones((4, 1))).tolist(),
    ),
)
