"""Intervals of mean predictions hold the truth in 95 of 100 releases, and there are none where noise drowns a group."""

import numpy as np
import pytest
from means_cases import SHAPES, coverage, plan_of, vector_of
from scipy.stats import binom

from dperm.evaluation.groups import means
from dperm.unit import Neighbours

RELATIONS = [relation.value for relation in Neighbours]
SHORT, LONG = 300, 1000
INNER = ("low", "even", "sure")
CELLS = [(50, 3.0), (200, 0.5), (1000, 0.1), (1000, 1.0), (5000, 0.1), (5000, 3.0)]


def least(share, runs):
    """What chance allows of so many runs, but for one set of runs in ten thousand."""
    return binom.ppf(1e-4, runs, share) / runs


@pytest.mark.together
@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("shape", "n", "epsilon"),
    [(shape, *CELLS[k]) for i, shape in enumerate(SHAPES) for k in range(i % 2, 6, 2)],
)
def test_intervals_hold_the_mean_of_the_population_and_that_of_the_rows(shape, n, epsilon):
    given, people, rows, _ = coverage(shape, n, epsilon, SHORT)
    assert given > 0.95
    assert people >= least(0.95, SHORT)
    assert rows >= least(0.95, SHORT)
    if shape in INNER and n >= 200:  # close to an end of the range intervals are wider than they need be
        assert people <= binom.ppf(1 - 1e-4, SHORT, 0.96) / SHORT


@pytest.mark.together
@pytest.mark.parametrize("shape", INNER)
def test_intervals_hold_the_mean_where_the_number_of_rows_is_private(shape):
    given, people, rows, _ = coverage(shape, 1000, 0.3, SHORT, "add-remove")
    assert given == 1
    assert min(people, rows) >= least(0.95, SHORT)


def test_intervals_that_ignore_the_noise_do_not():
    _, people, rows, _ = coverage("low", 1000, 0.1, 100, noise_known=False)
    assert people < 0.5
    assert rows < 0.5


def test_the_interval_of_these_rows_is_not_one_for_the_population():
    """The control of the other kind of chance: 5000 rows at a large epsilon are sampled more than they are hidden."""
    _, people, _, mistaken = coverage("sure", 5000, 3.0, 100)
    assert people >= least(0.95, 100)
    assert mistaken < 0.5


@pytest.mark.cover(1)
@pytest.mark.parametrize(("n", "epsilon"), [(0, 0.5), (5, 0.5), (50, 0.1), (20, 0.3)])
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_of_a_group_that_noise_drowns_nothing_is_said(n, epsilon, neighbours):
    given, *_ = coverage("low", n, epsilon, 400, neighbours)
    assert given <= 0.05


def test_the_sum_of_squares_narrows_what_the_bound_on_the_spread_would_give():
    """Without it the variance of predictions with mean m is only known to be at most m (1 - m)."""
    plan, rng = plan_of(1.0, Neighbours.REPLACE_ONE), np.random.default_rng(0)
    places, predicted = np.repeat(np.arange(3), 5000), rng.beta(*SHAPES["low"], 15_000)
    figure = means(vector_of(plan, places, predicted), plan.noise.scale, 15_000, (0.0, 1.0))[0].mean
    width = (figure.high - figure.low) / 2
    bound = 1.96**2 * figure.estimate * (1 - figure.estimate) / 5000
    assert np.hypot(np.sqrt(bound), figure.noise) > 2.5 * width


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("n", [50, 200, 1000, 5000])
@pytest.mark.parametrize("shape", SHAPES)
def test_coverage_is_between_93_and_98_percent_where_an_interval_is_given(shape, n, epsilon, neighbours):
    given, people, rows, _ = coverage(shape, n, epsilon, LONG, neighbours, seed=1)
    print(shape, n, epsilon, neighbours, round(given, 3), round(float(people), 3), round(float(rows), 3))
    if given < 0.5:  # what is said of a group that seems larger than it is errs in few releases all the same
        assert given * (1 - np.nan_to_num(people)) <= 0.03
        return
    assert min(people, rows) >= 0.93
    if shape in INNER and given > 0.95 and n > 50:
        assert max(people, rows) <= 0.98
