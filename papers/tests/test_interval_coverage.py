"""Coverage through real fits with seeded noise; intervals that ignore noise and penalty are the control that fails."""

import numpy as np
import pytest

from dperm.models.intervals.first_order import MOST_NOISE
from dperm_papers.reproduce.intervals_trials import LINEAR, LOGISTIC, TRUTH, Task, arcsine, targets, trial

REPEATS = 250


def coverages(task, truth, draw=arcsine, spread=0.12, repeats=REPEATS):
    """Shares of intervals, and of naive ones, that hold the truth, and of models that are told of."""
    held, plain = [], []
    for repeat in range(repeats):
        rng = np.random.default_rng([7, repeat])
        X = draw(rng, task.n_rows)
        y = targets(task.kind, X, truth, spread, rng)
        came = trial(task, X, y, np.random.SeedSequence([8, repeat]))
        if came.found is not None and came.noise_level <= MOST_NOISE:
            held.append(came.holds(truth))
            plain.append((came.plain[0] <= truth) & (truth <= came.plain[1]))
    return np.mean(held, axis=0), np.mean(plain, axis=0), len(held) / repeats


@pytest.mark.some(1)
@pytest.mark.parametrize(("n", "epsilon"), [(2000, 1.0), (1000, 3.0), (2000, 0.3)])
def test_log_odds(n, epsilon):
    held, plain, told = coverages(
        Task(kind=LOGISTIC, n_rows=n, n_features=1, epsilon=epsilon), TRUTH[LOGISTIC]
    )
    assert told > 0.95
    assert (held > 0.91).all()
    assert (held < 0.985).all()
    if epsilon <= 1:
        assert plain.max() < 0.86


@pytest.mark.parametrize("mechanism", ["auto", "adassp"])
def test_numbers(mechanism):
    task = Task(kind=LINEAR, n_rows=1000, n_features=1, epsilon=1.0, mechanism=mechanism)
    held, plain, told = coverages(task, TRUTH[LINEAR])
    assert told > 0.95
    assert (held > 0.91).all()
    assert (held < 0.985).all()
    if mechanism == "auto":
        assert plain.max() < 0.7


def test_several_features_that_move_together():
    def draw(rng, n):
        X = 0.12 * rng.standard_normal((n, 1)) + 0.15 * rng.standard_normal((n, 4))
        return X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]

    truth = np.array([2.0, -1.0, 0.5, 0.0, -0.5])
    task = Task(kind=LOGISTIC, n_rows=8000, n_features=4, epsilon=1.0)
    held, plain, told = coverages(task, truth, draw, repeats=120)
    assert told > 0.8
    assert 0.92 < held.mean() < 0.98
    assert plain.mean() < 0.85
