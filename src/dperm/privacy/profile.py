"""What a mechanism made of Gaussian releases costs: delta as a function of epsilon."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, ndtr

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.search import smallest_safe

if TYPE_CHECKING:
    from dperm.privacy.budget import Budget

FloatArray = NDArray[np.float64]

# Every reported delta is this much (relative) above the computed one. It pays for what is left of the
# rounding errors and for the lattice of the sampler; docs/proofs/noise.md does the sums.
RELATIVE_MARGIN = 1e-9
_ROUNDING = 8 * float(np.finfo(np.float64).eps)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_2PI = math.log(2 * math.pi) / 2


@dataclass(frozen=True, eq=False)
class GaussianProfile:
    r"""Rows :math:`(q_j, c_j, \{\mu_{jv}\}_v)` with :math:`\delta(\varepsilon) \le \sum_j q_j \min(1, \sum_v
    \delta_{\mu_{jv}}(\varepsilon - c_j))`; a row costs q_j when epsilon < c_j.

    Here :math:`\delta_\mu(\varepsilon) = \Phi(-\varepsilon/\mu + \mu/2) - e^\varepsilon
    \Phi(-\varepsilon/\mu - \mu/2)` is the exact cost of one Gaussian release whose sensitivity is mu
    times its noise scale (Balle and Wang, 2018).

    Parameters
    ----------
    probability : array of shape (J,)
        Chance of each hidden branch; sums to 1 within 1e-9.
    offset : array of shape (J,)
        Part of the privacy loss that does not depend on the noise, at least 0.
    mu : array of shape (J, V)
        Sensitivity over noise scale for each of the V Gaussian losses whose maximum bounds the loss of
        the branch. A zero is a vertex that costs nothing until a further release is composed; it is
        not padding. Infinity means no noise.

    Guarantee
    ---------
    ``log_delta``, ``delta`` and ``epsilon`` are upper bounds, floating-point error included.
    See docs/proofs/accounting.md.
    """

    probability: FloatArray
    offset: FloatArray
    mu: FloatArray

    def __post_init__(self) -> None:
        probability, offset, mu = (
            np.array(value, dtype=np.float64) for value in (self.probability, self.offset, self.mu)
        )
        if probability.ndim != 1 or offset.shape != probability.shape or mu.ndim != 2:
            raise InvalidInput(
                "A profile needs probability and offset of shape (J,) and mu of shape (J, V); got "
                f"{probability.shape}, {offset.shape} and {mu.shape}."
            )
        if mu.shape[0] != probability.size or mu.size == 0:
            raise InvalidInput(
                f"mu must have {probability.size} rows and at least one column; got {mu.shape}."
            )
        whole = probability.sum()
        if not (probability.min() >= 0 and abs(whole - 1) <= 1e-9):
            raise InvalidInput(f"probability must be at least 0 and sum to 1; it sums to {whole:.12g}.")
        if not (offset.min() >= 0 and np.isfinite(offset).all() and mu.min() >= 0):
            raise InvalidInput("offset must be finite, and offset and mu at least 0 and not NaN.")
        probability /= min(1.0, whole)  # never weigh less than the whole
        for name, value in (("probability", probability), ("offset", offset), ("mu", mu)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    def __init_subclass__(cls) -> None:
        if "log_delta" in vars(cls):
            raise TypeError(
                f"{cls.__name__} must override log_deltas, which log_delta and deltas are taken from."
            )

    @classmethod
    def gaussian(cls, mu: float) -> "GaussianProfile":
        """One Gaussian release, or any composition of them with root-sum-square ``mu``."""
        return cls(np.ones(1), np.zeros(1), np.full((1, 1), mu))

    @classmethod
    def mixture(cls, probability: ArrayLike, mu: ArrayLike) -> "GaussianProfile":
        """A hidden random branch j, then a Gaussian release with parameter ``mu[j]``."""
        probability, mu = np.asarray(probability, np.float64), np.asarray(mu, np.float64)
        if probability.ndim != 1 or mu.shape != probability.shape:
            raise InvalidInput(
                f"A mixture needs one mu per branch; got shapes {probability.shape} and {mu.shape}."
            )
        return cls(probability, np.zeros(probability.size), mu[:, None])

    def compose_gaussian(self, mu: float) -> "GaussianProfile":
        """The profile after one more Gaussian release, before or after, adaptive or not.

        Every vertex becomes the root of the sum of squares, zero vertices included.
        """
        return self if mu == 0 else GaussianProfile(self.probability, self.offset, compose_mu(self.mu, mu))

    def log_delta(self, epsilon: float) -> float:
        """Natural logarithm of ``delta(epsilon)``; exact where delta itself would underflow."""
        epsilon = float(epsilon)
        if not 0 <= epsilon < math.inf:
            raise InvalidInput(f"epsilon must be a finite number of at least 0; got {epsilon!r}.")
        known: dict[float, float] = self.__dict__.setdefault("_known", {})
        if epsilon not in known:
            known[epsilon] = float(self.log_deltas(np.array([epsilon]))[0])
        return known[epsilon]

    def log_deltas(self, epsilons: FloatArray) -> FloatArray:
        """The same for a vector of finite epsilons of at least 0."""
        # The difference is rounded down; it is exact when it is zero or when the offset is.
        left = epsilons[:, None] - self.offset
        if self.offset.any():
            left = np.where((self.offset > 0) & (left > 0), np.nextafter(left, 0), left)
        rows = _log_sum(log_gaussian_delta(np.maximum(left, 0.0)[:, :, None], self.mu), axis=2)
        rows = np.where(left < 0, 0.0, np.minimum(rows, 0.0))
        with np.errstate(divide="ignore"):
            total = _log_sum(np.log(self.probability) + rows, axis=1)
        return np.asarray(np.minimum(0.0, total + RELATIVE_MARGIN))

    def delta(self, epsilon: float) -> float:
        """Smallest delta we can prove at ``epsilon``."""
        return _exp_up(self.log_delta(epsilon))

    def deltas(self, epsilons: FloatArray) -> FloatArray:
        """The same for a vector of finite epsilons of at least 0."""
        return np.array([_exp_up(log_delta) for log_delta in self.log_deltas(epsilons).tolist()])

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon we can prove at ``delta`` (to a relative 1e-10, rounded up); may be infinite."""
        if not 0 < delta < 1:
            raise InvalidInput(f"delta must lie strictly between 0 and 1; got {delta!r}.")
        # A breath below the target, so that delta(epsilon(delta)) <= delta survives the exponential.
        target = math.log(delta) - 1e-12
        if self.log_delta(0.0) <= target:
            return 0.0
        try:
            return smallest_safe(lambda epsilon: self.log_delta(epsilon) - target, start=1.0)
        except NotCertified:
            return math.inf


