r"""What objective perturbation costs, from public constants alone.

The mechanism draws :math:`b \sim N(0, \sigma^2 I)` once and minimises

.. math:: \sum_i \phi(\langle z_i, w\rangle, y_i) + \frac\Lambda2 \lVert w\rVert^2 + \langle b, w\rangle,
          \qquad \Lambda = n\lambda .

Scales, strengths and gradients here belong to this sum, not to the mean. Every statement is proved in
docs/proofs/objective.md, objective-kst.md, amp.md and objective-pure.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.losses import Softmax
from dperm.mechanisms.objective.coupled import CoupledProfile, PersonsProfile, Segment, hypot_up
from dperm.neighbours import Neighbours
from dperm.planning.rules import check_positive
from dperm.privacy import Budget, GaussianProfile, calibrate, gaussian_mu, grid_exponent
from dperm.privacy.noise import ROUNDING_ALLOWANCE
from dperm.privacy.profile import compose_mu
from dperm.privacy.search import smallest_safe
from dperm.problem import Problem

# The noise vector is longer than sqrt(p) + this many standard deviations with a chance that the profile's
# margin on delta pays for.
NOISE_REACH = 16.0
# Pays for rounding errors of the constants, and for noise on a grid instead of the real line.
_UP = 1 + ROUNDING_ALLOWANCE


def strength(problem: Problem) -> float:
    r""":math:`\Lambda = n\lambda`, the strong convexity of the sum."""
    return _check_strength(problem.n_rows * problem.l2)


def curvature_bound(problem: Problem) -> float:
    r""":math:`\beta`, the smoothness of one row's loss."""
    return problem.loss.smoothness * problem.row_norm**2


def hessian_trace(problem: Problem) -> float:
    """Bound on the trace of one row's Hessian; over the strength it bounds the log-determinant."""
    K = _softmax_classes(problem)
    if K is not None:
        return problem.loss.heaviest * problem.row_norm**2 * (1 - 1 / K)
    return curvature_bound(problem)


def log_determinant_bound(problem: Problem) -> float:
    r"""How much one row can add to the log-determinant of the Hessian, or all rows of one person.

    :math:`\ln(1 + \beta/\Lambda)` for a loss of one margin and :math:`(K-1)\ln(1 + W r^2/(K\Lambda))` for
    softmax over K classes with weights up to W. It is enough for both relations and in both directions. The Hessian of
    a person has the same trace T at most, over a rank d that may be as large as the rows or columns allow:
    :math:`d\ln(1 + T/(d\Lambda))`.
    """
    K = _softmax_classes(problem)
    if problem.many_rows:
        rank = min(problem.n_columns, int(problem.rows_of(1))) * (1 if K is None else K - 1)
        return rank * math.log1p(hessian_trace(problem) / (rank * strength(problem))) * _UP
    if K is not None:
        moved = problem.loss.heaviest * problem.row_norm**2
        return (K - 1) * math.log1p(moved / (K * strength(problem))) * _UP
    _check_one_margin(problem)
    return math.log1p(curvature_bound(problem) / strength(problem)) * _UP


def gradient_vertices(problem: Problem) -> list[float]:
    """Bounds, as multiples of R, on the norms of the vertices that span the gradient difference.

    Sorted; the norms of any pair of neighbours are, one by one, at most these.
    """
    replace = problem.neighbours is Neighbours.REPLACE_ONE
    K = _softmax_classes(problem)
    if K is not None:
        others = K - 1
        if replace:
            apart = [math.sqrt(3)] * (others * (others - 1)) + [2.0] * others
            return [0.0] + [1.0] * (2 * others) + apart
        return [0.0] + [1.0] * others
    _check_one_margin(problem)
    if problem.loss.sign_definite:
        return [0.0, 1.0, 1.0, 2.0] if replace else [0.0, 1.0]
    return [math.sqrt(2), math.sqrt(2), 2.0, 2.0] if replace else [1.0, 1.0]


def _softmax_classes(problem: Problem) -> int | None:
    """K for softmax over K classes, with weights or without; None for any other loss."""
    loss = problem.loss.unweighted
    return loss.n_classes if type(loss) is Softmax else None


