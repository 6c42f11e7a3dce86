"""Objective perturbation: one noise vector in the objective, its minimiser, and a little noise on that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import NotCertified
from dperm.mechanisms.base import Job, Plan
from dperm.mechanisms.clipped_loss import LossClippingMechanism
from dperm.mechanisms.inference import WeightNoise, in_objective
from dperm.mechanisms.minimiser import ATTAINABLE, check_condition, minimise_surely
from dperm.mechanisms.objective.profile import (
    NOISE_REACH,
    hessian_trace,
    objective_profile,
    output_sensitivity,
    strength,
)
from dperm.planning.rules import SMALLEST, against_objective_noise, check_positive, setting
from dperm.privacy import (
    Budget,
    Gate,
    GaussianNoise,
    grid_exponent,
    padded,
)
from dperm.privacy.noise import ROUNDING_ALLOWANCE, GammaNormNoise
from dperm.problem import LARGEST, Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Rows
    from dperm.mechanisms.worst_case import Likelihood

# Chosen by leaving one of many public tables out (docs/results/defaults.md); no guarantee rests on them.
COUPLED = 2.0  # in units of coupling r^2 / (n epsilon) under replace-one
TWO_SIDED = 8.0  # the same for a loss whose slope has both signs
CURVED = (
    12.0  # in units of the Hessian's trace over n epsilon, for other losses: it costs about 8 % of epsilon
)


def l2_of_noise(problem: Problem, epsilon: float) -> float:
    """As little as can be paid for: half of that l2 makes the log-determinant cost much more.

    It adds 0 to 9 % to the noise, more beside a standardisation; docs/proofs/objective.md, section 9, has a table.
    With the loss of ``auto`` more only moves the weights away from the rows, on nearly every table that was tried.
    """
    loss, share = problem.loss, problem.neighbours.rows_changed / 2
    if loss.coupling is None:
        return l2_of_curvature(problem, epsilon)
    units = (COUPLED if loss.sign_definite else TWO_SIDED) * share
    rule = max(units * loss.coupling / (problem.n_rows * epsilon), SMALLEST * loss.lipschitz)
    return min(rule * problem.row_norm**2, LARGEST)


def l2_of_curvature(problem: Problem, epsilon: float) -> float:
    """At which the general bound on the log-determinant takes about a twelfth of epsilon."""
    least = SMALLEST * max(problem.loss.lipschitz, problem.loss.smoothness) * problem.row_norm**2
    return min(max(CURVED * hessian_trace(problem) / (problem.n_rows * epsilon), least), LARGEST)


OBJECTIVE_NOISE = "noise in the objective, never published"


@dataclass(frozen=True, eq=False, kw_only=True)
class Perturbation:
    """What a plan of this family fixes for the run.

    ``problem`` has the l2 really used. ``objective`` is the noise of b and ``output`` that of the computed
    minimiser. ``limit`` is the norm that the computed gradient of the perturbed *sum* must reach, ``reach`` the G of
    docs/proofs/objective.md, section 7, by which a solver is sure to get there.
    """

    problem: Problem
    objective: GaussianNoise | GammaNormNoise
    output: GaussianNoise | GammaNormNoise
    limit: float
    reach: float


@dataclass(frozen=True, eq=False, kw_only=True)
class ObjectivePlan(Plan):
    """A plan that minimises a perturbed objective."""

    perturbation: Perturbation


@dataclass(frozen=True)
class ObjectiveMechanism(LossClippingMechanism):
    r"""Minimise :math:`\sum_i\phi_i(w) + \frac{n\lambda}2\lVert w\rVert^2 + \langle b, w\rangle`, then add noise.

    Parameters
    ----------
    tolerance : float, optional
        Gradient norm of the perturbed sum to reach, as a share of one row's bound R. Never less than three times
        the rounding error of the gradient.

    Guarantee
    ---------
    b is drawn once, with a coordinate for every coefficient, the intercept too. The gradient norm of the plan is
    reached on every table: b is not drawn again and no tolerance is loosened.
    """

    tolerance: float | None = setting(None, check_positive)

    family: ClassVar[str] = "objective"
    released: ClassVar[str] = "minimiser of a noisy objective"
    route: ClassVar[str] = "objective"

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        """As little as the log-determinant allows, and not less than the noise on the coefficients asks for."""
        return max(l2_of_noise(problem, budget.epsilon), against_objective_noise(problem, budget))

    def regularised(self, problem: Problem, budget: Budget, *, inference: bool = False) -> Problem:
        """For intervals as little l2 as can be, which moves the coefficients least."""
        if inference:
            return replace(problem, l2=l2_of_noise(problem, budget.epsilon))
        return super().regularised(problem, budget)

    def weight_noise(self, problem: Problem, used: Mapping[str, Any], noise_scale: float) -> WeightNoise:
        return in_objective(used["objective_noise"], problem.n_rows * used["l2_used"], used["output_noise"])

    def _tolerance(self, problem: Problem) -> float:
        return 1e-6 if self.tolerance is None else self.tolerance

    def _settings(self, problem: Problem, used: Problem, **values: object) -> dict[str, object]:
        filled = {"tolerance": self._tolerance(problem), "l2_used": used.l2}
        return {**self.settings, **filled, **values}

    def _gaussian_plan(
        self,
        problem: Problem,
        used: Problem,
        budget: Budget,
        scale: float,
        mu_out: float,
        mu_spent: float,
        accountant: str,
        not_certified: str | None = None,
    ) -> ObjectivePlan:
        """The plan for Gaussian noise of ``scale`` in the objective of ``used`` and of ``mu_out`` on the result."""
        noise = GaussianNoise(used.gradient_gap, scale, used.dimension)
        length = (math.sqrt(used.dimension) + NOISE_REACH) * scale
        limit, residual = gradient_limits(used, length, self._tolerance(problem))
        moved = output_sensitivity(used, scale, residual)
        spread = padded(moved, used.dimension, grid_exponent(moved, used.dimension)) / mu_out
        profile = objective_profile(used, scale, mu_out, mu_spent)
        if profile.delta(budget.epsilon) > budget.delta and not_certified is None:
            tight = self.accounting == "tight"
            not_certified = (
                f"the noise of {self.source} does not reach epsilon = {budget.epsilon:g}, delta = "
                f"{budget.delta:g} when checked exactly; use "
                + (
                    "mechanism='objective', whose noise is the smallest that does."
                    if tight
                    else "accounting='tight'."
                )
            )
            if tight:
                raise NotCertified(not_certified)
        return ObjectivePlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings=self._settings(problem, used, objective_noise=scale, output_noise=spread),
            accountant=accountant,
            noise=noise,
            profile=profile,
            not_certified=not_certified,
            residual=limit,
            perturbation=Perturbation(
                problem=used,
                objective=noise,
                output=GaussianNoise(moved, spread, used.dimension),
                limit=limit,
                reach=gradient_reach(used, length)[0],
            ),
        )

    def _run(self, jobs: Sequence[Job[ObjectivePlan]], rows: Rows, gate: Gate) -> list[Floats]:
        parts = [job.plan.perturbation for job in jobs]
        b = gate.draw([part.objective for part in parts], OBJECTIVE_NOISE)
        points = perturbed_minimisers(parts, rows.select([job.model for job in jobs]), b)
        released = gate.release(points, [part.output for part in parts], f"{self.name} weights")
        classes = parts[0].problem.loss.outputs
        return [
            released[:, k] if classes == 1 else released[:, k].reshape(-1, classes) for k in range(len(jobs))
        ]


def perturbed_minimisers(parts: Sequence[Perturbation], rows: Rows, b: Floats) -> Floats:
    """One column of coefficients per model, all minimised side by side."""
    problems = [part.problem for part in parts]
    n = np.array([problem.n_rows for problem in problems])
    limits = np.array([part.limit for part in parts]) / n
    reaches = np.array([part.reach for part in parts]) / n
    points = minimise_surely(rows.open(precise=True), problems, limits, b / n, reaches)
    return np.moveaxis(points, 1, -1).reshape(-1, len(parts))


def gradient_reach(problem: Problem, noise_length: float) -> tuple[float, float]:
    r"""G, and the radius of a ball that holds all points with a gradient of the perturbed sum of at most G.

    The gradient at zero is at most :math:`G = nR + \lVert b\rVert` long, and the radius is :math:`2G/\Lambda`. For a
    loss that falls to 0 its value at zero says more where :math:`\Lambda` is small:
    :math:`G^2 = \lVert b\rVert^2 + 2\Lambda n\phi(0)`, with the radius :math:`3G/\Lambda`.
    """
    n, Lambda = problem.n_rows, strength(problem)
    steep = n * problem.gradient_bound + noise_length
    options = [(steep, 2 * steep / Lambda)]
    if problem.loss.at_zero is not None:
        high = math.hypot(noise_length, math.sqrt(2 * Lambda * n * problem.loss.at_zero)) * (
            1 + ROUNDING_ALLOWANCE
        )
        options.append((high, 3 * high / Lambda))
    return min(options, key=lambda option: option[1])


def gradient_limits(problem: Problem, noise_length: float, tolerance: float) -> tuple[float, float]:
    r"""Norm that the computed gradient of the perturbed sum must reach, and what the true one then is at most.

    On the ball of ``gradient_reach`` the rounding error is bounded. The limit is ``ATTAINABLE`` times the error or
    more, so a solver reaches it whatever the rows.
    """
    n, bound = problem.n_rows, problem.gradient_bound
    check_condition(problem, noise_length / n)
    reach, ball = gradient_reach(problem, noise_length)
    error = n * problem.gradient_error(n, ball) + 16 * UNIT_ROUNDOFF * strength(problem) * ball
    limit = max(tolerance * bound, ATTAINABLE * error)
    if limit + error > reach:
        raise NotCertified(
            "the tolerance is too large, or l2 too small, for the rounding error of the gradient to be bounded; "
            "lower the tolerance or raise l2."
        )
    return limit, limit + error


def likelihood_of_a_lone_row(plan: Plan) -> Likelihood:
    r"""How much likelier the minimiser is with the lone row than without it.

    The noise that leads to w is :math:`b(w) = -(\phi'(w) + \Lambda w)`, so the density of w is that of b(w) times
    :math:`\phi''(w) + \Lambda`; without the row :math:`\phi = 0`. The little noise on w is left out.
    """
    assert isinstance(plan, ObjectivePlan)
    loss, scale = plan.problem.loss, plan.perturbation.objective.scale
    strength = plan.problem.n_rows * plan.perturbation.problem.l2

    def score(weights: Floats) -> Floats:
        w = weights[:, 0]
        label = np.ones_like(w)
        with_row, without = strength * w + loss.slope(w, label), strength * w
        more = np.log1p(loss.curvature(w, label) / strength)
        return np.asarray((without**2 - with_row**2) / (2 * scale**2) + more)

    return score
