"""DP-SGD and its Poisson batches: what is drawn is what is priced."""

from functools import partial

import numpy as np
import pytest
from gradient_cases import (
    BUDGET,
    N,
    clip_by_rule,
    each_loss,
    each_relation,
    facts,
    neighbour,
    plain_descent,
    replayed_distances,
    rows_of,
    run,
)
from scipy import stats

from dperm.certificate.accountant import composed_price, poisson_losses
from dperm.engine import open_rows
from dperm.errors import InvalidInput
from dperm.losses import Logistic, Softmax
from dperm.mechanisms.base import Job
from dperm.mechanisms.gradient.dp_sgd import DPSGD, ORDERS
from dperm.mechanisms.gradient.psgd import PSGD
from dperm.mechanisms.gradient.sgd_ma import SGDMA
from dperm.planning.sampling import FixedSizeSampling, PoissonSampling
from dperm.privacy import Budget, Gate, SystemEntropy, entropy
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate

plain = partial(DPSGD, standardise=False)


def drawn(mechanism, steps, seed=3, n=N):
    """The batches that a run with this seed draws, when the gate draws nothing."""
    gate = Gate.seeded(seed)
    return [PoissonSampling(mechanism.rate).batch(gate).positions(n) for _ in range(steps)]


@pytest.mark.cover(1)
@pytest.mark.parametrize("clip", [None, 0.3, "auto"])
@each_loss
def test_without_noise_it_is_a_plain_loop_over_the_batches(loss, clip):
    problem, (X, y) = facts(loss), rows_of(loss)
    mechanism = plain(steps=20, step_size=0.8, clip=clip, momentum=0.3)
    plan = mechanism.plan(problem, BUDGET)
    outcome = run(mechanism, problem, X, y, gate=SilentGate(3))
    expected = plain_descent(
        problem,
        X,
        y,
        drawn(mechanism, 20),
        step_sizes=np.array([0.8] * 10 + [0.4] * 10),
        divisor=0.1 * N,
        l2=plan.settings["l2_used"],
        momentum=0.3,
        tail=5,
        clip=clip_by_rule(problem) if clip == "auto" else clip,
    )
    np.testing.assert_allclose(outcome.weights, expected, rtol=1e-5, atol=1e-6)
    assert np.linalg.norm(outcome.weights) > 0.01
    assert outcome.certified


@each_relation
@pytest.mark.parametrize("standardise", [False, True])
def test_the_noise_meets_the_budget_by_dp_accountings_own_ledger(neighbours, standardise):
    from dp_accounting import DpEventBuilder, GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    problem = facts(Logistic(), neighbours=neighbours)
    mechanism = DPSGD(steps=20, rate=0.1, standardise=standardise)
    plan = mechanism.plan(problem, BUDGET)
    replaced = neighbours is Neighbours.REPLACE_ONE
    relation = NeighboringRelation.REPLACE_ONE if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE

    def epsilon(factor):
        # one row adds half of what the sum moves by when a row is replaced
        z = factor * plan.noise.scale / (plan.noise.padded(plan.noise.sensitivity) / (2 if replaced else 1))
        builder = DpEventBuilder()
        builder.compose(PoissonSampledDpEvent(0.1, GaussianDpEvent(z)), 20)
        if standardise:
            builder.compose(GaussianDpEvent((2 if replaced else 1) / plan.standardisation.mu))
        return PLDAccountant(relation).compose(builder.build()).get_epsilon(BUDGET.delta)

    assert epsilon(1.0) <= BUDGET.epsilon * (1 + 1e-3)
    assert epsilon(0.95) > BUDGET.epsilon * (1 + 1e-3)
    assert plan.releases == 20
    assert plan.not_certified is None


@pytest.mark.cover(1)
@each_relation
@each_loss
def test_neighbours_stay_within_the_declared_sensitivity_at_every_step(loss, neighbours):
    """Under add-remove the missing row is the last: it is an empty one, and the others keep their places."""
    problem, (X, y) = facts(loss, neighbours=neighbours), rows_of(loss)
    mechanism = plain(steps=20, clip=0.5)
    distance, declared = replayed_distances(mechanism, problem, (X, y), neighbour(problem, X, y, N - 1))
    assert (distance <= declared).all()
    met = np.array([N - 1 in batch for batch in drawn(mechanism, 20)])
    assert met[0]  # at zero weights, where no gradient vanishes
    assert not met.all()
    assert distance[0] > 0.1 * declared[0]
    assert (distance[~met] < 1e-12).all()


