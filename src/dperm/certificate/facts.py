"""The constants of a statement, worked out anew from the few numbers that were declared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dperm.certificate.constants import loss_constants
from dperm.errors import InvalidInput

U = 2.0**-53
GRID, ALLOWANCE = 1e-7, 1e-9  # docs/proofs/noise.md
CORNER = 64.0  # margins up to here are ordinary
_LARGEST_MARGIN_EXPONENT = 60


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Letters as in docs/notation.md: loss with slope l and curvature k, rows of norm r, n of them, p columns."""

    loss: str
    slope: float
    curvature: float
    monotone: bool
    coupling: float | None
    at_zero: float | None
    heaviest: float
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
        rows = {"replace-one": 2, "add-remove": 1}.get(statement["relation"])
        if rows is None:
            raise InvalidInput("relation must be replace-one or add-remove.")
        for name in ("l2", "intercept"):
            if problem[name] < 0:
                raise InvalidInput(f"{name} must be at least 0.")
        for name in ("x_norm", "n_rows", "n_features", "outputs"):
            if not 0 < problem[name] <= 1e15:
                raise InvalidInput(f"{name} must be above 0.")
        return cls(
            loss=problem["loss"],
            **constants._asdict(),
            outputs=problem["outputs"],
            l2=float(problem["l2"]),
            x_norm=float(problem["x_norm"]),
            intercept=float(problem["intercept"]),
            n=problem["n_rows"],
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
