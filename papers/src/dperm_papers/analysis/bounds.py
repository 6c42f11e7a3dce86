r"""Utility bounds of the literature: how the excess empirical risk grows. NOT PRIVATE with measured input.

The bounds need public facts alone, except the expected curvature: if you measured it
(:mod:`dperm_papers.analysis.curvature`), every bound that uses it tells about the rows.

Constants are dropped, rows and slopes have norm at most 1. So a value is an order of growth, not a promise: compare
how two methods move with n or p, not one number with another. Every bound is a function of

.. math:: s = \frac{\sqrt{p \ln(1/\delta)}}{n\epsilon} ,

the length of the noise that an average over the rows needs; ``delta=None`` leaves the logarithm out, as the papers'
tables do. A mean over n rows also brings factors :math:`\log n`, kept as printed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dperm.errors import InvalidInput

NOT_PRIVATE = (
    "NOT PRIVATE if a measured curvature went in. Orders of growth, constants dropped; not promises."
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the bounds depend on.

    ``dimension`` is the number of released coefficients p, ``strong_convexity`` is mu (the l2 weight, as a rule),
    ``smoothness`` is beta. ``expected_curvature`` is nu; strong convexity, which it never falls below, stands in.
    """

    n_rows: int
    dimension: int
    epsilon: float
    delta: float | None = None
    strong_convexity: float = 0.0
    smoothness: float = 1.0
    expected_curvature: float | None = None

    def __post_init__(self) -> None:
        if self.n_rows < 2 or self.dimension < 1:
            raise InvalidInput("n_rows must be at least 2 and dimension at least 1.")
        for name in ("epsilon", "smoothness"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidInput(f"{name} must be a positive finite number; got {value!r}.")
        if self.delta is not None and not 0 < self.delta < 1:
            raise InvalidInput(f"delta must lie between 0 and 1, or be None; got {self.delta!r}.")
        for name, value in (("strong_convexity", self.strong_convexity), ("expected_curvature", self.nu)):
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInput(f"{name} must be a finite number of at least 0; got {value!r}.")

    @property
    def noise(self) -> float:
        r"""s: :math:`\sqrt{p\ln(1/\delta)}/(n\epsilon)`, or without the logarithm when there is no delta."""
        spread = 1.0 if self.delta is None else math.log(1 / self.delta)
        return math.sqrt(self.dimension * spread) / (self.n_rows * self.epsilon)

    @property
    def printed_noise(self) -> float:
        """s without the logarithm, for the lower bounds, which hold without it."""
        return math.sqrt(self.dimension) / (self.n_rows * self.epsilon)

    @property
    def log_n(self) -> float:
        return math.log(self.n_rows)

    @property
    def nu(self) -> float:
        return self.strong_convexity if self.expected_curvature is None else self.expected_curvature


Formula = Callable[[Setting], float]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """One row of the table. A missing formula means that the authors give none for that case."""

    source: str
    convex: Formula | None = None
    strongly_convex: Formula | None = None
    note: str = ""


def _dp_gd(s: Setting) -> float:
    curved = s.smoothness * s.noise**2 * s.log_n / s.nu**2 if s.nu else math.inf
    return min(s.noise, curved)


def _dp_sgd(s: Setting) -> float:
    curved = s.noise**2 * s.log_n / s.nu if s.nu else math.inf
    return min(s.noise * s.log_n, curved)


BOUNDS: Mapping[str, Bound] = {
    "objective": Bound(
        source="Chaudhuri, Monteleoni & Sarwate (2011)",
        convex=lambda s: s.noise,
        strongly_convex=lambda s: s.noise**2 / s.strong_convexity,
    ),
    "output-gd": Bound(
        source="Zhang, Zheng, Mou & Wang (2017)",
        convex=lambda s: (math.sqrt(s.smoothness) * s.noise) ** (2 / 3),
        strongly_convex=lambda s: s.smoothness * s.noise**2 / s.strong_convexity**2,
    ),
    "psgd": Bound(
        source="Bassily, Smith & Thakurta (2014)",
        convex=lambda s: s.noise * s.log_n**1.5,
        strongly_convex=lambda s: s.noise**2 * s.log_n**2 / s.strong_convexity,
    ),
    "gd": Bound(
        source="Jayaraman, Wang, Evans & Gu (2018)",
        strongly_convex=lambda s: s.smoothness * s.noise**2 * s.log_n**2 / s.strong_convexity**2,
    ),
    "dp-gd": Bound(source="Yu, Zhang, Chen, Yin & Liu (2020)", convex=_dp_gd, strongly_convex=_dp_gd),
    "dp-sgd": Bound(source="Yu, Zhang, Chen, Yin & Liu (2020)", convex=_dp_sgd, strongly_convex=_dp_sgd),
    "dp-svrg": Bound(
        source="Wang, Ye & Xu (2017)",
        convex=lambda s: s.noise,
        strongly_convex=lambda s: s.noise**2 * s.log_n,
        note="printed without the strong convexity",
    ),
    "noisy-sgd": Bound(
        source="Feldman, Mironov, Talwar & Thakurta (2018), as printed in lecture notes",
        convex=lambda s: s.noise / s.epsilon,
        note="suspect: one epsilon too many",
    ),
    "lower bound": Bound(
        source="Bassily, Smith & Thakurta (2014)",
        convex=lambda s: min(1.0, s.printed_noise),
        strongly_convex=lambda s: min(1.0, s.printed_noise**2),
        note="no method can do better; holds without ln(1/delta)",
    ),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class UtilityBounds:
    """Both tables at one setting; None where the authors give no bound, or strong convexity is 0."""

    setting: Setting
    convex: Mapping[str, float | None]
    strongly_convex: Mapping[str, float | None]

    def __str__(self) -> str:
        lines = [NOT_PRIVATE, f"  {'method':12} {'convex':>10} {'strongly convex':>16}  source"]
        for name, bound in BOUNDS.items():
            note = f" ({bound.note})" if bound.note else ""
            cells = f"{_short(self.convex[name]):>10} {_short(self.strongly_convex[name]):>16}"
            lines.append(f"  {name:12} {cells}  {bound.source}{note}")
        return "\n".join(lines)


def utility_bounds(setting: Setting) -> UtilityBounds:
    """Evaluate every known bound. NOT PRIVATE if ``setting.expected_curvature`` was measured on rows."""
    strong = setting.strong_convexity > 0
    return UtilityBounds(
        setting=setting,
        convex={name: bound.convex and bound.convex(setting) for name, bound in BOUNDS.items()},
        strongly_convex={
            name: bound.strongly_convex(setting) if bound.strongly_convex and strong else None
            for name, bound in BOUNDS.items()
        },
    )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
