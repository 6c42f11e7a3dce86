"""The public facts of a search, and how the rows are parted by them."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.engine import ShardSource
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators._shards import in_shards
from dperm.estimators.labels import LabelSet
from dperm.mechanisms import Plan
from dperm.neighbours import Neighbours
from dperm.privacy import Gate


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """How many rows train and how many validate; ``n_rows`` is the capacity where the number is private.

    With ``by_person`` all of them are numbers of persons, and a person trains or validates with all rows.
    """

    n_rows: int
    n_training: int
    n_features: int
    classes: LabelSet | None
    neighbours: Neighbours
    by_person: bool = False

    @property
    def unit(self) -> str:
        return "person" if self.by_person else "row"

    def plan(self, model: Any, n_rows: int) -> Plan:
        """What a fit on so many rows, or persons, would do."""
        persons = {"n_persons": n_rows} if self.by_person else {}
        return model.plan(n_rows, self.n_features, **persons)  # type: ignore[no-any-return]

    @property
    def n_validation(self) -> int:
        return self.n_rows - self.n_training

    def held_out(self, gate: Gate, n_present: int) -> NDArray[np.bool_]:
        """Which of the rows, or persons, that are there validate.

        It is drawn without a look at them; it need not be secret, but nobody needs it.
        """
        held = np.zeros(self.n_rows, dtype=bool)
        held[gate.permutation(self.n_rows)[: self.n_validation]] = True
        return held[:n_present]


def training_rows(share: float, n_rows: int) -> int:
    """How many rows train when this share of them validates."""
    if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 < share < 1:
        raise InvalidInput(f"validation must be a share of the rows between 0 and 1; got {share!r}.")
    n_validation = max(1, round(float(share) * n_rows))
    if n_validation >= n_rows:
        raise InvalidInput(f"validation={share:g} leaves no training row of {n_rows}.")
    return n_rows - n_validation


def refuse(X: Any, given: Mapping[str, Any]) -> None:
    """What ``fit`` of an estimator takes and a search does not."""
    if given.get("sample_weight") is not None:
        raise Unsupported(
            "a search takes no sample_weight: its scores would have to count rows by it. Fit once with weights, at "
            "settings that were chosen otherwise."
        )
    for name in given.keys() - {"sample_weight"}:
        raise TypeError(
            f"fit() of a search got an unexpected keyword argument {name!r}; it takes X, y, groups."
        )
    with in_shards(X) as (rows, _):
        if isinstance(rows, ShardSource):
            raise Unsupported(
                "a search parts rows at random into those that train and those that validate, which rows in shards "
                "cannot be. Give X and y as arrays, or fit once at settings that were chosen otherwise."
            )