def compose_mu(vertices: FloatArray, mu: float) -> FloatArray:
    """The parameters of all vertices after one more Gaussian release, rounded up."""
    if not mu >= 0:
        raise InvalidInput(f"mu must be at least 0; got {mu!r}.")
    # hypot is off by less than one step between floats, so the next float is an upper bound.
    return vertices if mu == 0 else np.nextafter(np.hypot(vertices, mu), np.inf)


def log_gaussian_delta(epsilon: FloatArray, mu: FloatArray) -> FloatArray:
    r"""Upper bound on log delta_mu(epsilon), for epsilon >= 0.

    With t = epsilon/mu - mu/2, u = epsilon/mu + mu/2 and M the Mills ratio, exp(epsilon) phi(u) = phi(t),
    so delta = phi(t) (M(t) - M(u)). M is computed to full relative precision by erfcx, which loses far
    less to cancellation than logarithms of the two normal tails. The slack added to the difference bounds
    the error of M and, since |M'(t)| <= 1/(1 + t**2), that of t.
    """
    with np.errstate(all="ignore"):
        ratio, half = epsilon / mu, mu / 2
        t, u = ratio - half, ratio + half
        square = t * t
        mills_t, mills_u = _mills(t), _mills(u)
        gap = mills_t - mills_u + _ROUNDING * (mills_t + mills_u + 2 * u / (1 + square))
        log_delta = np.log(gap) - square / 2 - _LOG_SQRT_2PI + _ROUNDING * t * u
        if not np.minimum.reduce(t, axis=None) >= 0:
            early = t < 0  # M(t) may overflow here, so the two tails are subtracted as they are
            sooner = t[early]
            later = mills_u[early] * np.exp(-sooner * sooner / 2 - _LOG_SQRT_2PI)
            log_delta[early] = np.log(ndtr(-sooner) - later + _ROUNDING * (1 + u[early]))
    in_range = np.minimum.reduce(log_delta, axis=None) > -1e298  # False for nan too
    if not in_range:
        np.copyto(log_delta, 0.0, where=np.isinf(mu))
        np.copyto(log_delta, -1e299, where=t > 1e150)  # a weak bound, but still one
        np.copyto(log_delta, -np.inf, where=mu == 0)
    return np.minimum(log_delta, 0.0)


