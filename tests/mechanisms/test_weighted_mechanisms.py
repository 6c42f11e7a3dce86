"""Every mechanism either takes weights, with the price of the loss scaled by the largest one, or says why not."""

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pytest

from dperm.losses import ClippedSquared, HuberHinge, Logistic, SoftClippedLogistic, Softmax, Weighted
from dperm.mechanisms import mechanism_names, resolve
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.neighbours import pairs, weight_pair
from dperm_audit.replay import replay
from dperm_audit.replay_cases import BRIEF, BUDGET, FACTS, HEAVIEST, short_plan

CERTIFIED, NOT_PRIVATE = "certified", "not private"
SSP = "the sensitivity of its joint statistic is proved for rows of equal weight"
ADASSP = "its moments count every row once; the proof has no weights"
# What docs/proofs/weights.md says of each: with weights on a loss that it covers without them.
TABLE = {
    **dict.fromkeys(mechanism_names(), CERTIFIED),
    "ssp": SSP,
    "adassp": ADASSP,
    "majority": NOT_PRIVATE,
    "none": NOT_PRIVATE,
}
BASES = (Logistic(), ClippedSquared(), Softmax(3))
FACTS_OF = {"l2": 1e-3, "x_norm": 1.0, "n_rows": 10_000, "n_features": 10, "intercept": 0.3}


def problem_of(loss, **facts):
    return Problem(loss=loss, **{**FACTS_OF, **facts})


def bases_of(mechanism):
    return [base for base in BASES if mechanism.misfit(problem_of(base)) is None]


@pytest.mark.together
@pytest.mark.parametrize("name", mechanism_names())
def test_the_table_of_mechanisms_and_weights(name):
    mechanism = resolve(name)
    for base in bases_of(mechanism):
        for relation in mechanism.relations:
            refused = mechanism.misfit(problem_of(Weighted(base, 5.0), neighbours=relation))
            found = refused or (CERTIFIED if mechanism.private else NOT_PRIVATE)
            assert found == TABLE[name], (base.name, relation)


def planned(mechanism, loss, l2):
    budget = Budget(1.0, 0.0 if mechanism.name == "objective-pure" else 1e-6)
    return mechanism.plan(problem_of(loss, l2=l2), budget)


@pytest.mark.together
@pytest.mark.parametrize("name", [name for name, found in TABLE.items() if found == CERTIFIED])
def test_rows_of_one_weight_cost_what_the_scaled_loss_costs(name):
    """What is noised is gradients, which grow by the weight, or models, which are those of the scaled objective."""
    mechanism = resolve(name)
    if name == "dp-sgd-adv":
        mechanism = replace(mechanism, steps=300_000)  # so many its theorem wants
    for base in bases_of(mechanism):
        one, five = (planned(mechanism, Weighted(base, w), w * 1e-3) for w in (1.0, 5.0))
        trained = one.trained_by.mechanism
        factor = 1.0 if trained.family == "output" or trained.name == "noisy-sgd" else 5.0
        assert five.noise.scale == pytest.approx(factor * one.noise.scale, rel=1e-6), base.name
        rules = [mechanism.l2_rule(plan.problem, plan.budget) for plan in (one, five)]
        assert rules[1] == pytest.approx(5 * rules[0], rel=1e-9)
        adaptive = (
            getattr(trained, "adaptive", False) and base == Logistic()
        )  # a theorem about this very loss
        if not adaptive and name != "auto":
            assert one.noise.scale == pytest.approx(planned(mechanism, base, 1e-3).noise.scale, rel=1e-9)


@dataclass(frozen=True)
class Light(Weighted):
    """Weights without their price: the constants of the base, and rows that weigh up to the bound."""

    @property
    def lipschitz(self):
        return self.base.lipschitz

    @property
    def smoothness(self):
        return self.base.smoothness


@pytest.mark.cover(1)
@pytest.mark.parametrize(
    "name", ["output", "objective", "dp-gd", "dp-cd", "rsgd", "frank-wolfe", "noisy-sgd"]
)
@pytest.mark.parametrize("relation", list(Neighbours), ids=lambda relation: relation.value)
def test_heavy_rows_stay_within_the_sensitivity_and_without_its_factor_do_not(name, relation):
    changes = {"dp-gd": {"clip": None}, "noisy-sgd": {"step_size": 0.2}}.get(name, {})
    check_heavy_rows(name, relation, HuberHinge(0.5), HEAVIEST * FACTS["l2"], changes=changes)


@pytest.mark.parametrize("relation", list(Neighbours), ids=lambda relation: relation.value)
def test_gradients_of_heavy_rows_are_clipped_whatever_bound_the_clip_is_a_half_of(relation):
    for kind in (Weighted, Light):
        shares = shares_of("dp-gd", kind, HuberHinge(0.5), l2=HEAVIEST * FACTS["l2"], relation=relation)
        assert 0.9 < max(shares) <= 1


@pytest.mark.parametrize("name", ["rsgd-ar", "rsgd", "nsgd", "output-gd", "bolt-on"])
def test_heavy_rows_of_a_clipped_loss_too(name):
    """With little l2, so that the loss is clipped by rule."""
    for relation in resolve(name).relations:
        check_heavy_rows(name, relation, Logistic(), 1e-3, SoftClippedLogistic(0.35, 0.7))


def check_heavy_rows(name, relation, base, l2, trained=None, changes=MappingProxyType({})):
    found = {
        kind: max(shares_of(name, kind, base, trained, changes, l2=l2, relation=relation))
        for kind in (Weighted, Light)
    }
    assert found[Weighted] <= 1 + 1e-9
    assert found[Light] > 1.5


def shares_of(name, kind, base, trained=None, changes=MappingProxyType({}), *, l2, relation):
    """The largest distance of every pair of neighbours, as a share of what was declared."""
    problem = Problem(loss=kind(base, HEAVIEST), **{**FACTS, "l2": l2, "neighbours": relation})
    plan = short_plan(resolve(name), problem, BUDGET, changes, BRIEF)
    assert plan is not None
    assert plan.problem.loss == kind(trained or base, HEAVIEST)
    reports = [
        replay(plan.mechanism, plan.problem, BUDGET, pair, 0, plan, all_of_it=False)
        for pair in pairs(plan.problem)
    ]
    if kind is Weighted:
        assert all(report.passed for report in reports), [str(report) for report in reports]
    return [report.largest_share for report in reports]


def test_a_weight_alone_is_hidden_too():
    problem = Problem(loss=Weighted(Logistic(), HEAVIEST), **{**FACTS, "l2": HEAVIEST * FACTS["l2"]})
    pair = weight_pair(problem)
    assert [float(side[1]["weight"][pair.row]) for side in (pair.left, pair.right)] == [HEAVIEST, 0.0]
    assert np.array_equal(pair.left[0], pair.right[0])
    report = replay(resolve("output"), problem, BUDGET, pair)
    assert report.passed, report
    assert report.largest_share > 0.1


def test_weights_none_plans_as_before():
    for name in ("dp-gd", "output", "objective"):
        mechanism = resolve(name)
        plain = mechanism.plan(problem_of(Logistic()), Budget(1.0, 1e-6))
        again = replace(mechanism).plan(problem_of(Logistic()), Budget(1.0, 1e-6))
        assert plain.noise == again.noise
