"""Train a random number of models, score each privately, release the best: what that costs.

Papernot and Steinke (2022) price the whole by the Renyi divergence of one candidate. The proof, in the form used
here, stands in docs/proofs/selection.md.
"""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp, ndtr

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.budget import Budget
from dperm.privacy.gate import Gate
from dperm.privacy.profile import GaussianProfile
from dperm.privacy.rdp import epsilon_cks
from dperm.privacy.search import smallest_safe

Vector = NDArray[np.float64]

SHAPES = {"poisson": math.inf, "geometric": 1.0, "logarithmic": 0.0}
MEAN_RANGE = (2.0, 1e4)
LARGEST_SHAPE = 10.0
MOST_IDLE = (
    0.2  # chance of fewer than two candidates, which is no search, that the automatic choice puts up with
)

_ROUNDING = 1e-9  # relative allowance for rounding in what is computed here
# A candidate keeps its profile except with at most this chance (the tail of the noise grid in all steps, the reach of
# the noise in an objective). A millionth of delta is set aside for the failures of all candidates.
_FAILURE = 1e-30
_FAILURE_SHARE = 1e-6
_LOG_ORDERS = np.linspace(math.log(0.02), math.log(1e7), 120)  # of the order minus 1
_THRESHOLDS = 61
_DRAW_WORDS = 4
_DRAW_DIGITS = 90


@dataclass(frozen=True)
class RunCount:
    """The law of the number of candidates: Poisson, or a truncated negative binomial.

    Parameters
    ----------
    shape : float
        Infinite for Poisson, 1 for geometric, 0 for logarithmic, another number up to 10 for any truncated
        negative binomial. All but Poisson are never 0.
    mean : float
        Mean number of runs, from 2 to 10,000.
    """

    shape: float
    mean: float

    def __post_init__(self) -> None:
        low, high = MEAN_RANGE
        if not low <= self.mean <= high:
            raise InvalidInput(
                f"the mean number of candidates must lie between {low:g} and {high:g}; got {self.mean!r}."
            )
        if not (0 <= self.shape <= LARGEST_SHAPE or self.shape == math.inf):
            raise InvalidInput(
                f"the shape must lie between 0 and {LARGEST_SHAPE:g} or be infinite (Poisson); got {self.shape!r}."
            )

    @property
    def name(self) -> str:
        names = {shape: name for name, shape in SHAPES.items()}
        return names.get(self.shape, f"negative binomial of shape {self.shape:g}")

    @property
    def chance_of_idling(self) -> float:
        """How likely fewer than two candidates are."""
        first, chance, constant, _ = self._recurrence()
        return float(chance if first == 1 else chance * (1 + constant))

    @property
    def log_gamma(self) -> float:
        """Logarithm of the negative binomial's gamma that gives the mean."""

        def excess(log_gamma: float) -> float:
            odds = math.expm1(-log_gamma)
            if self.shape == 0:
                return odds / -log_gamma - self.mean
            return self.shape * odds / -math.expm1(self.shape * log_gamma) - self.mean

        return float(brentq(excess, -40.0, -1e-3, xtol=1e-13))

    def draw(self, gate: Gate) -> int:
        """A number of runs.

        The distribution function is inverted at a uniform number of 256 bits in 90-digit arithmetic, so the law
        is the stated one to far below any delta.
        """
        with localcontext() as context:
            context.prec = _DRAW_DIGITS
            uniform = Decimal(gate.integer(_DRAW_WORDS)) / 2 ** (64 * _DRAW_WORDS)
            count, chance, constant, slope = self._recurrence()
            total = chance
            while total <= uniform and (count < self.mean or chance > Decimal("1e-75")):
                chance *= (constant + slope * count) / (count + 1)
                count += 1
                total += chance
            return count

    def _recurrence(self) -> tuple[int, Decimal, Decimal, Decimal]:
        """First count k, its chance, and a and b such that p(k + 1) = p(k) (a + b k)/(k + 1)."""
        if self.shape == math.inf:
            mean = Decimal(self.mean)
            return 0, (-mean).exp(), mean, Decimal(0)
        gamma, shape = Decimal(self.log_gamma).exp(), Decimal(self.shape)
        on = 1 - gamma
        first = on / -gamma.ln() if shape == 0 else on * shape / (gamma**-shape - 1)
        return 1, first, on * shape, on


