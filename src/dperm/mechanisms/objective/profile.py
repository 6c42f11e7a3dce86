r"""What objective perturbation costs, from public constants alone.

The mechanism draws :math:`b \sim N(0, \sigma^2 I)` once and minimises

.. math:: \sum_i \phi(\langle z_i, w\rangle, y_i) + \frac\Lambda2 \lVert w\rVert^2 + \langle b, w\rangle,
          \qquad \Lambda = n\lambda .

Scales, strengths and gradients here belong to this sum, not to the mean. Every statement is proved in
docs/proofs/objective.md.

Where curvature and slope are coupled (section 6 there), the curvature vanishes where the gradient reaches a vertex, so
that the log-determinant and the largest Gaussian loss do not meet: ``CoupledProfile``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy.special import erfcx, log_ndtr

from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.losses import Softmax
from dperm.planning.rules import check_positive
from dperm.privacy import Budget, GaussianProfile, calibrate, gaussian_mu, grid_exponent
from dperm.privacy.noise import ROUNDING_ALLOWANCE
from dperm.privacy.profile import RELATIVE_MARGIN, compose_mu, log_gaussian_delta
from dperm.problem import Problem
from dperm.typing import Floats
from dperm.unit import Neighbours

# The noise vector is longer than sqrt(p) + this many standard deviations with a chance that the profile's
# margin on delta pays for.
NOISE_REACH = 16.0
# Pays for rounding errors of the constants, and for noise on a grid instead of the real line.
UP = 1 + ROUNDING_ALLOWANCE
_CANDIDATES, _LOOKS = 17, 4
_LADDER = np.arange(_CANDIDATES)
_BELOW, _ABOVE = np.maximum(_LADDER - 1, 0), np.minimum(_LADDER + 1, _CANDIDATES - 1)
_SHARES = _LADDER / (_CANDIDATES - 1)
_ROUNDING = 1e-14
_LARGE = 20.0  # beyond it a bound by a continued fraction is as good as the difference


def strength(problem: Problem) -> float:
    r""":math:`\Lambda = n\lambda`, the strong convexity of the sum."""
    return check_strength(problem.n_rows * problem.l2)


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
        return rank * math.log1p(hessian_trace(problem) / (rank * strength(problem))) * UP
    if K is not None:
        moved = problem.loss.heaviest * problem.row_norm**2
        return (K - 1) * math.log1p(moved / (K * strength(problem))) * UP
    check_one_margin(problem)
    return math.log1p(curvature_bound(problem) / strength(problem)) * UP


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
    check_one_margin(problem)
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
    return vertices_with_offset(problem, scale, log_determinant_bound(problem))


def objective_profile(problem: Problem, scale: float, *others: float) -> GaussianProfile:
    """The best profile that is proved for this loss, unit and relation; same guarantee as ``vertex_profile``.

    ``others`` are the parameters of Gaussian releases composed with it, as by ``compose_gaussian``: made after the
    minimiser, or before it, in which case the rows of the minimisation may depend on them.
    """
    found: GaussianProfile = _remembered(profiles_by_scale, problem)(problem, *others)(scale)
    return found


@lru_cache(maxsize=16)
def profiles_by_scale(problem: Problem, *others: float) -> Callable[[float], GaussianProfile]:
    """``objective_profile`` as a function of the noise scale; what the noise does not change is computed once."""
    offset, vertices = log_determinant_bound(problem), np.array([gradient_vertices(problem)])
    gradient_bound, coupling = problem.gradient_bound, problem.loss.coupling
    kind = PersonsProfile if problem.many_rows else CoupledProfile
    theta = None if coupling is None else coupling * problem.row_norm**2 / strength(problem) * UP
    composed = 0.0
    for other in others:
        composed = hypot_up(composed, other)

    @lru_cache(maxsize=4)
    def profile(scale: float) -> GaussianProfile:
        check_positive("scale", scale)
        mu = vertices * (gradient_bound / scale * UP)
        for other in others:
            mu = compose_mu(mu, other)
        rows = (np.ones(1), np.array([offset]), mu)
        if theta is None:
            return kind(*rows, (), 0.0, composed) if problem.many_rows else GaussianProfile(*rows)
        return kind(*rows, *_segments(problem, gradient_bound / scale * UP, theta), composed)

    return profile


def _segments(problem: Problem, mu: float, theta: float) -> tuple[tuple[Segment, ...], float]:
    """The segments of a loss with a coupling, and how far the loss may rise above their chords."""
    least = (mu / UP) ** 2 / UP
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
    return float(_remembered(_calibrated, problem)(problem, budget, *others))


def _remembered(function: Any, problem: Problem) -> Any:
    """The function with its cache, or without it for a loss from elsewhere that has no hash."""
    try:
        hash(problem)
    except TypeError:
        return function.__wrapped__
    return function


@lru_cache(maxsize=256)
def _calibrated(problem: Problem, budget: Budget, *others: float) -> float:
    profile = _remembered(profiles_by_scale, problem)(problem, *others)
    start = problem.gradient_gap / gaussian_mu(budget)
    # What the vertices alone prove is quick and nearly always enough.
    vertices = vertex_profile(problem, 1e9 * start).compose_gaussian(math.hypot(*others) * UP)
    quick = not problem.many_rows and vertices.delta(budget.epsilon) <= budget.delta
    if not quick and profile(1e9 * start).delta(budget.epsilon) > budget.delta:
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
    return 2 * (residual + rounding) / strength(problem) * UP


def vertices_with_offset(problem: Problem, scale: float, offset: float) -> GaussianProfile:
    check_positive("scale", scale)
    mu = np.array([gradient_vertices(problem)]) * (problem.gradient_bound / scale * UP)
    return GaussianProfile(np.ones(1), np.array([offset]), mu)


def check_strength(strength: float) -> float:
    if not strength > 0:
        raise NotCertified("Objective perturbation needs a strongly convex objective: set l2 above 0.")
    return strength


def check_one_margin(problem: Problem) -> None:
    if problem.loss.outputs != 1:
        raise Unsupported(
            f"This bound is proved for losses of one margin; got {problem.loss.name!r}. For softmax use "
            "objective_profile or calibrate_objective."
        )


def check_delta(budget: Budget) -> None:
    if budget.delta == 0:
        raise InvalidInput("Gaussian noise needs delta > 0; got delta = 0. Choose a small delta.")


@dataclass(frozen=True, kw_only=True)
class Segment:
    """What the gradient difference runs along while the slope of the row runs through its range, or several alike.

    Gaussian parameters are those of the minimiser alone. Unless the loss of parameter ``start`` exceeds epsilon, less
    ``shift`` and what the gap of ``CoupledProfile`` takes, the ``ends`` are the only vertices that count. ``both_ends``
    says that the segment runs from one of them to another; otherwise from ``start`` to the one end.
    """

    start: float
    ends: tuple[float, ...]
    shift: float = 0.0
    count: int = 1
    both_ends: bool = False

    def scaled(self, factor: float) -> Segment:
        """The same with the noise divided by ``factor``."""
        ends = tuple(factor * end for end in self.ends)
        return replace(self, start=factor * self.start, ends=ends, shift=factor**2 * self.shift)


@dataclass(frozen=True, eq=False)
class CoupledProfile(GaussianProfile):
    r"""The vertex profile of a loss with a ``coupling``, or a second bound where that is smaller.

    Parameters
    ----------
    segments : tuple of Segment
        One for each vertex of the other row.
    bulge : float
        How far the loss may rise above the chord of a segment: :math:`(\theta - s^2/2)_+`, or
        :math:`(4\theta - 2s^2)_+` for a two-sided loss.
    composed : float
        Gaussian parameter of all other releases, before the minimiser or after it.
    """

    segments: tuple[Segment, ...]
    bulge: float
    composed: float

    @property
    def tail_weight(self) -> float:
        """What the chance that the start counts is multiplied by."""
        return 1.0

    def compose_gaussian(self, mu: float) -> Self:
        rows = super().compose_gaussian(mu)
        return replace(self, mu=rows.mu, composed=hypot_up(self.composed, mu))

    def scaled(self, factor: float) -> Self:
        """The same with all noise divided by ``factor``; what noise does not change is left as it is."""
        segments = tuple(segment.scaled(factor) for segment in self.segments)
        return replace(self, mu=self.mu * factor, segments=segments, composed=self.composed * factor)

    def log_deltas(self, epsilons: Floats) -> Floats:
        together = np.logaddexp.reduce(self._by_segments(epsilons), axis=0) + RELATIVE_MARGIN
        return np.asarray(np.minimum(super().log_deltas(epsilons), together))

    def _by_segments(self, epsilons: Floats) -> Floats:
        """A bound for each segment and epsilon, all segments side by side.

        Every gap from 0 to what is left of epsilon gives a bound; the best of ever finer grids.
        """
        joined = _Joined.of(self.segments, self.composed, epsilons, self.tail_weight)
        left = joined.left[..., 0]
        largest = np.minimum(self.bulge, np.maximum(left, 0.0))
        low, high = np.zeros_like(left), np.sqrt(largest)
        found, most = np.full_like(left, math.inf), largest[..., None]
        first = _CANDIDATES * np.arange(left.size).reshape(left.shape)
        for _ in range(_LOOKS if high.any() else 1):
            roots = _SHARES * (high - low)[..., None] + low[..., None]
            roots[..., -1] = high
            bounds = self._with_gaps(joined, np.minimum(roots * roots, most))
            best = bounds.argmin(axis=2)
            found = np.minimum(found, np.minimum.reduce(bounds, axis=2))
            low, high = roots.take(first + _BELOW[best]), roots.take(first + _ABOVE[best])
        return np.where(left < 0, 0.0, found)

    def _with_gaps(self, joined: _Joined, gaps: Floats) -> Floats:
        """The start exceeds epsilon less the gap, or the ends are the only vertices that count, at this offset."""
        left = self._left(joined.epsilons, gaps)
        # Where nothing is left the bound is 1, whatever is computed for the absolute value.
        at_ends = _log_sum(log_gaussian_delta(np.abs(left), joined.ends))
        return joined.with_tails(np.where(left < 0.0, 0.0, at_ends), gaps)

    def _left(self, epsilons: Floats, gaps: Floats) -> Floats:
        """What each gap leaves of epsilon."""
        apart = math.sqrt(self.bulge) - np.sqrt(gaps)
        offset = apart * apart + 1e-14 * self.bulge
        return np.where(gaps < self.bulge, np.nextafter(epsilons - offset, -math.inf), epsilons)


@dataclass(frozen=True, eq=False)
class PersonsProfile(CoupledProfile):
    r"""The price where one person may have many rows (docs/proofs/persons.md, section 4); there may be no segment.

    The gradient of a person is a mean of rows' gradients, so it lies on no segment that is known beforehand. The
    privacy loss is at most a mean of the losses of pairs of rows, and so is its excess over epsilon, which is convex:
    :math:`\delta(\varepsilon) \le \mathbb E(L - \varepsilon)_+`. Mean excesses take the place of the cost of Gaussian
    releases.
    """

    @property
    def tail_weight(self) -> float:
        return self.bulge / 4 or 1.0

    def log_deltas(self, epsilons: Floats) -> Floats:
        left = np.nextafter(epsilons - self.offset[0], -math.inf) if self.offset[0] > 0 else epsilons
        excess = np.logaddexp.reduce(log_mean_excess(np.maximum(left, 0.0)[:, None], self.mu[0]), axis=1)
        found = np.where(left < 0, 0.0, excess)
        if self.segments:
            found = np.minimum(found, np.logaddexp.reduce(self._by_segments(epsilons), axis=0))
        return np.minimum(0.0, found + RELATIVE_MARGIN)

    def _with_gaps(self, joined: _Joined, gaps: Floats) -> Floats:
        """As for rows; where the start is far out, the loss is above the larger end by a quarter of the bulge at most.

        On a segment of a loss that falls towards one end that may be the start itself, which then counts too.
        """
        left = self._left(joined.epsilons, gaps)
        at_ends = _log_sum(log_mean_excess(np.maximum(left, 0.0), joined.ends))
        bounds = np.where(left < 0, 0.0, at_ends)
        if self.bulge > 0:
            bounds = joined.with_tails(bounds, gaps)
        if not self.segments[0].both_ends:
            bounds = np.logaddexp(bounds, log_mean_excess(joined.epsilons, joined.start))
        return bounds


@dataclass(frozen=True, eq=False, kw_only=True)
class _Joined:
    """Segments with all other releases composed: every field has axes for segments, epsilons and candidates.

    ``ends`` and ``tails`` have one more before them. ``tails`` are the parameters whose Gaussian loss must exceed what
    is ``left`` of epsilon beside the shift, less the gap, for the start to count; ``means`` are the losses' means over
    the tails, minus infinity where there is no tail. ``log_counts`` are how many segments are alike, times a weight.
    """

    epsilons: Floats
    left: Floats
    start: Floats
    ends: Floats
    tails: Floats
    means: Floats
    log_counts: Floats

    @classmethod
    def of(cls, segments: Sequence[Segment], composed: float, epsilons: Floats, weight: float) -> Self:
        ones = np.ones((len(segments), epsilons.size, _CANDIDATES))

        def spread(values: Sequence[float]) -> Floats:
            return np.asarray(ones * np.array(values)[:, None, None])

        start = spread([hypot_up(segment.start, composed) for segment in segments])
        beside = spread([composed if segment.start > 0 else 0.0 for segment in segments])
        each = zip(*(segment.ends for segment in segments), strict=True)
        tails = np.array([start, beside] if beside.any() else [start])
        epsilons = ones * epsilons[:, None]
        return cls(
            epsilons=epsilons,
            left=epsilons - spread([segment.shift for segment in segments]),
            start=start,
            ends=np.array([spread([hypot_up(end, composed) for end in ends]) for ends in each]),
            tails=np.where(tails > 0, tails, 1.0),
            means=np.where(tails > 0, tails / 2, -math.inf),
            log_counts=spread([math.log(segment.count * weight) for segment in segments]),
        )

    def with_tails(self, bounds: Floats, gaps: Floats) -> Floats:
        """Logarithms of the bounds plus the chances that the losses of the tails exceed what the gaps leave."""
        left = self.left - gaps
        for tail, mean in zip(self.tails, self.means, strict=True):
            bounds = np.logaddexp(bounds, log_ndtr(mean - left / tail) + self.log_counts)
        return bounds


def _log_sum(logarithms: Floats) -> Floats:
    return np.asarray(logarithms[0] if len(logarithms) == 1 else np.logaddexp.reduce(logarithms))


def hypot_up(a: float, b: float) -> float:
    """Root of the sum of squares, rounded up."""
    return math.nextafter(math.hypot(a, b), math.inf) if a and b else a or b


def log_mean_excess(t: Floats, mu: Floats) -> Floats:
    r"""Upper bound on the logarithm of :math:`\mathbb E(\ell - t)_+` for :math:`\ell \sim N(\mu^2/2, \mu^2)`, t >= 0.

    With :math:`\tau = t/\mu - \mu/2` and the Mills ratio M it is :math:`\mu\varphi(\tau)(1 - \tau M(\tau))`, and the
    bracket is at most :math:`(\tau^2 + 3)/(\tau^4 + 6\tau^2 + 3)` for :math:`\tau > 0`.
    """
    with np.errstate(all="ignore"):
        tau = np.asarray(t / mu - mu / 2)
        square = tau * tau
        mills = math.sqrt(math.pi / 2) * erfcx(math.sqrt(0.5) * np.clip(tau, -30.0, _LARGE))
        near = 1 - np.clip(tau, -30.0, _LARGE) * mills + _ROUNDING * (1 + np.abs(tau) * mills)
        far = (square + 3) / (square * square + 6 * square + 3) * (1 + _ROUNDING)
        logs = np.log(mu * np.where(tau > _LARGE, far, near)) - square / 2 - math.log(2 * math.pi) / 2
        logs = np.where(tau < -30.0, np.log(mu * (1 - tau)), logs)
        logs += _ROUNDING * np.abs(logs)
    logs = np.where(np.isnan(logs), -1e299, logs)
    return np.asarray(np.where(mu == 0, -math.inf, np.where(np.isinf(mu), math.inf, logs)))
