"""One counting query: plan from public facts, charge, read, count, add noise once, record.

Who is charged is an account: a ledger with one of its datasets, or nobody. The charge comes before the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.counting.design import Design, Integers
from dperm.errors import InvalidInput
from dperm.ledger import Ledger
from dperm.planning.pricing import gaussian_noise, price_of
from dperm.privacy import Budget, Gate, GaussianNoise, gaussian_mu
from dperm.privacy.cost import Cost
from dperm.unit import Neighbours

Vector = NDArray[np.float64]
Rows = TypeVar("Rows")
Result = TypeVar("Result")

_SEEDED = "random_state makes the noise predictable, so the {} is not private and cannot be charged as if it were. {}"
_OF_FIT = (
    "Leave random_state at None to release the model, or ledger at None for an experiment on public data. "
    "BaggingClassifier and others like it set it themselves: they cannot release private models."
)
_OF_RESULT = "Leave random_state or the ledger at None."


@dataclass(frozen=True, eq=False)
class Account:
    """A ledger with one of its datasets, or None for both. ``secure`` is False where the noise is seeded."""

    ledger: Ledger | None
    dataset: str | None
    secure: bool

    @classmethod
    def checked(cls, ledger: Any, dataset: str | None, random_state: Any, of_fit: bool = False) -> Account:
        """Refuse a ledger that this release cannot be charged to."""
        if ledger is None:
            if dataset is not None:
                raise InvalidInput("dataset names a dataset of the ledger; give the ledger too.")
        elif not isinstance(ledger, Ledger):
            raise InvalidInput(f"ledger must be a dperm.Ledger or None; got a {type(ledger).__name__}.")
        elif random_state is not None:
            raise InvalidInput(_SEEDED.format(*(("fit", _OF_FIT) if of_fit else ("result", _OF_RESULT))))
        return cls(ledger, dataset, random_state is None)

    @classmethod
    def of_fit(cls, estimator: Any) -> Account:
        """The account of an estimator or a search, from its settings."""
        return cls.checked(estimator.ledger, estimator.dataset, estimator.random_state, of_fit=True)

    @property
    def charged(self) -> bool:
        return self.ledger is not None

    def charge(
        self,
        cost: Callable[[], Cost],
        read: Callable[[], Rows],
        release: Callable[[Rows], Result],
        *,
        neighbours: Neighbours,
        **about: str,
    ) -> tuple[str | None, Result]:
        """Charge the ledger, if there is one, then read, then release; the citation of the charge and the result.

        ``about`` are the unit that the release protects, and the kind, label and mechanism of the charge. ``cost`` is
        asked for only where it is charged: to price a whole profile may take longer than to train.
        """
        if self.ledger is None:
            return None, release(read())
        relation = neighbours.value
        return self.ledger.pay(cost(), read, release, dataset=self.dataset, neighbours=relation, **about)


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
        **about: str,
    ) -> Release:
        """Charge the account, read the rows, count them and release the counts once; ``about`` is for the ledger."""
        entry, numbers = account.charge(
            lambda: self.cost,
            read,
            lambda rows: self.release(self.design.vector(count(rows)), gate),
            neighbours=self.neighbours,
            **about,
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
