"""Choose the candidate with about the lowest score: the exponential mechanism."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.entropy import Entropy, seeded
from dperm.privacy.noise import ROUNDING_ALLOWANCE

FloatArray = NDArray[np.float64]


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
    def rho(self) -> float:
        return math.nextafter(self.epsilon * self.epsilon / 8, math.inf)


def noisy_min(scores: FloatArray, choice: NoisyMin, entropy: Entropy) -> int:
    """Index of the chosen candidate.

    Guarantee
    ---------
    With a secure source the choice is made by OpenDP, which compares scores plus Gumbel noise in arithmetic
    as exact as the comparison needs; no floating-point noise is drawn. A seeded source uses numpy and
    promises nothing.

    Raises
    ------
    NotCertified
        If a score is not finite, or OpenDP's own account of the choice exceeds ours.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0:
        raise InvalidInput(f"scores must be a vector of at least one number; got shape {scores.shape}.")
    if not np.isfinite(scores).all():
        raise NotCertified("A score is not finite, so its sensitivity is unknown; nothing is chosen.")
    if entropy.secure:
        return int(_gumbel_min(choice)(scores.tolist()))
    return int(np.argmin(scores - seeded(entropy).gumbel(scale=choice.scale, size=scores.size)))


@lru_cache(maxsize=1024)
def _gumbel_min(choice: NoisyMin) -> Callable[[list[float]], int]:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_max
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    measurement = make_noisy_max(
        vector_domain(atom_domain(T=float, nan=False)),
        linf_distance(T=float, monotonic=choice.one_sided),
        zero_concentrated_divergence(),
        scale=choice.scale,
        negate=True,
    )
    claimed = measurement.map(choice.sensitivity)
    if not claimed <= choice.rho:
        raise NotCertified(
            f"OpenDP prices this choice at rho = {claimed:g}, we at {choice.rho:g}. Nothing is chosen; the "
            "installed version of OpenDP may round differently."
        )
    return measurement  # type: ignore[no-any-return]
