"""``clip="auto"`` of noisy gradients: what norm it stands for, where it stands for none, and what runs by it."""

from dataclasses import replace

import numpy as np
import pytest
from gradient_cases import BUDGET, LOSSES, clip_by_rule, each_loss, each_relation, facts, rows_of, run

from dperm.engine import open_rows
from dperm.losses import Logistic, Weighted
from dperm.mechanisms import DPGD, DPSGD, PSGD, SGDMA, DPSGDAdv, Job
from dperm.mechanisms.gradient.family import CLIP, CLIP_OF_NUMBERS, gap, row_bound
from dperm.planning.sensitivity import SMALLEST_TERM
from dperm.privacy import Gate
from dperm_audit.gates import SilentGate

FAMILY = [
    kind(steps=3, standardise=False, accounting="tight") for kind in (DPGD, DPSGD, SGDMA, PSGD, DPSGDAdv)
]
each_mechanism = pytest.mark.parametrize("mechanism", FAMILY, ids=lambda mechanism: mechanism.name)


def clips_of(plan):
    """As the descent has it and as the settings state it."""
    return plan.descent.clip, plan.settings["clip"]


def test_the_constants():
    assert (CLIP, CLIP_OF_NUMBERS) == (0.5, 0.35)


@pytest.mark.cover(2)
@each_mechanism
@each_relation
@each_loss
def test_it_is_half_of_the_bound_and_of_numbers_less(mechanism, loss, neighbours):
    problem = facts(loss, neighbours=neighbours)
    assert mechanism.clip == "auto"
    plan = mechanism.plan(problem, BUDGET)
    assert clips_of(plan) == pytest.approx([clip_by_rule(problem)] * 2)
    same = replace(mechanism, clip=plan.descent.clip).plan(problem, BUDGET)
    assert plan.noise == same.noise
    assert plan.descent.step_sizes.tolist() == same.descent.step_sizes.tolist()
    assert mechanism.as_planned(plan).clip == plan.descent.clip
    unclipped = replace(mechanism, clip=None).plan(problem, BUDGET)
    share = clip_by_rule(problem) / problem.gradient_bound
    assert plan.noise.sensitivity == pytest.approx(share * unclipped.noise.sensitivity, rel=0.01)


@each_relation
def test_bounds_of_rows_and_sums(neighbours):
    problem = facts(Logistic(), neighbours=neighbours)
    bound = problem.gradient_bound
    for clip, row in ((None, bound), (bound / 4, bound / 4), (2 * bound, bound)):
        assert row_bound(problem, clip) == row
        assert gap(problem, clip) == neighbours.rows_changed * row


@each_mechanism
def test_it_grows_with_the_heaviest_row(mechanism):
    light, heavy = (facts(Weighted(Logistic(), weight)) for weight in (1.0, 4.0))
    one, four = (mechanism.plan(problem, BUDGET).descent.clip for problem in (light, heavy))
    assert four == pytest.approx(4 * one, rel=1e-12)


@pytest.mark.parametrize(
    "mechanism",
    [
        DPGD(steps=3, accounting="paper"),
        DPSGD(steps=3, accounting="paper"),
        SGDMA(steps=3, accounting="paper"),
        PSGD(steps=3, accounting="paper"),
        DPSGDAdv(steps=300),
        DPGD(steps=3, split=0.3),
    ],
    ids=lambda mechanism: f"{mechanism.name}, {mechanism.accounting}",
)
def test_there_is_none_with_the_papers_accounting_and_where_the_budget_is_split(mechanism):
    problem, (X, y) = facts(Logistic()), rows_of(Logistic())
    assert mechanism.clip == "auto"
    plan = mechanism.plan(problem, BUDGET)
    unclipped = replace(mechanism, clip=None).plan(problem, BUDGET)
    assert clips_of(plan) == clips_of(unclipped) == (None, None)
    assert plan.noise == unclipped.noise
    assert mechanism.as_planned(plan).clip is None
    both = [run(kind, problem, X, y) for kind in (mechanism, replace(mechanism, clip=None))]
    np.testing.assert_array_equal(both[0].weights, both[1].weights)
    assert both[0].records == both[1].records


@pytest.mark.cover(2)
@each_mechanism
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("over", [1 - 1e-9, 1 + 1e-9])
def test_a_norm_that_underflow_might_reach_is_none(mechanism, loss, over):
    """Just below it gradients are left as they are; just above they are clipped."""
    unit = clip_by_rule(facts(loss, x_norm=1.0, intercept=0.0))
    problem = facts(loss, x_norm=over * SMALLEST_TERM / unit, intercept=0.0)
    plan = mechanism.plan(problem, BUDGET)
    unclipped = replace(mechanism, clip=None).plan(problem, BUDGET)
    if over < 1:
        assert clips_of(plan) == (None, None)
        assert plan.noise == unclipped.noise
        assert plan.allows == unclipped.allows
    else:
        assert clips_of(plan) == pytest.approx([clip_by_rule(problem)] * 2)
        assert plan.noise.sensitivity < unclipped.noise.sensitivity


# With a release for intervals.


@each_relation
@pytest.mark.parametrize("loss", [Logistic(), LOSSES[2]], ids=lambda loss: loss.name)
def test_there_is_none_for_intervals(loss, neighbours):
    problem, (X, y) = facts(loss, neighbours=neighbours), rows_of(loss)
    mechanism = DPGD(steps=5)
    unclipped = replace(mechanism, clip=None)
    plans = [kind.plan(problem, BUDGET, inference=True) for kind in (mechanism, unclipped)]
    assert [plan.mechanism for plan in plans] == [mechanism, unclipped]
    assert clips_of(plans[0]) == clips_of(plans[1]) == (None, None)
    assert plans[0].noise == plans[1].noise
    assert plans[0].settings == plans[1].settings
    outcomes = [
        plan.mechanism.run([Job(plan=plan)], open_rows(X, y, problem), Gate.seeded(3))[0] for plan in plans
    ]
    np.testing.assert_array_equal(outcomes[0].weights, outcomes[1].weights)
    np.testing.assert_array_equal(outcomes[0].curvature_release, outcomes[1].curvature_release)
    assert outcomes[0].records == outcomes[1].records
    scales = [record.noise_scale for record in outcomes[0].records[:-1]]
    assert (len(set(scales)) > 1) == (loss == Logistic())  # its noise follows the weights


@pytest.mark.parametrize("first", [True, False], ids=["intervals first", "intervals last"])
def test_clipped_gradients_stay_clipped_beside_those_that_are_not(first):
    """One run with a job for intervals and one without: each by its own plan."""
    loss = Logistic()
    problem, (X, y) = facts(loss), rows_of(loss)
    mechanism = DPGD(steps=5, step_size=2.0, standardise=False)
    plans = [mechanism.plan(problem, BUDGET, inference=asked) for asked in (first, not first)]
    assert {plan.descent.clip is None for plan in plans} == {True, False}
    jobs, table = [Job(plan=plan) for plan in plans], open_rows(X, y, problem)
    outcomes = mechanism.run(jobs, table, SilentGate())
    for job, outcome in zip(jobs, outcomes, strict=True):
        (alone,) = mechanism.run([job], table, SilentGate())
        np.testing.assert_allclose(outcome.weights, alone.weights, rtol=1e-5, atol=1e-7)
        assert [(record.name, record.noise_scale) for record in outcome.records] == [
            (record.name, pytest.approx(record.noise_scale, rel=1e-6)) for record in alone.records
        ]
    weights = [outcome.weights for outcome in outcomes]
    assert np.abs(weights[0] - weights[1]).max() > 0.005  # control: the clip changes the weights
