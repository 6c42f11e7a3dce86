"""The promise: epsilon and delta."""

import math
from dataclasses import dataclass
from numbers import Real

from dperm.errors import InvalidInput

EPSILON_RANGE = (1e-3, 50.0)
DELTA_RANGE = (1e-15, 0.1)


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) target of differential privacy.

    Parameters
    ----------
    epsilon : float
        Finite and above 0.
    delta : float
        In [0, 1); far below one over the number of people is the usual choice.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise InvalidInput(f"{name} must be a number; got {value!r}.")
            object.__setattr__(self, name, float(value))
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise InvalidInput(
                f"epsilon must be a finite number above 0; got {self.epsilon!r}. Common choices are 0.1 to 2."
            )
        if not 0 <= self.delta < 1:
            raise InvalidInput(
                f"delta must be at least 0 and below 1; got {self.delta!r}. Choose it far below one over "
                "the number of people, for example 1e-8."
            )

    @classmethod
    def from_attack(cls, *, tpr: float, fpr: float, delta: float, gaussian: bool = False) -> "Budget":
        """The largest budget that keeps every attacker's true positive rate at ``fpr`` within ``tpr``.

        The attacker knows every row but one and tells two candidates for it apart (``dperm.privacy.risk``).

        Parameters
        ----------
        tpr, fpr : float
            0 < fpr < tpr < 1. Catch at most ``tpr`` of the true cases at a cost of ``fpr`` false alarms.
        delta : float
            As in ``Budget``. Without ``gaussian`` it allows that much on its own, so it must lie below tpr - fpr.
        gaussian : bool, default=False
            False is true of every mechanism that keeps the returned budget. True is true only of a release whose
            whole price is one Gaussian (one mu: noise on a result trained in public order, or on every gradient of
            full batches), and allows a larger epsilon. Mechanisms with a secret order, sampled batches or noise in
            the objective have another price: for them keep False, or ask ``dperm account`` for the attack under
            their own price.

        Raises
        ------
        InvalidInput
            If the rates are not in order, or no certified epsilon keeps the bound with this delta.
        """
        from dperm.privacy.risk import budget_from_attack

        return budget_from_attack(tpr, fpr, delta, gaussian)

    @classmethod
    def from_advantage(cls, advantage: float, *, delta: float, gaussian: bool = False) -> "Budget":
        """The largest budget that keeps every attacker's tpr - fpr within ``advantage``.

        ``gaussian`` as in ``from_attack``.
        """
        from dperm.privacy.risk import budget_from_advantage

        return budget_from_advantage(advantage, delta, gaussian)

    def attack(self, fpr: float, *, gaussian: bool = False) -> float:
        """Largest true positive rate of any attacker with false positive rate ``fpr``, rounded up.

        ``gaussian`` as in ``from_attack``: True only for a release whose whole price is one Gaussian.
        """
        from dperm.privacy.risk import budget_attack

        return budget_attack(self, fpr, gaussian)

    def advantage(self, *, gaussian: bool = False) -> float:
        """Largest tpr - fpr of any attacker, rounded up; ``gaussian`` as in ``attack``."""
        from dperm.privacy.risk import budget_advantage

        return budget_advantage(self, gaussian)

    def check_gaussian(self) -> None:
        """Raise InvalidInput unless Gaussian noise can be calibrated to this budget.

        The range is the one over which the calibration has been checked against 50-digit arithmetic.
        """
        if self.delta == 0:
            raise InvalidInput(
                "Gaussian noise needs delta > 0; got delta = 0. Choose a small delta, for example 1e-8."
            )
        for name, value, (low, high) in (
            ("epsilon", self.epsilon, EPSILON_RANGE),
            ("delta", self.delta, DELTA_RANGE),
        ):
            if not low <= value <= high:
                raise InvalidInput(
                    f"Gaussian noise is certified for {name} from {low:g} to {high:g}; got {value:g}. "
                    f"Choose {name} inside this range"
                    + ("; a smaller value than asked for keeps the promise." if value > high else ".")
                )
