"""Where the number of rows is private, a threshold is tuned as if the table were full."""

from copy import deepcopy

import numpy as np
import pytest

from dperm import PrivateLogisticRegression
from dperm.counting.bins import margin_scale
from dperm.privacy import Gate

FULL, FEW = 20_000, 300


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(FULL, 3)) / 3
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=FULL) > 0.2, "yes", "no")


def fitted(table, neighbours, max_rows):
    X, y = (part[:FEW] for part in table)
    given = {"neighbours": neighbours, "max_rows": max_rows, "random_state": 0}
    return PrivateLogisticRegression(epsilon=5.0, classes=["no", "yes"], x_norm=1.0, **given).fit(X, y)


@pytest.fixture
def noises(monkeypatch):
    """Of all releases, in their order."""
    found = []
    release_one = Gate.release_one

    def noted(gate, values, noise, name):
        found.append(noise)
        return release_one(gate, values, noise, name)

    monkeypatch.setattr(Gate, "release_one", noted)
    return found


def tuned(model, table, n_rows, noises):
    """Bins, edges, noise and number of rows that a table of this many rows leads to."""
    model = deepcopy(model)
    noises.clear()
    model.tune_threshold(*(part[:n_rows] for part in table), epsilon=2.0)
    (noise,) = noises
    found = model.threshold_
    assert noise.dimension == 2 * found.bins
    assert noise.scale == found.noise_scale
    return found.bins, margin_scale(model).edges(found.bins).tolist(), noise, found.n_units


def test_nothing_that_is_public_follows_the_number_of_rows(table, noises):
    """Tables of any size are linked by neighbours, one row at a time."""
    model = fitted(table, "add-remove", FULL)
    full = tuned(model, table, FULL, noises)
    assert full[-1] == FULL
    for n_rows in (FULL - 1, 4000, 301, FEW, 1, 0):
        assert tuned(model, table, n_rows, noises) == full


def test_the_declared_number_decides(table, noises):
    """The controls: another capacity, and replace-one, where the number of rows is public, give other bins."""
    many = tuned(fitted(table, "add-remove", FULL), table, FEW, noises)
    few = tuned(fitted(table, "add-remove", 2 * FEW), table, FEW, noises)
    assert (few[0], few[-1]) != (many[0], many[-1])
    assert few[0] < many[0]
    public = fitted(table, "replace-one", None)
    assert tuned(public, table, FULL, noises)[0] > tuned(public, table, FEW, noises)[0]
    assert tuned(public, table, FEW, noises)[-1] == FEW
