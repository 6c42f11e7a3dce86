"""The constants of the losses, written down a second time.

A loss declares its own, and noise is planned with those. Here they stand by name, so that a slip in one of the two
places shows. A loss that is not here can be trained with, but no guarantee for it is confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dperm.errors import InvalidInput

_UP = 1 + 1e-15  # more than a handful of roundings, none of which meets a difference of nearly equal numbers


class Constants(NamedTuple):
    """Of a loss in its margin: largest slope and curvature, and whether the slope keeps its sign.

    ``coupling`` says how the curvature vanishes where the slope is largest, ``at_zero`` how far the loss can fall from
    margin 0; None where there is no such bound. ``heaviest`` is the largest weight of a row.
    """

    slope: float
    curvature: float
    monotone: bool
    coupling: float | None = None
    at_zero: float | None = None
    heaviest: float = 1.0


@dataclass(frozen=True)
class _Known:
    """How many parameters the loss has, and what follows from them."""

    parameters: int
    constants: Callable[..., Constants]
    several_outputs: bool = False


def _soft_clipped_logistic(clip: float, knee: float) -> Constants:
    _check_shares(clip, knee)
    slope = clip * knee
    left = clip * (1 - knee)  # of the slope, beyond the knee
    rate = slope * (1 - slope) / left
    knot, at_zero = math.log((1 - slope) / slope), math.log(2)
    if knot > 0:  # from where the logistic loss ends, back to zero
        at_zero = -math.log(1 - slope) + clip * knot - left * (1 - math.exp(-rate * knot)) / rate
    coupling = clip * (1 - clip + left) / (1 - knee) * _UP
    return Constants(clip, _logistic_curvature(slope), True, coupling, at_zero)


def _hard_clipped_logistic(clip: float) -> Constants:
    _check_shares(clip)
    knot = max(math.log((1 - clip) / clip), 0.0)
    return Constants(clip, _logistic_curvature(clip), True, None, math.log(1 + math.exp(-knot)) + clip * knot)


def _huber_hinge(width: float) -> Constants:
    at_zero = 1.0 if width <= 1 else (1 + width) ** 2 / (4 * width)
    return Constants(1.0, 1 / (2 * width), True, None, at_zero)


def _soft_clipped_squared(bound: float, knee: float) -> Constants:
    _check_shares(knee)
    return Constants(float(bound), 1.0, False, 1 / ((1 - knee) * (1 + knee)) * _UP)


def _logistic_curvature(slope: float) -> float:
    """Largest curvature of the logistic loss where its slope is at most this."""
    most = min(slope, 1 / 2)
    return most * (1 - most)


def _check_shares(*shares: float) -> None:
    if any(not share < 1 for share in shares):
        raise InvalidInput("the clip and the knee of a loss must be below 1.")


_WEIGHTED = "weighted-"
_KNOWN = {
    "logistic": _Known(0, lambda: Constants(1.0, 1 / 4, True, 1.0, math.log(2))),
    "margin-logistic": _Known(
        1, lambda shift: Constants(1.0, 1 / 4, True, 1.0, shift + math.log1p(math.exp(-shift)))
    ),
    "soft-clipped-logistic": _Known(2, _soft_clipped_logistic),
    "hard-clipped-logistic": _Known(1, _hard_clipped_logistic),
    "huber-hinge": _Known(1, _huber_hinge),
    "squared": _Known(1, lambda bound: Constants(float(bound), 1.0, False)),
    "soft-clipped-squared": _Known(2, _soft_clipped_squared),
    "softmax": _Known(0, lambda: Constants(math.sqrt(2), 1 / 2, False), several_outputs=True),
}


def unweighted(loss: str) -> str:
    """The name of the loss of a row of weight 1."""
    return loss.removeprefix(_WEIGHTED)


def is_known(loss: str) -> bool:
    """Whether the constants of the loss of this name stand here."""
    return unweighted(loss) in _KNOWN


def _weighed(constants: Constants, most: float) -> Constants:
    """Of the same loss for rows that weigh at most this: docs/proofs/weights.md."""
    if not 0 < most <= 1e9:
        raise InvalidInput("the bound on weights must be a positive number of at most 1e9.")
    coupling, at_zero = (
        None if value is None else most * value for value in (constants.coupling, constants.at_zero)
    )
    return Constants(
        most * constants.slope, most * constants.curvature, constants.monotone, coupling, at_zero, most
    )


def loss_constants(problem: Mapping[str, Any]) -> Constants:
    """Of the loss of a statement."""
    name, parameters = problem["loss"], problem["loss_parameters"]
    if name.startswith(_WEIGHTED) and parameters:
        return _weighed(
            loss_constants({**problem, "loss": unweighted(name), "loss_parameters": parameters[1:]}),
            parameters[0],
        )
    if not is_known(name):
        raise InvalidInput(f"no independent constants for the loss {name!r}.")
    if any(not value > 0 for value in parameters):
        raise InvalidInput("the parameters of a loss must be above 0.")
    known = _KNOWN[name]
    if len(parameters) != known.parameters or (problem["outputs"] >= 2) != known.several_outputs:
        raise InvalidInput(f"the constants of the loss {name!r} with these parameters are not known here.")
    found = known.constants(*parameters)
    return found._replace(at_zero=math.log(problem["outputs"])) if known.several_outputs else found


def unproven(statement: Mapping[str, Any]) -> tuple[str, ...]:
    """What a claim rests on that nothing here can confirm."""
    problem = statement["problem"]
    if is_known(problem["loss"]):
        return ()
    return (
        f"no independent constants for the loss {problem['loss']!r}: that its slope is at most "
        f"{problem['lipschitz']:.6g} and its curvature at most {problem['smoothness']:.6g} is the word of its own code",
    )
