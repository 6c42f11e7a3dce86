"""Choose the candidate with about the lowest score: the exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.entropy import Entropy, Words, seeded
from dperm.privacy.noise import ROUNDING_ALLOWANCE, bytes_below, check_steps, exact_steps, steps_up

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

    def padded(self, sensitivity: float) -> float:
        """With what rounding of the scores to the grid adds."""
        return sensitivity * (1 + ROUNDING_ALLOWANCE)

    def choose(self, scores: Any, entropy: Entropy) -> int:
        """Index of the chosen candidate, by an array of scores or by scores that are held."""
        return (
            scores.draw(self, entropy) if isinstance(scores, HeldScores) else noisy_min(scores, self, entropy)
        )

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
    check_steps(scale)
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


LARGEST_SCORE = 2**60
_DIGITS = 30  # of the first bounds on a chance, in decimals


class HeldScores:
    r"""Candidates j and n + j have the scores z_j and -z_j, in whole steps of a public ``unit``.

    Columns lie in blocks. A block keeps its largest |z| and a sum of rounded-up weights; both are computed anew only
    where a score has changed. A draw proposes a block and a candidate in it by these whole numbers and keeps the
    proposal with the chance that makes up for the rounding. A draw takes time in proportion to the number of blocks and
    to the width of one.

    Parameters
    ----------
    values : int64 array of n scores, filled up with zeros to whole blocks
        Kept, not copied. No entry may exceed 2**60 in size.
    changed : uint8 array, one for each block
        Kept too: who changes a score marks its block by a 1, and a draw takes the marks away.
    n : int
    unit : Fraction
        A score is z_j times this. It is public.
    choice : NoisyMin
        In the units of scores, not of steps.

    Guarantee
    ---------
    Candidate i is chosen in proportion to exp(-score_i / S), S the scale of the choice in steps, rounded up. The law is
    exact for every source of uniform words (docs/proofs/frank-wolfe.md, Theorem 3).
    """

    def __init__(
        self, values: Integers, changed: NDArray[np.uint8], n: int, unit: Fraction, choice: NoisyMin
    ) -> None:
        blocks = len(changed)
        if (
            values.dtype != np.int64
            or len(values) % blocks
            or not 0 <= len(values) - n < len(values) // blocks
        ):
            raise InvalidInput("held scores must be int64 and fill whole blocks.")
        self._values, self._n, self._unit, self._choice = values.reshape(blocks, -1), n, unit, choice
        self._steps = math.ceil(Fraction(choice.scale) / unit)
        self._bits = (62 - (2 * len(values)).bit_length()) // 2
        self._largest, self._weight = (np.zeros(len(self._values), np.int64) for _ in range(2))
        self._changed = changed
        changed[:] = 1

    def __len__(self) -> int:
        return 2 * self._n

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All scores as floats, for tests and audits. Private."""
        towards = self._values.ravel()[: self._n] * float(self._unit)
        return np.concatenate([towards, -towards]).astype(dtype or np.float64)

    def draw(self, choice: NoisyMin, entropy: Entropy) -> int:
        """Index of the chosen candidate.

        Raises
        ------
        NotCertified
            If a score is too large, or if weights are not what they must be.
        """
        if choice != self._choice:
            raise InvalidInput("scores are held for another choice than this one.")
        self._refresh()
        largest = int(self._largest.max())
        shares = self._rounded_up(largest - self._largest)
        edges = np.cumsum(self._weight * shares)
        while True:
            place = _below(int(edges[-1]), entropy)
            block = int(np.searchsorted(edges, place, side="right"))
            share = int(shares[block])
            inside = (place - int(edges[block]) + int(self._weight[block]) * share) // share
            weights = self._weights(np.array([block]))[0]
            within = int(np.searchsorted(np.cumsum(weights), inside, side="right"))
            side, column = divmod(within, self._values.shape[1])
            score = int(self._values[block, column]) * (-1 if side else 1)
            ratio = Fraction(1 << (2 * self._bits), int(weights[within]) * share)
            if coin_exp(largest + score, self._steps, ratio, entropy):
                return block * self._values.shape[1] + column + side * self._n

    def _refresh(self) -> None:
        blocks = np.flatnonzero(self._changed)
        largest = np.abs(self._values[blocks]).max(axis=1)
        if largest.max(initial=0) > LARGEST_SCORE:
            raise NotCertified("A score is too large to be held; nothing is chosen.")
        self._largest[blocks] = largest
        self._weight[blocks] = self._weights(blocks).sum(axis=1)
        self._changed[:] = 0

    def _weights(self, blocks: Integers) -> Integers:
        """Of the candidates of some blocks, against the lowest score there: those of z, then those of -z."""
        values, largest = self._values[blocks], self._largest[blocks, None]
        weights = self._rounded_up(np.concatenate([largest + values, largest - values], axis=1))
        spare, width = self._values.size - self._n, values.shape[1]
        if spare and blocks.size and blocks[-1] == len(self._values) - 1:
            weights[-1, width - spare : width] = 0
            weights[-1, 2 * width - spare :] = 0
        return weights

    def _rounded_up(self, above: Integers) -> Integers:
        """At least 2**bits exp(-above / S): one of the two that are added is for the rounding of floats."""
        return (math.ldexp(1.0, self._bits) * np.exp(above / -float(self._steps))).astype(np.int64) + 2


def block_width(n: int) -> int:
    """About the root of the number of columns, a power of two."""
    return 1 << max(4, n.bit_length() // 2)


def _below(bound: int, entropy: Entropy) -> int:
    """Uniform in 0..bound-1, for a bound of at most 2**63."""
    mask = (1 << bound.bit_length()) - 1
    while True:
        for word in entropy.words(4):
            if (found := int(word) & mask) < bound:
                return found


def coin_exp(a: int, b: int, ratio: Fraction, entropy: Entropy) -> bool:
    """True with probability ratio exp(-a/b), which is at most 1.

    A uniform number is compared with bounds on it, both to more digits until they are apart.
    """
    uniform, bits, digits = 0, 0, _DIGITS
    while True:
        uniform, bits = (uniform << 64) | int(entropy.words(1)[0]), bits + 64
        low, high = (ratio * bound for bound in _exp_bounds(a, b, digits))
        if low > 1:
            raise NotCertified("A weight is below what it bounds; nothing is chosen.")
        if Fraction(uniform + 1, 1 << bits) <= low:
            return True
        if Fraction(uniform, 1 << bits) >= high:
            return False
        digits *= 2


def _exp_bounds(a: int, b: int, digits: int) -> tuple[Fraction, Fraction]:
    """Around exp(-a/b). The exponent is rounded once and its exponential correctly, by the decimal module."""
    whole = a // b
    if whole > 4 * digits:  # e > 2
        return Fraction(0), Fraction(1, 1 << (4 * digits))
    context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)
    found = Fraction(context.exp(context.divide(Decimal(-a), Decimal(b))))
    slack = Fraction(whole + 3, 10 ** (digits - 1))
    return found * (1 - slack), found * (1 + slack)
