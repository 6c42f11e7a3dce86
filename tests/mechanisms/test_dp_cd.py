"""Noisy coordinate descent: one coordinate at a time, each at the same price."""

import math

import numpy as np
import pytest
from output_cases import FixedOrder
from purse_cases import (
    BUDGET,
    N,
    P,
    data,
    fit,
    plain_delta,
    plain_gradient,
    problem,
    used_shares,
)
from scripted_gate import ScriptedGate

from dperm.engine import open_rows
from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Linear, Logistic, Loss, Softmax
from dperm.mechanisms import Job
from dperm.mechanisms.gradient.dp_cd import DPCD
from dperm.privacy import Budget, Gate
from dperm.unit import Neighbours


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5), ClippedSquared(0.5)], ids=repr)
def test_without_noise_it_equals_a_plain_loop(loss: Loss) -> None:
    facts, (X, y) = problem(loss), data()
    mechanism, order = DPCD(passes=3, step_size=0.8, standardise=False), np.array([2, 0, 4, 1, 3])
    jobs = [Job(plan=mechanism.plan(facts, BUDGET))]
    (got,) = mechanism.run(jobs, open_rows(X, y, facts), ScriptedGate(FixedOrder(order)))
    kappa = {"logistic": 0.25, "huber-hinge": 1.0, "squared": 1.0}[loss.name]
    bounds = [1.3] * P + [0.7]
    w, iterates = np.zeros(P + 1), []
    for j in np.tile(order, 3):
        derivative = plain_gradient(facts, X, y, w)[j] / N + facts.l2 * w[j]
        w = w.copy()
        w[j] -= 0.8 / (kappa * bounds[j] ** 2 + facts.l2) * derivative
        iterates.append(w)
    np.testing.assert_allclose(got.weights, np.mean(iterates[-8:], axis=0), rtol=1e-5, atol=1e-7)
    assert len(got.records) == 15


@pytest.mark.together
@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("relation", list(Neighbours))
def test_all_updates_together_meet_the_budget(relation: Neighbours, standardise: bool) -> None:
    """From the records of a run: each passage costs sensitivity over scale; squares add up."""
    facts, (X, y) = problem(neighbours=relation), data()
    outcome = fit(DPCD(passes=2, standardise=standardise), facts, X, y)
    mu = math.sqrt(sum((record.padded_sensitivity / record.noise_scale) ** 2 for record in outcome.records))
    assert len(outcome.records) == 10 + 2 * standardise
    assert plain_delta(mu, BUDGET.epsilon) <= BUDGET.delta
    assert plain_delta(mu * (1 + 1e-6), BUDGET.epsilon) > BUDGET.delta


@pytest.mark.cover(1)
@pytest.mark.parametrize("loss", [Linear(), Logistic(), HuberHinge(0.5)], ids=repr)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_neighbours_stay_within_the_sensitivity(loss: Loss, relation: Neighbours) -> None:
    moved, _ = used_shares(DPCD(passes=2, standardise=False), problem(loss, neighbours=relation))
    assert 0.1 < max(moved) <= 1
    if isinstance(loss, Linear):
        assert max(moved) >= 0.995  # the intercept column attains it


def test_the_intercept_gets_less_noise_than_a_feature() -> None:
    gate = ScriptedGate()
    fit(DPCD(passes=1, standardise=False), problem(), *data(), gate=gate)
    scales = sorted({round(noise.scale, 9) for noise in gate.noises})
    assert len(scales) == 2
    assert scales[0] / scales[1] == pytest.approx(0.7 / 1.3, rel=2e-3)


def test_the_printed_noise_is_certified_up_to_epsilon_one_and_refused_above() -> None:
    facts, budget = problem(n_rows=40_000), Budget(1.0, 1e-8)
    tight, paper = (
        DPCD(accounting=kind, standardise=False).plan(facts, budget) for kind in ("tight", "paper")
    )
    assert (paper.noise.scale / tight.noise.scale) ** 2 == pytest.approx(2.1, abs=0.05)
    assert paper.not_certified is None
    assert paper.profile.delta(1.0) < 1e-8
    with pytest.raises(NotCertified, match="epsilon up to 1"):
        DPCD(accounting="paper").plan(facts, Budget(1.5, 1e-8))
    shared = DPCD(accounting="paper", standardise=True).plan(facts, budget)
    assert shared.not_certified is None
    assert paper.profile.delta(1.0) < shared.profile.delta(1.0) < 1e-8  # the moments are paid for too


def test_refusals() -> None:
    for bad in ({"passes": 0}, {"step_size": 0.0}):
        with pytest.raises(InvalidInput):
            DPCD(**bad)  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="softmax"):
        DPCD().plan(problem(Softmax(3)), BUDGET)
    with pytest.raises(Unsupported, match="curvature"):
        DPCD().plan(problem(Linear(), l2=0.0), BUDGET)


def test_a_secure_run_is_certified() -> None:
    facts, mechanism = problem(), DPCD(passes=2)
    outcome = fit(mechanism, facts, *data(), gate=Gate.system())
    assert outcome.certified
    assert all(record.secure for record in outcome.records)
