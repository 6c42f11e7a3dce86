"""What published noise claims and really costs: as printed, as code had it, and outside a formula's conditions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.engine import open_rows
from dperm.errors import NotCertified
from dperm.losses import HuberHinge, Linear, Logistic
from dperm.mechanisms import NSGD, RSGDAR, SGDMA, Job, Plan, resolve
from dperm.mechanisms.gradient.dp_agd import AGDPlan
from dperm.mechanisms.gradient.family import SampledPlan
from dperm.mechanisms.objective.amp import amp_split
from dperm.mechanisms.objective.family import ObjectivePlan
from dperm.mechanisms.objective.objective_kst import kst_scale
from dperm.mechanisms.objective.profile import objective_profile
from dperm.mechanisms.output.family import DescentPlan
from dperm.planning.schedule import branch_sensitivities
from dperm.privacy import Budget, Gate, GaussianNoise, GaussianProfile, calibrate_rdp, poisson_epsilon
from dperm.privacy.cost import Cost
from dperm.privacy.events import PoissonSteps
from dperm.privacy.noisy_min import NoisyMin
from dperm.privacy.subsampled import fixed_size_epsilon
from dperm.privacy.textbook import gaussian_steps_epsilon, yu_gd_noise
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.controls import NormalisedGradient
from dperm_audit.gates import SilentGate
from dperm_audit.neighbours import cancelling_pair
from dperm_papers.reproduce import rsgd
from dperm_papers.reproduce.frontier import PAPER_METHODS
from dperm_papers.reproduce.report_simulation import BATCH, true_price
from dperm_papers.reproduce.report_simulation import DELTA as REPORT_DELTA

# What the noise that each paper prints really costs, at one public setting for all of them.

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
    return [_printed(label, str(method)) for label, method in PAPER_METHODS.items()]


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
        rounds = round(plan.step_budget.rho / (plan.step_budget.gradient + plan.step_budget.choice))
        return GaussianProfile.gaussian(2 * math.sqrt(2 * plan.step_budget.gradient * rounds)).epsilon(
            rsgd.DELTA
        )
    assert isinstance(plan, ObjectivePlan)
    parts = plan.perturbation
    used = replace(parts.problem, neighbours=Neighbours.REPLACE_ONE)
    mu = parts.output.padded(parts.output.sensitivity) / parts.output.scale
    return objective_profile(used, parts.objective.scale).compose_gaussian(mu).epsilon(rsgd.DELTA)


CLAIM = Budget(1.0, rsgd.DELTA)
CODE, PAPER, CONTROL = "code", "paper", "control: "
SGD: dict[str, Any] = {"epochs": 20, "batch_size": 4000, "step_size": 0.5}
CANDIDATES = 21
CHOICE = NoisyMin(sensitivity=1.0, epsilon=0.25)


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """``cost`` is the ε of what was done. ``sign`` is ≥ where two tables show it, ≈ where it is estimated.

    ``caught_by`` is the control of the audit, or the file of tests, in which the mistake is made and noticed.
    """

    name: str
    where: str
    caught_by: str
    claimed: float
    delta: float
    cost: float
    sign: str = ""

    @property
    def kept(self) -> bool:
        """Whether the claim holds all the same."""
        return self.cost <= self.claimed

    @property
    def shown(self) -> str:
        if math.isinf(self.cost):
            return "no bound"
        text = f"{self.cost:.2f}" if self.cost < 100 else f"{float(f'{self.cost:.2g}'):,.0f}"
        return f"{self.sign} {text}".lstrip()


def every_mistake(draws: int) -> list[Mistake]:
    """``draws`` are those of the estimates for the course report."""
    return [*of_rsgd(), *of_other_baselines(), *of_the_benchmark(), *of_the_report(draws), *of_formulas()]


def of_rsgd() -> Iterator[Mistake]:
    """Chen, Lee & Kifer: their code, and algorithm 2 as the sensitivity of algorithm 3."""
    yield _claiming(
        "RSGD-AR: batch gradients divided by their norm",
        CODE,
        f"{CONTROL}normalised gradient",
        seen(NormalisedGradient),
        "≥",
    )
    mechanism = RSGDAR(**SGD, average_every=10, accounting="paper")
    plan = mechanism.plan(SETTING, CLAIM)
    assert isinstance(plan, DescentPlan)
    assert plan.noise is not None
    assert plan.sensitivities is not None
    share = np.array(plan.schedule.batch_sizes) / SETTING.n_rows
    longer = branch_sensitivities(plan.schedule, replace(SETTING, intercept=1.0))
    outside = GaussianProfile.mixture(share, longer / plan.noise.scale)
    yield _claiming(
        "RSGD-AR: intercept outside the norm",
        CODE,
        f"{CONTROL}intercept outside the norm",
        outside.epsilon(CLAIM.delta),
    )
    in_order = GaussianProfile.gaussian(plan.sensitivities.max() / plan.noise.scale)
    yield _claiming(
        "RSGD-AR: rows never permuted",
        CODE,
        f"{CONTROL}the secret order is never drawn",
        in_order.epsilon(CLAIM.delta),
    )
    falling = branch_sensitivities(NSGD(**SGD).schedule(SETTING), SETTING)
    scale = calibrate_rdp(share, falling, CLAIM, "mironov")
    restarted = GaussianProfile.mixture(share, plan.sensitivities / scale)
    yield _claiming(
        "RSGD-AR: sensitivity without restarts and averages",
        PAPER,
        f"{CONTROL}sensitivity without the restarts",
        restarted.epsilon(CLAIM.delta),
    )


def seen(kind: type[NSGD]) -> float:
    """The ε that two tables show, which differ in one row among rows that cancel, at the printed noise of NSGD."""
    facts = replace(SETTING, loss=Linear(), n_features=1)
    mechanism = kind(**SGD, accounting="paper")
    plan = mechanism.plan(facts, CLAIM)
    assert plan.noise is not None
    pair = cancelling_pair(facts, surplus=2)
    left, right = (
        mechanism.run([Job(plan=plan)], open_rows(*rows, facts), SilentGate())[0].weights
        for rows in (pair.left, pair.right)
    )
    return GaussianProfile.gaussian(float(np.linalg.norm(left - right)) / plan.noise.scale).epsilon(
        CLAIM.delta
    )


def of_other_baselines() -> Iterator[Mistake]:
    """The methods that both papers compare with, in the code of Lee & Kifer and of Chen, Lee & Kifer."""
    removing = replace(SETTING, neighbours=Neighbours.ADD_REMOVE)
    kst = kst_scale(removing, CLAIM)
    longer = replace(removing, intercept=1.0, l2=removing.l2 + kst.extra_strength / removing.n_rows)
    yield _claiming(
        "ObjPert: intercept outside the norm",
        CODE,
        "test_objective.py",
        objective_profile(longer, kst.scale).epsilon(CLAIM.delta),
    )
    yield Mistake(
        name=f"DP-AGD: noise of the wrong sign, one choice of {CANDIDATES}",
        where=CODE,
        caught_by=f"{CONTROL}noisy minimum with the wrong sign",
        claimed=CHOICE.epsilon,
        delta=0.0,
        cost=wrong_sign(CHOICE),
    )
    mechanism = SGDMA(accounting="paper")
    sampled = mechanism.plan(removing, CLAIM)
    assert isinstance(sampled, SampledPlan)
    count, size = sampled.releases, round(mechanism.rate * SETTING.n_rows)
    fixed = fixed_size_epsilon(sampled.noise_multiplier, size, SETTING.n_rows, count, CLAIM.delta)
    yield _claiming(
        "SGD-MA: batches of a fixed size priced as Poisson samples", CODE, "test_fixed_size.py", fixed
    )


def wrong_sign(choice: NoisyMin) -> float:
    """The largest log-ratio of a choice of the smallest score plus (not minus) exponential noise.

    From equal scores, one moves up and all others down by the sensitivity: it then wins if every other waits longer by
    twice the sensitivity, each with a chance of exp(-2 sensitivity / scale).
    """
    return (CANDIDATES - 1) * 2 * choice.sensitivity / choice.scale


def right_sign(choice: NoisyMin) -> float:
    """The same log-ratio by the exponential mechanism, which subtracts Gumbel noise of that scale."""
    scores = np.full(CANDIDATES, -2 * choice.sensitivity)
    scores[0] = 0.0
    return float(np.log(np.exp(-scores / choice.scale).sum() / CANDIDATES))


def of_the_benchmark() -> Iterator[Mistake]:
    """The benchmark of Iyengar et al., with the AMP, Out-SGD and SGD that later papers compare with."""
    narrow, assumed = (replace(SETTING, loss=HuberHinge(width)) for width in (0.1, 0.5))
    split = amp_split(assumed, CLAIM, published=True)
    used = replace(narrow, l2=max(narrow.l2, split.strength / narrow.n_rows))
    amp = objective_profile(used, split.scale).compose_gaussian(split.output_mu)
    yield _claiming(
        "AMP: a Huber hinge taken as five times smoother",
        CODE,
        "test_objective.py",
        amp.epsilon(CLAIM.delta),
    )
    noise = GaussianNoise(sensitivity=1.0, scale=5.1, dimension=SETTING.n_features)
    moved = np.eye(SETTING.n_features)[0] * noise.sensitivity
    yield _claiming(
        "Out-SGD: noise from a seed of one byte",
        CODE,
        f"{CONTROL}noise from a seed of one byte",
        one_byte(noise, moved),
    )
    n_rows, batch, steps, delta = 36_000, 50, 100, 7.7e-10
    multiplier = 4 * math.sqrt(-steps * math.log(delta)) / n_rows * batch
    yield Mistake(
        name="SGD: noise for the mean of all rows on batches of 50",
        where=CODE,
        caught_by="test_psgd.py",
        claimed=1.0,
        delta=delta,
        cost=poisson_epsilon(multiplier, batch / n_rows, steps, delta, Neighbours.ADD_REMOVE),
    )


def one_byte(noise: GaussianNoise, moved: NDArray[np.float64]) -> float:
    """Infinite, since every δ below 1 is exceeded, if no result of one table is one of its neighbour's 256."""
    here, there = (
        {Gate.seeded(seed).release_one(point, noise, "weights").tobytes() for seed in range(256)}
        for point in (np.zeros_like(moved), moved)
    )
    return math.inf if here.isdisjoint(there) else 0.0


