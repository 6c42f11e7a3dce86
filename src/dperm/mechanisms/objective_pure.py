"""Objective perturbation without delta (Chaudhuri, Monteleoni & Sarwate 2011). Not certified: see the sampler."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dperm.errors import InvalidInput
from dperm.mechanisms.base import Plan
from dperm.mechanisms.objective_family import (
    ObjectiveMechanism,
    Perturbation,
    check_share,
    gradient_limits,
    rule_of_strength,
)
from dperm.mechanisms.objective_kst import several_margins
from dperm.mechanisms.objective_profile import pure_plan, strength
from dperm.privacy import Budget, ReleaseRecord
from dperm.privacy.entropy import Entropy, SeededEntropy
from dperm.privacy.noise import ROUNDING_ALLOWANCE
from dperm.problem import Problem

Matrix = NDArray[np.float64]

FLOATING_POINT = (
    "the noise of Gamma norm is drawn in floating point, and its pattern may give away what exact noise would hide; "
    "use mechanism='objective' for a release."
)
SMALLEST_FLOAT = -1074  # exponent of the finest grid that holds all doubles
LEFT_OUT = 70.0  # a longer noise vector has a chance below exp(-70)


@dataclass(frozen=True)
class GammaNormNoise:
    r"""A vector of uniform direction whose norm is Gamma(``dimension``, ``scale``) distributed.

    Its density is proportional to :math:`e^{-\lVert b\rVert/s}` with s = ``scale``, so it costs
    epsilon = ``sensitivity / scale`` in real arithmetic.
    """

    sensitivity: float
    scale: float
    dimension: int

    @property
    def reach(self) -> float:
        """Bound on the norm: Chernoff's, with a chance of exp(-70) to fail."""
        return 2 * (self.dimension + LEFT_OUT) * self.scale

    def draw(self, entropy: Entropy) -> Matrix:
        direction = ndtri(uniforms(self.dimension, entropy))
        norm = -self.scale * np.log(uniforms(self.dimension, entropy)).sum()
        return np.asarray(direction * (norm / np.linalg.norm(direction)))


@dataclass(frozen=True)
class ObjectivePure(ObjectiveMechanism):
    r"""Noise of Gamma norm in the objective; delta may be 0.

    Parameters
    ----------
    output_share : float
        Share of epsilon that pays for the distance between the computed and the exact minimiser.
    tolerance, strength
        As in ``ObjectiveMechanism``. The rule for ``strength`` keeps the weights that noise alone would give near
        10, or 20 from epsilon = 0.5 on.

    Guarantee
    ---------
    None that is certified: epsilon-DP holds in real arithmetic (docs/proofs/objective-pure.md), but the sampler
    uses floating point. The plan says so.
    """

    output_share: float = 0.001

    name: ClassVar[str] = "objective-pure"
    title: ClassVar[str] = "noise in the objective, delta = 0"
    source: ClassVar[str] = "Chaudhuri, Monteleoni & Sarwate (2011)"
    labels: ClassVar[tuple[str, ...]] = ("binary", "real")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("output_share", self.output_share)

    def misfit(self, problem: Problem) -> str | None:
        if self.center:
            return "center=True releases a mean with Gaussian noise, which needs delta > 0"
        return super().misfit(problem) or several_margins(problem.loss)

    def _plan(self, problem: Problem, budget: Budget, beside: float) -> Plan:
        out = self.output_share * budget.epsilon
        noise_length = problem.dimension * problem.gradient_gap / budget.epsilon
        base = self._strengthened(problem, rule_of_strength(problem, noise_length, budget.epsilon))
        pure = pure_plan(base, budget.epsilon - out, published=self.accounting == "paper")
        used = replace(base, l2=base.l2 + pure.extra_strength / base.n_rows)
        objective = GammaNormNoise(used.gradient_gap, pure.norm_scale, pure.norm_shape)
        limit, residual = gradient_limits(used, objective.reach, self._tolerance(problem))
        moved = 2 * residual / strength(used) * (1 + ROUNDING_ALLOWANCE)
        output = GammaNormNoise(moved, moved / out, used.dimension)
        return Plan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings=self._settings(
                problem,
                used,
                noise_epsilon=pure.noise_epsilon,
                objective_noise=objective.scale,
                output_noise=output.scale,
            ),
            accountant="pure epsilon: noise, Hessian and output added up",
            noise=objective,
            not_certified=FLOATING_POINT,
            detail=Perturbation(problem=used, objective=objective, output=output, limit=limit),
        )

    def _noisy(
        self, values: Matrix, noises: Sequence[Any], entropy: Entropy, name: str
    ) -> tuple[Matrix, list[ReleaseRecord]]:
        """As the gate does, with the noise that it does not know."""
        noisy = np.stack([v + noise.draw(entropy) for v, noise in zip(values.T, noises, strict=True)], axis=1)
        records = [
            ReleaseRecord(
                name=f"{name} (norm Gamma distributed)",
                sensitivity=noise.sensitivity,
                padded_sensitivity=noise.sensitivity,
                noise_scale=noise.scale,
                grid_exponent=SMALLEST_FLOAT,
                dimension=noise.dimension,
                entropy=entropy.name,
                secure=entropy.secure,
            )
            for noise in noises
        ]
        return noisy, records


def uniforms(n: int, entropy: Entropy) -> Matrix:
    """Numbers strictly between 0 and 1."""
    if isinstance(entropy, SeededEntropy):
        bits = entropy.generator.integers(0, 2**52, size=n, dtype=np.uint64)
    elif entropy.secure:
        bits = np.frombuffer(os.urandom(8 * n), dtype=np.uint64) >> np.uint64(12)
    else:
        raise InvalidInput(f"the source {entropy.name!r} is neither secure nor a SeededEntropy.")
    return np.asarray((bits + 0.5) * 2.0**-52)
