"""What can be said of weights that a file does not hold."""

import numpy as np
import pytest
from certified_models import document_of

from dperm.certificate.constants import Facts
from dperm.certificate.routes.evidence import Evidence
from dperm.certificate.routes.weights import (
    check_not_too_near,
    check_rounding,
    farthest,
    margin_of_gradient_gap,
    margin_of_remainder_gap,
)
from dperm.certificate.statement import problem_of
from dperm.planning.sensitivity import gradient_spread, remainder_spread, sum_error, whole_sum_error

NORMS = np.array([1e-3, 0.03, 0.5, 1.0, 2.0, 7.0, 30.0])


def evidence(case="dp-gd"):
    statement = document_of(case)["certificate"]
    return Evidence(statement, Facts.of(statement))


def test_norms_are_found_back_from_the_library_s_own_sensitivities():
    gaps = [gradient_spread(s) for s in NORMS]
    np.testing.assert_allclose(margin_of_gradient_gap(gaps, 2), NORMS, rtol=1e-5)
    gaps = [remainder_spread(s) for s in NORMS]
    np.testing.assert_allclose(margin_of_remainder_gap(gaps, 2), NORMS, rtol=1e-7)
    np.testing.assert_allclose(margin_of_gradient_gap(1 / (1 + np.exp(-NORMS)), 1), NORMS, rtol=1e-3)
    np.testing.assert_allclose(margin_of_remainder_gap(np.tanh(NORMS[:-1] / 2) / 2, 1), NORMS[:-1], rtol=1e-9)
    assert np.isinf(margin_of_gradient_gap([2.0], 2)).all()


@pytest.mark.together
@pytest.mark.parametrize("dimension", [1, 2, 5, 40])
def test_weights_that_noise_has_moved_are_never_too_near(dimension):
    """Even those that noise moved from the very place: the bound is attained there, and nothing comes below it."""
    rng = np.random.default_rng(dimension)
    found = evidence()
    for _ in range(300):
        near = np.linalg.norm(rng.normal(size=(6, dimension)), axis=1) * 0.3
        check_not_too_near(found, near.tolist(), [0.3] * 6, dimension)
    assert found.faults == []
    check_not_too_near(found, [1e-5] * 6, [0.3] * 6, dimension)
    assert len(found.faults) == 1


def test_the_chance_is_that_of_fisher_s_method():
    """With one coordinate in a thousand each, six times: 1e-18, times the sum of (6 log 1000)**k / k! for k < 6."""
    found = evidence()
    check_not_too_near(found, [0.0012533 - 1e-5] * 6, [1.0] * 6, 1)
    (fault,) = found.faults
    assert float(fault.split()[-1]) == pytest.approx(1.15e-12, rel=0.05)
    found = evidence()
    check_not_too_near(found, [0.0012533 - 1e-5] * 4, [1.0] * 4, 1)
    assert found.faults == []


@pytest.mark.together
@pytest.mark.parametrize(
    ("momentum", "l2", "halved"), [(0.0, 0.0, False), (0.5, 0.3, False), (0.9, 0.1, True)]
)
def test_no_descent_gets_farther(momentum, l2, halved):
    rng = np.random.default_rng(0)
    bound = farthest(2.0, 30, 0.7, l2, momentum, halved)
    for push in (*rng.normal(size=(200, 30, 3)), np.ones((30, 3))):
        place, velocity = np.zeros(3), np.zeros(3)
        for t, pull in enumerate(push):
            velocity = momentum * velocity + 2 * pull / np.linalg.norm(pull) + l2 * place
            place = place - (0.35 if halved and t >= 15 else 0.7) * velocity
            assert np.linalg.norm(place) <= bound * (1 + 1e-12)
    if l2 == 0 and momentum == 0:
        assert bound == pytest.approx(2.0 * 30 * 0.7)
    assert farthest(1.0, 3, 1e20, 1.0) == farthest(1.0, 10**6, 1.0, 0.0) == np.inf


def test_an_allowance_for_rounding_that_matters_is_said_not_to_be_checked():
    found = evidence("dp-gd, paper")
    facts, problem = found.facts, problem_of(found.statement)
    for weights in (0.0, 1e3, 1e6, 1e12):
        step = facts.step_at(weights)
        assert facts.sum_error(step) == pytest.approx(sum_error(problem, weights), rel=1e-12)
        for clip, exact in ((None, True), (None, False), (0.1, False), (1e3, True)):
            planned = whole_sum_error(problem, weights, clip, exact_margins=exact)
            assert facts.whole_sum_error(step, clip, exact) == pytest.approx(planned, rel=1e-12)
    release = found.releases[0]
    check_rounding(found, release, facts.gap, 30.0, facts.whole_sum_error)
    assert (found.faults, found.not_checked) == ([], [])
    check_rounding(found, release, facts.gap, 1e12, facts.whole_sum_error)
    assert len(found.not_checked) == 1
    assert found.faults == []
