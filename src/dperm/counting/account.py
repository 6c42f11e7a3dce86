"""Who is charged for a release: a ledger with one of its datasets, or nobody. The charge comes before the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from dperm.errors import InvalidInput
from dperm.ledger import Ledger
from dperm.neighbours import Neighbours
from dperm.privacy.cost import Cost

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
        unit: str,
        kind: str,
        label: str,
        mechanism: str,
    ) -> tuple[str | None, Result]:
        """Charge the ledger, if there is one, then read, then release; the citation of the charge and the result.

        ``unit`` is what the release protects. ``cost`` is asked for only where it is charged: to price a whole profile
        may take longer than to train.
        """
        if self.ledger is None:
            return None, release(read())
        return self.ledger.pay(
            cost(),
            read,
            release,
            dataset=self.dataset,
            neighbours=neighbours.value,
            unit=unit,
            kind=kind,
            label=label,
            mechanism=mechanism,
        )