def _exp_up(log_delta: float) -> float:
    """The exponential, above 0 unless delta is 0."""
    return 0.0 if log_delta == -math.inf else max(math.exp(log_delta), math.nextafter(0.0, 1.0))


def _mills(x: FloatArray) -> FloatArray:
    """The normal tail over the normal density."""
    return np.asarray(_SQRT_HALF_PI * erfcx(_SQRT_HALF * x))


def _log_sum(logarithms: NDArray[Any], axis: int) -> NDArray[Any]:
    """log of the sum of exponentials along ``axis``."""
    if logarithms.shape[axis] == 1:
        return np.asarray(logarithms.take(0, axis))
    top = logarithms.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logarithms - top).sum(axis=axis)) + top.squeeze(axis))


def calibrate(profile_of_scale: Callable[[float], GaussianProfile], budget: "Budget", start: float) -> float:
    """Smallest noise scale, to a relative 1e-10, whose profile meets the budget.

    Parameters
    ----------
    profile_of_scale : callable
        The profile of the mechanism at a given noise scale. Where it rises with the scale, the answer may not be
        the smallest.
    budget : Budget
        The target, inside the range of ``Budget.check_gaussian``.
    start : float
        Where to look first, for example the largest sensitivity over ``gaussian_mu(budget)``.

    Guarantee
    ---------
    ``profile_of_scale(scale).delta(budget.epsilon) <= budget.delta`` at the returned scale.

    Raises
    ------
    InvalidInput
        If the budget is outside the certified range or ``start`` is not a positive number.
    NotCertified
        If no noise scale meets the budget, or every one does.
    """
    budget.check_gaussian()
    if not 0 < start < math.inf:
        raise InvalidInput(f"start must be a positive number; got {start!r}.")
    # A breath below the target, so that the guarantee on delta survives the exponential.
    target = math.log(budget.delta) - 1e-12
    scale = smallest_safe(lambda s: profile_of_scale(s).log_delta(budget.epsilon) - target, start)
    reached = profile_of_scale(scale).delta(budget.epsilon)
    if not reached <= budget.delta:
        raise NotCertified(
            f"The calibrated noise gives delta = {reached:g} at epsilon = {budget.epsilon:g}, above the "
            f"{budget.delta:g} asked for. The profile must depend on the noise scale alone."
        )
    return scale


@lru_cache(maxsize=256)
def gaussian_mu(budget: "Budget") -> float:
    """Largest mu, to a relative 1e-10, of which one Gaussian release meets the budget.

    A release with sensitivity s then needs noise scale s / mu; several releases may share mu as long as
    the squares of their parts sum to its square.
    """
    start = math.sqrt(2 * math.log(1.25 / max(budget.delta, 1e-300))) / budget.epsilon
    return 1 / calibrate(lambda scale: GaussianProfile.gaussian(1 / scale), budget, start)
