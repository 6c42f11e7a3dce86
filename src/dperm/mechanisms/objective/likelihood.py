"""The exact density of a perturbed minimiser in one dimension, by which an audit tells one row from none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms.objective.family import ObjectivePlan

if TYPE_CHECKING:
    from dperm.mechanisms.base import Plan
    from dperm.mechanisms.worst_case import Likelihood

Vector = NDArray[np.float64]


def likelihood_of_a_lone_row(plan: Plan) -> Likelihood:
    r"""How much likelier the minimiser is with the lone row than without it.

    The noise that leads to w is :math:`b(w) = -(\phi'(w) + \Lambda w)`, so the density of w is that of b(w) times
    :math:`\phi''(w) + \Lambda`; without the row :math:`\phi = 0`. The little noise on w is left out.
    """
    assert isinstance(plan, ObjectivePlan)
    loss, scale = plan.problem.loss, plan.perturbation.objective.scale
    strength = plan.problem.n_rows * plan.perturbation.problem.l2

    def score(weights: Vector) -> Vector:
        w = weights[:, 0]
        label = np.ones_like(w)
        with_row, without = strength * w + loss.slope(w, label), strength * w
        more = np.log1p(loss.curvature(w, label) / strength)
        return np.asarray((without**2 - with_row**2) / (2 * scale**2) + more)

    return score