def vertex_profile(problem: Problem, scale: float) -> GaussianProfile:
    r"""The price of the exact minimiser: one Gaussian loss per vertex, plus the log-determinant.

    Guarantee
    ---------
    The minimiser of the perturbed sum, with noise of standard deviation ``scale`` on every coefficient,
    costs at most this profile under ``problem.neighbours``, in both directions, if a unit of privacy is one row; with
    ``compose_gaussian(mu)`` so does the pair of the minimiser and one Gaussian release made after it.
    Noise on the grid of ``GaussianNoise(problem.gradient_gap, scale, problem.dimension)`` is allowed for.

    Assumes
    -------
    All coefficients, the intercept too, are penalised and noised; b is drawn once.
    """
    return _vertices(problem, scale, log_determinant_bound(problem))


def objective_profile(problem: Problem, scale: float, *others: float) -> GaussianProfile:
    """The best profile that is proved for this loss, unit and relation; same guarantee as ``vertex_profile``.

    ``others`` are the parameters of Gaussian releases composed with it, as by ``compose_gaussian``: made after the
    minimiser, or before it, in which case the rows of the minimisation may depend on them.
    """
    return profiles_by_scale(problem, *others)(scale)


def profiles_by_scale(problem: Problem, *others: float) -> Callable[[float], GaussianProfile]:
    """``objective_profile`` as a function of the noise scale; what the noise does not change is computed once."""
    offset, vertices = log_determinant_bound(problem), np.array([gradient_vertices(problem)])
    gradient_bound, coupling = problem.gradient_bound, problem.loss.coupling
    kind = PersonsProfile if problem.many_rows else CoupledProfile
    theta = None if coupling is None else coupling * problem.row_norm**2 / strength(problem) * _UP
    composed = 0.0
    for other in others:
        composed = hypot_up(composed, other)

    def profile(scale: float) -> GaussianProfile:
        check_positive("scale", scale)
        mu = vertices * (gradient_bound / scale * _UP)
        for other in others:
            mu = compose_mu(mu, other)
        rows = (np.ones(1), np.array([offset]), mu)
        if theta is None:
            return kind(*rows, (), 0.0, composed) if problem.many_rows else GaussianProfile(*rows)
        return kind(*rows, *_segments(problem, gradient_bound / scale * _UP, theta), composed)

    return profile


def _segments(problem: Problem, mu: float, theta: float) -> tuple[tuple[Segment, ...], float]:
    """The segments of a loss with a coupling, and how far the loss may rise above their chords."""
    least = (mu / _UP) ** 2 / _UP
    replaced = problem.neighbours is Neighbours.REPLACE_ONE
    if problem.loss.sign_definite:
        segments = [Segment(start=j * mu, ends=((j + 1) * mu,)) for j in range(2 if replaced else 1)]
        return tuple(segments), max(0.0, theta - least / 2)
    ends = tuple(mu * vertex for vertex in gradient_vertices(problem))
    start, count = (mu, 2) if replaced else (0.0, 1)
    both = Segment(start=start, ends=ends, shift=mu**2 / 2, count=count, both_ends=True)
    return (both,), max(0.0, 4 * theta - 2 * least)


def calibrate_objective(problem: Problem, budget: Budget, *others: float) -> float:
    """Smallest noise scale of b, to a relative 1e-10, with which minimiser and other releases meet the budget.

    Parameters
    ----------
    problem : Problem
        With l2 > 0.
    budget : Budget
        The target for the whole mechanism.
    others : float
        Gaussian parameters of all other releases: that of the computed minimiser, whose sensitivity is
        ``output_sensitivity``, and those before the minimisation.

    Guarantee
    ---------
    ``objective_profile(problem, scale, *others)`` meets the budget at the returned scale.

    Raises
    ------
    NotCertified
        If no noise reaches the budget: l2 is too small or the others cost too much.
    """
    try:
        hash(problem)
    except TypeError:  # a loss from elsewhere may have no hash
        return _calibrated.__wrapped__(problem, budget, *others)
    return _calibrated(problem, budget, *others)


@lru_cache(maxsize=256)
def _calibrated(problem: Problem, budget: Budget, *others: float) -> float:
    profile = profiles_by_scale(problem, *others)
    start = problem.gradient_gap / gaussian_mu(budget)
    if profile(1e9 * start).delta(budget.epsilon) > budget.delta:
        raise NotCertified(
            f"No noise brings objective perturbation to epsilon = {budget.epsilon:g} and delta = "
            f"{budget.delta:g}: the Hessian alone may cost {log_determinant_bound(problem):.3g} and the "
            f"other releases use mu = {math.hypot(*others):.3g}. Raise l2 or epsilon, or spend less on the other "
            "releases."
        )
    return calibrate(profile, budget, start)


