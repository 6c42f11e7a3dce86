"""Compiled passes for one model that ignore the clip. A private fit runs one model."""

from dataclasses import replace

import numpy as np

from dperm.losses import Softmax
from dperm_audit.neighbours import table_of
from dperm_audit.self_test import EXAMPLE, Mutation

CLIPPED = ("dp-gd", "dp-sgd", "sgd-ma", "psgd", "dp-sgd-adv")


def unclipped(place):
    """What makes a kernel whose argument at ``place``, the clip, is infinite."""

    def make(kernel):
        return lambda *arguments: kernel(*arguments[:place], np.inf, *arguments[place + 1 :])

    return make


def clipped_gradient(problem, shape):
    rows = np.eye(problem.n_rows, problem.n_features), np.ones(problem.n_rows)
    engine = table_of(problem, rows).open(storage=np.float32)
    return engine.gradient_sum(problem.loss, np.zeros(shape), clip=[1e-3]).tolist()


MUTATIONS = (
    Mutation(
        name="clip ignored, one margin",
        what_is_wrong="The compiled pass of one model with one margin does not clip the gradients of rows.",
        touches=CLIPPED,
        changes={"dperm.engine.dense.kernels.one_model": unclipped(9)},
        probe=lambda: clipped_gradient(EXAMPLE, (4, 1)),
    ),
    Mutation(
        name="clip ignored, softmax",
        what_is_wrong="The compiled pass of one softmax model does not clip the gradients of rows.",
        touches=(*CLIPPED, "auto"),  # auto clips where there are several classes
        changes={"dperm.engine.base.softmax_kernels.one_softmax": unclipped(8)},
        probe=lambda: clipped_gradient(replace(EXAMPLE, loss=Softmax(3)), (4, 1, 3)),
    ),
)
