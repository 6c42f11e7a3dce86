"""A privacy filter for zero-concentrated privacy, for mechanisms that decide as they go what to release next."""

import math
from fractions import Fraction

from dperm.errors import InvalidInput


class ZcdpFilter:
    """Admits releases until the next one would cost more than is left.

    Parameters
    ----------
    rho : float
        The whole budget, for example ``budget_to_rho(budget, "cks")``.

    Guarantee
    ---------
    All admitted releases together are rho-zCDP, whatever rule chose them and their costs: the sum of the
    costs, kept exactly as a fraction, never exceeds rho. See docs/proofs/dp-agd.md.

    Assumes
    -------
    Each release is ``cost``-zCDP given the past, and its cost, and the decision to ask for it, were fixed
    by earlier releases alone. ``admit`` is called before the release; a refused release is not made.
    """

    def __init__(self, rho: float) -> None:
        if not 0 < rho < math.inf:
            raise InvalidInput(f"rho must be a positive number; got {rho!r}.")
        self.rho = float(rho)
        self._left = Fraction(self.rho)

    @property
    def left(self) -> float:
        """What can still be spent, rounded down."""
        left = float(self._left)
        return left if Fraction(left) <= self._left else math.nextafter(left, 0.0)

    def admit(self, cost: float) -> bool:
        """Charge ``cost`` and say yes, or charge nothing and say no."""
        if not 0 < cost < math.inf:
            raise InvalidInput(f"The cost of a release must be a positive number; got {cost!r}.")
        exact = Fraction(float(cost))
        if exact > self._left:
            return False
        self._left -= exact
        return True