def output_sensitivity(problem: Problem, scale: float, residual: float) -> float:
    r"""How far two computed minimisers, D's and its neighbour's, can be apart for one exact minimiser.

    Each is within (residual + distance of its noise vector from the real-valued one) / :math:`\Lambda`.
    The noise vector lives on the grid of ``GaussianNoise(problem.gradient_gap, scale, problem.dimension)``
    and is rounded to doubles.

    Parameters
    ----------
    residual : float
        Bound on the norm of the gradient of the perturbed *sum* at the computed point, its own rounding
        error included.
    """
    if not 0 <= residual < math.inf:
        raise InvalidInput(f"residual must be a finite number of at least 0; got {residual!r}.")
    grid = math.ldexp(1.0, grid_exponent(problem.gradient_gap, problem.dimension))
    root = math.sqrt(problem.dimension)
    rounding = root * grid / 2 + (root + NOISE_REACH) * 2.0**-53 * scale
    return 2 * (residual + rounding) / strength(problem) * _UP


def published_profile_delta(problem: Problem, scale: float, epsilon: float) -> float:
    r"""Delta of Redberg, Koskela & Wang (2023), for comparison.

    They charge both ends of the gradient's segment and :math:`|\ln(1 - \beta/\Lambda)|`: for a sign-definite
    loss never less than ``vertex_profile`` once epsilon exceeds the offset.
    """
    _check_one_margin(problem)
    if problem.neighbours is not Neighbours.ADD_REMOVE:
        raise Unsupported("The bound of Redberg, Koskela & Wang is for the add-remove relation.")
    share = curvature_bound(problem) / strength(problem)
    if share >= 1:
        raise NotCertified(
            f"The bound of Redberg, Koskela & Wang needs n_rows * l2 above {curvature_bound(problem):g}."
        )
    mu = problem.gradient_bound / scale
    left = epsilon + math.log1p(-share)
    if left >= mu**2 / 2:
        return 2 * GaussianProfile.gaussian(mu).delta(left)
    return 1 - 2 * math.exp(left + float(log_ndtr(-mu)))


@dataclass(frozen=True)
class KstPlan:
    """Noise scale of b, and what must be added to the strength of the regulariser."""

    scale: float
    extra_strength: float


def kst_scale(problem: Problem, budget: Budget) -> KstPlan:
    r"""Noise of Kifer, Smith & Thakurta (2012), for comparison.

    :math:`\sigma^2 = g^2 (8\ln(2/\delta) + 4\varepsilon)/\varepsilon^2` with g the gradient gap, and a total
    strength of at least :math:`2\beta/\varepsilon`. They state add/remove; our proof covers replace-one too.
    """
    _check_one_margin(problem)
    _check_delta(budget)
    epsilon = budget.epsilon
    scale = problem.gradient_gap * math.sqrt(8 * math.log(2 / budget.delta) + 4 * epsilon) / epsilon
    current = problem.n_rows * problem.l2
    extra = max(0.0, 2 * curvature_bound(problem) / epsilon - current) * _UP
    _check_strength(current + extra)
    return KstPlan(scale * _UP, extra)


@dataclass(frozen=True, kw_only=True)
class AmpSplit:
    """How approximate minima perturbation divides a budget.

    The minimiser meets ``objective`` when the strength is at least ``strength`` and b has ``scale``:
    ``noise_epsilon`` of it pays for the noise, the rest for the Hessian. Noise on the computed minimiser of
    ``output_sensitivity(...) / output_mu`` meets ``output``.
    """

    objective: Budget
    noise_epsilon: float
    output: Budget
    strength: float
    scale: float
    output_mu: float