def test_standardising_works():
    problem, (X, y) = facts(Softmax(3)), rows_of(Softmax(3))
    outcome = run(DPSGD(steps=20, standardise=True), problem, X, y)
    assert outcome.weights.shape == (5, 3)
    assert [record.name for record in outcome.records] == [
        "mean of the rows",
        "second moments of the columns",
    ] + ["dp-sgd gradient"] * 20


def test_models_side_by_side_draw_batches_of_their_own():
    problem, (X, y) = facts(Logistic()), rows_of(Logistic())
    mechanism = DPSGD(steps=20)
    job = Job(plan=mechanism.plan(problem, BUDGET))
    one, two = mechanism.run([job, job], open_rows(X, y, problem), SilentGate())
    assert np.linalg.norm(one.weights - two.weights) > 1e-3


def test_an_empty_batch_is_noised_and_stepped_on():
    problem, (X, y) = facts(Logistic(), n_rows=3), rows_of(Logistic(), n=3)
    mechanism = plain(steps=20, rate=0.1)
    empty = [len(batch) == 0 for batch in drawn(mechanism, 20, n=3)]
    assert 0 < sum(empty) < 20
    silent = SilentGate(3)
    run(mechanism, problem, X, y, gate=silent)
    np.testing.assert_array_equal([not values.any() for values in silent.exact], empty)
    outcome = run(mechanism, problem, np.zeros((3, 4)), np.ones(3))
    assert len(outcome.records) == 20
    assert np.abs(outcome.weights).min() > 0


@pytest.mark.parametrize("gate", [Gate.seeded(1), Gate.system()], ids=lambda gate: gate.source.name)
def test_rows_join_on_their_own_with_the_declared_probability(gate):
    """Counts per row and per batch against the binomial law; a rate of 0.11 for 0.1 must be noticed."""
    n, draws, rate = 50, 4000, 0.1

    def smallest_p(sampling):
        joined = np.zeros((draws, n), bool)
        for i in range(draws):
            joined[i, sampling.batch(gate).positions(n)] = True
        total = stats.binomtest(int(joined.sum()), joined.size, rate).pvalue
        rows = stats.chisquare(joined.sum(axis=0)).pvalue
        sizes = np.bincount(joined.sum(axis=1), minlength=n + 1)[:13]
        law = stats.binom.pmf(np.arange(13), n, rate)
        size = stats.chisquare(sizes, sizes.sum() * law / law.sum()).pvalue
        pairs = (joined[:, :-1] & joined[:, 1:]).sum()
        pair = stats.binomtest(int(pairs), draws * (n - 1), rate**2).pvalue
        return min(total, rows, size, pair)

    assert smallest_p(PoissonSampling(rate)) > 1e-10
    assert smallest_p(PoissonSampling(0.11)) < 1e-10
    assert smallest_p(FixedSizeSampling(5)) < 1e-10


def test_a_secure_source_asks_the_operating_system_every_time(monkeypatch):
    asked = []
    real = entropy.os.urandom
    monkeypatch.setattr(entropy.os, "urandom", lambda n: asked.append(n) or real(n))
    gate = Gate.system()
    one, two = (PoissonSampling(0.5).batch(gate).positions(200) for _ in range(2))
    assert asked == [1600, 1600]
    assert not np.array_equal(one, two)


def test_a_full_rate_takes_every_row():
    np.testing.assert_array_equal(PoissonSampling(1.0).batch(Gate.system()).positions(5), np.arange(5))


class Strange(SystemEntropy):
    name = "strange"
    secure = False


@pytest.mark.parametrize("kind", [DPSGD, PSGD], ids=lambda kind: kind.name)
def test_a_source_that_is_neither_secure_nor_seeded_is_refused(kind):
    problem, (X, y) = facts(Logistic()), rows_of(Logistic())
    with pytest.raises(InvalidInput, match="strange"):
        run(kind(steps=2, standardise=False), problem, X, y, gate=Gate(Strange()))


