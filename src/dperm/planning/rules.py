"""Settings: what users give is checked, and what they leave open follows from public facts by public rules.

The rules of l2 scale with the squared bound on a row, so a table in other units gets the same model. Only accuracy
rests on any of them. The constants were fitted on public tables, leaving one out at a time
(``benchmarks/l2_rules.py``).
"""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field, fields
from functools import partial
from typing import Any

import numpy as np

from dperm.errors import InvalidInput
from dperm.privacy import Budget, gaussian_mu
from dperm.privacy.budget import DELTA_RANGE, EPSILON_RANGE
from dperm.problem import LARGEST, Problem

SETTING_RANGE = (1e-100, 1e300)
MOST = 10_000_000  # steps or passes: beyond it a plan would fill the memory
MOST_ROWS = 10**15  # of a batch


def check_count(name: str, value: object, most: int = MOST) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
        raise InvalidInput(f"{name} must be a whole number from 1 to {most:,}; got {reprlib.repr(value)}.")


def check_positive(name: str, value: object) -> None:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    low, high = SETTING_RANGE
    huge = isinstance(value, int) and value >= 2**63  # numpy has no such whole numbers
    if huge or not (number and low <= value <= high):  # type: ignore[operator]
        raise InvalidInput(
            f"{name} must be a positive finite number of ordinary size; got {reprlib.repr(value)}."
        )


def check_share(name: str, value: object, *, zero: bool = True, one: bool = False) -> None:
    """Refuse what does not lie between 0 and 1; ``zero`` and ``one`` tell whether the ends are allowed."""
    if not zero:
        check_positive(name, value)
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (number and 0 <= value <= 1 and (one or value < 1)):  # type: ignore[operator]
        raise InvalidInput(f"{name} must lie between 0 and 1; got {reprlib.repr(value)}.")


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False; got {reprlib.repr(value)}.")


def setting(
    default: object,
    check: Callable[..., None],
    *,
    optional: bool | None = None,
    kw_only: bool = False,
    **bounds: object,
) -> Any:
    """A field of a mechanism whose value is checked when it is made; None passes where it is the default."""
    optional = default is None if optional is None else optional
    about = {"check": partial(check, **bounds), "optional": optional}
    return field(default=default, metadata=about, kw_only=kw_only)


def check_settings(fields_of: object) -> None:
    """Check every ``setting`` of a dataclass."""
    for one in fields(fields_of):  # type: ignore[arg-type]
        value, check = getattr(fields_of, one.name), one.metadata.get("check")
        if check is not None and not (value is None and one.metadata["optional"]):
            check(one.name, value)


def noise_level(problem: Problem, budget: Budget) -> float:
    r""":math:`\nu = \sqrt p\,/(n \mu)` under replace-one, half of it under add-remove.

    It is the typical length of the noise on one private mean gradient, over the distance of two rows' gradients.
    """
    moved = problem.neighbours.rows_changed / 2 * math.sqrt(problem.dimension)
    return moved / (problem.n_rows * noise_parameter(problem, budget))


def noise_parameter(problem: Problem, budget: Budget) -> float:
    """The Gaussian parameter of the budget; without delta, noise is longer by about the root of its dimension."""
    if budget.delta == 0:
        return budget.epsilon / math.sqrt(problem.dimension)
    inside = [
        min(max(value, low), high)
        for value, (low, high) in ((budget.epsilon, EPSILON_RANGE), (budget.delta, DELTA_RANGE))
    ]
    return gaussian_mu(Budget(*inside))


SLOPE_LEVEL, SLOPE_GROWTH, SLOPE_RANGE, KNEE = 0.0015, 0.25, (0.35, 0.5), 0.7


def slope_for(problem: Problem, budget: Budget) -> float:
    """Where the slope of the logistic loss should end: the higher the less noise, since a small one biases."""
    low, high = SLOPE_RANGE
    return float(min(max(high * (SLOPE_LEVEL / noise_level(problem, budget)) ** SLOPE_GROWTH, low), high))


