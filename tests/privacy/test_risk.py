"""What an attacker can reach, against exact formulas, mechanisms that attain them, and a played attack."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import erfinv, mp, mpf, ncdf, sqrt
from scipy.stats import binom

from dperm.errors import InvalidInput
from dperm.privacy import Budget, GaussianProfile, gaussian_mu
from dperm.privacy.budget import advantage, tradeoff

mp.dps = 50
RATES = (1e-12, 1e-6, 1e-3, 0.01, 0.05, 0.3, 0.5, 0.9, 0.999)
BUDGETS = [Budget(e, d) for e in (0.001, 0.1, 1.0, 5.0, 50.0) for d in (0.0, 1e-15, 1e-6, 0.1)]


def exact_gaussian(mu, fpr):
    return ncdf(sqrt(2) * erfinv(2 * mpf(fpr) - 1) + mpf(mu))


def roc(first, second):
    """Corners of the best attack on two distributions over a few outcomes: rows in order of likelihood ratio."""
    order = sorted(range(len(first)), key=lambda i: first[i] / second[i] if second[i] else math.inf)[::-1]
    return np.array([[0, 0], *np.cumsum([[second[i], first[i]] for i in order], axis=0)]).T


def worst_mechanism(epsilon, delta):
    """Four outcomes: with chance delta the answer itself, otherwise randomised response."""
    likely, rare = math.exp(epsilon) / (1 + math.exp(epsilon)), 1 / (1 + math.exp(epsilon))
    first = [delta, (1 - delta) * likely, (1 - delta) * rare, 0]
    return first, first[::-1]


@pytest.mark.together
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_bound_of_a_budget_is_attained_by_its_worst_mechanism(budget):
    corners = roc(*worst_mechanism(budget.epsilon, budget.delta))
    for fpr in (0.0, *RATES, 1.0):
        # np.interp takes the right end of a jump at 0
        reached = max(float(np.interp(fpr, *corners)), budget.delta)
        bound = tradeoff(budget, fpr)
        assert bound >= reached * (1 - 1e-13)
        assert bound == pytest.approx(reached, rel=1e-9, abs=1e-15)
    assert advantage(budget) == pytest.approx(float((corners[1] - corners[0]).max()), rel=1e-9)


@pytest.mark.together
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0])
def test_randomised_response_attains_pure_epsilon(epsilon):
    wrong = 1 / (1 + math.exp(epsilon))
    assert tradeoff(Budget(epsilon, 0), wrong) == pytest.approx(1 - wrong, rel=1e-11)
    assert advantage(Budget(epsilon, 0)) == pytest.approx(1 - 2 * wrong, rel=1e-9)


@pytest.mark.together
@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.2, 1.0, 3.0, 10.0])
def test_one_gaussian_is_exact_and_never_below(mu):
    profile = GaussianProfile.gaussian(mu)
    for fpr in RATES:
        exact = exact_gaussian(mu, fpr)
        reported = tradeoff(profile, fpr)
        assert reported >= min(exact, 1)
        assert reported <= exact * (1 + mpf("1e-8"))
    exact = 2 * ncdf(mpf(mu) / 2) - 1
    assert exact <= advantage(profile) <= exact * (1 + mpf("1e-8"))
    assert advantage(profile) == pytest.approx(profile.delta(0), rel=1e-8)


def test_no_noise_and_no_change():
    for fpr in (0.0, 0.01, 1.0):
        assert tradeoff(GaussianProfile.gaussian(math.inf), fpr) == 1
        assert tradeoff(GaussianProfile.gaussian(0), fpr) == pytest.approx(fpr, rel=1e-8)
        assert tradeoff(GaussianProfile.mixture([0.5, 0.5], [0, 0]), fpr) == pytest.approx(fpr, rel=1e-6)
    assert advantage(GaussianProfile.gaussian(0)) == 0


class Curve:
    """A profile of which only delta(epsilon) can be seen."""

    def __init__(self, profile):
        self.delta = profile.delta


@pytest.mark.together
@pytest.mark.parametrize("mu", [0.01, 0.2, 1.0, 4.0])
def test_the_curve_alone_gives_the_same_as_the_formula(mu):
    profile = GaussianProfile.gaussian(mu)
    for fpr in RATES:
        exact = exact_gaussian(mu, fpr)
        assert exact <= tradeoff(Curve(profile), fpr) <= exact * (1 + mpf("1e-6"))
    assert advantage(Curve(profile)) == pytest.approx(advantage(profile), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    branches=st.lists(st.tuples(st.floats(0.05, 1), st.floats(0.05, 3)), min_size=1, max_size=5),
    threshold=st.floats(-4, 4),
)
def test_a_hidden_branch_is_bounded_by_the_attacker_who_sees_it(branches, threshold):
    weight, mu = np.array(branches).T
    weight = weight / weight.sum()
    # the best test of one size accuses in every branch where the loss exceeds one threshold
    fpr, tpr = (
        sum(
            mpf(q) * ncdf(-mpf(threshold) / mpf(m) + sign * mpf(m) / 2)
            for q, m in zip(weight, mu, strict=True)
        )
        for sign in (-1, 1)
    )
    assume(fpr > 1e-200)
    reported = tradeoff(GaussianProfile.mixture(weight, mu), float(fpr))
    assert reported >= tpr * (1 - mpf("1e-14"))
    assert reported <= tpr * (1 + mpf("1e-6"))


class Costlier(GaussianProfile):
    """A profile with a formula of its own."""

    def log_deltas(self, epsilons):
        return np.minimum(0.0, super().log_deltas(epsilons) + 1.0)


def test_a_profile_overrides_the_one_formula_that_all_others_are_taken_from():
    with pytest.raises(TypeError, match="must override log_deltas"):
        type("Half", (GaussianProfile,), {"log_delta": lambda self, epsilon: -1.0})
    own = Costlier.gaussian(0.5)
    for epsilon in (0.0, 0.3, 2.0):
        assert (
            own.deltas(np.array([epsilon]))[0]
            == own.delta(epsilon)
            > GaussianProfile.gaussian(0.5).delta(epsilon)
        )


def test_a_profile_with_its_own_formula_is_not_taken_for_one_gaussian():
    plain, own = GaussianProfile.gaussian(0.5), Costlier.gaussian(0.5)
    assert type(own) is Costlier
    assert tradeoff(own, 0.01) > tradeoff(plain, 0.01) * 1.1
    assert advantage(own) > advantage(plain) * 1.1


def test_an_offset_loosens_the_bound_but_does_not_void_it():
    plain, moved = GaussianProfile.gaussian(0.3), GaussianProfile([1.0], [0.2], [[0.3]])
    assert moved.delta(0) == 1
    assert advantage(plain) < advantage(moved) < 0.5
    for fpr in (0.001, 0.01, 0.5):
        assert tradeoff(plain, fpr) < tradeoff(moved, fpr) < tradeoff(GaussianProfile.gaussian(1.0), fpr)


@pytest.mark.together
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_one_gaussian_of_a_budget_allows_less_than_the_budget(delta):
    for epsilon in (0.01, 0.5, 2.0, 20.0):
        budget = Budget(epsilon, delta)
        whole = GaussianProfile.gaussian(gaussian_mu(budget))
        for fpr in RATES:
            assert (
                tradeoff(whole, fpr) <= budget.attack(fpr, gaussian=True) <= budget.attack(fpr) * (1 + 1e-8)
            )
        assert advantage(whole) <= budget.advantage(gaussian=True) < budget.advantage()


@pytest.mark.parametrize("gaussian", [False, True])
def test_more_budget_and_more_false_alarms_allow_more(gaussian):
    rates = [0.0, *RATES, 1.0]
    by_rate = [Budget(1, 1e-6).attack(fpr, gaussian=gaussian) for fpr in rates]
    assert by_rate == sorted(by_rate)
    assert all(tpr >= fpr for tpr, fpr in zip(by_rate, rates, strict=True))
    by_epsilon = [Budget(e, 1e-6).attack(0.01, gaussian=gaussian) for e in (0.01, 0.1, 1, 10)]
    by_delta = [Budget(1, d).attack(0.01, gaussian=gaussian) for d in (1e-12, 1e-6, 1e-3, 0.1)]
    for values in (by_epsilon, by_delta):
        assert all(a < b for a, b in itertools.pairwise(values))


rates = st.floats(1e-4, 0.9)


@settings(max_examples=60, deadline=None)
@given(fpr=rates, share=st.floats(0.05, 0.95), delta=st.sampled_from([1e-12, 1e-6]), gaussian=st.booleans())
def test_a_budget_from_an_attack_keeps_it_and_is_the_largest(fpr, share, delta, gaussian):
    tpr = fpr + share * (1 - fpr)
    budget = Budget.from_attack(tpr=tpr, fpr=fpr, delta=delta, gaussian=gaussian)
    assert budget.delta == delta
    assert budget.attack(fpr, gaussian=gaussian) <= tpr
    if budget.epsilon < 50:
        assert Budget(budget.epsilon * (1 + 1e-6), delta).attack(fpr, gaussian=gaussian) > tpr
    if gaussian:
        mu = min(gaussian_mu(budget), 100.0)
        assert exact_gaussian(mu, fpr) <= tpr


@settings(max_examples=60, deadline=None)
@given(most=st.floats(0.01, 0.99), delta=st.sampled_from([1e-12, 1e-6]), gaussian=st.booleans())
def test_a_budget_from_an_advantage_keeps_it_and_is_the_largest(most, delta, gaussian):
    budget = Budget.from_advantage(most, delta=delta, gaussian=gaussian)
    assert budget.advantage(gaussian=gaussian) <= most
    if budget.epsilon < 50:
        assert Budget(budget.epsilon * (1 + 1e-6), delta).advantage(gaussian=gaussian) > most


def test_a_known_budget():
    # e^epsilon fpr + delta = tpr
    assert Budget.from_attack(tpr=0.05, fpr=0.01, delta=0).epsilon == pytest.approx(math.log(5), rel=1e-9)
    # tanh(epsilon/2) = advantage
    assert Budget.from_advantage(0.5, delta=0).epsilon == pytest.approx(2 * math.atanh(0.5), rel=1e-9)
    loose = Budget.from_attack(tpr=0.05, fpr=0.01, delta=1e-6, gaussian=True)
    assert loose.epsilon > Budget.from_attack(tpr=0.05, fpr=0.01, delta=1e-6).epsilon * 1.5


BAD = [
    ({"tpr": 0.01, "fpr": 0.05}, "fpr < tpr"),
    ({"tpr": 0.05, "fpr": 0.05}, "fpr < tpr"),
    ({"tpr": 1.0, "fpr": 0.05}, "tpr < 1"),
    ({"tpr": 0.5, "fpr": 0.0}, "0 < fpr"),
    ({"tpr": 1.5, "fpr": 0.05}, "rate"),
    ({"tpr": 0.5, "fpr": -0.1}, "rate"),
    ({"tpr": float("nan"), "fpr": 0.05}, "rate"),
    ({"tpr": "0.5", "fpr": 0.05}, "rate"),
    ({"tpr": True, "fpr": 0.05}, "rate"),
    ({"tpr": 0.0100001, "fpr": 0.01}, "smaller delta"),
    ({"tpr": 0.015, "fpr": 0.01, "delta": 0.1}, "smaller delta"),
    ({"tpr": 0.05, "fpr": 0.01, "delta": -1.0}, "delta must be"),
]


@pytest.mark.cover(1)
@pytest.mark.parametrize(("given", "says"), BAD)
@pytest.mark.parametrize("gaussian", [False, True])
def test_bad_attacks_are_refused_clearly(given, says, gaussian):
    with pytest.raises(InvalidInput, match=says):
        Budget.from_attack(**{"delta": 1e-6, **given}, gaussian=gaussian)


@pytest.mark.together
@pytest.mark.parametrize(
    ("most", "says"), [(0, "strictly"), (1.0, "strictly"), (2, "rate"), (1e-4, "smaller")]
)
def test_bad_advantages_are_refused_clearly(most, says):
    with pytest.raises(InvalidInput, match=says):
        Budget.from_advantage(most, delta=1e-6)
    with pytest.raises(InvalidInput, match="delta > 0"):
        Budget.from_advantage(0.5, delta=0, gaussian=True)


def belief(guarantee, prior, fpr):
    """Largest chance that an attacker is right when they name the first candidate."""
    right, wrong = prior * tradeoff(guarantee, fpr), (1 - prior) * fpr
    return right / (right + wrong)


def test_belief_is_the_odds_that_pure_privacy_allows():
    for prior in (0.01, 0.5, 0.9):
        odds = math.exp(0.7) * prior / (1 - prior)
        assert belief(Budget(0.7, 0), prior, 1e-6) == pytest.approx(odds / (1 + odds), rel=1e-9)
        assert belief(Budget(0.7, 0), prior, 1.0) == pytest.approx(prior)
        # With delta > 0 a rare accusation may be certain, so beliefs fall as accusations become frequent.
        falling = [belief(Budget(0.7, 1e-6), prior, fpr) for fpr in (1e-12, 1e-6, 1e-3, 0.1, 1.0)]
        assert falling == sorted(falling, reverse=True)
    assert belief(Budget(0.7, 1e-6), 0.5, 1e-12) > 0.999
    with pytest.raises(InvalidInput):
        belief(Budget(0.7, 0), 0.5, 2.0)


def test_an_attack_played_many_times_stays_below_and_a_smaller_mu_would_be_refuted():
    budget, fpr, plays = Budget(2.0, 1e-5), 0.01, 400_000
    mu, rng = gaussian_mu(budget), np.random.default_rng(7)
    threshold = np.quantile(rng.normal(size=plays), 1 - fpr)
    alarms = int((rng.normal(size=plays) > threshold).sum())
    caught = int((rng.normal(size=plays) + mu > threshold).sum())
    assert abs(alarms / plays - fpr) < 0.002

    def chance_of_so_many(bound):
        return binom.sf(caught - 1, plays, bound)

    # fpr of this very test may be off by a little: bound it at a rate that it surely does not exceed
    surely = fpr * 1.1
    assert binom.cdf(alarms, plays, surely) < 1e-9
    assert chance_of_so_many(budget.attack(surely, gaussian=True)) > 1e-9
    assert chance_of_so_many(budget.attack(surely)) > 1e-9
    assert chance_of_so_many(tradeoff(GaussianProfile.gaussian(0.8 * mu), surely)) < 1e-9
