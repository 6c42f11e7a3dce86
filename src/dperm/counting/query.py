"""One counting query: plan from public facts, charge, read, count, add noise once, record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.counting.account import Account
from dperm.counting.design import Design, Integers
from dperm.errors import InvalidInput
from dperm.neighbours import Neighbours
from dperm.planning.pricing import gaussian_noise, price_of
from dperm.privacy import Budget, Gate, GaussianNoise, gaussian_mu
from dperm.privacy.cost import Cost

Vector = NDArray[np.float64]
Rows = TypeVar("Rows")


@dataclass(frozen=True, eq=False, kw_only=True)
class Query:
    """One Gaussian release of the whole vector of a design.

    Guarantee
    ---------
    The release costs at most the budget: the noise is that of the design's own sensitivity under the relation, by the
    same calibration, price and gate as that of every mechanism.
    """

    design: Design
    budget: Budget
    neighbours: Neighbours
    name: str = "counts and sums of an evaluation"

    @cached_property
    def noise(self) -> GaussianNoise:
        mu = gaussian_mu(self.budget)
        return gaussian_noise(self.design.sensitivity(self.neighbours), self.design.size, mu)

    @cached_property
    def cost(self) -> Cost:
        return Cost.of_profile(price_of([self.noise], 0.0), self.budget.epsilon)

    def release(self, vector: Vector, gate: Gate) -> Vector:
        return gate.release_one(vector, self.noise, self.name)

    def run(
        self,
        account: Account,
        gate: Gate,
        read: Callable[[], Rows],
        count: Callable[[Rows], Mapping[str, Integers]],
        *,
        unit: str,
        kind: str,
        label: str,
        mechanism: str,
    ) -> Release:
        """Charge the account, read the rows, count them and release the counts once."""
        entry, numbers = account.charge(
            lambda: self.cost,
            read,
            lambda rows: self.release(self.design.vector(count(rows)), gate),
            neighbours=self.neighbours,
            unit=unit,
            kind=kind,
            label=label,
            mechanism=mechanism,
        )
        return Release(self.design, numbers, entry, gate)


@dataclass(frozen=True, eq=False)
class Release:
    """The noisy numbers of a query, and the charge that paid for them."""

    design: Design
    numbers: Vector
    ledger_entry: str | None
    gate: Gate

    def to_dict(self) -> dict[str, Any]:
        """The one release that the gate saw, in plain values."""
        (record,) = self.gate.records()
        return {
            "sensitivity": record.sensitivity,
            "noise_scale": record.noise_scale,
            "grid_exponent": record.grid_exponent,
            "numbers": self.numbers.tolist(),
            "parts": self.design.stated,
            "entropy": record.entropy,
            "secure": record.secure,
        }


def check_count(n_read: int, n_public: int | None, max_rows: int | None, unit: str = "row") -> None:
    """Refuse, once rows were read, another number of them than was public, or more than were declared."""
    if n_public is not None and n_read != n_public:
        raise InvalidInput("X has another number of rows than it told before it was read.")
    if max_rows is not None and n_read > max_rows:
        raise InvalidInput(f"the table has more {unit}s than max_rows, which it must never exceed.")
