"""The constants that a guarantee rests on, worked out anew from the few numbers that were declared.

A loss declares its own constants, and noise is planned with those. Here they stand by name, so that a slip in one of
the two places shows. A loss that is not here can be trained with, but no guarantee for it is confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from dperm.errors import InvalidInput

_UP = 1 + 1e-15  # more than a handful of roundings, none of which meets a difference of nearly equal numbers
_WEIGHTED = "weighted-"
U = 2.0**-53
ROWS_CHANGED = {"replace-one": 2, "add-remove": 1}  # of rows or persons, between neighbours
GRID, ALLOWANCE = 1e-7, 1e-9  # docs/proofs/noise.md
CORNER = 64.0  # margins up to here are ordinary
_LARGEST_MARGIN_EXPONENT = 60


@dataclass(frozen=True)
class Constants:
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
    return replace(found, at_zero=math.log(problem["outputs"])) if known.several_outputs else found


def unproven(statement: Mapping[str, Any]) -> tuple[str, ...]:
    """What a claim rests on that nothing here can confirm."""
    problem = statement["problem"]
    if is_known(problem["loss"]):
        return ()
    return (
        f"no independent constants for the loss {problem['loss']!r}: that its slope is at most "
        f"{problem['lipschitz']:.6g} and its curvature at most {problem['smoothness']:.6g} is the word of its own code",
    )


@dataclass(frozen=True, kw_only=True)
class Facts(Constants):
    """Letters as in docs/notation.md: loss with slope l and curvature k, rows of norm r, n of them, p columns."""

    loss: str
    outputs: int
    l2: float
    x_norm: float
    intercept: float
    n: int
    n_features: int
    rows: int
    rows_per_person: int = 1

    @classmethod
    def of(cls, statement: Mapping[str, Any]) -> Facts:
        problem = statement["problem"]
        constants = loss_constants(problem)
        rows = ROWS_CHANGED.get(statement["relation"])
        if rows is None:
            raise InvalidInput("relation must be replace-one or add-remove.")
        for name in ("l2", "intercept"):
            if problem[name] < 0:
                raise InvalidInput(f"{name} must be at least 0.")
        for name in ("x_norm", "n_units", "n_features", "outputs"):
            if not 0 < problem[name] <= 1e15:
                raise InvalidInput(f"{name} must be above 0.")
        return cls(
            loss=problem["loss"],
            **asdict(constants),
            outputs=problem["outputs"],
            l2=float(problem["l2"]),
            x_norm=float(problem["x_norm"]),
            intercept=float(problem["intercept"]),
            n=problem["n_units"],
            n_features=problem["n_features"],
            rows=rows,
            rows_per_person=_rows_per_person(statement),
        )

    @property
    def many_rows(self) -> bool:
        """Whether a person may have several rows: n, slope and curvature are then those of persons."""
        return self.rows_per_person > 1

    @property
    def r(self) -> float:
        return math.sqrt(self.x_norm**2 + self.intercept**2)

    @property
    def R(self) -> float:
        return self.slope * self.r

    @property
    def gap(self) -> float:
        return self.rows * self.R

    @property
    def beta(self) -> float:
        return self.curvature * self.r**2

    @property
    def L(self) -> float:
        return self.beta + self.l2

    @property
    def p(self) -> int:
        return self.n_features + (1 if self.intercept > 0 else 0)

    @property
    def dimension(self) -> int:
        return self.p * self.outputs

    def gradient_error(self, n: float, weights: float) -> float:
        """docs/proofs/arithmetic.md: the error of a computed mean gradient in float64."""
        return self._row_error(U, 1e-14, weights) + self.adding(n) * self.R

    def adding(self, n: float) -> float:
        """The error of a sum over n rows, or over all rows of n persons, over the sum of their norms."""
        n = n * self.rows_per_person
        return 2 * (min(n, 1024) + min(n, n / 64 + 1024)) * U

    def sum_error(self, step: int = 0) -> float:
        """Twice the error of a gradient sum, for weights that make margins of at most the corner times 2**step."""
        return 2 * self.n * self.gradient_error(self.n, CORNER * 2.0**step / self.r)

    def whole_sum_error(self, step: int = 0, clip: float | None = None, exact_margins: bool = False) -> float:
        """The same for a sum over all rows; replace-one allows for blocks of 256 rows in float32, of single rows."""
        both = self.sum_error(step)
        if self.many_rows or self.rows == 1 or min(self.R, math.inf if clip is None else clip) < 1e-20:
            return both
        block = 2.01 * min(self.n, 256) ** 2 * 2.0**-24 + 4 * self.n * min(self.n, self.n / 64 + 1024) * U
        if clip is not None and clip <= self.R:
            return max(both, block * clip)
        weights = CORNER * 2.0**step / self.r if exact_margins else 0.0
        row = self._row_error(2.0**-24, 1e-6, weights)
        return max(both, 2 * row + block * self.R)

    def step_at(self, weights: float) -> int | None:
        """The step that weights of this norm take; None for weights without a bound."""
        margin = max(CORNER / 2, self.r * weights)
        return math.frexp(margin)[1] - math.frexp(CORNER / 2)[1] if margin < 1e60 else None

    def _row_error(self, margin: float, slope: float, weights: float) -> float:
        """Of one row's gradient, with these errors of a margin and of a slope."""
        slope_error = slope * max(self.slope, self.curvature / 5)
        return self.r * (2 * self.p * margin * self.curvature * self.r * weights + slope_error)


def _rows_per_person(statement: Mapping[str, Any]) -> int:
    if "persons" not in statement:
        return 1
    stated = int(statement["persons"]["rows_per_person"])
    if not 1 <= stated <= 2**20:
        raise InvalidInput("persons, rows_per_person must lie between 1 and 2**20.")
    return stated


def at_all_steps(error: Callable[[int], float]) -> list[float]:
    return [error(step) for step in range(_LARGEST_MARGIN_EXPONENT)]


def grid_exponent(sensitivity: float, dimension: int) -> int:
    """Largest k with sqrt(d) 2**k <= 1e-7 of the sensitivity."""
    limit = GRID * sensitivity / math.sqrt(dimension)
    k = math.floor(math.log2(limit))
    while 2.0**k > limit:
        k -= 1
    while 2.0 ** (k + 1) <= limit:
        k += 1
    return k


def padded(sensitivity: float, dimension: int, largest: float | None = None) -> float:
    """A sensitivity after rounding to the grid of the largest one."""
    width = 2.0 ** grid_exponent(sensitivity if largest is None else largest, dimension)
    return sensitivity * (1 + ALLOWANCE) + math.sqrt(dimension) * width
