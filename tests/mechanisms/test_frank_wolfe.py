"""Private Frank-Wolfe: full gradients, two-sided choices, and their price."""

import math

import numpy as np
import pytest
from purse_cases import (
    BUDGET,
    N,
    P,
    data,
    fit,
    plain_gradient,
    plain_zcdp_epsilon,
    problem,
    used_shares,
)
from scripted_gate import ScriptedGate

from dperm.engine import open_rows
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Linear, Logistic, Loss, Softmax
from dperm.mechanisms import Job
from dperm.mechanisms.gradient.frank_wolfe import FrankWolfe
from dperm.privacy import Budget, Gate
from dperm.unit import Neighbours


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5), ClippedSquared(0.5)], ids=repr)
def test_without_noise_it_equals_a_plain_loop(loss: Loss) -> None:
    facts, (X, y) = problem(loss), data()
    gate = ScriptedGate()
    got = fit(FrankWolfe(steps=12, radius=6.0, standardise=False, clip=None), facts, X, y, gate=gate)
    c = 6.0 / facts.row_norm
    corners = np.vstack([c * np.eye(P + 1), -c * np.eye(P + 1)])
    w = np.zeros(P + 1)
    for t in range(1, 13):
        scores = corners @ (plain_gradient(facts, X, y, w) / N + facts.l2 * w)
        np.testing.assert_allclose(gate.scores[t - 1], scores, rtol=1e-5, atol=1e-6)
        w = w + 2 / (t + 2) * (corners[np.argmin(scores)] - w)
    np.testing.assert_allclose(got.weights, w, rtol=1e-6, atol=1e-9)
    assert np.abs(got.weights).sum() <= c * (1 + 1e-12)
    assert len(got.records) == 12


@pytest.mark.together
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("budget", [BUDGET, Budget(0.1, 1e-8)], ids=str)
def test_the_choices_cost_no_more_than_the_budget(budget: Budget, relation: Neighbours) -> None:
    """From the declared noise: range 2 * sensitivity / scale, rho = range**2 / 8, summed and converted."""
    for standardise in (False, True):
        facts = problem(neighbours=relation)
        plan = FrankWolfe(steps=17, standardise=standardise).plan(facts, budget)
        moved = 2 * plan.noise.sensitivity / plan.noise.scale
        mu_spent = plan.standardisation.mu if standardise else 0.0
        rho = 17 * moved**2 / 8 + mu_spent**2 / 2
        reached = plain_zcdp_epsilon(rho, budget.delta)
        assert reached <= budget.epsilon
        assert reached >= 0.999 * budget.epsilon


def test_without_delta_the_guarantee_is_pure() -> None:
    plan = FrankWolfe().plan(problem(), Budget(1.0, 0.0))
    assert plan.releases * 2 * plan.noise.sensitivity / plan.noise.scale <= 1.0
    assert plan.accountant == "pure composition of the choices"
    assert plan.standardisation is None


@pytest.mark.parametrize("loss", [Linear(), Logistic()], ids=repr)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_scores_of_neighbours_stay_within_the_sensitivity(loss: Loss, relation: Neighbours) -> None:
    _, ranged = used_shares(FrankWolfe(steps=6, standardise=False), problem(loss, neighbours=relation))
    assert 0.1 < max(ranged) <= 1


def test_the_linear_loss_attains_the_sensitivity_in_both_directions() -> None:
    """A row along one axis, replaced by its opposite, moves the two corners of the axis 2 x_norm c / n each."""
    facts, (X, y) = problem(Linear()), data()
    X[3] = facts.x_norm * np.eye(P)[1]
    gate = ScriptedGate()
    fit(FrankWolfe(steps=1, standardise=False), facts, X, y, gate=gate)
    other = ScriptedGate(replay=gate)
    y[3] = -y[3]
    fit(FrankWolfe(steps=1, standardise=False), facts, X, y, gate=other)
    change, declared = other.scores[0] - gate.scores[0], gate.choices[0].sensitivity
    assert np.abs(change).max() == pytest.approx(declared, rel=5e-3)  # float32 blocks are allowed for
    assert change[1] == pytest.approx(-change[1 + P + 1])
    assert not gate.choices[0].one_sided  # so the noise pays for twice the sensitivity


def test_replacing_a_row_doubles_the_scale_of_adding_one() -> None:
    replaced, added = (
        FrankWolfe(steps=9, standardise=False).plan(problem(neighbours=relation), BUDGET).noise
        for relation in (Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE)
    )
    assert replaced.scale == pytest.approx(2 * added.scale, rel=5e-3)


def test_every_score_is_over_all_rows() -> None:
    """A published benchmark scored on a batch with noise for the whole table: most rows changed nothing."""
    facts, (X, y) = problem(Linear()), data()
    gate = ScriptedGate()
    fit(FrankWolfe(steps=3, standardise=False), facts, X, y, gate=gate)
    for row in range(N):
        other_y = y.copy()
        other_y[row] = -y[row]
        there = ScriptedGate(replay=gate)
        fit(FrankWolfe(steps=3, standardise=False), facts, X, other_y, gate=there)
        for one, two in zip(gate.scores, there.scores, strict=True):
            assert np.abs(one - two).max() > 1e-4


def test_the_papers_composition_is_certified_and_noisier() -> None:
    facts = problem()
    tight, paper = (
        FrankWolfe(accounting=kind, standardise=False).plan(facts, BUDGET) for kind in ("tight", "paper")
    )
    assert paper.not_certified is None
    assert paper.noise.scale > 1.3 * tight.noise.scale
    T, printed = paper.releases, math.sqrt(8 * paper.releases * math.log(1e6)) / BUDGET.epsilon
    assert paper.noise.scale / paper.noise.sensitivity == pytest.approx(printed, rel=1e-6)
    assert tight.releases == T


def test_refusals_and_several_models() -> None:
    for bad in ({"steps": 0}, {"radius": -1.0}):
        with pytest.raises(InvalidInput):
            FrankWolfe(**bad)  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="softmax"):
        FrankWolfe().plan(problem(Softmax(3)), BUDGET)
    facts, (X, y) = problem(), data()
    mechanism = FrankWolfe()
    plans = [mechanism.plan(facts, Budget(epsilon, 1e-6)) for epsilon in (30.0, 1.0)]
    outcomes = mechanism.run([Job(plan=plan) for plan in plans], open_rows(X, y, facts), Gate.seeded(0))
    assert [len(outcome.records) for outcome in outcomes] == [2 + plan.releases for plan in plans]
    assert plans[0].releases > plans[1].releases
    assert outcomes[0].records[0].name == "mean of the rows"
    assert fit(FrankWolfe(standardise=False), facts, X, y).records[0].name == "frank-wolfe corner"
    (secure,) = mechanism.run([Job(plan=plans[1])], open_rows(X, y, facts), Gate.system())
    assert secure.certified
    assert all(record.secure for record in secure.records)
