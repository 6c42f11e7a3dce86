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


@dataclass(frozen=True)
class _Known:
    """How many parameters the loss has, and what follows from them, as ``loss_constants`` returns it."""

    parameters: int
    constants: Callable[..., tuple[float, float, bool]]
    several_outputs: bool = False


_KNOWN = {
    "logistic": _Known(0, lambda: (1.0, 1 / 4, True)),
    "huber-hinge": _Known(1, lambda width: (1.0, 1 / (2 * width), True)),
    "squared": _Known(1, lambda bound: (float(bound), 1.0, False)),
    "softmax": _Known(0, lambda: (math.sqrt(2), 1 / 2, False), several_outputs=True),
}


def is_known(loss: str) -> bool:
    """Whether the constants of the loss of this name stand here."""
    return loss in _KNOWN


def loss_constants(problem: Mapping[str, Any]) -> tuple[float, float, bool]:
    """Of the loss of a statement: largest slope and curvature in the margin, and whether the slope keeps its sign."""
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