def of_the_report(draws: int) -> Iterator[Mistake]:
    for batch, rows in ((1, "one row a step"), (BATCH, f"batches of {BATCH}")):
        price = true_price(200, 1 / 400, batch, draws)
        yield Mistake(
            name=f"report: private SGD, c² = 1/400, {rows}",
            where=CODE,
            caught_by="test_advanced_and_printed.py",
            claimed=1.0,
            delta=REPORT_DELTA,
            cost=price.epsilon,
            sign="" if price.exact else "≈",
        )


def of_formulas() -> Iterator[Mistake]:
    """Printed formulas where their conditions, said or unsaid, do not hold."""
    n_rows, steps, asked = 1000, 20, Budget(2.0, 1e-6)
    logs = math.log(2 / asked.delta) * math.log(2.5 * steps / (asked.delta * n_rows))
    lecture = 16 * math.sqrt(steps * logs) / (n_rows * asked.epsilon)
    yield Mistake(
        name=f"lecture: noise of SGD for {steps} steps on {n_rows:,} rows",
        where=PAPER,
        caught_by="test_advanced_and_printed.py",
        claimed=asked.epsilon,
        delta=asked.delta,
        cost=fixed_size_epsilon(lecture, 1, n_rows, steps, asked.delta),
    )
    large = Budget(10.0, CLAIM.delta)
    classic = GaussianProfile.gaussian(large.epsilon / math.sqrt(2 * math.log(1.25 / large.delta)))
    yield Mistake(
        name="lecture: classic Gaussian noise above ε = 1",
        where=PAPER,
        caught_by="test_plans.py",
        claimed=large.epsilon,
        delta=large.delta,
        cost=classic.epsilon(large.delta),
    )
    larger = Budget(20.0, CLAIM.delta)
    printed = yu_gd_noise(1.0, SETTING.n_rows, 50, larger)
    yield Mistake(
        name="DP-GD: printed noise at a large ε",
        where=PAPER,
        caught_by="test_dp_gd.py",
        claimed=larger.epsilon,
        delta=larger.delta,
        cost=gaussian_steps_epsilon(2 / SETTING.n_rows, printed, 50, larger.delta),
    )


def _claiming(name: str, where: str, caught_by: str, cost: float, sign: str = "") -> Mistake:
    return Mistake(
        name=name,
        where=where,
        caught_by=caught_by,
        claimed=CLAIM.epsilon,
        delta=CLAIM.delta,
        cost=cost,
        sign=sign,
    )
