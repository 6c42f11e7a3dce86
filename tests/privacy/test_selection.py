"""The price of releasing the best of a random number of candidates, and the law of that number."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import chisquare, norm

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy import Budget, Gate, GaussianProfile, SeededEntropy, gaussian_mu, selection
from dperm.privacy.selection import (
    RunCount,
    cheapest_selection,
    plan_selection,
    renyi_divergence,
    selection_price,
)

POISSON = math.inf
ORDERS = 1 + np.geomspace(1, 3e3, 200)
# Noise of a candidate over that of one release, at delta = 1e-8, by dp-accounting and a list of orders:
# (mean, epsilon) -> geometric, logarithmic, Poisson.
TABLE = {
    (3, 0.1): (1.73, 1.52, 1.42),
    (10, 0.1): (2.07, 1.72, 2.19),
    (30, 0.1): (2.31, 1.87, 4.09),
    (100, 0.1): (2.53, 2.01, 6.93),
    (3, 1.0): (1.63, 1.45, 1.38),
    (10, 1.0): (1.93, 1.63, 2.09),
    (30, 1.0): (2.15, 1.76, 3.90),
    (100, 1.0): (2.35, 1.88, 6.92),
}


def google_epsilon(mu, mean, shape, delta, orders=ORDERS):
    from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=list(orders))
    accountant.compose(RepeatAndSelectDpEvent(GaussianDpEvent(1 / mu), mean=mean, shape=shape))
    return accountant.get_epsilon(delta)


def generating(shape, mean):
    """The generating function of the number of runs and its derivative, from the textbook and from nothing else."""
    if shape == POISSON:
        return (lambda x: np.exp(mean * (x - 1))), (lambda x: mean * np.exp(mean * (x - 1)))

    def f_mean(g):
        return (1 / g - 1) / math.log(1 / g) if shape == 0 else shape * (1 / g - 1) / (1 - g**shape)

    gamma = brentq(lambda g: f_mean(g) - mean, 1e-9, 0.999)
    if shape == 0:
        f = lambda x: np.log1p(-(1 - gamma) * x) / math.log(gamma)  # noqa: E731
    else:
        f = lambda x: ((1 - (1 - gamma) * x) ** -shape - 1) / (gamma**-shape - 1)  # noqa: E731
    return f, lambda x: mean * (gamma / (1 - (1 - gamma) * x)) ** (shape + 1)


@pytest.mark.together
@pytest.mark.parametrize(("mean", "epsilon"), TABLE)
def test_the_price_is_that_of_dp_accounting_to_the_printed_digits(mean, epsilon):
    one = gaussian_mu(Budget(epsilon, 1e-8))
    for shape, printed in zip((1.0, 0.0, POISSON), TABLE[mean, epsilon], strict=True):
        low, high = (google_epsilon(one / (printed + digit), mean, shape, 1e-8) for digit in (0.01, -0.01))
        assert low <= epsilon <= high
        ours = one / plan_selection(Budget(epsilon, 1e-8), RunCount(shape, mean)).mu
        if (
            shape == POISSON
        ):  # the exact profile of a candidate, where dp-accounting goes by its Renyi divergences
            assert 0.7 * printed < ours < printed
        else:  # any real order, where dp-accounting has a list
            assert printed - 0.01 < ours < printed + 0.01


NEGATIVE_BINOMIAL = [(0.0, 2.0), (0.0, 100.0), (0.5, 8.0), (1.0, 3.0), (1.0, 1e4), (3.0, 30.0), (10.0, 20.0)]


def priced_twice(runs, budget):
    """Epsilon of a planned search as we price it, and as dp-accounting does at the orders of the plan."""
    plan = plan_selection(budget, runs)
    orders = [order for order, _ in plan.renyi]
    ours = selection_price(runs, plan.mu, budget.delta)[0]
    return ours, google_epsilon(plan.mu, runs.mean, runs.shape, budget.delta, orders)


@pytest.mark.together
@pytest.mark.parametrize(("shape", "mean"), NEGATIVE_BINOMIAL)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-8), (1.0, 1e-6), (4.0, 1e-10)])
def test_dp_accounting_has_our_price_at_the_orders_of_a_plan(shape, mean, epsilon, delta):
    ours, theirs = priced_twice(RunCount(shape, mean), Budget(epsilon, delta))
    assert theirs == pytest.approx(ours, rel=1e-6)
    assert ours <= epsilon


def test_a_constant_that_is_too_small_is_noticed(monkeypatch):
    honest = selection._negative_binomial_constant
    monkeypatch.setattr(selection, "_negative_binomial_constant", lambda runs, mu: honest(runs, mu) * 0.9)
    ours, theirs = priced_twice(RunCount(0.0, 10.0), Budget(1.0, 1e-6))
    assert theirs > ours * 1.01


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0, POISSON])
@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0])
def test_the_price_against_a_brute_search_over_the_theorem(shape, mu):
    mean, delta = 8.0, 1e-7
    orders = 1 + np.geomspace(1e-2, 1e5, 4000)
    rest = orders - 1
    if shape == POISSON:
        levels = np.log(orders / rest)
        spill = norm.cdf(mu / 2 - levels / mu) - np.exp(levels) * norm.cdf(-mu / 2 - levels / mu)
        moment = np.logaddexp(
            -mean, math.log(mean) + rest * mean * np.maximum(spill, 0) + rest * orders * mu**2 / 2
        )
        whole = moment / rest
    else:
        gamma = brentq(lambda g: generating_mean(shape, g) - mean, 1e-9, 0.999)
        second = np.append(1.0, orders)
        constant = (1 + shape) * np.min((1 - 1 / second) * second * mu**2 / 2 + math.log(1 / gamma) / second)
        whole = orders * mu**2 / 2 + constant + math.log(mean) / rest
    brute = np.min(whole + np.log(rest / orders) - np.log(delta * orders) / rest)
    assert selection_price(RunCount(shape, mean), mu, delta)[0] == pytest.approx(brute, rel=2e-4)


def generating_mean(shape, gamma):
    return (
        (1 / gamma - 1) / math.log(1 / gamma) if shape == 0 else shape * (1 / gamma - 1) / (1 - gamma**shape)
    )


def exact_delta(epsilon, mu, shape, mean):
    """Delta of the best of K candidates with scores N(0, 1) or N(mu, 1), by quadrature in both directions."""
    derivative = generating(shape, mean)[1]
    y = np.linspace(-14, 14 + mu, 400_001)
    densities = [norm.pdf(y, m) * derivative(norm.cdf(y, m)) for m in (0.0, mu)]
    f = generating(shape, mean)[0]
    for density in densities:
        assert np.trapezoid(density, y) == pytest.approx(f(1.0) - f(0.0), abs=1e-9)
    return max(
        np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), y) for p, q in (densities, densities[::-1])
    )


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, POISSON])
@pytest.mark.parametrize(("epsilon", "mean"), [(0.5, 3), (1.0, 10), (2.0, 30)])
def test_the_claim_holds_on_a_toy_and_the_price_of_one_candidate_does_not(shape, epsilon, mean):
    delta = 1e-6
    plan = plan_selection(Budget(epsilon, delta), RunCount(shape, mean))
    assert exact_delta(epsilon, plan.mu, shape, mean) <= delta
    one = GaussianProfile.gaussian(plan.mu).epsilon(delta)
    assert one < epsilon
    assert exact_delta(one, plan.mu, shape, mean) > 2 * delta  # the control


@pytest.mark.together
@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 4.0, POISSON])
def test_the_number_of_runs_has_its_law(shape):
    mean, draws = 5.0, 3000
    entropy = SeededEntropy(11)
    drawn = np.array([RunCount(shape, mean).draw(Gate(entropy)) for _ in range(draws)])
    assert fits(drawn, shape, mean)
    other = 0.5 if shape == 0 else shape / 2 if shape < POISSON else 1.0
    assert not fits(drawn, other, mean)  # the control: another shape of the same mean


def fits(drawn, shape, mean):
    """A chi-square test against Taylor coefficients of the generating function, found by a Fourier transform."""
    f, points = generating(shape, mean)[0], 4096
    circle = np.exp(2j * np.pi * np.arange(points) / points)
    radius = 0.999
    chances = np.fft.fft(f(radius * circle)).real / points / radius ** np.arange(points)
    edges = [0, 1, 2, 3, 4, 5, 7, 9, 12, 16, 22]
    expected = np.append(np.add.reduceat(chances[:22], edges[:-1]), 0)
    expected[-1] = 1 - expected.sum()
    observed = np.histogram(drawn, [*edges, np.inf])[0]
    seen = expected > 1e-12
    return observed[~seen].sum() == 0 and chisquare(observed[seen], len(drawn) * expected[seen]).pvalue > 1e-9


def test_the_operating_system_draws_too_and_never_twice_the_same():
    for mean in (
        50.0,
        400.0,
    ):  # no candidate at all has a chance of 1e-174 here: the search for the first starts low
        drawn = [RunCount(POISSON, mean).draw(Gate.system()) for _ in range(200)]
        assert abs(np.mean(drawn) - mean) < 7 * math.sqrt(mean / 200)
    assert len({Gate.system().integer() for _ in range(100)}) == 100


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("order", [1.3, 4.0, 25.0])
@pytest.mark.parametrize("mu", [0.1, 0.8])
def test_the_renyi_divergence_is_an_integral_of_the_profile(order, mu):
    """For Gaussians both the identity with hockey-stick divergences and the closed form are exact."""
    profile = GaussianProfile.mixture([0.3, 0.7], [mu, mu / 2])

    def integrand(t):
        return (math.exp((order - 1) * t) + math.exp(-order * t)) * profile.delta(t)

    top = order * mu**2 + 12 * mu
    pieces = [quad(integrand, a, a + top / 20, epsabs=0)[0] for a in np.linspace(0, top, 21)[:-1]]
    by_profile = math.log1p(order * (order - 1) * math.fsum(pieces)) / (order - 1)
    assert renyi_divergence(profile, order) == pytest.approx(by_profile, rel=1e-6)
    assert renyi_divergence(GaussianProfile.gaussian(mu), order) == pytest.approx(order * mu**2 / 2, rel=1e-6)


@pytest.mark.together
@pytest.mark.cover(2)
@pytest.mark.parametrize("order", [2.0, 8.0, 30.0])
@pytest.mark.parametrize("offset", [0.0, 0.05])
@pytest.mark.parametrize("signs", [(1, -1, 1), (-1, 1, 1), (1, -1, -1)])
def test_the_largest_of_several_losses_is_covered(order, offset, signs):
    mu = np.array([0.2, 0.2, 0.1])
    profile = GaussianProfile(np.ones(1), np.array([offset]), mu[None, :])

    def integrand(z):
        largest = offset + np.max(mu**2 / 2 + np.array(signs) * mu * z)
        return math.exp((order - 1) * largest) * norm.pdf(z)

    true = math.log(sum(quad(integrand, a, a + 1)[0] for a in range(-16, 22))) / (order - 1)
    assert true <= renyi_divergence(profile, order)
    largest_alone = GaussianProfile(np.ones(1), np.array([offset]), mu[None, :1])
    assert true > renyi_divergence(largest_alone, order)  # the control


def test_a_candidate_is_admitted_up_to_the_limit():
    for shape in (0.0, 1.0, POISSON):
        plan = plan_selection(Budget(1.0, 1e-6), RunCount(shape, 10.0))
        assert plan.admits(GaussianProfile.gaussian(plan.mu))
        assert not plan.admits(GaussianProfile.gaussian(plan.mu * 1.001))
        # As costly at the point (epsilon, delta), yet not in between: a profile must be looked at as a whole.
        spread = GaussianProfile.mixture([0.5, 0.5], [plan.mu, 1.5 * plan.mu])
        assert not plan.admits(spread)
        assert not plan.admits(GaussianProfile.gaussian(math.inf))


def test_the_cheapest_law_of_those_that_search():
    budget = Budget(1.0, 1e-6)
    assert cheapest_selection(budget, 10.0).runs == RunCount(POISSON, 10.0)
    assert cheapest_selection(budget, 100.0).runs == RunCount(0.0, 100.0)
    assert RunCount(0.0, 10.0).chance_of_idling > selection.MOST_IDLE
    assert RunCount(POISSON, 3.0).chance_of_idling == pytest.approx(4 * math.exp(-3))
    assert RunCount(1.0, 8.0).chance_of_idling == pytest.approx(1 / 8)


@pytest.mark.together
@pytest.mark.parametrize(
    ("shape", "mean"), [(0.0, 1.0), (0.0, 1e9), (-0.5, 5.0), (11.0, 5.0), (math.nan, 5.0), (1.0, math.nan)]
)
def test_laws_out_of_range_are_refused(shape, mean):
    with pytest.raises(InvalidInput):
        RunCount(shape, mean)


def test_refusals():
    with pytest.raises(NotCertified, match="outside what is certified"):
        plan_selection(Budget(50.0, 1e-15), RunCount(0.0, 10.0))
    with pytest.raises(InvalidInput, match="order"):
        renyi_divergence(GaussianProfile.gaussian(1.0), 1.0)
