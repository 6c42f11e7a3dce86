"""Random batches: one object draws the rows of a step and prices the steps, so that the two cannot disagree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dperm.errors import InvalidInput
from dperm.privacy import Budget, Gate
from dperm.privacy.secrets import FixedSizeBatch, PoissonBatch
from dperm.privacy.subsampled import (
    compose_gaussian_and_poisson,
    fixed_size_epsilon,
    fixed_size_noise_multiplier,
    poisson_noise_beside_gaussian,
    poisson_noise_multiplier,
)
from dperm.unit import Neighbours


def check_rate(name: str, value: object) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (number and 0 < value <= 1):  # type: ignore[operator]
        raise InvalidInput(f"{name} must lie in (0, 1]; got {value!r}.")


@dataclass(frozen=True)
class PoissonSampling:
    """Every row joins a batch on its own with probability ``rate``.

    Guarantee
    ---------
    A row joins with a probability of at most ``rate``, independently of all other rows and steps; with a
    secure source the choice comes from the operating system. The prices are those of exactly this
    sampling (docs/proofs/sgd-ma.md), in units of the norm of what one row adds to a sum.
    """

    rate: float

    def __post_init__(self) -> None:
        check_rate("rate", self.rate)

    def expected_rows(self, n_rows: int) -> float:
        return self.rate * n_rows

    def batch(self, gate: Gate) -> PoissonBatch:
        """One batch; it may be empty."""
        return gate.poisson(self.rate)

    @lru_cache(maxsize=256)  # noqa: B019 - the keys are small frozen objects; a search takes seconds
    def noise_multiplier(
        self, steps: int, budget: Budget, neighbours: Neighbours, mu_spent: float = 0.0
    ) -> float:
        """Noise that ``steps`` batches need, beside a Gaussian release of parameter ``mu_spent``."""
        if mu_spent == 0:
            return poisson_noise_multiplier(self.rate, steps, budget, neighbours)
        return poisson_noise_beside_gaussian(mu_spent, self.rate, steps, budget, neighbours)

    def epsilon(
        self,
        noise_multiplier: float,
        steps: int,
        delta: float,
        neighbours: Neighbours,
        mu_spent: float = 0.0,
    ) -> float:
        return compose_gaussian_and_poisson(mu_spent, noise_multiplier, self.rate, steps, delta, neighbours)


@dataclass(frozen=True)
class FixedSizeSampling:
    """Every batch is a uniformly random set of ``size`` rows, none of them twice (docs/proofs/dp-sgd.md).

    The noise multiplier counts in units of the norm of what one row adds. Its price holds for both relations.
    """

    size: int

    def batch(self, gate: Gate) -> FixedSizeBatch:
        return gate.fixed_size(self.size)

    @lru_cache(maxsize=256)  # noqa: B019 - as above
    def noise_multiplier(self, n_rows: int, steps: int, budget: Budget, mu_spent: float = 0.0) -> float:
        return fixed_size_noise_multiplier(self.size, n_rows, steps, budget, mu_spent)

    def epsilon(
        self, noise_multiplier: float, n_rows: int, steps: int, delta: float, mu_spent: float = 0.0
    ) -> float:
        return fixed_size_epsilon(noise_multiplier, self.size, n_rows, steps, delta, mu_spent)
