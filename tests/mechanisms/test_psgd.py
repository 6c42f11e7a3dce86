"""PSGD: random rows without repetition, projected; the printed noise under the exact price."""

import math

import numpy as np
import pytest
from gradient_cases import (
    BUDGET,
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
from scipy import stats

from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Logistic
from dperm.mechanisms.gradient.psgd import PSGD
from dperm.planning.sampling import FixedSizeSampling
from dperm.privacy import Budget, Gate
from dperm.privacy.subsampled import fixed_size_epsilon
from dperm_audit.gates import SilentGate


@pytest.mark.cover(1)
@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize("clip", [None, "auto"])
@each_loss
def test_without_noise_it_is_a_plain_loop_over_the_batches(loss, size, clip):
    problem, (X, y) = facts(loss), rows_of(loss)
    settings = {"steps": 8, "step_size": 3.0, "batch_size": size, "radius": 1.2, "momentum": 0.0}
    mechanism = PSGD(**settings, clip=clip, standardise=False)
    plan = mechanism.plan(problem, BUDGET)
    silent = SilentGate(3)
    outcome = run(mechanism, problem, X, y, gate=silent)
    gate = Gate.seeded(3)
    expected = plain_descent(
        problem,
        X,
        y,
        [FixedSizeSampling(size).batch(gate).positions(N) for _ in range(8)],
        step_sizes=3.0 / np.sqrt(np.arange(1, 9)),
        divisor=size,
        l2=plan.settings["l2_used"],
        momentum=0.0,
        tail=2,
        clip=clip and clip_by_rule(problem),
        radius=1.2,
    )
    np.testing.assert_allclose(outcome.weights, expected, rtol=1e-5, atol=1e-6)
    assert np.linalg.norm(outcome.weights) <= 1.2 * (1 + 1e-12)
    assert len(silent.exact) == 8


@each_relation
def test_one_step_costs_the_exact_price_of_a_hidden_sample(neighbours):
    """q times the Gaussian delta at log(1 + (exp(epsilon) - 1) / q), by the textbook formula."""
    problem, q = facts(Logistic(), neighbours=neighbours, n_rows=100), 0.2
    budget = Budget(0.5, 1e-4)
    noise = PSGD(steps=1, batch_size=20, standardise=False).plan(problem, budget).noise

    def delta(factor):
        mu = noise.padded(noise.sensitivity) / (factor * noise.scale)
        return q * gaussian_delta(mu, math.log1p(math.expm1(budget.epsilon) / q))

    assert delta(1.0) <= budget.delta
    assert delta(0.98) > budget.delta


@pytest.mark.cover(2)
@each_relation
@pytest.mark.parametrize("clip", [None, "auto"])
@each_loss
def test_neighbours_stay_within_the_declared_sensitivity_at_every_step(loss, clip, neighbours):
    problem, (X, y) = facts(loss, neighbours=neighbours), rows_of(loss)
    mechanism = PSGD(steps=6, batch_size=100, clip=clip, standardise=False)
    seed = 4  # the last row is in the first batch, at zero weights, where no gradient vanishes
    distance, declared = replayed_distances(mechanism, problem, (X, y), neighbour(problem, X, y, N - 1), seed)
    gate = Gate.seeded(seed)
    met = np.array([N - 1 in FixedSizeSampling(100).batch(gate).positions(N) for _ in range(6)])
    assert met[0]
    assert not met.all()
    assert (distance <= declared).all()
    assert (distance[~met] < 1e-12).all()
    assert distance[0] > 0.1 * declared[0]


@pytest.mark.parametrize("gate", [Gate.seeded(1), Gate.system()], ids=lambda gate: gate.source.name)
def test_batches_are_uniform_sets_without_repetition(gate):
    """Every set of two of five rows equally often; a control that favours one row is rejected."""

    def p_value(draw):
        pairs = np.zeros((5, 5), int)
        for _ in range(4000):
            a, b = sorted(draw())
            pairs[a, b] += 1
        assert np.diag(pairs).sum() == 0
        return stats.chisquare(pairs[np.triu_indices(5, 1)]).pvalue

    sampling = FixedSizeSampling(2)
    assert p_value(lambda: sampling.batch(gate).positions(5)) > 1e-10
    rng = np.random.default_rng(0)
    favour = np.array([0.28, 0.18, 0.18, 0.18, 0.18])
    assert p_value(lambda: rng.choice(5, 2, replace=False, p=favour)) < 1e-10


def test_standardising_works_and_costs_noise():
    problem, (X, y) = facts(Logistic()), rows_of(Logistic())
    plain, standardised = (
        PSGD(steps=4, batch_size=50, standardise=c).plan(problem, BUDGET) for c in (False, True)
    )
    assert plain.noise.scale < standardised.noise.scale < 1.2 * plain.noise.scale
    outcome = run(PSGD(steps=4, batch_size=50, standardise=True), problem, X, y)
    assert len(outcome.records) == 6


def test_defaults_are_stated_in_the_plan():
    plan = PSGD().plan(facts(Logistic(), n_rows=1005), Budget(1.0, 1e-6))
    assert plan.settings["batch_size"] == 101
    assert plan.settings["clip"] == pytest.approx(clip_by_rule(facts(Logistic())))
    assert plan.settings["radius"] == pytest.approx(10 / facts(Logistic()).row_norm)
    assert plan.settings["steps"] == plan.releases


@pytest.mark.together
@pytest.mark.parametrize(
    "bad",
    [{"batch_size": 0}, {"radius": -1.0}, {"constant": 0.0}, {"batch_size": 5, "accounting": "paper"}],
    ids=str,
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(InvalidInput):
        PSGD(**bad)


def test_batches_above_the_table_are_refused():
    with pytest.raises(Unsupported, match="batch_size"):
        PSGD(batch_size=N + 1).plan(facts(Logistic()), BUDGET)


# Errors of the papers


@pytest.mark.parametrize(("constant", "enough"), [(32.0, True), (1 / 400, False)])
def test_the_printed_constant_is_an_option_and_checked(constant, enough):
    """n = 30 rows, n**2 steps: c^2 = 32 is private, a report's 1/400 is not and is marked so."""
    problem, budget = facts(Logistic(), n_rows=30), Budget(1.0, 0.01)
    plan = PSGD(accounting="paper", constant=constant).plan(problem, budget)
    assert plan.releases == 900
    assert plan.settings["batch_size"] == 1
    assert (plan.not_certified is None) is enough
    printed = problem.gradient_bound * math.sqrt(constant * math.log(30 / 0.01) * math.log(100)) / 1.0
    assert plan.noise.scale == pytest.approx(printed, rel=1e-6)


def test_n_squared_steps_do_not_start_unasked():
    problem = facts(Logistic(), n_rows=40_000)
    with pytest.raises(Unsupported, match="give steps"):
        PSGD(accounting="paper").plan(problem, BUDGET)


def test_noise_for_the_mean_of_all_rows_is_too_little_for_the_mean_of_a_batch():
    """A benchmark put 4R sqrt(T ln(1/delta)) / (n eps) on the mean of 50 of 36,000 rows."""
    problem, budget = facts(Logistic(), n_rows=36_000), Budget(1.0, 1 / 36_000**2)
    plan = PSGD(steps=100, batch_size=50, clip=None, standardise=False).plan(problem, budget)
    theirs = 4 * problem.gradient_bound * math.sqrt(100 * math.log(1 / budget.delta)) / 36_000
    assert plan.noise.scale / 50 > 3 * theirs
    mu = 2 * problem.gradient_bound / (50 * theirs)  # one step of theirs, its batch known
    assert gaussian_delta(mu, math.log1p(math.expm1(1.0) * 720)) / 720 > budget.delta


def test_a_gaussian_release_beside_the_batches_is_paid():
    """Full batches and a Gaussian release are one Gaussian: the price must agree with the textbook formula."""
    epsilon = fixed_size_epsilon(8.0, 1000, 1000, 50, 1e-5, 1.0)
    together = math.sqrt(50 * (2 / 8.0) ** 2 + 1)
    assert gaussian_delta(together, epsilon) <= 1e-5
    assert gaussian_delta(together, 0.999 * epsilon) > 1e-5
    assert fixed_size_epsilon(8.0, 100, 1000, 50, 1e-5) < fixed_size_epsilon(8.0, 100, 1000, 50, 1e-5, 0.05)
