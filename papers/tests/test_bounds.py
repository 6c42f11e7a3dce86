"""Utility bounds: the printed table by hand at one setting, its limits, and how each bound moves."""

import math
from dataclasses import replace

import pytest

from dperm.errors import InvalidInput
from dperm_papers.analysis import BOUNDS, Setting, utility_bounds

PLAIN = Setting(n_rows=10_000, dimension=100, epsilon=0.5, strong_convexity=0.1, smoothness=0.25)


def values(setting):
    found = utility_bounds(setting)
    return {
        (name, case): value
        for case in ("convex", "strongly_convex")
        for name, value in getattr(found, case).items()
        if value is not None
    }


def test_the_table_by_hand():
    n, p, e, mu, beta, log = 10_000, 100, 0.5, 0.1, 0.25, math.log(10_000)
    first, second = math.sqrt(p) / (n * e), p / (n * e) ** 2
    by_hand = {
        ("objective", "convex"): first,
        ("objective", "strongly_convex"): second / mu,
        ("output-gd", "convex"): (math.sqrt(beta * p) / (n * e)) ** (2 / 3),
        ("output-gd", "strongly_convex"): beta * second / mu**2,
        ("psgd", "convex"): first * log**1.5,
        ("psgd", "strongly_convex"): second * log**2 / mu,
        ("gd", "strongly_convex"): beta * second * log**2 / mu**2,
        ("dp-gd", "convex"): min(first, beta * second * log / mu**2),
        ("dp-gd", "strongly_convex"): min(first, beta * second * log / mu**2),
        ("dp-sgd", "convex"): min(first * log, second * log / mu),
        ("dp-sgd", "strongly_convex"): min(first * log, second * log / mu),
        ("dp-svrg", "convex"): first,
        ("dp-svrg", "strongly_convex"): second * log,
        ("noisy-sgd", "convex"): math.sqrt(p) / (n * e**2),
        ("lower bound", "convex"): first,
        ("lower bound", "strongly_convex"): second,
    }
    assert values(PLAIN) == pytest.approx(by_hand)


@pytest.mark.together
@pytest.mark.parametrize(
    ("change", "sign"),
    [
        ({"n_rows": 20_000}, -1),
        ({"epsilon": 1.0}, -1),
        ({"dimension": 200}, 1),
        ({"smoothness": 0.5}, 1),
        ({"strong_convexity": 0.2}, -1),
        ({"expected_curvature": 0.3}, -1),
    ],
)
def test_every_bound_moves_the_right_way(change, sign):
    before, after = values(PLAIN), values(replace(PLAIN, **change))
    assert before.keys() == after.keys()
    assert all(sign * (after[key] - before[key]) >= 0 for key in before)
    assert any(sign * (after[key] - before[key]) > 0 for key in before)


def test_more_rows_take_every_bound_to_zero():
    assert max(values(replace(PLAIN, n_rows=10**15)).values()) < 1e-6


def test_delta_puts_the_logarithm_back_except_in_lower_bounds():
    with_delta, without = values(replace(PLAIN, delta=1e-8)), values(PLAIN)
    spread = math.log(1e8)
    assert with_delta["objective", "convex"] == pytest.approx(
        without["objective", "convex"] * math.sqrt(spread)
    )
    assert with_delta["gd", "strongly_convex"] == pytest.approx(without["gd", "strongly_convex"] * spread)
    for case in ("convex", "strongly_convex"):
        assert with_delta["lower bound", case] == without["lower bound", case]
    assert all(with_delta[key] > without[key] for key in without if key[0] != "lower bound")


def test_no_upper_bound_beats_the_lower_bound():
    """Flat losses against the convex one; strong convexity and smoothness of order one against the other."""
    flat = utility_bounds(replace(PLAIN, strong_convexity=0.0, smoothness=1.0, delta=1e-8)).convex
    curved = utility_bounds(replace(PLAIN, strong_convexity=1.0, smoothness=1.0, delta=1e-8)).strongly_convex
    for found in (flat, curved):
        assert min(value for value in found.values() if value is not None) == found["lower bound"]
    assert flat["lower bound"] > curved["dp-gd"]  # the convex one does not hold for curved losses


def test_expected_curvature_never_hurts_and_strong_convexity_stands_in():
    assert values(replace(PLAIN, expected_curvature=0.1)) == values(PLAIN)
    flat = replace(PLAIN, strong_convexity=0.0)
    assert utility_bounds(flat).convex["dp-gd"] == flat.noise
    assert utility_bounds(flat).strongly_convex == dict.fromkeys(BOUNDS)
    curved = utility_bounds(replace(flat, expected_curvature=0.5)).convex["dp-gd"]
    assert curved == pytest.approx(0.25 * flat.noise**2 * math.log(10_000) / 0.25)
    assert curved < flat.noise


def test_the_lower_bound_stops_at_one():
    tiny = Setting(n_rows=2, dimension=10**6, epsilon=0.01, strong_convexity=1.0)
    assert utility_bounds(tiny).convex["lower bound"] == 1.0
    assert utility_bounds(tiny).strongly_convex["lower bound"] == 1.0


def test_what_is_printed():
    text = str(utility_bounds(PLAIN))
    assert text.startswith("NOT PRIVATE")
    for name, bound in BOUNDS.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"  {name} ")]
        assert bound.source in line
    assert "suspect" in text


@pytest.mark.together
@pytest.mark.parametrize(
    "wrong",
    [
        {"n_rows": 1},
        {"dimension": 0},
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"delta": 1.0},
        {"smoothness": -1.0},
        {"strong_convexity": -0.1},
        {"expected_curvature": math.inf},
    ],
)
def test_refusals(wrong):
    with pytest.raises(InvalidInput):
        replace(PLAIN, **wrong)
