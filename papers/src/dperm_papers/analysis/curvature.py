r"""Minimum, average and expected curvature of the regularised mean loss. NOT PRIVATE.

All figures are computed from the rows without noise, so none may be published, and no setting of a private fit
may be chosen by them. They are for understanding a method on data that is public or that stays inside.

The expected curvature is that of Yu, Zhang, Chen, Yin & Liu (2020), Eq. 5. With :math:`z \sim N(0, \sigma^2 I)`,
:math:`w^*` the minimiser and :math:`H` the Hessian at :math:`w`,

.. math:: \nu(w, \sigma) = \frac{\operatorname{tr}(H)\sigma^2 + \langle\nabla F(w), w - w^*\rangle}
                                {p\sigma^2 + \lVert w - w^*\rVert^2}
          \approx \frac{E\langle\nabla F(w + z), w + z - w^*\rangle}{E\lVert w + z - w^*\rVert^2} .

The second form is equal to the first for a quadratic, and close to it for small :math:`\sigma` otherwise. For the
huberised hinge the Hessian jumps, so it is the rougher.

Two caveats, both about the paper:

- The noise that reaches the iterate is *step size times* the noise of the gradient. The paper's definition
  and its Figure 1 put in the noise of the gradient. Here ``noise_scales`` is the noise of the iterate: pass
  the product.
- The paper asks for :math:`\nu` at every :math:`w \in R^p`. For a quadratic the infimum is then the smallest
  eigenvalue: go far along the flattest direction. A value at one point, such as those here, bounds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.mechanisms.minimiser import WIDEST_HESSIAN, minimise
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Rows

Vector = NDArray[np.float64]

NOT_PRIVATE = (
    "NOT PRIVATE: computed from the rows without noise. For study only; do not publish or tune by it."
)
CLOSE = 1e-9  # gradient norm at the minimiser, as a share of that at zero
ROUNDING = 1e-14  # of a computed gradient, as a share of the bound on one row's


@dataclass(frozen=True, eq=False, kw_only=True)
class Curvature:
    """Smallest, average and largest eigenvalue of the Hessian, and the expected curvature by noise scale.

    NOT PRIVATE.
    """

    minimum: float
    average: float
    maximum: float
    expected: Mapping[float, float]
    distance: float
    """Distance from the point of measurement to the minimiser."""

    def __str__(self) -> str:
        lines = [
            NOT_PRIVATE,
            f"  minimum curvature   {self.minimum:.4g}",
            f"  average curvature   {self.average:.4g}",
            f"  maximum curvature   {self.maximum:.4g}",
            f"  way to the minimum  {self.distance:.4g}",
        ]
        lines += [
            f"  expected curvature  {value:.4g} at noise {scale:g} on the iterate"
            for scale, value in self.expected.items()
        ]
        return "\n".join(lines)


def measure_curvature(
    rows: Rows, problem: Problem, noise_scales: Sequence[float] = (1.0,), at: Vector | None = None
) -> Curvature:
    """Curvature of the objective of ``problem`` on ``rows``. NOT PRIVATE.

    Parameters
    ----------
    rows : Rows
        Rows with the bounds of ``problem``; longer rows are scaled down as in any fit.
    problem : Problem
        With l2 > 0 and a loss of one output: logistic, huberised hinge, squared.
    noise_scales : sequence of float
        Standard deviations of the noise on each coordinate of the *iterate*: step size times the noise of the gradient.
    at : array of shape (p,), optional
        Where to measure; by default at zero weights, where descent starts.
    """
    if problem.loss.outputs != 1 or problem.n_columns > WIDEST_HESSIAN:
        raise Unsupported(
            f"curvature is measured for losses with one output and at most {WIDEST_HESSIAN} columns; got "
            f"{problem.loss.outputs} outputs and {problem.n_columns} columns."
        )
    if problem.l2 == 0:
        raise Unsupported("without l2 there may be no minimiser to measure against; give l2 > 0.")
    scales = [float(scale) for scale in noise_scales]
    if not all(np.isfinite(scale) and scale > 0 for scale in scales):
        raise InvalidInput(f"noise scales must be positive finite numbers; got {scales}.")
    point = np.zeros(problem.n_columns) if at is None else np.asarray(at, np.float64)
    if point.shape != (problem.n_columns,):
        raise InvalidInput(f"at must have shape ({problem.n_columns},); got {point.shape}.")
    rows.check_matches(problem, 0)
    rows.check_labels(problem.loss)
    engine = rows.open(precise=True)
    at_zero = engine.gradient_sum(problem.loss, np.zeros((problem.n_columns, 1))) / problem.n_rows
    close = CLOSE * float(np.linalg.norm(at_zero)) + ROUNDING * problem.gradient_bound
    solution = minimise(engine, [problem], close)
    if not solution.reached <= close:
        raise NotCertified("the minimiser was not found, so there is nothing to measure against; raise l2.")
    away = point - solution.points[:, 0]
    column = point[:, None]
    mean_hessian = engine.curvature_sum(problem.loss, column)[0] / problem.n_rows
    eigenvalues = np.linalg.eigvalsh(mean_hessian) + problem.l2
    gradient = engine.gradient_sum(problem.loss, column)[:, 0] / problem.n_rows + problem.l2 * point
    trace, path, squared_distance = eigenvalues.sum(), gradient @ away, away @ away
    return Curvature(
        minimum=float(eigenvalues[0]),
        average=float(eigenvalues.mean()),
        maximum=float(eigenvalues[-1]),
        expected={s: float((trace * s**2 + path) / (len(point) * s**2 + squared_distance)) for s in scales},
        distance=float(np.sqrt(squared_distance)),
    )
