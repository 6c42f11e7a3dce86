"""What a plan leaves to an attacker: the part of ``dperm account`` that speaks of risk."""

import math
from typing import Any

from rich import box
from rich.table import Table

from dperm.cli.output import console
from dperm.mechanisms import Plan
from dperm.neighbours import Neighbours
from dperm.privacy.events import Point, Unbounded
from dperm.privacy.risk import DeltaCurve, advantage, tradeoff

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.05)


def risk_of(plan: Plan) -> dict[str, Any]:
    """Bounds for every mechanism that keeps the plan's budget, and for this one where its own price is known."""
    budget, own = plan.budget, _own_price(plan)
    return {
        "attacks": [
            {
                "fpr": fpr,
                "tpr": tradeoff(budget, fpr),
                "tpr_own_price": None if own is None else min(tradeoff(budget, fpr), tradeoff(own, fpr)),
            }
            for fpr in FALSE_POSITIVE_RATES
        ],
        "advantage": advantage(budget),
        "advantage_own_price": None if own is None else min(advantage(budget), advantage(own)),
    }


def _own_price(plan: Plan) -> DeltaCurve | None:
    """The mechanism's whole curve delta(epsilon), where more of it is known than the promise."""
    if plan.profile is not None:
        return plan.profile
    cost = plan.cost
    return None if all(isinstance(part, Point | Unbounded) for part in cost.parts) else cost


def show_risk(plan: Plan) -> None:
    screen = console()
    risk = risk_of(plan)
    unit = plan.problem.unit
    target = (
        f"which of two {unit}s the table holds"
        if plan.problem.neighbours is Neighbours.REPLACE_ONE
        else f"whether the table holds a certain {unit}"
    )
    screen.print(f"\nRisk that someone who knows all other {unit}s tells {target}, true positives:")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("false positives", no_wrap=True)
    for name in ("blind guess", "any mechanism, at most", f"{plan.mechanism.name}, at most"):
        table.add_column(name, justify="right", no_wrap=True)
    for attack in risk["attacks"]:
        blind = f"{100 * attack['fpr']:g} %"
        table.add_row(blind, blind, percent(attack["tpr"]), percent(attack["tpr_own_price"]))
    table.add_row("advantage", "0 %", percent(risk["advantage"]), percent(risk["advantage_own_price"]))
    screen.print(table)
    one = risk["attacks"][1]
    caught = percent(one["tpr"] if one["tpr_own_price"] is None else one["tpr_own_price"])
    screen.print(
        f"In plain words: an attacker who may accuse 1 of 100 wrongly catches at most {caught} of the true cases; "
        "without the model they would catch 1 %. All figures are rounded up."
    )


def percent(rate: float | None) -> str:
    """A rate in percent, rounded up, with at least two digits that count."""
    if rate is None:
        return "-"
    decimals = max(1, 1 - math.floor(math.log10(100 * rate))) if rate > 0 else 1
    scale = 10**decimals
    # Up to the next digit, unless the margin alone, of 2e-9 at most, has pushed the rate over one.
    return f"{math.ceil(100 * rate * scale * (1 - 4e-9)) / scale:.{decimals}f} %"
