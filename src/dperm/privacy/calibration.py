"""From a budget to a noise scale, on the private side."""

import math
from collections.abc import Callable
from functools import lru_cache

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.profile import GaussianProfile
from dperm.privacy.promise import Promise
from dperm.privacy.search import smallest_safe


def calibrate(profile_of_scale: Callable[[float], GaussianProfile], budget: Promise, start: float) -> float:
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
    # A breath below the target, so that the promise on delta survives the exponential.
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
def gaussian_mu(budget: Promise) -> float:
    """Largest mu, to a relative 1e-10, of which one Gaussian release meets the budget.

    A release with sensitivity s then needs noise scale s / mu; several releases may share mu as long as
    the squares of their parts sum to its square.
    """
    start = math.sqrt(2 * math.log(1.25 / max(budget.delta, 1e-300))) / budget.epsilon
    return 1 / calibrate(lambda scale: GaussianProfile.gaussian(1 / scale), budget, start)
