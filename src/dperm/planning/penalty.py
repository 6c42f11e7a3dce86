"""``l2="auto"``: how strong the regulariser is when the user leaves it open, from public facts alone.

Every rule scales with the squared bound on a row, so a table in other units gets the same model. Only accuracy rests
on it. The constants were fitted on public tables, leaving one out at a time (``benchmarks/l2_rules.py``).
"""

from __future__ import annotations

import math
import numbers
from contextlib import suppress
from typing import Any

from dperm.errors import InvalidInput
from dperm.planning.noise_level import noise_parameter
from dperm.privacy import Budget
from dperm.problem import LARGEST, Problem

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
