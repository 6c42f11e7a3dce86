"""Sufficient statistics: noise on sums over the rows, then any computation on what was released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import Unsupported
from dperm.losses import ClippedSquared, Loss, Weighted
from dperm.mechanisms.base import Job, Mechanism
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Rows

WIDEST_MOMENTS = 4096
_NEVER_CLIPPED = 1e6  # a residual that targets never reach at zero weights, so that the curvature is 1


@dataclass(frozen=True)
class StatisticsMechanism(Mechanism):
    """Jobs on the same rows share their sums; each then gets noise of its own at the gate."""

    family: ClassVar[str] = "statistics"
    released: ClassVar[str] = "noisy sums over rows, once"

    def _sums(self, jobs: Sequence[Job[Any]], rows: Rows, loss: Loss) -> list[tuple[Floats, Floats]]:
        """Minus the gradient at zero weights, and the second moments, summed over the rows of each job."""
        models = sorted({job.model for job in jobs})
        engine = rows.select(models).open(precise=True)
        zeros = np.zeros((engine.n_columns, len(models)))
        if rows.members is None:
            gradients, moments = engine.gradient_sum(loss, zeros), engine.row_moments()
        else:  # every row by its share in its person
            gradients = engine.gradient_sum(Weighted(loss, 1.0), zeros)
            moments = engine.curvature_sum(Weighted(ClippedSquared(_NEVER_CLIPPED), 1.0), zeros)
        moments = np.broadcast_to(moments, (len(models), *moments.shape[1:]))  # one matrix without a mask
        column = {model: k for k, model in enumerate(models)}
        return [(-gradients[:, column[job.model]], moments[column[job.model]]) for job in jobs]


def weighed_by_user(problem: Problem) -> bool:
    """Whether rows weigh otherwise than by an equal share in their person, which is a mean of rows."""
    return isinstance(problem.loss, Weighted) and not (problem.many_rows and problem.loss.bound == 1.0)


def check_width(problem: Problem) -> None:
    """Refuse, before any row is read, a matrix of all pairs of columns that would not fit in memory."""
    if problem.n_columns > WIDEST_MOMENTS:
        raise Unsupported(
            f"second moments of {problem.n_columns} columns are a matrix of {problem.n_columns**2:.2g} numbers, and at "
            f"most {WIDEST_MOMENTS} columns are taken. Use 'auto' or 'dp-gd', or PublicHasher before the model."
        )


def moment_error(problem: Problem) -> float:
    """Rounding error, in Frobenius norm, of the packed sum of x x^T, weighed by a constant or not."""
    return (problem.sum_error(problem.n_rows) + 8 * UNIT_ROUNDOFF) * problem.n_rows * problem.row_norm**2


def label_sum_error(problem: Problem) -> float:
    """Rounding error of the *sum* of gradients at zero weights."""
    return problem.n_rows * problem.gradient_error(problem.n_rows, 0.0)
