"""Mechanisms that clip the loss train the softly clipped one, at the price of that very loss, and no other."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dperm.engine import open_rows
from dperm.errors import NotCertified, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Loss, SoftClippedLogistic, Weighted
from dperm.mechanisms import FrankWolfe, NoisySGD, mechanism_names, resolve
from dperm.mechanisms.base import Job, Mechanism
from dperm.mechanisms.clipped_loss import LossClippingMechanism
from dperm.mechanisms.gradient.family import GradientMechanism
from dperm.planning.rules import slope_for
from dperm.privacy import Budget, Gate
from dperm.problem import Problem

OTHERS = {
    "auto": "a rule of its own, with which it chooses the mechanism too",
    "ssp": "a polynomial in place of the loss",
    "adassp": "squared loss only",
    "dp-cd": "measured to lose at a large epsilon: its steps are too few for a smaller slope",
    "none": "not private",
    "majority": "not private",
}
CLIPPING = [name for name in mechanism_names() if isinstance(resolve(name), LossClippingMechanism)]
each_mechanism = pytest.mark.parametrize("name", CLIPPING)
N, P = 3000, 4


def budget_for(mechanism: Mechanism, epsilon: float = 0.5) -> Budget:
    return Budget(epsilon, 0.0 if mechanism.name == "objective-pure" else 1e-6)


def facts(loss: Loss, mechanism: Mechanism) -> Problem:
    problem = Problem(loss=loss, l2=0.0, x_norm=1.0, n_rows=N, n_features=P, intercept=0.3)
    return mechanism.regularised(problem, budget_for(mechanism))


def rows_of() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P)) / 3
    return X, np.where(X[:, 0] + rng.normal(size=N) / 4 > 0, 1.0, -1.0)


def test_every_mechanism_clips_the_loss_or_its_gradients_or_says_why_not() -> None:
    gradients = {name for name in mechanism_names() if isinstance(resolve(name), GradientMechanism)}
    assert set(mechanism_names()) == set(CLIPPING) | gradients | set(OTHERS)
    assert not set(CLIPPING) & gradients


@pytest.mark.together
@each_mechanism
@pytest.mark.parametrize("given", ["auto", 0.4])
def test_it_is_the_mechanism_on_the_clipped_loss(name: str, given: str | float) -> None:
    """The same noise and the same weights as without a clip on that loss, in units of one row's slope less of it."""
    mechanism: Any = replace(resolve(name), clip=given)  # type: ignore[call-arg]
    unclipped, budget = replace(mechanism, clip=None), budget_for(mechanism)
    problem = facts(Logistic(), mechanism)
    clip = slope_for(problem, budget) if given == "auto" else given
    clipped = replace(problem, loss=SoftClippedLogistic(float(clip), 0.7))
    plan, same = mechanism.plan(problem, budget), unclipped.plan(clipped, budget)
    assert plan.problem == same.problem == clipped
    assert plan.settings["clip"] == clip
    assert plan.noise == same.noise
    assert plan.not_certified == same.not_certified
    assert mechanism.as_planned(plan).plan(plan.problem, budget).noise == plan.noise
    outcomes = [
        one.mechanism.run([Job(plan=one)], open_rows(*rows_of(), one.problem), Gate.seeded(3))[0]
        for one in (plan, same)
    ]
    np.testing.assert_array_equal(outcomes[0].weights, outcomes[1].weights)
    assert outcomes[0].records == outcomes[1].records


@pytest.mark.together
@each_mechanism
def test_a_row_moves_less_and_is_paid_for_with_less_noise(name: str) -> None:
    """Control: on the plain loss the noise is longer, and weights that were trained on it would be others."""
    mechanism: Any = resolve(name)
    budget = budget_for(mechanism)
    problem = replace(facts(Logistic(), mechanism), l2=1e-3)
    clipped, plain = (one.plan(problem, budget) for one in (mechanism, replace(mechanism, clip=None)))
    assert clipped.problem.gradient_bound < 0.51 * plain.problem.gradient_bound
    assert clipped.noise is not None
    assert plain.noise is not None
    assert clipped.noise != plain.noise


@pytest.mark.together
@each_mechanism
def test_weighted_rows_clip_the_base_and_other_losses_are_kept(name: str) -> None:
    mechanism = resolve(name)
    budget = budget_for(mechanism)
    weighted = facts(Weighted(Logistic(), 3.0), mechanism)
    if mechanism.misfit(weighted) is None:
        loss = mechanism.plan(weighted, budget).problem.loss
        assert isinstance(loss, Weighted)
        assert isinstance(loss.unweighted, SoftClippedLogistic)
        assert loss.bound == 3.0
    for loss in (HuberHinge(), ClippedSquared(), SoftClippedLogistic(0.9, 0.5)):
        problem = replace(facts(loss, mechanism), l2=1e-3)
        if mechanism.misfit(problem) is None:
            plan = mechanism.plan(problem, budget)
            assert plan.problem.loss == loss
            assert plan.settings["clip"] == getattr(loss, "clip", None)


@pytest.mark.together
@each_mechanism
def test_the_paper_intervals_and_a_large_l2_keep_the_loss(name: str) -> None:
    mechanism: Any = resolve(name)
    budget, problem = budget_for(mechanism), replace(facts(Logistic(), mechanism), l2=1e-3)
    try:
        paper = replace(mechanism, accounting="paper").plan(problem, budget)
    except (NotCertified, Unsupported):  # its paper leaves the noise open, or prints it for add-remove
        assert name in ("dp-svrg", "objective")
    else:
        assert paper.problem.loss == Logistic()
        assert paper.settings["clip"] is None
    if mechanism.misfit_of_intervals(problem) is None:
        inferring = mechanism.plan(problem, budget, inference=True)
        assert inferring.problem.loss == Logistic()
        assert inferring.settings["clip"] is None
        with pytest.raises(Unsupported, match="set clip=None"):
            replace(mechanism, clip=0.4).plan(problem, budget, inference=True)
    far = replace(problem, l2=1e4 * facts(Logistic(), mechanism).l2)
    plan, plain = (one.plan(far, budget) for one in (mechanism, replace(mechanism, clip=None)))
    assert plan.problem == plain.problem == far
    assert plan.noise == plain.noise


def test_a_smaller_slope_is_answered_with_a_longer_path() -> None:
    """Half the slope needs half the noise, so the public rules go twice as far."""
    plain = Problem(loss=Logistic(), l2=1e-6, x_norm=1.0, n_rows=20_000, n_features=20, intercept=0.3)
    clipped, budget = replace(plain, loss=SoftClippedLogistic(0.5, 0.7)), Budget(0.25, 1e-6)
    (steps, radius), (more, larger) = (FrankWolfe().rule(facts, budget) for facts in (plain, clipped))
    assert larger == pytest.approx(2 * radius)
    assert more >= steps
    paths = [
        NoisySGD(standardise=False, clip=None).plan(facts, budget).schedule.step_sizes  # type: ignore[attr-defined]
        for facts in (plain, clipped)
    ]
    assert paths[0].max() == pytest.approx(2 / plain.smoothness)
    assert paths[1].sum() > 1.4 * paths[0].sum()  # 50 epochs are the most