@dataclass(frozen=True, kw_only=True)
class SelectionPlan:
    """What every candidate may cost so that the release of the best one meets the budget.

    Attributes
    ----------
    budget : Budget
        Of the whole.
    runs : RunCount
        The law of the number of candidates.
    mu : float
        A candidate that costs no more than a Gaussian release of this parameter is admitted.
    renyi : tuple of (order, bound)
        A candidate's Renyi divergence may not exceed the bound at the order.
    deltas : tuple of (epsilon, delta)
        Points that a candidate's profile may not exceed; Poisson only.

    Guarantee
    ---------
    Draw K from ``runs``, draw K candidates independently from one law whose profile ``admits`` accepts, in both
    directions, and release the one with the largest score, or a constant if K = 0: that is
    (epsilon, delta)-differentially private, provided K stays secret.
    """

    budget: Budget
    runs: RunCount
    mu: float
    renyi: tuple[tuple[float, float], ...]
    deltas: tuple[tuple[float, float], ...]

    def admits(self, profile: GaussianProfile) -> bool:
        return self.excess(profile) <= 0

    def excess(self, profile: GaussianProfile) -> float:
        """By how much, in logarithms, a candidate's cost exceeds its limits; at most 0 if it is admitted."""
        costs = [(renyi_divergence(profile, order), bound) for order, bound in self.renyi]
        costs += [(profile.delta(epsilon), bound) for epsilon, bound in self.deltas]
        return max(math.log(cost / bound) if cost > 0 else -math.inf for cost, bound in costs)


def plan_selection(budget: Budget, runs: RunCount) -> SelectionPlan:
    """The largest Gaussian parameter of a candidate at which the whole meets the budget.

    Raises
    ------
    NotCertified
        If epsilon is so large and delta so small that the failures set aside might exceed their share.
    """
    budget.check_gaussian()
    if runs.mean * (1 + math.exp(budget.epsilon)) * _FAILURE > _FAILURE_SHARE * budget.delta:
        raise NotCertified(
            f"epsilon = {budget.epsilon:g} with delta = {budget.delta:g} is outside what is certified for a search; "
            "choose a smaller epsilon or a larger delta."
        )
    delta = budget.delta * (1 - _FAILURE_SHARE)

    def excess(inverse: float) -> float:
        return selection_price(runs, 1 / inverse, delta)[0] - budget.epsilon

    mu = 1 / smallest_safe(excess, start=math.sqrt(-2 * math.log(delta)) / budget.epsilon, tolerance=1e-7)
    _, order = selection_price(runs, mu, delta)
    deltas: tuple[tuple[float, float], ...] = ()
    orders = [order]
    if runs.shape == math.inf:
        level = math.log1p(1 / (order - 1))
        deltas = ((level, GaussianProfile.gaussian(mu).delta(level)),)
    else:
        orders.append(_second_order(runs, mu))
    return SelectionPlan(
        budget=budget,
        runs=runs,
        mu=mu * (1 - _ROUNDING),
        renyi=tuple((a, a * mu**2 / 2) for a in orders if a > 1),
        deltas=deltas,
    )


def cheapest_selection(budget: Budget, mean: float) -> SelectionPlan:
    """The plan that leaves a candidate most, with Poisson, geometric or logarithmic numbers of runs.

    A law that draws fewer than two candidates with a chance above 20 % is no search; it is considered only if all
    are like that, and then the one with the least such chance is taken.
    """
    laws = [RunCount(shape, mean) for shape in SHAPES.values()]
    busy = [runs for runs in laws if runs.chance_of_idling <= MOST_IDLE]
    busy = busy or [min(laws, key=lambda runs: runs.chance_of_idling)]
    return max((plan_selection(budget, runs) for runs in busy), key=lambda plan: plan.mu)


