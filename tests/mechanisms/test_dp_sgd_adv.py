"""DP-SGD by advanced composition: the theorem within its condition, and only there."""

import math

import numpy as np
import pytest
from gradient_cases import BUDGET, N, clip_by_rule, facts, plain_descent, rows_of, run

from dperm.errors import NotCertified, Unsupported
from dperm.losses import Logistic, Softmax
from dperm.mechanisms.gradient.dp_sgd_adv import DPSGDAdv
from dperm.planning.sampling import FixedSizeSampling
from dperm.privacy import Budget, Gate
from dperm.privacy.subsampled import fixed_size_epsilon
from dperm_audit.gates import SilentGate

BY_THEOREM = Budget(0.5, 1e-5)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=lambda loss: loss.name)
@pytest.mark.parametrize(("accounting", "clip"), [("paper", lambda problem: None), ("tight", clip_by_rule)])
def test_without_noise_it_is_a_plain_loop_over_single_rows(loss, accounting, clip):
    problem, (X, y) = facts(loss), rows_of(loss)
    settings = {"steps": 200, "step_size": 0.5, "radius": 2.0, "momentum": 0.0}
    mechanism = DPSGDAdv(**settings, accounting=accounting, standardise=False)
    plan = mechanism.plan(problem, BY_THEOREM)
    outcome = run(mechanism, problem, X, y, BY_THEOREM, gate=SilentGate(3))
    gate = Gate.seeded(3)
    expected = plain_descent(
        problem,
        X,
        y,
        [FixedSizeSampling(1).batch(gate).positions(N) for _ in range(200)],
        step_sizes=0.5 / np.sqrt(np.arange(1, 201)),
        divisor=1,
        l2=plan.settings["l2_used"],
        momentum=0.0,
        tail=50,
        clip=clip(problem),
        radius=2.0,
    )
    np.testing.assert_allclose(outcome.weights, expected, rtol=1e-5, atol=1e-6)


def test_the_noise_is_the_theorems_and_its_exact_cost_is_below_the_budget():
    problem, T = facts(Logistic(), n_rows=100), 1000
    budget = Budget(0.5, 1e-5)
    plan = DPSGDAdv(steps=T, accounting="paper").plan(problem, budget)
    logs = math.log(2 / 1e-5) * math.log(2.5 * T / (1e-5 * 100))
    printed = 16 * problem.gradient_bound * math.sqrt(T * logs) / (100 * 0.5)
    assert plan.noise.scale == pytest.approx(printed, rel=1e-6)
    assert plan.not_certified is None
    unit = plan.noise.padded(plan.noise.sensitivity) / 2
    assert fixed_size_epsilon(plan.noise.scale / unit, 1, 100, T, 1e-5) < 0.5
    tight = DPSGDAdv(steps=T, accounting="tight", clip=None, standardise=False).plan(problem, budget)
    assert tight.noise.scale < plan.noise.scale / 2


def test_too_few_steps_for_the_theorem_are_refused():
    """n = 1000, T = 20, claimed (2, 1e-6): the formula would add too little noise."""
    problem = facts(Logistic(), n_rows=1000)
    with pytest.raises(NotCertified, match="steps"):
        DPSGDAdv(steps=20, accounting="paper").plan(problem, Budget(2.0, 1e-6))
    with pytest.raises(NotCertified, match="2615908"):
        DPSGDAdv(accounting="paper").plan(facts(Logistic(), n_rows=40_000), Budget(1.0, 1e-8))


def test_the_default_number_of_steps_is_the_theorems_least():
    plan = DPSGDAdv(accounting="paper").plan(facts(Logistic(), n_rows=40_000), Budget(0.1, 1e-8))
    assert plan.releases == 26_160
    small = DPSGDAdv(accounting="paper").plan(facts(Logistic()), BY_THEOREM)
    assert small.releases == 1_000


def test_advanced_composition_is_not_combined_with_standardising_but_the_tight_price_is():
    problem, (X, y) = facts(Logistic()), rows_of(Logistic())
    with pytest.raises(Unsupported, match="standardisation"):
        DPSGDAdv(steps=200, accounting="paper", standardise=True).plan(problem, BUDGET)
    outcome = run(DPSGDAdv(steps=10, standardise=True, accounting="tight"), problem, X, y)
    assert len(outcome.records) == 12
