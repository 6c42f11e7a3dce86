"""What a guarantee means, in words and small tables, for a person who signs off a release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.certificate.accountant import Price
from dperm.certificate.verdict import Verdict
from dperm.privacy import Budget
from dperm.privacy.budget import tradeoff
from dperm.render.numbers import one_in, written
from dperm.unit import UNITS

Vector = NDArray[np.float64]

RATES = (0.001, 0.01, 0.05, 0.1)


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Largest true positive rate at a false positive rate: by the mechanism's own price, and by the claim alone."""

    fpr: float
    mechanism: float
    budget: float


def meaning(statement: Mapping[str, Any], verdict: Verdict) -> list[str]:
    """A few sentences without a formula."""
    if not verdict.accepted:
        return ["This file did not pass verification. Do not rely on any statement about privacy in it."]
    if verdict.claim is None:
        return ["This model carries no privacy guarantee.", f"Why: {verdict.reason}"]
    if verdict.unproven and not verdict.unmet:
        return [
            "The file is consistent and claims a guarantee, but part of what the claim rests on could not be checked. "
            "Do not rely on it before someone who knows the loss has."
        ]
    if verdict.guarantee is None:
        return [
            "The file claims a guarantee and says itself that an assumption of it is not met. What was learned from "
            "the rows beyond the claim is not protected, so do not release this model as a private one."
        ]
    epsilon, delta = verdict.guarantee["epsilon"], verdict.guarantee["delta"]
    factor = math.exp(epsilon)
    lines = [
        f"{_change(statement)}, every published result would have been about as "
        f"likely: by a factor of at most {factor:.3g} (that is e to the power ε = {written(epsilon)})"
        + (
            f", apart from a chance of {written(delta)}, {one_in(delta)}."
            if delta
            else ", without exception."
        )
    ]
    attacks = attack_table(verdict)
    if attacks:
        one = attacks[1]
        others = "the rows of everybody else" if of_persons(statement) else "every other row"
        lines.append(
            f"Someone who knows {others}, tries to find out about the last one from this model and accuses "
            f"wrongly in {one.fpr:.0%} of cases, is right in at most {one.mechanism:.2%} of cases."
        )
    lines.append(
        "The protection is for one person with all rows that carry their id, however many."
        if of_persons(statement)
        else "The protection is for one row. A person with several rows is protected less."
    )
    return lines


def of_persons(statement: Mapping[str, Any]) -> bool:
    """Whether the guarantee is for one person."""
    return bool(statement["unit"] == UNITS["person"])


def _change(statement: Mapping[str, Any]) -> str:
    """What two tables differ in, as a condition."""
    replaced = statement["relation"] == "replace-one"
    if of_persons(statement):
        return (
            "Had all rows of any one person in the training data been replaced by those of any other person"
            if replaced
            else "Had any one person, with all their rows, been left out of the training data or been added to it"
        )
    change = "replaced by any other row" if replaced else "left out, or had any one row been added"
    return f"Had any one row of the training data been {change}"


def attack_table(verdict: Verdict) -> list[Attack]:
    """For a verified guarantee, at a few false positive rates."""
    if verdict.guarantee is None or verdict.price is None:
        return []
    by_mechanism = attack_rates(verdict, RATES)
    budget = Budget(**verdict.guarantee)
    return [
        Attack(fpr=rate, mechanism=float(found), budget=tradeoff(budget, rate))
        for rate, found in zip(RATES, by_mechanism, strict=True)
    ]


def attack_rates(verdict: Verdict, fpr: Sequence[float]) -> Vector:
    r"""Largest true positive rates that the second accountant's price allows.

    Every point :math:`(\varepsilon, \delta(\varepsilon))` bounds them from both ends of the curve
    (docs/proofs/risk.md); the least of some sixty bounds is taken.
    """
    assert verdict.guarantee is not None
    assert verdict.price is not None
    epsilon, delta = price_curve(verdict.price, verdict.guarantee["epsilon"])
    rates = np.asarray(fpr, float)[:, None]
    from_below = delta + np.exp(epsilon) * rates
    from_above = 1 - np.exp(-epsilon) * (1 - delta - rates)
    by_claim = [tradeoff(Budget(**verdict.guarantee), float(rate)) for rate in rates[:, 0]]
    return np.asarray(np.minimum(np.minimum(from_below, from_above).min(axis=1), by_claim))


@lru_cache(maxsize=8)
def price_curve(price: Price, claimed: float) -> tuple[Vector, Vector]:
    """Points of the price around and beyond the claimed epsilon."""
    epsilon = np.append(np.linspace(0.0, 2 * claimed, 48), np.geomspace(2.1 * claimed, 6 * claimed + 4, 12))
    return epsilon, np.array([min(1.0, price.delta(float(value))) for value in epsilon])
