"""The constants of a statement, worked out anew from the few numbers that were declared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dperm.certificate.constants import loss_constants
from dperm.errors import InvalidInput

U = 2.0**-53
GRID, ALLOWANCE = 1e-7, 1e-9  # docs/proofs/noise.md
_CORNER = 2048.0  # margins up to here are ordinary: docs/proofs/dp-gd.md, rounding
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
    outputs: int
    l2: float
    x_norm: float
    intercept: float
    n: int
    n_features: int
    rows: int

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
        )

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
        """Lemma 6 of docs/proofs/descent.md: the error of a computed mean gradient."""
        slope_error = 1e-14 * max(self.slope, self.curvature / 5)
        return (
            self.r * (2 * self.p * U * self.curvature * self.r * weights + slope_error) + 2 * n * U * self.R
        )

    def sum_error(self, step: int = 0) -> float:
        """Twice the error of a gradient sum, for weights that make margins of at most 2048 * 2**step."""
        return 2 * self.n * self.gradient_error(self.n, _CORNER * 2.0**step / self.r)

    def sum_error_at(self, weights: float) -> float:
        """The same for weights of this norm."""
        margin = max(_CORNER / 2, self.r * weights)
        return (
            self.sum_error(math.frexp(margin)[1] - math.frexp(_CORNER / 2)[1]) if margin < 1e60 else math.inf
        )

    def sum_errors(self) -> list[float]:
        return [self.sum_error(step) for step in range(_LARGEST_MARGIN_EXPONENT)]


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
