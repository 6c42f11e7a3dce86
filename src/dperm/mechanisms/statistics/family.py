"""Sufficient statistics: noise on sums over the rows, then any computation on what was released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import Unsupported
from dperm.losses import Loss
from dperm.mechanisms.base import Job, Mechanism
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Rows

WIDEST_MOMENTS = 4096

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class StatisticsMechanism(Mechanism):
    """Jobs on the same rows share their sums; each then gets noise of its own at the gate."""

    family: ClassVar[str] = "statistics"
    released: ClassVar[str] = "noisy sums over rows, once"

    def _sums(self, jobs: Sequence[Job[Any]], rows: Rows, loss: Loss) -> list[tuple[Vector, Matrix]]:
        """Minus the gradient at zero weights, and the second moments, summed over the rows of each job."""
        models = sorted({job.model for job in jobs})
        engine = rows.select(models).open(precise=True)
        gradients = engine.gradient_sum(loss, np.zeros((engine.n_columns, len(models))))
        moments = engine.row_moments()
        moments = np.broadcast_to(moments, (len(models), *moments.shape[1:]))  # one matrix without a mask
        column = {model: k for k, model in enumerate(models)}
        return [(-gradients[:, column[job.model]], moments[column[job.model]]) for job in jobs]


def check_width(problem: Problem) -> None:
    """Refuse, before any row is read, a matrix of all pairs of columns that would not fit in memory."""
    if problem.n_columns > WIDEST_MOMENTS:
        raise Unsupported(
            f"second moments of {problem.n_columns} columns are a matrix of {problem.n_columns**2:.2g} numbers, and at "
            f"most {WIDEST_MOMENTS} columns are taken. Use 'auto' or 'dp-gd', or PublicHasher before the model."
        )


def moment_error(problem: Problem) -> float:
    """Rounding error, in Frobenius norm, of the packed sum of x x^T, weighed by a constant or not."""
    return (
        (problem.arithmetic.sum_error(problem.n_rows) + 8 * UNIT_ROUNDOFF)
        * problem.n_rows
        * problem.row_norm**2
    )


def label_sum_error(problem: Problem) -> float:
    """Rounding error of the *sum* of gradients at zero weights."""
    return problem.n_rows * problem.gradient_error(problem.n_rows, 0.0)
