"""Variance-reduced gradient descent with both of its parts noised (after Wang, Ye & Xu 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dperm.errors import NotCertified
from dperm.mechanisms.base import Job, Plan
from dperm.mechanisms.clipped_loss import LossClippingMechanism
from dperm.mechanisms.gradient.family import NOISE_MARGIN
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.pricing import gaussian_noise, mu_left
from dperm.planning.rules import check_count, check_positive, check_share, setting, within
from dperm.planning.sampling import PoissonSampling, check_rate
from dperm.planning.sensitivity import curvature, sum_error
from dperm.privacy import Budget, Gate, GaussianNoise
from dperm.privacy.cost import Cost
from dperm.privacy.events import Gaussian, PoissonSteps
from dperm.privacy.noise import grid_exponent, padded
from dperm.privacy.subsampled import poisson_noise_beside_gaussian
from dperm.problem import Problem
from dperm.typing import Floats
from dperm.unit import Neighbours

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows, Sample
    from dperm.engine.base.draws import Members


@dataclass(frozen=True, eq=False, kw_only=True)
class SVRGPlan(Plan):
    """Loops and step size, the Gaussian parameter of each full gradient, and the noise of each correction."""

    outer: int
    inner: int
    step_size: float
    sampling: PoissonSampling
    mu: float
    noise_multiplier: float
    whole_mu: float  # of all Gaussian releases together, standardisation included


@register
@dataclass(frozen=True)
class DPSVRG(LossClippingMechanism):
    r"""A noisy full gradient per outer loop; inner steps correct it on Poisson batches.

    Parameters
    ----------
    outer : int, optional
        None follows from the budget, 3 to 60.
    inner : int
        Steps for each full gradient. The first needs no correction and costs nothing.
    rate : float
        Probability with which a row joins a batch.
    step_size : float, optional
        None is 4 over the smoothness of the loss.
    full_share : float
        Part of the budget, in mu squared, that the full gradients take.

    Guarantee
    ---------
    Full gradients are Gaussian releases, corrections are sampled sums of vectors of norm at most
    :math:`\min(\ell r, \kappa r^2 \lVert w - \tilde w\rVert)` for a monotone loss; all are priced together
    (docs/proofs/dp-svrg.md). No gradient is clipped.
    """

    outer: int | None = setting(None, check_count)
    inner: int = setting(3, check_count)
    rate: float = setting(0.2, check_rate)
    step_size: float | None = setting(None, check_positive)
    full_share: float = setting(0.7, check_share, zero=False)

    name: ClassVar[str] = "dp-svrg"
    family: ClassVar[str] = "gradient"
    title: ClassVar[str] = "noisy full gradients, corrected on random batches"
    source: ClassVar[str] = "Wang, Ye & Xu (2017)"
    labels: ClassVar[tuple[str, ...]] = ("binary", "real")
    released: ClassVar[str] = "noise at every step"
    route: ClassVar[str] = "variance-reduced"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"outer": 2, "inner": 2, "rate": 0.5}, share=0.1),
    )

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> SVRGPlan:
        if self.accounting == "paper":
            raise NotCertified("the paper leaves the constants of its noise open; use accounting='tight'.")
        whole = mu_left(budget, mu_spent)
        step = 4 / curvature(problem) if self.step_size is None else self.step_size
        outer = self._outer_rule(problem, whole, step) if self.outer is None else self.outer
        corrections = outer * (self.inner - 1)
        mu = whole * math.sqrt(self.full_share if corrections else 1.0)
        multiplier = 0.0
        known = math.nextafter(math.hypot(mu, mu_spent), math.inf)
        if corrections:
            multiplier = _noise_multiplier(known, self.rate, corrections, budget, problem.neighbours)
        each = mu / math.sqrt(outer) * (1 - 1e-12)
        return SVRGPlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings={
                **self.settings,
                "outer": outer,
                "step_size": step,
                "noise_multiplier": multiplier,
            },
            accountant="privacy-loss distributions of Gaussian releases and Poisson samples",
            noise=full_noise(problem, 0.0, each),
            releases=outer + corrections,
            assumptions=("Which rows joined a batch stays secret.",),
            outer=outer,
            inner=self.inner,
            step_size=step,
            sampling=PoissonSampling(self.rate),
            mu=each,
            noise_multiplier=multiplier,
            whole_mu=known,
        )

    def _outer_rule(self, problem: Problem, mu: float, step: float) -> int:
        """As many as make the path of descent that long at which noise moves margins by ``NOISE_MARGIN``."""
        path = NOISE_MARGIN * problem.n_rows * mu / (problem.gradient_gap * problem.row_norm)
        return within(path / (step * self.inner), 3, 60)

    def _cost(self, plan: SVRGPlan) -> Cost:
        full = Gaussian(plan.whole_mu)
        corrections = plan.outer * (plan.inner - 1)
        if not corrections:
            return Cost((full,))
        relation = plan.problem.neighbours.value
        return Cost((PoissonSteps(plan.noise_multiplier, plan.sampling.rate, corrections, relation), full))

    def _run(self, jobs: Sequence[Job[SVRGPlan]], rows: Rows, gate: Gate) -> list[Floats]:
        engine = rows.open(precise=True)
        return [
            _descend(job.plan, engine.select([job.model]), rows.members, gate.part([k]))
            for k, job in enumerate(jobs)
        ]


@lru_cache(maxsize=256)
def _noise_multiplier(mu: float, rate: float, steps: int, budget: Budget, neighbours: Neighbours) -> float:
    return poisson_noise_beside_gaussian(mu, rate, steps, budget, neighbours)


def full_noise(problem: Problem, weight_norm: float, mu: float) -> GaussianNoise:
    return gaussian_noise(problem.gradient_gap + sum_error(problem, weight_norm), problem.dimension, mu)


def correction_bound(problem: Problem, weights: Floats, anchor: Floats) -> float:
    """Bound on the norm of the difference of one row's gradients at two public points."""
    reach = problem.gradient_bound * (1 if problem.loss.sign_definite else 2)
    distance = float(np.linalg.norm(weights - anchor)) * (1 + 1e-9)
    return min(reach, problem.loss.smoothness * problem.row_norm**2 * distance)


