"""The constants of the losses, written down a second time.

A loss declares its own, and noise is planned with those. Here they stand by name, so that a slip in one of the two
places shows. A loss that is not here can be trained with, but no guarantee for it is confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dperm.errors import InvalidInput

Constants = tuple[float, float, bool, float | None]
"""Largest slope and curvature in the margin, whether the slope keeps its sign, and the coupling of the two, if any."""


@dataclass(frozen=True)
class _Known:
    """How many parameters the loss has, and what follows from them."""

    parameters: int
    constants: Callable[..., Constants]
    several_outputs: bool = False


def _soft_clipped_logistic(clip: float, knee: float) -> Constants:
    _check_shares(clip, knee)
    slope = clip * knee
    rate = slope * (1 - slope) / (clip - slope)
    return clip, _logistic_curvature(slope), True, rate * clip / knee


def _hard_clipped_logistic(clip: float) -> Constants:
    _check_shares(clip)
    return clip, _logistic_curvature(clip), True, None


def _soft_clipped_squared(bound: float, knee: float) -> Constants:
    _check_shares(knee)
    return float(bound), 1.0, False, 1 / ((1 - knee) * (1 + knee))


def _logistic_curvature(slope: float) -> float:
    """Largest curvature of the logistic loss where its slope is at most this."""
    most = min(slope, 1 / 2)
    return most * (1 - most)


def _check_shares(*shares: float) -> None:
    if any(not share < 1 for share in shares):
        raise InvalidInput("the clip and the knee of a loss must be below 1.")


_KNOWN = {
    "logistic": _Known(0, lambda: (1.0, 1 / 4, True, 1.0)),
    "margin-logistic": _Known(1, lambda shift: (1.0, 1 / 4, True, 1.0)),
    "soft-clipped-logistic": _Known(2, _soft_clipped_logistic),
    "hard-clipped-logistic": _Known(1, _hard_clipped_logistic),
    "huber-hinge": _Known(1, lambda width: (1.0, 1 / (2 * width), True, None)),
    "squared": _Known(1, lambda bound: (float(bound), 1.0, False, None)),
    "soft-clipped-squared": _Known(2, _soft_clipped_squared),
    "softmax": _Known(0, lambda: (math.sqrt(2), 1 / 2, False, None), several_outputs=True),
}


def is_known(loss: str) -> bool:
    """Whether the constants of the loss of this name stand here."""
    return loss in _KNOWN


def loss_constants(problem: Mapping[str, Any]) -> Constants:
    """Of the loss of a statement."""
    name, parameters = problem["loss"], problem["loss_parameters"]
    if not is_known(name):
        raise InvalidInput(f"no independent constants for the loss {name!r}.")
    if any(not value > 0 for value in parameters):
        raise InvalidInput("the parameters of a loss must be above 0.")
    known = _KNOWN[name]
    if len(parameters) != known.parameters or (problem["outputs"] >= 2) != known.several_outputs:
        raise InvalidInput(f"the constants of the loss {name!r} with these parameters are not known here.")
    return known.constants(*parameters)


def unproven(statement: Mapping[str, Any]) -> tuple[str, ...]:
    """What a claim rests on that nothing here can confirm."""
    problem = statement["problem"]
    if is_known(problem["loss"]):
        return ()
    return (
        f"no independent constants for the loss {problem['loss']!r}: that its slope is at most "
        f"{problem['lipschitz']:.6g} and its curvature at most {problem['smoothness']:.6g} is the word of its own code",
    )
