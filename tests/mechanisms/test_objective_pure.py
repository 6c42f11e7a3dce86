"""Objective perturbation with delta = 0: formulas of the plan, law of the noise, and what is not promised."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from objective_cases import N, P, fit, gradient, make_problem, make_rows
from scipy.stats import gamma, kstest

from dperm.errors import NotCertified, Unsupported
from dperm.losses import HuberHinge, Logistic
from dperm.mechanisms import minimiser
from dperm.mechanisms.objective.objective_pure import ObjectivePure
from dperm.privacy import Budget, Gate, SeededEntropy, SystemEntropy
from dperm.privacy.noise import GammaNormNoise, uniforms
from dperm.solvers import Known

PURE = Budget(1.0, 0.0)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.1)], ids=repr)
@pytest.mark.parametrize("paper", [False, True])
def test_epsilon_left_for_the_noise(loss, paper):
    """epsilon' = epsilon - ln(1 + beta / strength), twice the logarithm in the paper."""
    problem = make_problem(loss, l2=0.5)
    mechanism = ObjectivePure(accounting="paper" if paper else "tight", clip=None)
    plan = mechanism.plan(problem, PURE)
    beta = loss.smoothness * (1 + 0.3**2)
    charge = (2 if paper else 1) * math.log(1 + beta / (N * 0.5))
    assert plan.settings["l2_used"] == 0.5
    assert plan.settings["noise_epsilon"] == pytest.approx(0.999 - charge, rel=1e-6)
    assert plan.noise.scale == pytest.approx(2 * math.sqrt(1.09) / (0.999 - charge), rel=1e-6)


@pytest.mark.parametrize(("paper", "part"), [(False, 2), (True, 4)])
def test_slack_where_the_logarithm_is_too_large(paper, part):
    problem = make_problem(l2=1e-9)
    mechanism = ObjectivePure(accounting="paper" if paper else "tight", clip=None)
    plan = mechanism.plan(problem, Budget(0.2, 0.0))
    epsilon = 0.2 * 0.999
    assert plan.settings["noise_epsilon"] == pytest.approx(epsilon / 2)
    assert plan.settings["l2_used"] * N == pytest.approx(0.25 * 1.09 / math.expm1(epsilon / part), rel=1e-6)


def test_everything_adds_up_to_epsilon():
    plan = ObjectivePure(clip=None).plan(make_problem(), PURE)
    used, objective, output = plan.perturbation.problem, plan.perturbation.objective, plan.perturbation.output
    charge = math.log1p(0.25 * used.row_norm**2 / (N * used.l2))
    total = objective.sensitivity / objective.scale + charge + output.sensitivity / output.scale
    assert 0.999 < total <= 1.0
    assert output.sensitivity >= 2 * plan.perturbation.limit / (N * used.l2)


def test_the_rule_needs_no_delta_and_leaves_most_of_epsilon_to_the_noise():
    problem = make_problem(l2=0.0, n_features=200)
    for epsilon in (0.1, 1.0):
        l2 = ObjectivePure().l2_rule(problem, Budget(epsilon, 0.0))
        plan = ObjectivePure().plan(replace(problem, l2=l2), Budget(epsilon, 0.0))
        assert plan.settings["l2_used"] == l2
        assert plan.settings["noise_epsilon"] > 0.85 * epsilon


def test_noise_has_uniform_direction_and_gamma_norm():
    noise = GammaNormNoise(1.0, 2.5, 3)
    for entropy in (SeededEntropy(0), SystemEntropy()):
        draws = np.array([noise.draw(entropy) for _ in range(1500)])
        norms = np.linalg.norm(draws, axis=1)
        assert kstest(norms, gamma(3, scale=2.5).cdf).pvalue > 1e-9
        assert kstest(norms, gamma(2, scale=2.5).cdf).pvalue < 1e-9
        # a coordinate of a uniform direction in three dimensions is uniform on (-1, 1)
        for axis in range(3):
            assert kstest(draws[:, axis] / norms, "uniform", args=(-1, 2)).pvalue > 1e-9
        assert (
            kstest(np.sign(draws[:, 0]) * (draws[:, 0] / norms) ** 2, "uniform", args=(-1, 2)).pvalue < 1e-9
        )
        assert norms.max() < noise.reach


def test_uniform_numbers_never_reach_the_ends():
    for entropy in (SeededEntropy(0), SystemEntropy()):
        numbers = uniforms(10_000, entropy)
        assert 0 < numbers.min() < 0.01
        assert 0.99 < numbers.max() < 1


def test_the_minimiser_solves_the_problem_with_the_noise_drawn(monkeypatch):
    drawn = []
    original = GammaNormNoise.draw

    def draw(self, entropy):
        drawn.append(original(self, entropy))
        return drawn[-1]

    monkeypatch.setattr(GammaNormNoise, "draw", draw)
    problem = make_problem()
    rows = make_rows(problem)
    plan = ObjectivePure(clip=None).plan(problem, PURE)
    outcome = fit(ObjectivePure(clip=None), problem, rows, PURE)
    b, last = drawn
    assert b.shape == (P + 1,)
    point = outcome.weights - last
    residual = gradient(problem, plan.settings["l2_used"], rows, point) + b
    assert np.linalg.norm(residual) <= plan.perturbation.limit * 1.01
    assert [record.noise_scale for record in outcome.records] == [
        plan.perturbation.objective.scale,
        plan.perturbation.output.scale,
    ]
    assert all("Gamma" in record.name for record in outcome.records)


def test_it_is_usable_but_not_certified():
    problem = make_problem()
    plan = ObjectivePure().plan(problem, PURE)
    assert "floating point" in plan.not_certified
    outcome = fit(ObjectivePure(), problem, make_rows(problem), PURE, Gate.system())
    assert not outcome.certified
    assert np.isfinite(outcome.weights).all()


def test_it_fails_closed(monkeypatch):
    problem = make_problem()
    for name in ("newton", "lbfgs"):
        monkeypatch.setattr(minimiser, name, partial(getattr(minimiser, name), max_iterations=1))
    monkeypatch.setattr(Known, "most_steps", lambda *_: 3)
    with pytest.raises(NotCertified, match="nothing is released"):
        fit(ObjectivePure(), problem, make_rows(problem), PURE)


def test_standardising_needs_a_delta():
    with pytest.raises(Unsupported, match="delta"):
        ObjectivePure(standardise=True).plan(make_problem(), Budget(1.0, 1e-6))