def amp_split(problem: Problem, budget: Budget, *, published: bool = False) -> AmpSplit:
    """The hyper-parameter-free split of Iyengar et al. (2019).

    ``published`` uses their formulas: they neglect that *two* computed minimisers are off, so that their
    output noise is half of what is needed, and (1 + sqrt(2 ln(1/delta))) / epsilon is no longer enough at
    large epsilon. Otherwise both noises come from exact profiles. The smoothness is the true one either way.
    """
    _check_one_margin(problem)
    _check_delta(budget)
    objective = Budget(0.99 * budget.epsilon, 0.99 * budget.delta)
    output = Budget(0.01 * budget.epsilon, 0.01 * budget.delta)
    fitted = min(0.88671 + 0.0186607 / budget.epsilon**0.372906, 0.99)
    noise_epsilon = objective.epsilon * max(fitted, 1 - 0.999 / objective.epsilon)
    if published:
        scale = problem.gradient_gap * _published_multiplier(Budget(noise_epsilon, objective.delta))
        output_mu = 2 / _published_multiplier(output)
    else:
        scale = _smallest_scale(
            lambda scale: _vertices(problem, scale, 0.0),
            Budget(noise_epsilon, objective.delta),
            start=problem.gradient_gap,
        )
        output_mu = 1 / _smallest_scale(lambda scale: GaussianProfile.gaussian(1 / scale), output, start=1.0)
    return AmpSplit(
        objective=objective,
        noise_epsilon=noise_epsilon,
        output=output,
        strength=2 * curvature_bound(problem) / (objective.epsilon - noise_epsilon) * _UP,
        scale=scale,
        output_mu=output_mu,
    )


@dataclass(frozen=True)
class PurePlan:
    """A noise vector of uniform direction whose norm is Gamma(``norm_shape``, ``norm_scale``).

    ``noise_epsilon`` is what the noise may cost; ``extra_strength`` is added to the regulariser.
    """

    noise_epsilon: float
    extra_strength: float
    norm_shape: int
    norm_scale: float


def pure_plan(problem: Problem, epsilon: float, *, published: bool = False) -> PurePlan:
    r"""Objective perturbation with delta = 0 (Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2).

    The paper charges the Hessian :math:`2\ln(1 + \beta/\Lambda)`; half of it is enough and is what is used
    unless ``published``. If the charge eats epsilon up, the regulariser is strengthened until it is
    epsilon / 2.

    Guarantee
    ---------
    The exact minimiser, with a real-valued noise vector, is epsilon-DP under ``problem.neighbours``. An
    approximate minimiser or a floating-point sampler is not covered.
    """
    _check_one_margin(problem)
    if not 0 < epsilon < math.inf:
        raise InvalidInput(f"epsilon must be a finite number above 0; got {epsilon!r}.")
    beta, charges = curvature_bound(problem), 2 if published else 1
    current = problem.n_rows * problem.l2
    charge = charges * math.log1p(beta / current) * _UP if current > 0 else math.inf
    extra = 0.0
    if charge >= epsilon:
        extra = max(0.0, beta / math.expm1(epsilon / (2 * charges)) * _UP - current)
        charge = epsilon / 2
    _check_strength(current + extra)
    noise_epsilon = epsilon - charge
    return PurePlan(noise_epsilon, extra, problem.dimension, problem.gradient_gap / noise_epsilon * _UP)


def _vertices(problem: Problem, scale: float, offset: float) -> GaussianProfile:
    check_positive("scale", scale)
    mu = np.array([gradient_vertices(problem)]) * (problem.gradient_bound / scale * _UP)
    return GaussianProfile(np.ones(1), np.array([offset]), mu)


def _published_multiplier(budget: Budget) -> float:
    return (1 + math.sqrt(-2 * math.log(budget.delta))) / budget.epsilon


def _smallest_scale(
    profile_of_scale: Callable[[float], GaussianProfile], budget: Budget, start: float
) -> float:
    """``calibrate`` for the small parts of a budget, which may lie below the range users are held to."""
    target = math.log(budget.delta) - 1e-12
    return smallest_safe(lambda scale: profile_of_scale(scale).log_delta(budget.epsilon) - target, start)


def _check_strength(strength: float) -> float:
    if not strength > 0:
        raise NotCertified("Objective perturbation needs a strongly convex objective: set l2 above 0.")
    return strength


def _check_one_margin(problem: Problem) -> None:
    if problem.loss.outputs != 1:
        raise Unsupported(
            f"This bound is proved for losses of one margin; got {problem.loss.name!r}. For softmax use "
            "objective_profile or calibrate_objective."
        )


def _check_delta(budget: Budget) -> None:
    if budget.delta == 0:
        raise InvalidInput("Gaussian noise needs delta > 0; got delta = 0. Choose a small delta.")
