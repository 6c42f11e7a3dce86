"""What other processes do to a ledger. Run as a script with one step; prints what came of it.

A refusal of dperm is printed, as a user would see it; anything else is a failure of the test.
"""

import os
import signal
import sys

import numpy as np

from dperm import Ledger, PrivateLogisticRegression, PrivateSearchCV
from dperm.errors import BudgetExceeded, DpermError
from dperm.models import load_model, save_model

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


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]](*sys.argv[2:])
    except (DpermError, BudgetExceeded) as error:
        print("refused:", error)