def correction_noise(problem: Problem, weights: Floats, anchor: Floats, multiplier: float) -> GaussianNoise:
    """Noise of ``multiplier`` times what one row adds to the sum of differences, rounding included."""
    errors = sum_error(problem, float(np.linalg.norm(weights))) + sum_error(
        problem, float(np.linalg.norm(anchor))
    )
    row = correction_bound(problem, weights, anchor) + errors
    sensitivity = problem.neighbours.rows_changed * row
    unit = padded(row, problem.dimension, grid_exponent(sensitivity, problem.dimension))
    return GaussianNoise(sensitivity=sensitivity, scale=multiplier * unit, dimension=problem.dimension)


def _descend(plan: SVRGPlan, engine: Engine, members: Members | None, gate: Gate) -> Floats:
    problem = plan.problem
    loss, n = problem.loss, problem.n_rows
    anchor = np.zeros(engine.n_columns)
    for _ in range(plan.outer):
        exact = engine.gradient_sum(loss, anchor[:, None])
        noise = full_noise(problem, float(np.linalg.norm(anchor)), plan.mu)
        full = gate.release_one(exact[:, 0], noise, "dp-svrg full gradient") / n
        weights, total = anchor, np.zeros_like(anchor)
        for t in range(plan.inner):
            correction = np.zeros_like(full)
            if t > 0:
                drawn: Sample = plan.sampling.batch(gate)
                batch = engine.sample([drawn if members is None else members.drawn(drawn)])
                exact = batch.gradient_sum(loss, weights[:, None]) - batch.gradient_sum(loss, anchor[:, None])
                noise = correction_noise(problem, weights, anchor, plan.noise_multiplier)
                noisy = gate.release_one(exact[:, 0], noise, "dp-svrg correction")
                correction = noisy / plan.sampling.expected_rows(n)
            weights = weights - plan.step_size * (full + correction + problem.l2 * weights)
            total += weights
        anchor = total / plan.inner
    return anchor