@pytest.mark.parametrize("kind", [DPSGD, SGDMA], ids=lambda kind: kind.name)
def test_gradients_are_clipped_and_steps_are_long_unless_asked_otherwise(kind):
    problem = facts(Logistic(), neighbours=Neighbours.ADD_REMOVE)
    plan = kind(steps=20).plan(problem, BUDGET)
    assert plan.settings["clip"] == plan.descent.clip == pytest.approx(0.5 * problem.gradient_bound)
    assert plan.noise.sensitivity == pytest.approx(0.5 * problem.gradient_bound, rel=1e-6)
    assert plan.settings["step_size"] == pytest.approx(8 * 0.5 / (0.25 * problem.row_norm**2))
    for other in (kind(steps=20, clip=None), kind(steps=20, accounting="paper")):
        plan = other.plan(problem, BUDGET)
        assert plan.settings["clip"] is plan.descent.clip is None
        assert plan.noise.sensitivity == pytest.approx(problem.gradient_bound, rel=1e-6)


@pytest.mark.together
@pytest.mark.parametrize(
    "bad", [{"rate": 0.0}, {"rate": 1.5}, {"rate": "x"}, {"steps": 0}, {"clip": 0}, {"clip": "0.4"}], ids=str
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(InvalidInput):
        DPSGD(**bad)


# Errors of the papers


@pytest.mark.together
@pytest.mark.parametrize("rate", [1e-4, 0.1, 0.9, 1.0])
@pytest.mark.parametrize("noise", [0.3, 1.0, 30.0])
def test_the_papers_price_is_that_of_dp_accounting(rate, noise):
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant

    assert list(ORDERS) == rdp_privacy_accountant.DEFAULT_RDP_ORDERS
    for steps, delta in ((1, 1e-5), (500, 1e-8)):
        accountant = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
        accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps)
        ours = DPSGD(rate=rate).paper_epsilon(noise, steps, delta)
        assert ours == pytest.approx(accountant.get_epsilon(delta), rel=1e-9)
        wrong = DPSGD(rate=0.99 * rate).paper_epsilon(noise, steps, delta)
        assert wrong != pytest.approx(accountant.get_epsilon(delta), rel=1e-9) or wrong == 0


def test_the_papers_price_is_for_add_remove_and_marked_when_a_row_is_replaced():
    """One relation per claim: noise for add-remove is about half of what replacing a row needs."""
    budget = Budget(1.0, 1e-6)
    plans = {
        n: plain(steps=20, accounting="paper").plan(facts(Logistic(), neighbours=n), budget)
        for n in Neighbours
    }
    assert plans[Neighbours.ADD_REMOVE].not_certified is None
    assert "accounting='tight'" in plans[Neighbours.REPLACE_ONE].not_certified
    tight = plain(steps=20, clip=None).plan(facts(Logistic(), neighbours=Neighbours.ADD_REMOVE), budget)
    assert tight.noise.scale < plans[Neighbours.ADD_REMOVE].noise.scale < 1.3 * tight.noise.scale


def test_sampling_never_needs_less_noise_on_the_mean_than_full_batches():
    from dperm.mechanisms.gradient.dp_gd import DPGD

    problem, budget = facts(Logistic(), n_rows=40_000), Budget(0.5, 1e-8)
    for clip in (None, "auto"):
        full = DPGD(steps=50, standardise=False, clip=clip).plan(problem, budget).noise.scale / 40_000
        sampled = plain(steps=50, clip=clip).plan(problem, budget).noise.scale / 4_000
        assert full * (1 - 5e-3) <= sampled <= 1.1 * full


def test_the_smallest_certified_delta_is_priced_too():
    plan = plain(steps=5).plan(facts(Logistic()), Budget(1.0, 1e-15))
    z = 2 * plan.noise.scale / plan.noise.padded(plan.noise.sensitivity)
    second = composed_price(poisson_losses(0.1, z, 2), 5, 0.0, "").delta(1.0)
    assert 0.999e-15 <= second <= 1e-15 * (1 + 1e-6)
