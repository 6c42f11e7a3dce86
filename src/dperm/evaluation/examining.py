"""Check the file of a release about rows: the statement by its own formulas, the figures from the released numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.certificate.accountant import Price
from dperm.certificate.evaluation import Counted, check_claim, check_release, release_price
from dperm.certificate.recomputation import check_price
from dperm.certificate.verdict import (
    FORMULA,
    REPLANNED,
    SECOND,
    STRUCTURE,
    Examination,
    Requirements,
    Verdict,
)
from dperm.errors import InvalidInput
from dperm.evaluation.found import SEEDED_NOTE
from dperm.evaluation.planning import Plan
from dperm.ledger.history import Anchor
from dperm.neighbours import Neighbours
from dperm.privacy import Budget
from dperm.unit import UNITS

REMADE = "made again"
"""The route of what follows from released numbers and public facts: it is computed once more, by the library."""
CLOSE = 1e-6  # rounding may differ between machines

Stated = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What one kind of file is made of: its form, what it counts, the plan of it, and what is made of the numbers."""

    checked: Callable[[object], dict[str, Any]]
    parts: Callable[[Stated], list[Counted]]
    plan: Callable[[Stated, Budget, Neighbours], Plan]
    made: Callable[[Stated, Plan], dict[str, Any]]
    exact: Callable[[Stated], str] | None = None
    """Checks exact figures, where a file may hold such."""


def examine(document: Any, kind: Kind, requirements: Requirements | None = None) -> Verdict:
    """Whether a file claims a guarantee that follows from what it states, and holds nothing else."""
    examination, price = Examination(), None
    examination.run(
        "shape of the file", STRUCTURE, lambda: kind.checked(document) and "keys, types and digest"
    )
    if examination.sound and kind.exact is not None and document["local"]:
        exact = kind.exact
        examination.run("exact figures", STRUCTURE, lambda: exact(document))
    elif examination.sound:
        price = _recomputed(document, kind, examination)
    return _verdict(document, examination, price, requirements or Requirements())


def accepted(document: object, kind: Kind) -> dict[str, Any]:
    """The fields of what a file holds, if every check passes; whether a guarantee is claimed is another matter."""
    verdict = examine(document, kind)
    if not verdict.accepted:
        raise InvalidInput(verdict.failures[0])
    return kind.checked(document)


def _recomputed(document: Stated, kind: Kind, examination: Examination) -> Price | None:
    release = document["release"]
    examination.run("claim", STRUCTURE, lambda: _claimed(document))
    if examination.sound:
        examination.run("release", FORMULA, lambda: check_release(release, kind.parts(document)))
    if not examination.sound:
        return None
    budget, prices = Budget(**document["budget"]), []

    def cost() -> str:
        prices.append(release_price(release))
        return check_price(prices[0], budget)

    examination.run("epsilon at delta", SECOND, cost)
    if examination.sound:
        examination.run("the whole plan", REPLANNED, lambda: _planned(document, kind, budget))
    if examination.sound:
        examination.run("figures and notes", REMADE, lambda: _follow(document, kind, budget))
    return prices[0] if examination.sound else None


def _claimed(document: Stated) -> str:
    entry = document["ledger_entry"]
    if entry is not None and str(Anchor.of(entry)) != entry:
        raise InvalidInput("ledger_entry must cite a ledger, a charge and a head.")
    return check_claim(document)


def _planned(document: Stated, kind: Kind, budget: Budget) -> str:
    """The noise is what the library would add: less is too little, and who states more drew from another plan."""
    release, plan = document["release"], kind.plan(document, budget, Neighbours.parse(document["relation"]))
    for name, planned in (("noise_scale", plan.noise.scale), ("sensitivity", plan.noise.sensitivity)):
        if not math.isclose(release[name], planned, rel_tol=1e-9):
            raise InvalidInput(f"release, {name} is not the {planned:.9g} that this plan gives.")
    if release["parts"] != plan.design.told or release["grid_exponent"] != plan.noise.grid_exponent:
        raise InvalidInput("release, parts or grid_exponent are not what this plan gives.")
    return f"noise of scale {plan.noise.scale:.6g}, as a new plan gives it"


def _follow(document: Stated, kind: Kind, budget: Budget) -> str:
    plan = kind.plan(document, budget, Neighbours.parse(document["relation"]))
    with np.errstate(all="ignore"):
        made = kind.made(document, plan)
    for name, follows in made.items():
        if not alike(document[name], follows):
            raise InvalidInput(f"{name} does not follow from the numbers that were released.")
    return f"{', '.join(made)} follow from the released numbers"


def alike(stated: Any, follows: Any) -> bool:
    """Equal, but for the last digits of numbers: those of one object to a part of the largest of them."""
    if isinstance(follows, Mapping):
        if not isinstance(stated, Mapping) or stated.keys() != follows.keys():
            return False
        numbers = [name for name, value in follows.items() if isinstance(value, float)]
        rest = follows.keys() - set(numbers)
        return _close([stated[name] for name in numbers], [follows[name] for name in numbers]) and all(
            alike(stated[name], follows[name]) for name in rest
        )
    if isinstance(follows, Sequence) and not isinstance(follows, str):
        same = isinstance(stated, Sequence) and len(stated) == len(follows)
        return same and all(map(alike, stated, follows))
    if isinstance(follows, float):
        return _close([stated], [follows])
    return type(stated) is type(follows) and bool(stated == follows)


def _close(stated: Sequence[Any], follows: Sequence[float]) -> bool:
    reach = CLOSE * max(map(abs, follows), default=0.0)
    return all(
        isinstance(one, float | int) and not isinstance(one, bool) and abs(one - other) <= reach
        for one, other in zip(stated, follows, strict=True)
    )


def _verdict(
    document: Any, examination: Examination, price: Price | None, requirements: Requirements
) -> Verdict:
    if not examination.sound:
        return Verdict(checks=tuple(examination.checks), claim=None, reason=None, requirements=requirements)
    local = bool(document.get("local"))
    reason = document["notes"][0] if local else None if document["private"] else SEEDED_NOTE
    return Verdict(
        checks=tuple(examination.checks),
        claim=None if reason else {name: float(value) for name, value in document["budget"].items()},
        reason=reason,
        unit=UNITS[document["unit"]],
        relation="" if local else document["relation"],
        price=price,
        requirements=requirements,
    )