AUTO = "auto"
L2 = float | str
"""A number, which means that number, or "auto"."""

BARELY = 1e-6
SMALLEST = 1e-7  # ten times what the solvers ask for
NOISY_STEPS, NOISY_RESULT = 2.0**-9.5, 2.0**-6.5
NOISE_MARGIN = 0.25


def parse_l2(value: Any) -> L2:
    """A number as a float, or "auto"; anything else is refused. Its range is checked where a problem is made."""
    if isinstance(value, str) and value == AUTO:
        return AUTO
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidInput(f'l2 must be a number or "auto"; got {value!r}.')
    with suppress(OverflowError):
        return float(value)
    raise InvalidInput("l2 is too large for a float.")


def l2_in_words(l2: L2) -> str:
    """The number, or who chooses it."""
    return l2 if isinstance(l2, str) else f"{l2:g}"


def without_noise(problem: Problem) -> float:
    """There is nothing to balance: enough for a minimiser to be there."""
    return _in_units(problem, BARELY * problem.loss.lipschitz)


def against_descent_noise(problem: Problem, budget: Budget, constant: float = NOISY_STEPS) -> float:
    r"""The constant times :math:`(g/(2 R n \mu))^{2/3}`: descent that stops early regularises by itself."""
    level = problem.neighbours.rows_changed / (2 * problem.n_rows * noise_parameter(problem, budget))
    return _in_units(problem, constant * level ** (2 / 3) * problem.loss.lipschitz)


def against_output_noise(problem: Problem, budget: Budget) -> float:
    r"""At which noise on the minimiser moves a margin by a quarter.

    The minimiser moves by :math:`g/(n\lambda)`, so its noise moves a margin by about :math:`g r/(n\lambda\mu)`.
    """
    moved = problem.neighbours.rows_changed / (problem.n_rows * noise_parameter(problem, budget))
    return _in_units(problem, moved * problem.loss.lipschitz / NOISE_MARGIN)


def against_objective_noise(problem: Problem, budget: Budget, constant: float = 0.5) -> float:
    r"""The constant times :math:`\nu^{5/4}` (``noise_level``): noise on p coordinates of the objective adds up."""
    return _in_units(problem, constant * noise_level(problem, budget) ** 1.25 * problem.loss.lipschitz)


def against_moment_noise(problem: Problem, budget: Budget, margin: float) -> float:
    r"""At which noise on sums over the rows moves a margin by about ``margin``.

    Noise of about :math:`g/\mu` on each of p sums, over n and over a ridge, gives weights of norm
    :math:`\sqrt p\, g / (n \mu \lambda)`, and margins of that times the norm of a row.
    """
    moved = problem.neighbours.rows_changed / (problem.n_rows * noise_parameter(problem, budget))
    return _in_units(problem, math.sqrt(problem.n_columns) * moved * problem.loss.lipschitz / margin)


def _in_units(problem: Problem, rule: float) -> float:
    """The rule times the squared norm of a row, inside what solvers and floats can bear."""
    least = SMALLEST * max(problem.loss.lipschitz, problem.loss.smoothness)
    return min(max(rule, least) * problem.row_norm**2, LARGEST)


def path_length(problem: Problem, mu: float, margin: float) -> float:
    r"""Total length of steps at which the noise of full-batch descent moves margins by about ``margin``.

    T steps of size s with noise :math:`g\sqrt T/(n\mu)` on every coordinate of the mean gradient add noise of
    norm about :math:`sT\sqrt d\,g/(n\mu)` to the weights. A longer path fits better and is noisier.
    """
    noise = math.sqrt(problem.dimension) * problem.gradient_gap
    return margin / problem.row_norm * problem.n_rows * mu / noise


def within(value: float, least: int, most: int) -> int:
    """The nearest whole number in a range."""
    return min(max(round(value), least), most)
