"""Where the claim of a mechanism is tightest: what an audit has to know of it, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dperm.typing import Floats
from dperm.unit import Neighbours

if TYPE_CHECKING:
    from dperm.mechanisms.base import Plan

Likelihood = Callable[[Floats], Floats]

REMOVED: Mapping[str, Any] = {"neighbours": Neighbours.ADD_REMOVE}
"""Facts of a case in which the row is removed, where its label changes otherwise."""

NEWTON_JOBS = 200
"""Runs side by side where a solver's time grows with the square of their number."""


@dataclass(frozen=True, eq=False, kw_only=True)
class WorstCase:
    """One attack on a mechanism. Left as it is, it fits most: the linear loss attains every sensitivity.

    Parameters
    ----------
    name : str, optional
        In the words of a report.
    settings : mapping
        Of the mechanism. Those of its first case hold for all its attacks.
    facts : mapping
        Of the problem, beside eight rows of one feature, linear loss, a little l2 and replace-one. If the mechanism
        does not cover these, the audit takes the first loss and relation that it covers.
    rows : "lone", "opposing" or "mirrored"
        One row of full length among empty ones, whose label changes or which is removed; the same among rows of
        the other label; or a lone row against its mirror image.
    turned_to : tuple of float, optional
        What the lone row is replaced by instead, in units of its length.
    weights_alone : bool
        Look at the result, not at all that was released.
    delta : float, optional
        At which the claim is tried unless another is asked for.
    share : float
        Of the runs. That of the first case multiplies the others.
    jobs : int
        How many runs go side by side. Of the first case.
    likelihood : callable, optional
        Makes from a plan what tells how much likelier weights are with the row than without it.
    out_of_reach : str, optional
        Why no attack can prove a part of the claim. Of the first case.
    """

    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    rows: Literal["lone", "opposing", "mirrored"] = "lone"
    turned_to: tuple[float, ...] | None = None
    weights_alone: bool = False
    delta: float | None = None
    share: float = 1.0
    jobs: int = 5000
    likelihood: Callable[[Plan], Likelihood] | None = None
    out_of_reach: str | None = None
