"""What the noise that each paper prints really costs, at one public setting for all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dperm.errors import NotCertified
from dperm.experiments.reproduce import rsgd
from dperm.experiments.reproduce.frontier import PAPER_METHODS
from dperm.losses import Logistic
from dperm.mechanisms import Plan, resolve
from dperm.mechanisms.gradient.dp_agd import AGDPlan
from dperm.mechanisms.gradient.family import SampledPlan
from dperm.mechanisms.objective.family import ObjectivePlan
from dperm.mechanisms.objective.profile import objective_profile
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, GaussianProfile
from dperm.privacy.cost import Cost
from dperm.privacy.events import PoissonSteps
from dperm.problem import Problem

EPSILONS = (0.1, 0.5, 1.0)
AT = 1.0
"""The claim at which rows are replaced and noises compared."""

SETTING = Problem(loss=Logistic(), l2=rsgd.L2, x_norm=1.0, n_rows=40_000, n_features=50)
"""About the tables of Chen, Lee & Kifer: ten batches of 4,000 rows."""

RELATION: Mapping[str, Neighbours] = {
    **dict.fromkeys(PAPER_METHODS, Neighbours.REPLACE_ONE),
    **dict.fromkeys(("ObjPert", "DP-AGD", "SGD-MA", "DP-SGD"), Neighbours.ADD_REMOVE),
}
"""What each paper's noise is printed for."""


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A method's printed noise.

    ``costs`` has the ε of every claim in the relation of the paper, None where no noise reaches the claim; ``replaced``
    what it costs, at the claim ``AT``, when a row is replaced; ``surplus`` how many times the noise is what the same
    mechanism needs.
    """

    label: str
    relation: Neighbours
    costs: Mapping[float, float | None]
    replaced: float
    surplus: float

    @property
    def keeps_its_promise(self) -> bool:
        return all(cost is None or cost <= claim for claim, cost in self.costs.items())


def every_printed() -> list[Printed]:
    return [_printed(label, str(entrant)) for label, entrant in PAPER_METHODS.items()]


def _printed(label: str, name: str) -> Printed:
    relation = RELATION[label]
    plans = {epsilon: _plan(name, epsilon, relation) for epsilon in EPSILONS}
    shown = plans[AT]
    ours = _plan(name.removesuffix(":paper"), AT, relation)
    assert shown is not None
    assert ours is not None
    assert shown.noise is not None
    assert ours.noise is not None
    return Printed(
        label=label,
        relation=relation,
        costs={claim: None if plan is None else _price(plan) for claim, plan in plans.items()},
        replaced=_price(shown) if relation is Neighbours.REPLACE_ONE else price_replaced(shown),
        surplus=shown.noise.scale / ours.noise.scale,
    )


def _plan(name: str, epsilon: float, relation: Neighbours) -> Plan | None:
    try:
        return resolve(name).plan(replace(SETTING, neighbours=relation), Budget(epsilon, rsgd.DELTA))
    except NotCertified:
        return None


def _price(plan: Plan) -> float:
    return (plan.cost if plan.profile is None else plan.profile).epsilon(rsgd.DELTA)


def price_replaced(plan: Plan) -> float:
    """What a plan made for add-remove costs when a row is replaced: it moves sums twice as far, the noise stays.

    Of DP-AGD the gradients alone are counted, so this is what it costs at least.
    """
    if isinstance(plan, SampledPlan):
        (steps,) = plan.cost.parts
        assert isinstance(steps, PoissonSteps)
        return Cost((replace(steps, neighbours=Neighbours.REPLACE_ONE.value),)).epsilon(rsgd.DELTA)
    if isinstance(plan, AGDPlan):
        rounds = round(plan.purse.rho / (plan.purse.gradient + plan.purse.choice))
        return GaussianProfile.gaussian(2 * math.sqrt(2 * plan.purse.gradient * rounds)).epsilon(rsgd.DELTA)
    assert isinstance(plan, ObjectivePlan)
    parts = plan.perturbation
    used = replace(parts.problem, neighbours=Neighbours.REPLACE_ONE)
    mu = parts.output.padded(parts.output.sensitivity) / parts.output.scale
    return objective_profile(used, parts.objective.scale).compose_gaussian(mu).epsilon(rsgd.DELTA)
