"""Processes that race for a budget or are killed in the middle of a fit. Run as a script; prints JSON.

A process of its own forks quickly and safely: it has imported everything and holds no threads that matter.
"""

import json
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from dperm import Ledger, PrivateLogisticRegression
from dperm.errors import BudgetExceeded
from dperm.ledger import history, store
from dperm.privacy.cost import Cost, compose

fork = multiprocessing.get_context("fork")

# Eight processes race for ten charges.


@contextmanager
def without_the_lock(path):
    """The control: each statement by itself is safe, and the sum of what it reads is stale when it writes.

    Two events then follow the same head, which the chain would show; so the control looks away from the chain too.
    """
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        yield connection


def slow_sum(costs):
    """What a real sum of many charges would take: long enough for another process to come between."""
    time.sleep(0.02)
    return compose(costs)


def spend_all(path, barrier, locked):
    history.compose = slow_sum
    if not locked:
        look_away()
    handle = Ledger(path)
    barrier.wait()
    try:
        while True:
            handle.charge(Cost.point(0.1, 0.0))
    except BudgetExceeded:
        pass


def look_away():
    store.transaction = without_the_lock
    store.check_chain = lambda links: None


def race(locked, processes=8):
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "budget.db", epsilon=1.0, delta=0.0)
        barrier = fork.Barrier(processes)
        runners = [
            fork.Process(target=spend_all, args=(ledger.path, barrier, locked)) for _ in range(processes)
        ]
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.join()
        assert all(runner.exitcode == 0 for runner in runners)
        if not locked:
            look_away()
        return {"charges": len(ledger.entries())}


# Fits that are killed.

_noise = np.random.default_rng(0)
X = _noise.normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)


def fit(ledger=None):
    model = PrivateLogisticRegression(epsilon=0.1, mechanism="output", classes=[0, 1], ledger=ledger)
    return model.fit(X, Y)


def release_for_ever(path, released, charge_first):
    """Fit and publish, again and again; the control pays when it has published."""
    ledger = Ledger(path)
    with released.open("ab", buffering=0) as file:
        while True:
            model = fit(ledger if charge_first else None)
            file.write(json.dumps(model.coef_.tolist()).encode() + b"\n")
            if not charge_first:
                ledger.charge(Cost.gaussian(0.02))


def kill_one(charge_first, chance):
    """Releases and counted charges after a kill -9 at a random moment."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "budget.db", epsilon=50.0, delta=1e-6)
        released = Path(folder) / "released"
        victim = fork.Process(target=release_for_ever, args=(ledger.path, released, charge_first))
        victim.start()
        while not (released.exists() and released.stat().st_size):  # it is at work
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.15))
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        entries = Ledger(ledger.path).entries()  # opens and checks the file
        assert (ledger.spent() > 0) == bool(entries)
        ledger.charge(Cost.gaussian(0.01))  # and takes further charges
        assert len(ledger.entries()) == len(entries) + 1
        releases = sum(line.endswith(b"\n") for line in released.read_bytes().splitlines(keepends=True))
        return releases, sum(entry.status != "void" for entry in entries)


def kills(count, charge_first):
    """How often a kill left a release uncounted, or a charge without a release. The control stops at the first."""
    chance = random.Random()
    fit()  # compiled code is loaded before the forks
    found = {"kills": 0, "releases": 0, "charges": 0, "uncounted": 0, "overcounted": 0}
    while found["kills"] < count and (charge_first or not found["uncounted"]):
        releases, charges = kill_one(charge_first, chance)
        found["kills"] += 1
        found["releases"] += releases
        found["charges"] += charges
        found["uncounted"] += charges < releases
        found["overcounted"] += charges > releases
    return found


if __name__ == "__main__":
    count = int(sys.argv[1])
    answer = {"kills": kills(count, charge_first=True)}
    if sys.argv[2:] == ["controls"]:
        answer["kills-control"] = kills(60, charge_first=False)
        answer["race"] = race(locked=True)
        answer["race-control"] = race(locked=False)
    print(json.dumps(answer))
