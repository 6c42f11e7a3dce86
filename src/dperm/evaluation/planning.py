"""How much noise: from the budget and the design alone, before a row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dperm.estimators.margin_bins import DEFAULTS, Scale, default_bins
from dperm.evaluation.classifying import class_design
from dperm.evaluation.design import Design
from dperm.evaluation.regressing import regression_design
from dperm.evaluation.scales import ScoreBins
from dperm.evaluation.subject import Public
from dperm.neighbours import Neighbours
from dperm.planning.pricing import gaussian_noise, price_of
from dperm.privacy import Budget, Gate, GaussianNoise, gaussian_mu
from dperm.privacy.cost import Cost

Vector = NDArray[np.float64]
RELEASE = "counts and sums of an evaluation"


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """One Gaussian release of the whole vector of a design.

    Guarantee
    ---------
    The release costs at most the budget: the noise is that of the design's own sensitivity under the relation, by the
    same calibration, price and gate as that of every mechanism.
    """

    design: Design
    budget: Budget
    neighbours: Neighbours
    bins: ScoreBins | None = None
    error_bound: float | None = None

    @cached_property
    def noise(self) -> GaussianNoise:
        mu = gaussian_mu(self.budget)
        return gaussian_noise(self.design.sensitivity(self.neighbours), self.design.size, mu)

    @cached_property
    def cost(self) -> Cost:
        return Cost.of_profile(price_of([self.noise], 0.0), self.budget.epsilon)

    def release(self, vector: Vector, gate: Gate) -> Vector:
        return gate.release_one(vector, self.noise, RELEASE)


def plan_for(
    subject: Public,
    scales: Mapping[str, Scale],
    budget: Budget,
    neighbours: Neighbours,
    n_rows: int,
    bins: int | None = None,
    error_bound: float | None = None,
) -> Plan:
    """What an evaluation of this model will do, whose scores have these ``scales``.

    ``n_rows`` is the public number, or that of ``max_rows``.
    """
    if subject.task == "regression":
        design = regression_design(neighbours)
        return Plan(design=design, budget=budget, neighbours=neighbours, error_bound=error_bound)

    def with_bins(count: int) -> Plan:
        design = class_design(len(subject.classes), count, subject.has_probabilities)
        return Plan(design=design, budget=budget, neighbours=neighbours, bins=ScoreBins(count, scales))

    plan = with_bins(DEFAULTS[0] if bins is None else bins)
    return plan if bins is not None else with_bins(default_bins(plan.noise.scale, n_rows))
