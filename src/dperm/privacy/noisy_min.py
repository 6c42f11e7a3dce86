"""Choose the candidate with about the lowest score: the exponential mechanism."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.discrete_gaussian import by_opendp, bytes_below
from dperm.privacy.entropy import Entropy, Words, seeded
from dperm.privacy.grid import exact_steps, steps_up
from dperm.privacy.noise import ROUNDING_ALLOWANCE

FloatArray = NDArray[np.float64]
Integers = NDArray[np.int64]

_MOST_WHOLE = 2**61  # scales: to choose a candidate that far above the lowest would take as many random bytes
FIRST_WORDS, MOST_WORDS = 64, 2**13


@dataclass(frozen=True, kw_only=True)
class NoisyMin:
    """A private choice among candidates whose scores each move by at most ``sensitivity``.

    Parameters
    ----------
    sensitivity : float
        Largest change of any one score between neighbours, rounding of the scores included.
    epsilon : float
        Bounded-range parameter: the log-likelihood ratios of the choice fit in an interval of this length.
    one_sided : bool
        Whether between neighbours all scores move up or all move down, as sums of non-negative losses do
        when a row is added or removed. Halves the noise.

    Guarantee
    ---------
    The choice is ``epsilon``-bounded-range, hence epsilon-DP and ``rho``-zCDP with rho = epsilon**2 / 8
    (Cesar and Rogers, 2021; docs/proofs/dp-agd.md).
    """

    sensitivity: float
    epsilon: float
    one_sided: bool = False

    def __post_init__(self) -> None:
        for name in ("sensitivity", "epsilon"):
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidInput(f"{name} must be a positive number; got {getattr(self, name)!r}.")

    @property
    def scale(self) -> float:
        """Of the Gumbel noise: candidates are chosen in proportion to exp(-score / scale)."""
        moved = self.sensitivity * (1 + ROUNDING_ALLOWANCE) * (1 if self.one_sided else 2)
        return math.nextafter(moved / self.epsilon, math.inf)

    @property
    def grid_exponent(self) -> int:
        """Scores are rounded to multiples of 2**grid_exponent, at most 2**-32 of the sensitivity."""
        return math.frexp(self.sensitivity)[1] - 33

    @property
    def steps(self) -> int:
        """The scale in steps of the grid, rounded up."""
        return steps_up(self.scale, self.grid_exponent)

    @property
    def rho(self) -> float:
        return math.nextafter(self.epsilon * self.epsilon / 8, math.inf)


def noisy_min(scores: FloatArray, choice: NoisyMin, entropy: Entropy) -> int:
    """Index of the chosen candidate.

    Guarantee
    ---------
    With a secure source the law is exact: scores are rounded to a fine grid and the choice is made by whole numbers
    and random bytes of the source; no floating-point noise is drawn. A seeded source uses numpy and promises nothing.

    Raises
    ------
    NotCertified
        If a score is not finite.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0:
        raise InvalidInput(f"scores must be a vector of at least one number; got shape {scores.shape}.")
    if not np.isfinite(scores).all():
        raise NotCertified("A score is not finite, so its sensitivity is unknown; nothing is chosen.")
    if entropy.secure:
        return lowest(scores, choice, entropy)
    return int(np.argmin(scores - seeded(entropy).gumbel(scale=choice.scale, size=scores.size)))


def lowest(scores: FloatArray, choice: NoisyMin, entropy: Entropy) -> int:
    """A candidate in proportion to exp(-score / scale), by rejection; exact for scores on the grid."""
    scale = choice.steps
    if by_opendp(scale):
        from dperm.privacy.opendp_noise import opendp_chooser

        return int(opendp_chooser(choice)(scores.tolist()))
    from dperm.privacy._integer_kernels import one_choice

    wholes, parts = _above_lowest(scores, choice.grid_exponent, scale)
    width, mask = bytes_below(len(scores))
    unread, place, wanted = np.empty(0, np.uint8), -1, FIRST_WORDS
    while place < 0:
        digits = np.concatenate([unread, entropy.words(wanted).view(np.uint8)])
        place, at = one_choice(digits, 0, wholes, parts, np.uint64(scale), width, np.uint64(mask))
        unread, wanted = digits[at:], min(2 * wanted, MOST_WORDS)
    return int(place)


def _above_lowest(scores: FloatArray, exponent: int, scale: int) -> tuple[Integers, Words]:
    """How far each score lies above the lowest: in whole scales, and the steps of the grid that remain."""
    with np.errstate(over="ignore"):
        steps = np.rint(np.ldexp(scores, -exponent))
    if (np.abs(steps) < _MOST_WHOLE).all():
        whole_steps = steps.astype(np.int64)
        wholes, parts = np.divmod(whole_steps - whole_steps.min(), scale)
        return wholes, parts.astype(np.uint64)
    exact = [exact_steps(float(score), exponent) for score in scores]
    above = [divmod(step - min(exact), scale) for step in exact]
    return np.array([min(whole, _MOST_WHOLE) for whole, _ in above], np.int64), np.array(
        [part for _, part in above], np.uint64
    )
