"""The (epsilon, delta) guarantee, and the range in which Gaussian noise is certified for it."""

import math
from dataclasses import dataclass
from numbers import Real

from dperm.errors import InvalidInput

EPSILON_RANGE = (1e-3, 50.0)
DELTA_RANGE = (1e-15, 0.1)


@dataclass(frozen=True)
class DPGuarantee:
    """An (epsilon, delta) target of differential privacy."""

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
                    + ("; a smaller value than asked for keeps the guarantee." if value > high else ".")
                )
