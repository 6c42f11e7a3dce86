"""The 95 % intervals hold the truth in 95 of 100 evaluations; without a thought for the noise they do not."""

import pytest
from evaluation_cases import Measured, Scored, coverage
from scipy.stats import binom

from dperm.neighbours import Neighbours

MAIN = {Scored: ("accuracy", "auc", "log_loss"), Measured: ("r2", "rmse", "mae")}
RELATIONS = [relation.value for relation in Neighbours]
SHORT, LONG = 200, 1000


def all_near_95(rates, runs):
    """Within what chance allows of so many runs: outside with a probability below 1e-4 for each."""
    low, high = (binom.ppf(share, runs, 0.95) / runs for share in (5e-5, 1 - 5e-5))
    return all(low <= rate <= high for rate in rates.values())


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("kind", [Scored, Measured])
def test_intervals_hold_the_truth(kind, epsilon):
    rates, none = coverage(kind.drawn(), epsilon, SHORT)
    assert all_near_95(rates, SHORT), rates
    assert max(none.values()) <= 0.02 * SHORT


@pytest.mark.parametrize("kind", [Scored, Measured])
def test_intervals_hold_the_truth_where_the_number_of_rows_is_private(kind):
    rates, none = coverage(kind.drawn(), 0.3, SHORT, "add-remove")
    assert all_near_95(rates, SHORT), rates
    assert max(none.values()) <= 0.02 * SHORT


@pytest.mark.parametrize("kind", [Scored, Measured])
def test_intervals_that_ignore_the_noise_do_not(kind):
    rates, _ = coverage(kind.drawn(), 0.1, 60, noise_known=False)
    assert not all_near_95({name: rates[name] for name in MAIN[kind]}, 60)
    assert all(rates[name] < 0.8 for name in MAIN[kind]), rates


def test_errors_that_are_cut_off_are_covered_too():
    people = Measured.drawn(error=0.15, error_bound=0.5)
    rates, none = coverage(people, 0.3, SHORT)
    assert all_near_95(rates, SHORT), rates
    assert max(none.values()) <= 0.02 * SHORT
    _, without = coverage(Measured.drawn(error=0.15), 0.3, 40)
    assert max(without.values()) >= 3  # the whole range leaves little to say of errors so small


def test_rare_positives_are_covered_too():
    rates, none = coverage(Scored.drawn(centre=-2.8, spread=1.0), 1.0, SHORT, n=10_000)
    hardly_ever_called = none.pop("precision"), rates.pop("precision")
    assert (
        hardly_ever_called[0] > SHORT / 2
    )  # some 25 rows of 10,000 are called positive, against a noise of 14
    assert all_near_95(rates, SHORT), rates
    assert max(none.values()) <= 0.02 * SHORT


@pytest.mark.parametrize("n", [60, 200])
def test_where_noise_drowns_everything_nothing_narrow_is_said(n):
    people = Scored.drawn()
    _, none = coverage(people, 0.02, 30, n=n)
    assert none["recall"] + none["auc"] >= 45


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("kind", [Scored, Measured])
def test_coverage_is_between_93_and_97_percent(kind, epsilon, neighbours):
    rates, none = coverage(kind.drawn(), epsilon, LONG, neighbours, seed=1)
    print(
        kind.__name__,
        epsilon,
        neighbours,
        {name: round(float(rate), 3) for name, rate in rates.items()},
        none,
    )
    assert all(0.93 <= rates[name] <= 0.97 for name in MAIN[kind]), rates
    assert max(none.values()) <= 0.01 * LONG
