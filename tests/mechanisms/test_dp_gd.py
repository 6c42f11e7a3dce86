"""DP-GD: the descent, its price, its sensitivity at every step, and errors of its papers."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from gradient_cases import (
    BUDGET,
    LOSSES,
    N,
    clip_by_rule,
    each_loss,
    each_relation,
    facts,
    gaussian_delta,
    neighbour,
    plain_descent,
    replayed_distances,
    rows_of,
    run,
)
from scripted_gate import ScriptedGate

from dperm.arithmetic import FLOAT32, FLOAT64, Arithmetic
from dperm.engine import open_rows
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import HardClippedLogistic, HuberHinge, Logistic, Softmax
from dperm.mechanisms.base import Job
from dperm.mechanisms.gradient.dp_gd import DPGD
from dperm.privacy import Budget, Gate, gaussian_mu
from dperm.privacy.textbook import yu_gd_noise
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate

plain = partial(DPGD, standardise=False)
ALL = [np.arange(N)] * 9
SETTINGS = [
    (plain(steps=9, step_size=0.8), clip_by_rule),
    (plain(steps=9, step_size=0.8, clip=None), lambda problem: None),
    (
        plain(steps=9, step_size=0.8, momentum=0.0, tail_average=0.0, adaptive=False, clip=None),
        lambda problem: None,
    ),
    (plain(steps=9, step_size=0.5, momentum=0.9, tail_average=1.0, clip=0.3), lambda problem: 0.3),
    (plain(steps=9, step_size=0.5, accounting="paper"), lambda problem: None),
]


def test_clipped_descent_is_descent_on_the_hard_clip():
    """Rows of one norm r: gradients clipped at C are those of the loss whose slope is cut at C / r."""
    X, y = rows_of(Logistic())
    r, C = 0.9, 0.3
    X *= r / np.linalg.norm(X, axis=1, keepdims=True)
    settings = {"steps": 9, "step_size": 0.8, "adaptive": False, "clip": None}

    def weights(loss, **more):
        problem, mechanism = facts(loss, x_norm=r, intercept=0.0, l2=0.0), plain(**{**settings, **more})
        return run(mechanism, problem, X, y, gate=ScriptedGate(strength=1.0)).weights

    clipped, cut = weights(Logistic(), clip=C), weights(HardClippedLogistic(C / r))
    np.testing.assert_allclose(clipped, cut, rtol=1e-4)  # noise of the clip is a hair smaller
    assert np.abs(clipped - weights(Logistic())).max() > 1e-2


@pytest.mark.cover(1)
@pytest.mark.parametrize(
    ("mechanism", "clip"), SETTINGS, ids=["default", "no clip", "plain", "clip", "paper"]
)
@each_loss
def test_without_noise_it_is_a_plain_loop(loss, mechanism, clip):
    problem, (X, y) = facts(loss), rows_of(loss)
    plan = mechanism.plan(problem, BUDGET)
    outcome = run(mechanism, problem, X, y, gate=SilentGate())
    expected = plain_descent(
        problem,
        X,
        y,
        ALL,
        step_sizes=np.full(9, mechanism.step_size),
        divisor=N,
        l2=plan.settings["l2_used"],
        momentum=mechanism.momentum,
        tail=max(1, round(9 * mechanism.tail_average)),
        clip=clip(problem),
    )
    np.testing.assert_allclose(outcome.weights, expected, rtol=1e-5, atol=1e-6)
    assert np.linalg.norm(outcome.weights) > 0.01
    assert outcome.certified
    assert len(outcome.records) == plan.releases == 9


def test_the_split_changes_nothing_without_noise():
    problem, (X, y) = facts(Logistic()), rows_of(Logistic())
    whole = run(plain(steps=9, step_size=0.8, clip=None), problem, X, y, gate=SilentGate())
    split = run(plain(steps=9, step_size=0.8, split=0.4), problem, X, y, gate=SilentGate())
    np.testing.assert_allclose(split.weights, whole.weights, rtol=1e-5)  # float64 and float32
    assert [record.name for record in split.records[:2]] == ["dp-gd label statistic", "dp-gd gradient"]


@pytest.mark.cover(1)
@each_relation
@pytest.mark.parametrize(
    "mechanism",
    [
        plain(steps=6),
        plain(steps=6, clip=None),
        plain(steps=6, clip=None, adaptive=False),
        plain(steps=6, clip=0.4),
        plain(steps=6, split=0.5),
        DPGD(steps=6, clip=None, standardise=True),
    ],
    ids=["default", "adaptive", "fixed", "clip", "split", "standardise"],
)
def test_all_passages_together_cost_the_budget_and_no_more(mechanism, neighbours):
    """From the records alone, by the textbook formula: the sum of squares is mu squared on any trajectory."""
    problem, (X, y) = facts(Logistic(), neighbours=neighbours), rows_of(Logistic())
    outcomes = [run(mechanism, problem, X, y, seed=seed) for seed in (1, 2)]
    for outcome in outcomes:
        parts = [record.padded_sensitivity / record.noise_scale for record in outcome.records]
        total = math.sqrt(sum(part * part for part in parts))
        assert gaussian_delta(total, BUDGET.epsilon) <= BUDGET.delta
        assert gaussian_delta(total, BUDGET.epsilon) >= 0.9999 * BUDGET.delta
        assert gaussian_delta(1.01 * total, BUDGET.epsilon) > BUDGET.delta
    scales = [[record.noise_scale for record in outcome.records] for outcome in outcomes]
    follows = mechanism.split > 0 or (mechanism.adaptive and mechanism.clip is None)
    assert (scales[0][-1] != scales[1][-1]) == follows


@pytest.mark.cover(2)
@each_relation
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("clip", [None, 0.4, "auto"])
def test_neighbours_stay_within_the_declared_sensitivity_at_every_step(loss, clip, neighbours):
    problem, (X, y) = facts(loss, neighbours=neighbours), rows_of(loss)
    mechanism = plain(steps=6, clip=clip)
    for row in (0, 100, 210):
        distance, declared = replayed_distances(mechanism, problem, (X, y), neighbour(problem, X, y, row))
        assert (distance <= declared).all()
        assert distance.max() > 0.02 * declared.max()


@each_relation
def test_split_neighbours_stay_within_the_declared_sensitivity(neighbours):
    problem, (X, y) = facts(Logistic(), neighbours=neighbours), rows_of(Logistic())
    other = neighbour(problem, X, y, 3)
    if neighbours is Neighbours.REPLACE_ONE:  # the remainder forgets labels and signs, so turn the row
        other[0][3] = [3.0, -3.0, 0.0, 0.0]
    distance, declared = replayed_distances(plain(steps=6, split=0.5), problem, (X, y), other)
    assert (distance <= declared).all()
    assert declared[1] < 1e-3  # at zero weights the remainder is zero
    assert distance[2:].max() > 0.05 * declared.max()


def test_opposite_rows_attain_the_sensitivity():
    """Long rows against the weights with a clip: the two clipped gradients are opposite and as long as allowed."""
    problem = facts(HuberHinge(), intercept=0.0)
    X, y = rows_of(HuberHinge())
    X[0], y[0] = [5.0, 0, 0, 0], 1.0
    other = y.copy()
    other[0] = -1.0
    distance, declared = replayed_distances(plain(steps=1, clip=0.4), problem, (X, y), (X, other))
    assert distance[0] == pytest.approx(0.8, rel=1e-5)
    assert distance[0] <= declared[0] <= 0.8 * 1.004


def test_the_noise_grows_with_the_weights_only_where_it_may():
    problem, budget = facts(Logistic()), BUDGET
    unclipped = plain(steps=4, clip=None)
    plan = unclipped.plan(problem, budget)
    small, large = (unclipped._noise(plan, norm).scale for norm in (0.0, 50.0))
    assert small < 0.6 * large
    assert large <= plan.noise.scale
    for clipped in (plain(steps=4, clip=0.7), plain(steps=4)):
        plan = clipped.plan(problem, budget)
        assert clipped._noise(plan, 0.0) == clipped._noise(plan, 50.0) == plan.noise


def test_float_error_of_large_weights_is_part_of_the_sensitivity():
    """Under add-remove, where rows move places; when one is replaced the rows that are shared round alike."""
    problem = replace(facts(Logistic()), neighbours=Neighbours.ADD_REMOVE)
    mechanism = plain(steps=4, adaptive=False, clip=None)
    plan = mechanism.plan(problem, BUDGET)
    usual, huge = (mechanism._noise(plan, norm).sensitivity for norm in (1.0, 1e9))
    assert usual > problem.gradient_gap
    assert huge > usual
    assert huge - problem.gradient_gap >= 2 * N * problem.gradient_error(N, 1e9)


def test_models_side_by_side_are_the_models_one_by_one():
    """Different budgets, so different numbers of steps, and different rows of one table."""
    loss = Logistic()
    X, y = rows_of(loss)
    mask = np.random.default_rng(1).random((N, 3)) < 0.7
    mechanism = plain(step_size=0.7)
    jobs = []
    for k, epsilon in enumerate((0.5, 8.0, 40.0)):
        problem = facts(loss, n_rows=int(mask[:, k].sum()))
        jobs.append(Job(plan=mechanism.plan(problem, Budget(epsilon, 1e-6)), model=k))
    assert len({job.plan.settings["steps"] for job in jobs}) > 1
    together = mechanism.run(jobs, open_rows(X, y, facts(loss), mask), SilentGate())
    for k, job in enumerate(jobs):
        own = mask[:, k]
        alone = replace(job, model=0)
        (single,) = mechanism.run([alone], open_rows(X[own], y[own], job.plan.problem), SilentGate())
        np.testing.assert_allclose(together[k].weights, single.weights, rtol=1e-4, atol=1e-5)
        assert len(together[k].records) == len(single.records) == job.plan.releases
        assert single.certified


@pytest.mark.cover(2)
@each_loss
@each_relation
@pytest.mark.parametrize("split", [0.0, 0.3])
def test_several_models_are_certified(loss, split, neighbours):
    """In float32 blocks where shared rows are rounded alike and gradients are not differences, else in float64."""
    problem, (X, y) = facts(loss, neighbours=neighbours), rows_of(loss)
    if split > 0 and loss != Logistic():
        return
    mechanism = DPGD(steps=2, split=split)
    plan = mechanism.plan(problem, BUDGET)
    coarse = split == 0 and neighbours is Neighbours.REPLACE_ONE
    assert plan.allows == ((FLOAT64, FLOAT32) if coarse else (FLOAT64,))
    used: set[Arithmetic] = set()
    both, rows = [Job(plan=plan), Job(plan=plan)], open_rows(X, y, problem)
    one, two = mechanism.run(both, rows, Gate.seeded(0))
    mechanism._run(both, rows.noting(used), Gate.seeded(0).for_jobs(2))
    assert used == {FLOAT32 if coarse else FLOAT64}
    assert one.certified
    assert two.certified
    assert not np.array_equal(one.weights, two.weights)


def test_operating_system_noise_and_shapes():
    problem, (X, y) = facts(Softmax(3)), rows_of(Softmax(3))
    mechanism = DPGD(steps=2)
    plan = mechanism.plan(problem, BUDGET)
    one, two = (mechanism.run([Job(plan=plan)], open_rows(X, y, problem), Gate.system())[0] for _ in range(2))
    assert one.weights.shape == (5, 3)
    assert one.record.secure
    assert not np.array_equal(one.weights, two.weights)


@each_loss
def test_standardising_works_and_is_paid_for(loss):
    problem, (X, y) = facts(loss), rows_of(loss)
    mechanism = DPGD(steps=4, standardise=True)
    plan = mechanism.plan(problem, BUDGET)
    outcome = run(mechanism, problem, X, y)
    names = [record.name for record in outcome.records[:2]]
    assert names == ["mean of the rows", "second moments of the columns"]
    assert len(outcome.records) == 6
    assert plan.profile.delta(BUDGET.epsilon) <= BUDGET.delta
    unmapped = plain(steps=4).plan(problem, BUDGET)
    assert plan.noise.scale == pytest.approx(unmapped.noise.scale / math.sqrt(0.9), rel=1e-6)
    by_default = plan if loss.labels != "real" else unmapped
    assert DPGD(steps=4).plan(problem, BUDGET).noise == by_default.noise


def test_the_public_rule_fills_in_what_is_left_open():
    problem = facts(Logistic(), n_rows=40_000, n_features=100, l2=0.0)
    plans = [DPGD().plan(problem, Budget(epsilon, 1e-9)) for epsilon in (0.01, 0.1, 1.0, 10.0)]
    steps = [plan.settings["steps"] for plan in plans]
    assert steps == sorted(steps)
    assert steps[0] == 5
    assert steps[-1] == 150
    for l2 in (0.0, 1e-9, 0.5):
        plan = DPGD().plan(replace(problem, l2=l2), Budget(0.01, 1e-9))
        assert plan.settings["l2_used"] == plan.descent.l2 == l2
    assert plans[1].settings["step_size"] == pytest.approx(4 * 0.5 / (0.25 * problem.row_norm**2))


@pytest.mark.together
@pytest.mark.parametrize(
    "bad",
    [
        {"steps": 0},
        {"steps": 2.5},
        {"step_size": 0.0},
        {"momentum": 1.0},
        {"momentum": -0.1},
        {"clip": -1.0},
        {"clip": math.inf},
        {"clip": "half"},
        {"clip": True},
        {"tail_average": 1.5},
        {"adaptive": "yes"},
        {"split": 1.0},
        {"split": 0.5, "clip": 1.0},
        {"split": 0.5, "accounting": "paper"},
        {"momentum": math.nan},
    ],
    ids=str,
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(InvalidInput):
        DPGD(**bad)


def test_only_logistic_gradients_are_split():
    with pytest.raises(Unsupported, match="split"):
        DPGD(split=0.5).plan(facts(HuberHinge()), BUDGET)


def test_weights_that_run_away_are_refused_without_a_release():
    problem, (X, y) = facts(Logistic()), rows_of(Logistic())
    with pytest.raises(InvalidInput, match="overflow"), np.errstate(over="ignore", invalid="ignore"):
        run(plain(steps=40, step_size=1e200), problem, X, y)


# Errors of the papers


def test_the_printed_noise_is_used_as_printed_and_checked():
    """Yu et al. (2020): enough noise at epsilon = 1, not enough at 20 (delta = 1e-8)."""
    problem = facts(Logistic(), n_rows=1000)
    for epsilon, enough in ((0.1, True), (1.0, True), (8.0, True), (12.0, False), (20.0, False)):
        budget = Budget(epsilon, 1e-8)
        plan = plain(steps=50, accounting="paper").plan(problem, budget)
        printed = 1000 * yu_gd_noise(problem.gradient_bound, 1000, 50, budget)
        assert plan.noise.scale == pytest.approx(printed, rel=1e-12)
        assert (plan.not_certified is None) is enough
        exact = gaussian_delta(plan.noise.padded(plan.noise.sensitivity) * math.sqrt(50) / printed, epsilon)
        assert (exact <= 1e-8) is enough
        assert plain(steps=50).plan(problem, budget).not_certified is None
    assert "accounting='tight'" in plan.not_certified


def test_the_tight_noise_is_below_the_printed_one():
    problem = facts(Logistic(), n_rows=40_000)
    for epsilon, ratio in ((0.05, 1.363), (0.1, 1.321), (1.0, 1.190)):
        budget = Budget(epsilon, 1e-8)
        tight, paper = (
            plain(steps=50, accounting=kind, clip=None).plan(problem, budget).noise.scale
            for kind in ("tight", "paper")
        )
        assert paper / tight == pytest.approx(ratio / 1.004, rel=1e-3)  # the allowance for float32 blocks


@pytest.mark.parametrize(("clip", "share"), [(None, 1.0), ("auto", 0.5)])
def test_each_relation_has_its_own_sensitivity(clip, share):
    mechanism = plain(steps=5, clip=clip)
    both = [mechanism.plan(facts(Logistic(), neighbours=n), BUDGET).noise for n in Neighbours]
    # Replace-one allows for float32 blocks, of as many rows as there are here.
    allowed = 1 + FLOAT32.block_error(N) / 2 + 1e-4
    assert 1 < both[0].sensitivity / (2 * both[1].sensitivity) <= allowed
    assert both[0].scale / both[1].scale == pytest.approx(both[0].sensitivity / both[1].sensitivity, rel=1e-6)
    expected = share * 2 * facts(Logistic()).row_norm * math.sqrt(5) / gaussian_mu(BUDGET)
    assert both[1].scale == pytest.approx(expected / 2, rel=1e-6)