def selection_price(runs: RunCount, mu: float, delta: float) -> tuple[float, float]:
    """Epsilon at ``delta`` of the best of ``runs`` candidates of Gaussian parameter ``mu``, and the order used.

    Every order gives a valid epsilon, so the answer is valid however well the search did.
    """
    constant = 0.0 if runs.shape == math.inf else _negative_binomial_constant(runs, mu)

    def epsilon(log_order: float) -> float:
        rest = math.exp(log_order)
        order = 1 + rest
        if runs.shape == math.inf:
            spill = runs.mean * GaussianProfile.gaussian(mu).delta(math.log1p(1 / rest))
            rise = math.log(runs.mean) + rest * spill
            whole = float(np.logaddexp(-runs.mean, rise + rest * order * mu**2 / 2)) / rest
        else:
            whole = order * mu**2 / 2 + constant + math.log(runs.mean) / rest
        return epsilon_cks(whole * (1 + _ROUNDING), order, delta)

    coarse = [epsilon(x) for x in _LOG_ORDERS]
    best = int(np.argmin(coarse))
    around = (_LOG_ORDERS[max(best - 1, 0)], _LOG_ORDERS[min(best + 1, len(coarse) - 1)])
    found = float(minimize_scalar(epsilon, bounds=around, method="bounded", options={"xatol": 1e-6}).x)
    price = min((epsilon(x), x) for x in (found, float(_LOG_ORDERS[best])))
    return price[0], 1 + math.exp(price[1])


def _second_order(runs: RunCount, mu: float) -> float:
    """The order that makes the constant of the negative binomial least for a Gaussian candidate."""
    return max(1.0, math.sqrt(-2 * runs.log_gamma) / mu)


def _negative_binomial_constant(runs: RunCount, mu: float) -> float:
    second = _second_order(runs, mu)
    return (1 + runs.shape) * ((second - 1) * mu**2 / 2 - runs.log_gamma / second)


def renyi_divergence(profile: GaussianProfile, order: float) -> float:
    r"""Upper bound on the Renyi divergence, in both directions, of what costs at most ``profile``.

    For a row of a profile with offset c and Gaussian losses l_v, and every real t,
    :math:`\mathbb E\,e^{(\alpha-1)L} \le e^{(\alpha-1)c}\bigl(e^{(\alpha-1)t} + \sum_v \mathbb E(e^{(\alpha-1)l_v} -
    e^{(\alpha-1)t})_+\bigr)`. One loss alone takes t to minus infinity and is exact; for several the best of some
    t is taken. Rows are averaged by their chances.
    """
    if not 1 < order < math.inf:
        raise InvalidInput(f"the order must be a finite number above 1; got {order!r}.")
    if not np.isfinite(profile.mu).all():
        return math.inf
    rest, mu = order - 1, profile.mu
    moments = order * rest * mu**2 / 2
    rows = moments[:, 0] if mu.shape[1] == 1 else _log_largest_moment(mu, moments, rest)
    with np.errstate(divide="ignore"):
        total = float(logsumexp(np.log(profile.probability) + rest * profile.offset + rows))
    return (total * (1 + _ROUNDING / 10) + 1e-13) / rest


def _log_largest_moment(mu: Vector, moments: Vector, rest: float) -> Vector:
    """For each row, the logarithm of the bound on the moment of its largest Gaussian loss, without the offset."""
    best = np.full(len(mu), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for share in np.linspace(0.0, 1.5, _THRESHOLDS):
            t = share * rest * mu.max(axis=1, keepdims=True) ** 2
            scale = np.maximum(moments.max(axis=1, keepdims=True), rest * t)
            base = np.exp(rest * t - scale)
            above, beyond = ndtr(mu / 2 - t / mu), ndtr(mu / 2 + rest * mu - t / mu)
            parts = np.where(mu > 0, np.exp(moments - scale) * beyond - base * above, 0.0)
            bound = np.log(base[:, 0] + parts.sum(axis=1)) + scale[:, 0]
            best = np.fmin(best, bound)
    return best
