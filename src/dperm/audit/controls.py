"""Mechanisms that are broken on purpose, each with what must notice it: a replay or an audit is worth no more.

Most are mistakes of published code. None is registered, and none must ever be used to train.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dperm.audit import broken
from dperm.audit.neighbours import Pair, cancelling_pair, outlier_pair
from dperm.losses import Linear, Softmax
from dperm.mechanisms import Mechanism
from dperm.mechanisms.gradient.dp_gd import DPGD
from dperm.mechanisms.gradient.dp_sgd import DPSGD
from dperm.mechanisms.gradient.frank_wolfe import FrankWolfe
from dperm.mechanisms.output.output import Output
from dperm.mechanisms.output.output_gd import OutputGD
from dperm.mechanisms.output.rsgd import NSGD, RSGD, RSGDAR
from dperm.neighbours import Neighbours
from dperm.privacy import Budget
from dperm.problem import Problem

BUDGET = Budget(1.0, 1e-6)


@dataclass(frozen=True, eq=False, kw_only=True)
class Control:
    """A broken mechanism and what has to notice it.

    Parameters
    ----------
    name, what_is_wrong : str
    mechanism : Mechanism
        Not private as it claims. ``healthy`` is what it was broken from.
    problem : Problem
        On which the fault shows.
    caught_by : "replay" or "audit"
        Which of the two must find it. Where a replay must, ``check`` is its check that must fail.
    budget : Budget
    pair : Pair, optional
        Neighbours that show the fault, where the usual ones might not.
    """

    name: str
    what_is_wrong: str
    mechanism: Mechanism
    healthy: Mechanism
    problem: Problem
    caught_by: str
    check: str = ""
    budget: Budget = BUDGET
    pair: Pair | None = field(default=None, repr=False)


def _problem(**changes: Any) -> Problem:
    facts: dict[str, Any] = {
        "loss": Linear(),
        "l2": 0.3,
        "x_norm": 1.0,
        "n_rows": 24,
        "n_features": 3,
        "intercept": 0.5,
    }
    return Problem(**{**facts, **changes})


def _controls() -> tuple[Control, ...]:
    linear, removing = _problem(), _problem(neighbours=Neighbours.ADD_REMOVE)
    classes, wide = _problem(loss=Softmax(3)), _problem(n_features=10, intercept=0.0, l2=0.0)
    sgd: dict[str, Any] = {"epochs": 3, "batch_size": 6}
    averaging: dict[str, Any] = {"epochs": 6, "average_every": 2, "batch_size": 6, "step_size": 1.0}
    made: list[Control] = []

    def add(kind: Any, healthy: Mechanism, problem: Problem, check: str, **more: Any) -> None:
        made.append(
            Control(
                name=kind.name.removeprefix("broken: "),
                what_is_wrong=(kind.__doc__ or "").strip(),
                mechanism=kind(**healthy.settings),
                healthy=healthy,
                problem=problem,
                caught_by="replay" if check else "audit",
                check=check,
                **more,
            )
        )

    descent = OutputGD(iterations=4, step_size=1.0)
    add(
        broken.NormalisedGradient, NSGD(**sgd), linear, "distance", pair=cancelling_pair(linear, 0, surplus=2)
    )
    add(broken.InterceptOutside, descent, linear, "distance")
    add(broken.NoStepReset, RSGDAR(**averaging), linear, "distance")
    add(broken.HalfGap, descent, linear, "distance")
    add(
        broken.TreatedAsExact,
        Output(tolerance=3.0),
        linear,
        "distance",
        pair=cancelling_pair(linear, 0, surplus=4),
    )
    add(broken.ClippedTooLate, DPGD(steps=4, clip=0.2), linear, "distance")
    add(broken.ShiftedBatches, RSGD(**sgd), removing, "distance")
    add(broken.MiniBatchCorners, FrankWolfe(steps=4), linear, "distance", pair=cancelling_pair(linear, 0))
    add(broken.BoundFromRows, descent, linear, "noise", pair=outlier_pair(linear))
    add(broken.LengthOfExact, descent, linear, "outcome")
    add(broken.OwnNoise, descent, linear, "outcome")
    add(
        broken.StopsByExactGradient,
        DPGD(steps=4),
        linear,
        "passages",
        pair=cancelling_pair(linear, 0, surplus=2),
    )
    add(broken.LastStepFree, DPGD(steps=4), linear, "price")
    add(broken.AlwaysTheSameBatch, DPSGD(steps=4, rate=0.5), linear, "price", budget=Budget(0.2, 1e-6))
    add(broken.RoundingForgotten, DPSGD(steps=40, rate=1.0), linear, "price", budget=Budget(1.0, 1e-15))
    add(broken.OrderNeverShuffled, RSGD(**sgd), linear, "price")
    add(broken.NoiseOverRootTwo, descent, linear, "")
    add(broken.OneByteSeed, descent, linear, "")
    add(broken.SharedNoise, descent, classes, "")
    add(broken.WrongSign, FrankWolfe(steps=1), wide, "", pair=cancelling_pair(wide, 0))
    return tuple(made)


CONTROLS: tuple[Control, ...] = _controls()
