"""What other processes do to a ledger: one step each, and what came of it.

A refusal of dperm is printed, as a user would see it; anything else is a failure of the test.
"""

import os
import signal
import sys
from multiprocessing import get_all_start_methods, get_context

import numpy as np

from dperm import Ledger, PrivateLogisticRegression, PrivateSearchCV
from dperm.errors import BudgetExceeded, DpermError
from dperm.models import load_model, save_model

IMPORTED = [
    "dperm.models",
    "dperm.estimators.classifier",
    "dperm.estimators.search",
    "dperm.engine.dense.engine",
]

rng = np.random.default_rng(1)
X = rng.normal(size=(200, 3)) / 2
Y = (X[:, 0] > 0).astype(int)


class Deadly:
    """Rows that tell their shape, and kill the process that looks at them."""

    def __init__(self, shape):
        self.shape = shape

    def __array__(self, dtype=None, copy=None):
        os.kill(os.getpid(), signal.SIGKILL)


def estimator(**settings):
    return PrivateLogisticRegression(mechanism="output", classes=[0, 1], **settings)


def create(path):
    print("head", Ledger.create(path, epsilon=1.0, delta=1e-6).head)


def fit(path, output, *anchors):
    """One release of epsilon 0.9, with the models and heads that the ledger has to know."""
    expect = [load_model(anchor) if anchor.endswith(".json") else anchor for anchor in anchors]
    ledger = Ledger(path, expect=expect)
    save_model(estimator(epsilon=0.9, delta=1e-6, ledger=ledger).fit(X, Y), output)
    print("released", output)


def die_in_fit(path):
    estimator(epsilon=0.5, ledger=Ledger(path)).fit(Deadly((200, 3)), Y)


def die_at_the_labels(path):
    estimator(epsilon=0.5, ledger=Ledger(path)).fit(X, Deadly((200,)))


def die_in_search(path):
    search = PrivateSearchCV(estimator(), {"l2": [0.1]}, epsilon=0.5, delta=1e-6, ledger=Ledger(path))
    search.fit(Deadly((200, 3)), Y)


def die_in_command(path, data, schema, output):
    import pyarrow.csv

    from dperm.cli.app import run

    pyarrow.csv.read_csv = lambda *_, **__: Deadly(()).__array__()
    words = ["fit", data, "--schema", schema, "--epsilon", "0.5", "--delta", "1e-6", "--mechanism", "output"]
    run([*words, "--ledger", path, "--output", output])


def run_step(printed, step, *words):
    with open(printed, "w") as sys.stdout:
        try:
            globals()[step](*words)
        except (DpermError, BudgetExceeded) as error:
            print("refused:", error)


def in_another_process(printed, step, *words):
    """The exit code of a process that does one step; what it says is printed to a file.

    Where the system can, the process is a copy of one that has imported dperm and done nothing.
    """
    context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=run_step, args=(str(printed), step, *map(str, words)))
    process.start()
    process.join(600)
    return process.exitcode
