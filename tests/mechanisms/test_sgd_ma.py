"""SGD-MA: constant steps on Poisson batches, and the limits of the moments accountant."""

import math

import numpy as np
import pytest
from gradient_cases import BUDGET, N, clip_by_rule, each_loss, facts, plain_descent, rows_of, run

from dperm.errors import NotCertified
from dperm.losses import Logistic
from dperm.mechanisms.gradient.sgd_ma import SGDMA, moments_epsilon
from dperm.planning.sampling import PoissonSampling
from dperm.privacy import Budget, Gate
from dperm.privacy.subsampled import poisson_epsilon
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate


@each_loss
@pytest.mark.parametrize("clip", [0.6, "auto"])
def test_without_noise_it_is_a_plain_loop_over_the_batches(loss, clip):
    problem, (X, y) = facts(loss), rows_of(loss)
    mechanism = SGDMA(steps=20, step_size=0.8, rate=0.1, clip=clip, standardise=False)
    plan = mechanism.plan(problem, BUDGET)
    outcome = run(mechanism, problem, X, y, gate=SilentGate(3))
    gate = Gate.seeded(3)
    expected = plain_descent(
        problem,
        X,
        y,
        [PoissonSampling(0.1).batch(gate).positions(N) for _ in range(20)],
        step_sizes=np.full(20, 0.8),
        divisor=0.1 * N,
        l2=plan.settings["l2_used"],
        momentum=mechanism.momentum,
        tail=5,
        clip=clip_by_rule(problem) if clip == "auto" else clip,
    )
    np.testing.assert_allclose(outcome.weights, expected, rtol=1e-5, atol=1e-6)
    assert np.linalg.norm(outcome.weights) > 0.01


def test_the_moments_are_those_of_the_mixture():
    """One moment by numerical integration, and full batches by the closed form."""
    z, q = 1.5, 0.2
    x, width = np.linspace(-30, 30, 200_001, retstep=True)
    ratio = (1 - q) + q * np.exp((2 * x - 1) / (2 * z * z))
    density = np.exp(-x * x / (2 * z * z)) / (z * math.sqrt(2 * math.pi))
    by_hand = min(
        (10 * math.log((density * ratio ** (m + 1)).sum() * width) - math.log(1e-5)) / m for m in range(1, 33)
    )
    assert moments_epsilon(z, q, 10, 1e-5) == pytest.approx(by_hand, rel=1e-6)
    full = min((5 * m * (m + 1) / (2 * 20.0**2) - math.log(1e-5)) / m for m in range(1, 33))
    assert moments_epsilon(20.0, 1.0, 5, 1e-5) == pytest.approx(full, rel=1e-9)


def test_the_moments_accountant_is_a_bound_for_add_remove():
    for z, q, steps in ((1.2, 0.05, 100), (4.0, 0.3, 20)):
        exact = poisson_epsilon(z, q, steps, 1e-5, Neighbours.ADD_REMOVE)
        assert exact <= moments_epsilon(z, q, steps, 1e-5) <= 2 * exact


def test_paper_noise_is_certified_only_where_the_exact_price_agrees():
    """It is for add-remove. Over few steps it is loose enough for a replaced row as well; over many it is not."""
    budget = Budget(2.0, 1e-5)
    for steps, rate, replaced in ((30, 0.05, True), (300, 0.1, False)):
        mechanism = SGDMA(steps=steps, rate=rate, accounting="paper")
        plans = {n: mechanism.plan(facts(Logistic(), neighbours=n), budget) for n in Neighbours}
        z = plans[Neighbours.ADD_REMOVE].settings["noise_multiplier"]
        assert moments_epsilon(z, rate, steps, 1e-5) <= 2.0 < moments_epsilon(0.99 * z, rate, steps, 1e-5)
        for relation, enough in ((Neighbours.ADD_REMOVE, True), (Neighbours.REPLACE_ONE, replaced)):
            assert (plans[relation].not_certified is None) is enough
            assert (poisson_epsilon(z, rate, steps, 1e-5, relation) <= 2.0) is enough


def test_thirty_two_moments_cannot_reach_a_small_epsilon():
    """At delta = 1e-8 no noise goes below 0.576; the tight price has no such floor."""
    budget, problem = Budget(0.5, 1e-8), facts(Logistic(), neighbours=Neighbours.ADD_REMOVE)
    assert moments_epsilon(1e9, 0.05, 30, 1e-8) == pytest.approx(-math.log(1e-8) / 32, rel=1e-6)
    with pytest.raises(NotCertified, match="0.576"):
        SGDMA(steps=30, accounting="paper").plan(problem, budget)
    assert SGDMA(steps=30).plan(problem, budget).not_certified is None


def test_standardising_works():
    problem, (X, y) = facts(Logistic()), rows_of(Logistic())
    outcome = run(SGDMA(steps=20, rate=0.1, standardise=True), problem, X, y)
    assert outcome.weights.shape == (5,)
    assert len(outcome.records) == 22
